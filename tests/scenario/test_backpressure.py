"""What backpressure promises, on simulated engines with the real law and clients that retry as their libraries do.

The loads are multiples of what the load test found safe. ``python -m bench backpressure`` prints the whole table, on more seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from statistics import median

import pytest

from scaler.core.counted import ClassCounted, Counted
from scaler.core.model import Pressure
from scaler.core.pressure import ENTER_RATIO
from scaler.sim.gateways import InPath
from scaler.sim.play import Run, Second
from scaler.sim.score import Score, Window, score
from tests.support.overload import (
    AT_MOST,
    BY_PROMETHEUS,
    GROWING,
    PROMISED,
    REPLICAS,
    RUSH,
    SPEC,
    THREE_CLASSES,
    TPOT_BOUND,
    WAYS,
    Scene,
    rushed,
)

SEEDS = (1, 2)
SCENES: Mapping[str, Scene] = {
    "at most": AT_MOST,
    "promised": PROMISED,
    "by Prometheus": BY_PROMETHEUS,
    "three classes": THREE_CLASSES,
    "bound by TPOT": TPOT_BOUND,
    "growing": GROWING,
}
SHORT_RUSH = Window(30.0, 90.0)
BUDGET_S, POLL_S, HOLDS_S = 2.0, 2.0, 5.0
"""``HOLDS_S``: for how long the wait has to be over the edge before it is pressure, unless the queue is above its limit."""


@dataclass(frozen=True)
class Borne:
    """A rush that is over: what happened, and what it was worth."""

    run: Run
    score: Score


@cache
def borne(way: str, times: float, seed: int = 1, scene: str = "at most", rush: Window = RUSH) -> Borne:
    stage = SCENES[scene].with_setting(seed=seed)
    run = rushed(stage, WAYS[way], times, rush)
    return Borne(run, score(run, stage.spec, rush))


def scores(way: str, times: float, scene: str = "at most", rush: Window = RUSH) -> list[Score]:
    return [borne(way, times, seed, scene, rush).score for seed in SEEDS]


@pytest.mark.parametrize(("times", "least"), [(1.2, 0.9), (2.0, 0.9), (5.0, 0.8)])
def test_with_a_fraction_that_is_polled_most_of_the_capacity_is_put_to_good_use(times, least):
    assert min(one.goodput_ratio for one in scores("polled", times)) >= least


@pytest.mark.parametrize(("times", "rush"), [(1.2, RUSH), (2.0, RUSH), (10.0, SHORT_RUSH)])
def test_with_a_gate_in_the_path_nearly_all_of_it_is(times, rush):
    told = scores("in path", times, rush=rush)
    assert min(one.goodput_ratio for one in told) >= 0.95
    assert max(one.ttft_p99_s for one in told) <= BUDGET_S


def test_and_most_of_it_where_a_prometheus_reads_the_engines_every_15_s():
    told = borne("in path", 10.0, 1, "by Prometheus", SHORT_RUSH).score
    assert (told.goodput_ratio >= 0.9, told.ttft_p99_s <= BUDGET_S) == (True, True)


@pytest.mark.parametrize("way", ["on/off", "literal"])
def test_shedding_all_or_nothing_serves_less_than_half_of_what_a_fraction_does(way):
    worse, better = borne(way, 2.0).score, borne("polled", 2.0).score
    assert worse.goodput_ratio < better.goodput_ratio / 2
    assert worse.flips_per_min > 4


def test_without_a_gate_nobody_is_served_in_time():
    assert borne("none", 2.0).score.goodput_ratio < 0.01


@pytest.mark.parametrize("times", [1.2, 2.0, 5.0])
@pytest.mark.parametrize("way", ["polled", "in path"])
def test_the_first_is_refused_within_the_reaction_time_and_a_period_of_the_wait_that_calls_for_it(way, times):
    for seed in SEEDS:
        run = borne(way, times, seed).run
        during = [second for second in run.seconds if RUSH.has(second.at)]
        first = next(attempt.at for attempt in run.attempts if not attempt.admitted)
        assert RUSH.begins_at <= first <= next(pressing(during), RUSH.ends_at) + SPEC.reaction_s + POLL_S


def pressing(seconds: list[Second]) -> Iterator[float]:
    """When the queue has been over the YELLOW edge for as long as it has to be, or is longer than can start within the budget."""
    edge, since = ENTER_RATIO * BUDGET_S * AT_MOST.capacity_per_s, None
    for one in seconds:
        queue = one.waiting + max(0.0, one.running - SPEC.profile.safe_concurrency * REPLICAS)
        since = None if queue < edge else one.at if since is None else since
        if queue > BUDGET_S * AT_MOST.capacity_per_s or (since is not None and one.at - since >= HOLDS_S):
            yield one.at


@pytest.mark.parametrize("times", [1.2, 2.0, 5.0])
@pytest.mark.parametrize("way", ["polled", "in path"])
def test_a_steady_overload_has_a_steady_colour(way, times):
    assert max(one.flips_per_min for one in scores(way, times)) <= 0.5


@pytest.mark.parametrize("way", ["polled", "in path"])
def test_and_that_is_not_green(way):
    late = [one.state for one in borne(way, 1.2).run.decisions if 60.0 <= one.decided_at < RUSH.ends_at]
    assert Pressure.GREEN not in late


@pytest.mark.parametrize("times", [1.2, 2.0, 5.0])
@pytest.mark.parametrize("way", ["polled", "in path"])
def test_within_a_minute_of_the_end_all_is_green_and_nobody_is_refused(way, times):
    assert max(one.recovery_s for one in scores(way, times)) <= 60


def test_nobody_is_refused_in_an_hour_at_four_fifths_of_the_capacity():
    """Neither in the path nor by a fraction: no decision says less than all, so who polls them refuses none either."""
    run = AT_MOST.play(InPath(1), ((0.0, 0.8),), 3600.0)
    assert [attempt for attempt in run.attempts if not attempt.admitted] == []
    assert {(d.state, verdict.admit_ratio) for d in run.decisions for verdict in d.classes} == {(Pressure.GREEN, 1.0)}


@pytest.mark.parametrize("times", [1.2, 5.0])
def test_where_tpot_is_the_limit_no_more_is_in_the_replicas_than_is_safe(times):
    runs = [borne("in path", times, seed, "bound by TPOT", SHORT_RUSH) for seed in SEEDS]
    seconds = [one for each in runs for one in each.run.seconds if SHORT_RUSH.has(one.at)]
    safe = TPOT_BOUND.spec.profile.safe_concurrency
    within = sum(one.running + one.waiting <= safe * one.ready for one in seconds)
    assert within / len(seconds) >= 0.99
    assert min(each.score.goodput_ratio for each in runs) >= 0.95


@pytest.mark.parametrize("way", ["polled", "in path"])
def test_no_class_is_admitted_less_than_one_after_it_and_each_keeps_its_floor(way):
    run = borne(way, 5.0, 1, "three classes").run
    published = [[verdict.admit_ratio for verdict in decision.classes] for decision in run.decisions]
    assert [ratios for ratios in published if ratios != sorted(ratios, reverse=True)] == []
    chat, agent, batch = (admitted_ratio(run, one.name) for one in THREE_CLASSES.spec.classes)
    assert chat > agent > batch > 0
    assert agent >= 0.9 * 0.05  # a share of dice


def admitted_ratio(run: Run, request_class: str) -> float:
    asked = [one.admitted for one in run.attempts if one.request_class == request_class and RUSH.has(one.at)]
    return sum(asked) / len(asked)


class Audited(InPath):
    """A gate in the path whose counts are added up as the law gets them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.drained: list[Counted] = []

    def drain(self, now: float) -> Counted:
        counted = super().drain(now)
        self.drained.append(counted)
        return counted


