"""What a run was worth, on runs that are written down by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from scaler.core.capacity import Profile
from scaler.core.decision import Decision
from scaler.core.model import Pressure, RequestClass
from scaler.sim.play import Attempt, Call, Run, Second
from scaler.sim.score import Score, Window, flips_per_min, kept, quantile, retry_peak_ratio, score
from scaler.sim.traffic import Arrival
from tests.support import decisions as made
from tests.support.law import near

CHAT = RequestClass("chat", ttft_s=2.0, tpot_s=0.1)
SPEC = replace(made.SPEC, profile=Profile(10.0, 0.5), classes=(CHAT,))
LOAD = Window(10.0, 50.0)
GREEN, YELLOW, RED = Pressure.GREEN, Pressure.YELLOW, Pressure.RED


def served(at: float, ttft_s: float | None = 1.0, tpot_s: float | None = 0.05, *, finished: bool = True) -> Call:
    return Call(0, Arrival(at, "chat", 10, 10), 0, at, ttft_s, tpot_s, finished)


def turned_away(at: float, tried: int = 0) -> Attempt:
    return Attempt(at, "chat", tried, admitted=False, told_s=5.0)


def decision(at: float, state: Pressure) -> Decision:
    return replace(made.green(), decided_at=at, state=state)


def seconds(until: float, running: int = 20, waiting: int = 0, ready: int = 2) -> list[Second]:
    return [Second(float(at), running, waiting, ready) for at in range(1, int(until) + 1)]


def test_a_rush_by_value():
    """Two replicas can do one request a second; of four requests two are good, and three of the attempts are refused."""
    calls = [
        served(10.0),
        served(20.0, ttft_s=2.5),
        served(30.0),
        served(49.0, ttft_s=None, finished=False),
        served(50.0),
    ]
    attempts = [Attempt(call.arrival.at, "chat", 0, admitted=True) for call in calls]
    run = Run(
        calls,
        [*attempts, *map(turned_away, (11.0, 12.0, 48.0, 61.0))],
        [
            decision(10.0, GREEN),
            decision(41.0, RED),
            decision(43.0, YELLOW),
            decision(55.0, YELLOW),
            decision(65.0, GREEN),
        ],
        [*seconds(40), *[Second(41.0, 24, 3, 2)], *[Second(float(at), 20, 0, 2) for at in range(42, 101)]],
    )
    assert score(run, SPEC, LOAD) == Score(
        goodput_ratio=2 / 40,
        refused_ratio=3 / 7,
        ttft_p99_s=51.0,  # who has no first token has waited until the end
        longest_wait_s=7.0,
        flips_per_min=6.0,  # once in the last ten seconds; until then the colours are news
        recovery_s=11.0,
        retry_peak_ratio=near(math.nan, nan_ok=True),
    )


@pytest.mark.parametrize(
    ("call", "good"),
    [
        pytest.param(served(0.0, ttft_s=2.0, tpot_s=0.1), True, id="just-within"),
        pytest.param(served(0.0, ttft_s=2.01), False, id="the-first-token-is-late"),
        pytest.param(served(0.0, tpot_s=0.11), False, id="the-others-are-slow"),
        pytest.param(served(0.0, tpot_s=None), True, id="there-are-no-others"),
        pytest.param(served(0.0, finished=False), False, id="not-to-the-end"),
    ],
)
def test_what_counts_as_served(call, good):
    assert kept(call, CHAT) is good


def test_a_class_without_objectives_is_served_when_it_is_finished():
    assert kept(served(0.0, ttft_s=900.0, tpot_s=9.0), RequestClass("batch")) is True


@pytest.mark.parametrize(
    ("last_refusal", "last_red", "recovery"),
    [(49.0, 49.0, 0.0), (60.0, 55.0, 10.0), (55.0, 70.0, 20.0), (95.0, 60.0, math.inf)],
)
def test_it_has_recovered_when_neither_the_law_nor_the_gate_does_anything_more(last_refusal, last_red, recovery):
    run = Run([served(20.0)], [turned_away(last_refusal), turned_away(20.0)], [decision(last_red, RED)], seconds(100))
    assert score(run, SPEC, LOAD).recovery_s == recovery


def test_flips_are_changes_within_the_window():
    states = [(5.0, RED), (10.0, GREEN), (20.0, RED), (30.0, RED), (40.0, GREEN), (50.0, RED)]
    assert flips_per_min([decision(at, state) for at, state in states], LOAD) == 2 / 40 * 60


def test_a_herd_is_seen_in_the_fullest_second():
    steady = [turned_away(at + 0.02 * number, tried=1) for at in range(10) for number in range(10)]
    herd = [turned_away(4.5, tried=2)] * 20
    firsts = [turned_away(7.5)] * 500
    assert retry_peak_ratio(Run(attempts=[*steady, *firsts])) == 1.0
    assert retry_peak_ratio(Run(attempts=[*steady, *firsts, *herd])) == 3.0
    assert math.isnan(retry_peak_ratio(Run(attempts=firsts)))


def test_quantiles_are_values_that_were_seen():
    assert [quantile([3.0, 1.0, 2.0, 4.0], q) for q in (0.0, 0.5, 0.99, 1.0)] == [1.0, 3.0, 4.0, 4.0]
    assert math.isnan(quantile([], 0.5))
