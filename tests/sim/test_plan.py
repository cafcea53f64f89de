"""The cheapest choice that attains, which part of a history is played, and how both are put together."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.sim.bound import Load
from scaler.sim.contest import Gating
from scaler.sim.fluid import Choice, Flow, flow
from scaler.sim.plan import Judged, Stretch, around, busiest, cheapest, history, least, play, pool, put_together, worst
from scaler.sim.traffic import Arrival, Rated, Requests, Stream
from tests.sim.test_fluid import POOL, STEP
from tests.support.contests import BEARS, CONTEST, TRAFFIC

HOURS = st.lists(st.integers(0, 40), min_size=1, max_size=60).map(lambda counts: Load(tuple(counts), 300.0))


def judged_by(offered, of, calls):
    """A judge that says what the fluid says."""

    def judge(choices):
        calls.extend(choices)
        wents = [(choice, flow(offered, of, choice)) for choice in choices]
        return [Judged(choice, went.ratio, went.gpu_hours) for choice, went in wents]

    return judge


def test_rates_become_as_many_requests_as_are_expected_and_requests_stay_as_they_are():
    days = Rated((Stream("chat", ((0.0, 30.0), (86400.0, 50.0))),), 172800.0)
    found = history(days)
    assert found.total == 80 * 86400
    assert found.counts[1] == pytest.approx(30 * found.bin_s, abs=1)
    assert found.counts[-1] == pytest.approx(50 * found.bin_s, abs=1)
    assert history(Requests((Arrival(0.5, "chat", 1, 1), Arrival(2.5, "chat", 1, 1)), 4.0)) == Load((1, 0, 1, 0))


@given(HOURS, st.integers(0, 59))
def test_the_worst_stretch_lies_within_the_history_and_none_of_those_looked_at_loses_more(offered, at):
    lost = [0.0] * len(offered.counts)
    lost[at % len(lost)] = 1.0
    found = worst(offered, lost)
    assert 0 <= found.first <= at % len(lost) < found.last <= len(lost)
    assert found.ends_at - found.begins_at <= 3600.0


def test_a_stretch_is_shorter_where_there_is_much_to_play():
    assert busiest(Load((1,) * 7200)).ends_at == 3600.0
    found = busiest(Load((20,) * 7200))
    assert found.ends_at - found.begins_at == 900.0


@pytest.mark.parametrize("wanted", [0.9, 0.97, 0.999])
@pytest.mark.parametrize("sheds", [True, False])
def test_the_cheapest_attains_one_step_less_does_not_and_all_neighbours_are_judged(wanted, sheds):
    of = replace(POOL, sheds=sheds)
    calls: list[Any] = []
    found = cheapest(STEP, of, judged_by(STEP, of, calls), wanted, 2)
    assert found.best is not None
    assert found.best.kept_ratio >= wanted
    assert len(calls) == len(set(calls))
    for choice in around(found.best.choice, of.max_replicas):
        beside = found.at(choice)
        assert beside is not None
        assert beside.kept_ratio < wanted or beside.gpu_hours >= found.best.gpu_hours


def test_nothing_is_found_where_the_maximum_is_too_small():
    of = replace(POOL, max_replicas=3)
    found = cheapest(STEP, of, judged_by(STEP, of, []), 0.99, 1)
    assert (found.best, least(STEP, of, 0.99, 1)) == (None, None)
    assert found.tried


def test_the_judge_has_the_last_word():
    def strict(choices):
        return [
            Judged(choice, 0.5 if choice.min_replicas < 6 else 1.0, 10.0 * choice.min_replicas + choice.warm_replicas)
            for choice in choices
        ]

    found = cheapest(STEP, POOL, strict, 0.95, 0)
    assert found.best == Judged(Choice(6, 0), 1.0, 60.0)


def test_a_played_stretch_stands_in_for_what_the_fluid_has_there():
    run = play(CONTEST, Gating.IN_PATH, Choice(1), 1, 1)
    whole = Flow(Load((100,) * 4, 120.0), (10.0, 20.0, 0.0, 5.0), (1, 2, 3, 4), gpus=4)
    found = put_together(whole, Stretch(120.0, 240.0, 1, 2), [run], Choice(1))
    assert found.kept_ratio == pytest.approx(1 - (15 + 100 * (1 - run.kept_ratio)) / 400)
    assert found.gpu_hours == pytest.approx(8 * 120 * 4 / 3600 + run.gpu_hours)
    assert (found.played_ratio, found.fluid_ratio) == (run.kept_ratio, 0.8)


def test_a_choice_that_is_played_has_its_minimum_and_its_warm_replicas():
    quick = replace(CONTEST, traffic=TRAFFIC.clipped(0.0, 20.0))
    assert play(quick, Gating.NONE, Choice(3, 1), 3, 1).most_replicas >= 3
    assert play(quick, Gating.NONE, Choice(1, 1), 2, 1).most_replicas == 2


def test_the_fluid_of_a_place_knows_how_long_a_slow_start_takes_and_what_a_replica_bears():
    of = pool(CONTEST.setting, BEARS, sheds=False)
    assert (of.ready_s, of.down_s, of.budget_s, of.max_replicas, of.gpus) == (30.0, 300.0, 2.0, 12, 4)
    assert of.target_per_s == pytest.approx(8.9 * 0.9)
    promised = replace(CONTEST.setting.spec.classes[0], ttft_s=None)
    unbounded = replace(CONTEST.setting, spec=replace(CONTEST.setting.spec, classes=(promised,)))
    assert math.isinf(pool(unbounded, BEARS, sheds=False).budget_s)