def test_what_the_law_is_told_of_each_class_is_what_its_clients_did():
    gateway, scene = Audited(1), replace(PROMISED, shares=THREE_CLASSES.shares)
    classes = THREE_CLASSES.spec.classes
    run = scene.with_setting(spec=replace(PROMISED.spec, classes=classes)).play(gateway, ((0.0, 3.0),), 100.0)
    gateway.drain(100.0)
    assert {one.name: added_up(gateway.drained, one.name) for one in classes} == {
        one.name: done(run, one.name) for one in classes
    }


def added_up(drained: list[Counted], name: str) -> ClassCounted:
    told = [one for counted in drained for one in counted.classes if one.name == name]
    return ClassCounted(
        name,
        sum(one.admitted for one in told),
        sum(one.admitted_retries for one in told),
        sum(one.refused for one in told),
        sum(one.refused_retries for one in told),
    )


def done(run: Run, name: str) -> ClassCounted:
    attempts = [one for one in run.attempts if one.request_class == name]
    admitted = [one for one in attempts if one.admitted]
    again = sum(one.tried > 0 for one in attempts)
    admitted_again = sum(one.tried > 0 for one in admitted)
    return ClassCounted(name, len(admitted), admitted_again, len(attempts) - len(admitted), again - admitted_again)


@pytest.mark.parametrize("way", ["polled", "in path"])
def test_who_is_told_to_come_back_does_not_come_in_a_herd(way):
    assert borne(way, 2.0, 1, "promised").score.retry_peak_ratio <= 3


@pytest.mark.parametrize("way", ["polled", "in path"])
def test_after_a_pulse_the_service_recovers_by_itself_though_all_come_back_twice(way):
    """They are told up to a minute each time, so the last come two minutes after the pulse, and some of the others after these."""
    run = rushed(PROMISED, WAYS[way], 3.0, SHORT_RUSH, afterwards_s=240.0)
    after = Window(SHORT_RUSH.ends_at + 210.0, math.inf)
    assert sum(attempt.tried == 2 for attempt in run.attempts) > 100
    assert {decision.state for decision in run.decisions if after.has(decision.decided_at)} == {Pressure.GREEN}
    assert all(attempt.admitted for attempt in run.attempts if after.has(attempt.at))


@pytest.mark.parametrize("way", ["polled", "counted", "in path"])
def test_a_gate_does_not_hide_the_demand_while_it_refuses_half_of_it(way):
    """Without one, the replicas that the flow asks for are these; the maximum bounds the number, so the flow is compared."""
    late = [one.recommendation.terms.flow for one in borne(way, 2.0).run.decisions if 100.0 <= one.decided_at < 210.0]
    bare = [
        one.recommendation.terms.flow for one in borne("none", 2.0).run.decisions if 100.0 <= one.decided_at < 210.0
    ]
    assert math.ceil(median(late)) == math.ceil(median(bare))
    assert median(late) == pytest.approx(median(bare), rel=0.1)


@pytest.mark.parametrize("way", ["none", "polled", "counted", "in path"])
def test_a_fleet_that_can_grow_ends_with_as_many_replicas_as_without_a_gate(way):
    """2.02 times what two can do, with a tenth of headroom: 4.5."""
    run = GROWING.play(WAYS[way].gateway(1), ((0.0, 0.7), (30.0, 2.02)), 420.0)
    assert {one.desired for one in run.decisions if one.decided_at >= 360.0} == {5}
