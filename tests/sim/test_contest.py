"""Laws beside each other, and what limits them all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.core.model import GateMode
from scaler.sim.contest import Agreement, Contest, Gating, agreement, arrivals, best_static, played, ran, static
from scaler.sim.limits import limits
from scaler.sim.stage import Asked
from scaler.sim.traces import Recorded
from scaler.sim.traffic import Arrival, Requests
from tests.support.contests import BEARS, CONTEST, OURS, TRAFFIC
from tests.support.replays import BUSY

NEAR = 0.02
"""By so much may the dice of a short run serve more than a fluid would."""
LIMITS = limits(BUSY, BEARS, arrivals(CONTEST, 1), TRAFFIC.duration_s)


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_no_fleet_that_stays_as_it_is_serves_more_than_the_fluid_says(replicas):
    assert played(CONTEST, static(replicas), 1).worth.kept_ratio <= LIMITS.static_ratios[replicas - 1] + NEAR


@pytest.mark.parametrize("gating", list(Gating))
def test_ours_stays_below_the_bounds_of_those_that_react(gating):
    found = played(CONTEST, replace(OURS, gating=gating), 1).worth
    assert found.first_try_ratio <= LIMITS.reactive_ratio
    assert found.kept_ratio <= LIMITS.returning_ratio


def test_the_best_static_fleet_is_the_smallest_that_does_as_well_as_the_largest():
    best = best_static(CONTEST, 1, LIMITS.static_ratios)
    kept = [played(CONTEST, static(count), 1).worth.kept_ratio for count in range(1, 13)]
    enough = next(count for count, ratio in enumerate(kept, 1) if ratio >= kept[-1] - 0.005)
    assert best == static(enough)


def test_a_seed_is_a_run_and_the_same_seed_is_the_same_run():
    assert played(CONTEST, OURS, 1, drawn=True) == played(CONTEST, OURS, 1, drawn=True)
    assert played(CONTEST, OURS, 1).worth != played(CONTEST, OURS, 2).worth


@pytest.mark.parametrize(("gating", "mode"), [(Gating.NONE, GateMode.OBSERVE), (Gating.IN_PATH, GateMode.ENFORCE)])
def test_the_gate_of_ours_is_enforced_where_a_gateway_listens(gating, mode):
    run = ran(CONTEST, replace(OURS, gating=gating), 1)
    assert {decision.gate for decision in run.decisions} == {mode}
    assert any(not attempt.admitted for attempt in run.attempts) == (gating is Gating.IN_PATH)


def test_a_run_is_drawn_in_points_that_add_up_to_its_requests():
    found = played(CONTEST, OURS, 1, drawn=True)
    drawn = found.course
    assert drawn is not None
    assert sum(point.offered_per_s * drawn.step_s for point in drawn.points) == pytest.approx(found.worth.offered)
    assert [drawn.spells[0].begins_at < 1, drawn.spells[-1].ends_at] == [True, TRAFFIC.duration_s]
    assert all(before.ends_at == after.begins_at for before, after in zip(drawn.spells, drawn.spells[1:], strict=False))
    assert max(point.ready + point.starting for point in drawn.points) == found.worth.most_replicas


def test_requests_that_no_replica_could_hold_are_left_out():
    rows = (Arrival(1.0, "chat", 100, 100), Arrival(2.0, "chat", 10_000_000, 100))
    assert arrivals(Contest(BUSY, Requests(rows, 10.0)), 1) == rows[:1]


def test_desired_is_compared_with_what_was_recorded_last_at_each_sync():
    recorded = (Recorded(0.0, 2, 2, 0), Recorded(20.0, 4, 2, 2), Recorded(60.0, 4, 4, 0))
    asked = [Asked(at, value, 2) for at, value in ((5.0, 2.0), (20.0, 3.0), (35.0, 7.0), (50.0, None), (65.0, 1.0))]
    assert agreement(asked, recorded) == Agreement(syncs=3, equal=1, within_one=2, most_apart=3)


def test_what_it_takes_beyond_reacting_is_priced():
    assert not LIMITS.reachable
    assert LIMITS.warm is not None
    assert LIMITS.warm.ratio >= LIMITS.wanted_ratio > LIMITS.reactive_ratio
    assert LIMITS.warm.gpu_hours == pytest.approx(LIMITS.warm.replicas * 4 * 120 / 3600)
    assert LIMITS.dead_s == 38.5
