"""A real overload, scraped every half second: 40 streams on the four slots of a vLLM 0.32.0."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scaler.core.capacity import Profile
from scaler.core.model import Histogram, Observation, Pressure, Reading, ReplicaSet
from scaler.core.pressure import PressureSpec
from scaler.core.step import State, step
from tests.support.law import TICK_S, workload

TIMELINE = Path(__file__).parents[1] / "data" / "metrics" / "0.32.0-overload-timeline.jsonl"
SPEC = workload(Profile(4.0, 0.9))
QUIET_FOR_S = 40.0
"""The recording ends four seconds after the last stream; the engine then goes on showing the same numbers."""


def counted(row, name) -> Histogram:
    """The recording has a histogram's count and sum only: it has no edges."""
    return Histogram((), (row[f'{name}_count|engine="0"'],), row[f'{name}_sum|engine="0"'])


def reading(row, at: float) -> Reading:
    return Reading(
        "a",
        at,
        running=row['num_requests_running|engine="0"'],
        waiting=row['num_requests_waiting|engine="0"'],
        kv_usage_ratio=row['kv_cache_usage_perc|engine="0"'],
        preemptions_total=row['num_preemptions_total|engine="0"'],
        ttft=counted(row, "time_to_first_token_seconds"),
        queue_time=counted(row, "request_queue_time_seconds"),
    )


ROWS = [json.loads(line) for line in TIMELINE.read_text().splitlines()]
FIRST_QUEUED_AT = next(row["t"] for row in ROWS if row['num_requests_waiting|engine="0"'] > 0)


def decided(spec):
    """A decision every two seconds of the recording, after a minute of quiet."""
    state, decisions = State(), []
    for tick in range(-30, int((ROWS[-1]["t"] + QUIET_FOR_S) / TICK_S)):
        at = tick * TICK_S
        row = ([row for row in ROWS if row["t"] <= at] or ROWS)[-1 if at >= 0 else 0]
        seen = Observation(at, ReplicaSet(("a",), (), 1, at, 1), (reading(row, at),))
        state, decision = step(spec, state, seen)
        decisions.append(decision)
    return decisions


@pytest.mark.parametrize(
    ("limit", "within_s"),
    [
        pytest.param(None, 5.0 + 2 * TICK_S, id="by-its-own-limit"),
        pytest.param(1000.0, 5.0 + 2 * TICK_S, id="by-the-wait-alone"),
        pytest.param(3.0, 2 * TICK_S, id="by-a-configured-limit"),
    ],
)
def test_green_is_left_soon_after_the_first_request_queues(limit, within_s):
    decisions = decided(replace(SPEC, pressure=PressureSpec(max_queued_requests=limit)))
    left_at = next(decision.decided_at for decision in decisions if decision.state is not Pressure.GREEN)
    assert FIRST_QUEUED_AT <= left_at <= FIRST_QUEUED_AT + within_s


def test_green_is_left_though_no_queued_request_has_been_timed_yet():
    first_timed_at = next(row["t"] for row in ROWS if row['request_queue_time_seconds_sum|engine="0"'] > 1.0)
    left_at = next(decision.decided_at for decision in decided(SPEC) if decision.state is not Pressure.GREEN)
    assert left_at < first_timed_at


def test_it_is_red_while_the_queue_lasts_and_green_again_after():
    states = [(decision.decided_at, decision.state) for decision in decided(SPEC)]
    during = {state for at, state in states if 10.0 <= at <= 40.0}
    after = next(at for at, state in states if at > 44.0 and state is Pressure.GREEN)
    assert (states[0][1], during, states[-1][1], after < 48.0 + QUIET_FOR_S / 2) == (
        Pressure.GREEN,
        {Pressure.RED},
        Pressure.GREEN,
        True,
    )


def test_the_queue_alone_asks_for_more_replicas_than_there_may_be():
    assert max(decision.recommendation.terms.load for decision in decided(SPEC)) > 1


def test_all_is_admitted_before_and_after_and_little_of_it_while_forty_wait_for_four_slots():
    ratios = [(decision.decided_at, decision.classes[0].admit_ratio) for decision in decided(SPEC)]
    lowest = min(ratio for at, ratio in ratios if at < 20.0)
    assert (ratios[0][1], lowest < 0.2, ratios[-1][1]) == (1.0, True, 1.0)
