"""What a run was worth, counted by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from scaler.core.model import RequestClass
from scaler.sim.cluster import Life
from scaler.sim.laws import LAWS
from scaler.sim.play import Attempt, Call, Run, Second
from scaler.sim.stage import Asked
from scaler.sim.traffic import Arrival
from scaler.sim.worth import Quantiles, Worth, turns, worth
from tests.support.replays import SPEC, replayed

ENDS_AT = 120.0
CHAT = replace(SPEC, classes=(RequestClass("chat", ttft_s=2.0, tpot_s=0.1),))


def call(number: int, at: float, **became) -> Call:
    return Call(number, Arrival(at, "chat", 100, 10), **became)


def served(number: int, at: float, ttft_s: float, tpot_s: float | None = 0.05) -> Call:
    return call(number, at, admitted_at=at, ttft_s=ttft_s, tpot_s=tpot_s, finished=True)


def asked(*replicas: int) -> list[Asked]:
    return [Asked(15.0 * index, float(count), count) for index, count in enumerate(replicas)]


def test_each_request_counts_once_and_all_that_were_offered_count():
    run = Run(
        calls=[
            served(0, 10.0, 0.5),
            served(1, 11.0, 3.0),  # too late
            served(2, 12.0, 0.5, tpot_s=0.2),  # too slow
            call(3, 70.0, tried=1, admitted_at=90.0, ttft_s=0.4, finished=True),  # refused once, and one token
            call(4, 71.0, gave_up=True),  # refused for good
            call(5, 72.0, admitted_at=72.0),  # still waits
        ],
        attempts=[
            *(Attempt(at, "chat", 0, admitted=True) for at in (10.0, 11.0, 12.0)),
            *(Attempt(at, "chat", 0, admitted=False) for at in (70.0, 71.0)),
            Attempt(72.0, "chat", 0, admitted=True),
            Attempt(73.0, "chat", 1, admitted=False),
            Attempt(90.0, "chat", 1, admitted=True),
        ],
        seconds=[Second(60.0, 150, 0, 1, 1), Second(120.0, 150, 0, 2, 3), Second(240.0, 999, 0, 1, 9)],
        asked=asked(1, 3, 2, 2, 3),
        replicas=[
            Life("a", 0.0, 0.0, math.inf, math.inf),
            Life("b", 60.0, 90.0, 100.0, 110.0),
            Life("c", 130.0, 150.0, 200.0, 200.0),
        ],
    )
    assert worth(run, CHAT, gpus=4, ends_at=ENDS_AT) == Worth(
        offered=6,
        ttft_ratio=3 / 6,
        tpot_ratio=3 / 6,
        kept_ratio=2 / 6,
        first_try_ratio=1 / 6,
        goodput_per_s=2 / 120,
        ttft=Quantiles(0.5, 168.0, 168.0),
        tpot_p95_s=0.2,
        refused_ratio=2 / 6,
        lost_ratio=2 / 6,
        unsafe_ratio=1 / 3,
        surprised_ratio=None,
        violation_min=2,
        turns=2,
        gpu_hours=170 * 4 / 3600,
        mean_replicas=170 / 120,
        most_replicas=3,
        starting_gpu_hours=30 * 4 / 3600,  # of b; c came after the traffic
        prompt_tokens=4 * 100,
        generation_tokens=4 * 10,
    )


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [((1, 1, 1), 0), ((1, 2, 3), 0), ((1, 3, 3, 2), 1), ((3, 2, 4, 4, 1, 2), 3), ((), 0)],
)
def test_a_turn_is_a_change_of_direction(replicas, expected):
    assert turns(asked(*replicas)) == expected


def test_a_law_with_colours_is_asked_whether_green_was_true():
    run = replayed(LAWS["ours"]).run
    found = worth(run, SPEC, gpus=4, ends_at=300.0)
    assert found.surprised_ratio is not None
    assert 0.0 <= found.surprised_ratio < 1 - found.kept_ratio
    assert found.offered == len(run.calls)
