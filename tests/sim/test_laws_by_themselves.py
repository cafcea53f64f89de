"""Laws that scale a fleet without KEDA: a fleet that stays, one whose law knows the future, and Ray Serve."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.sim.laws import LAWS
from scaler.sim.laws.clairvoyant import Clairvoyant, ahead
from scaler.sim.laws.ray import RayServe
from scaler.sim.laws.static import Static
from scaler.sim.starts import Fixed
from tests.support.replays import BUSY, CHAT, END, replayed, with_bounds


def test_a_static_fleet_stands_ready_from_the_beginning_to_the_end():
    seen = replayed(Static(4))
    assert {(second.ready, second.existing) for second in seen.run.seconds} == {(4, 4)}
    assert seen.replica_s == 4 * END
    assert seen.run.asked == []


def test_a_static_fleet_of_no_number_is_the_one_that_stands_there():
    assert replayed(LAWS["static"]).most == 1


def test_who_knows_the_future_has_replicas_ready_when_they_are_needed():
    seen = replayed(Clairvoyant())
    ready = {round(second.at): second.ready for second in seen.run.seconds}
    assert (ready[40], ready[90], ready[200]) == (1, 3, 3)
    assert seen.in_time_ratio > 0.99
    assert seen.replica_s < replayed(Static(3)).replica_s


def test_no_law_serves_as_many_for_as_little_as_who_knows_the_future():
    best = replayed(Clairvoyant())
    for name in set(LAWS) - {"clairvoyant", "static"}:
        seen = replayed(LAWS[name])
        assert (seen.in_time_ratio, name) <= (best.in_time_ratio + 1e-9, name) or seen.replica_s > best.replica_s


@pytest.mark.parametrize(
    ("needed", "steps", "asked"), [([1, 1, 4, 1, 3], 0, [1, 1, 4, 1, 3]), ([1, 1, 4, 1, 3], 2, [4, 4, 4, 3, 3])]
)
def test_a_replica_is_begun_in_time_and_kept_where_a_gap_is_shorter_than_its_start(needed, steps, asked):
    assert ahead(needed, steps) == asked


@given(st.lists(st.integers(0, 9), min_size=1, max_size=50), st.integers(0, 9))
@settings(deadline=None)
def test_a_plan_is_never_below_what_is_needed(needed, steps):
    assert all(asked >= need for asked, need in zip(ahead(needed, steps), needed, strict=True))


def test_ray_serve_waits_for_its_delays_and_counts_what_waits():
    law = RayServe(target_ongoing=50.0, downscale_delay_s=60.0)
    asked = replayed(law).run.asked
    raised = next(one for one in asked if one.replicas > 1)
    assert raised.at >= 60.0 + law.upscale_delay_s
    assert max(one.replicas for one in asked) <= 12


def test_ray_serve_as_it_comes_takes_two_requests_a_replica():
    assert replayed(LAWS["ray-serve"]).most == 12


@pytest.mark.parametrize("name", sorted(LAWS))
def test_no_law_leaves_its_bounds(name):
    counts = {second.existing for second in replayed(LAWS[name], with_bounds(1, 5)).run.seconds}
    assert counts <= {1, 2, 3, 4, 5}


@pytest.mark.parametrize("name", ["ours", "clairvoyant", "llm-d-slo-aware"])
def test_no_law_needs_replicas_that_get_ready(name):
    stuck = replace(BUSY, platform=replace(BUSY.platform, starts=Fixed(1e9)))
    seen = replayed(LAWS[name], stuck)
    assert len(seen.run.calls) == len(CHAT)
