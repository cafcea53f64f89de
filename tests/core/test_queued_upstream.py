"""Requests that a gateway holds: they wait like those in an engine, also when there is no engine yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.core.capacity import Profile
from scaler.core.decision import Decision
from scaler.core.model import Histogram, Observation, Pressure, Reading, ReplicaSet, RequestClass, WorkloadKey
from scaler.core.stabilize import StabilizeSpec
from scaler.core.step import State, WorkloadSpec, step
from scaler.core.target import ScalingSpec

SPEC = WorkloadSpec(
    WorkloadKey("prod", "llama"),
    Profile(100.0, 8.0),
    (RequestClass("chat", ttft_s=2.0),),
    scaling=ScalingSpec(min_replicas=0),
    stabilize=StabilizeSpec(idle_s=10.0, downscale_delay_s=10.0),
)


def at_zero(at: float, queued: float | None) -> Observation:
    return Observation(at, ReplicaSet((), (), 0, at), queued=queued)


def one_replica(at: float, queued: float | None) -> Observation:
    reading = Reading("llama-0", at, 10.0, 0.0, ttft=Histogram((1.0,), (0.0, 0.0), 0.0))
    return Observation(at, ReplicaSet(("llama-0",), (), 1, at), (reading,), queued=queued)


def decided(spec: WorkloadSpec, *seen: Observation) -> list[Decision]:
    state, outcomes = State(), []
    for observation in seen:
        state, outcome = step(spec, state, observation)
        outcomes.append(outcome)
    return [outcome for outcome in outcomes if isinstance(outcome, Decision)]


@pytest.mark.parametrize("rate", [pytest.param(8.0, id="rate known"), pytest.param(None, id="rate not known")])
def test_a_request_held_at_zero_replicas_wakes_the_workload(rate):
    spec = replace(SPEC, profile=Profile(100.0, rate))
    run = decided(spec, *(at_zero(2.0 * tick, 0.0) for tick in range(10)), at_zero(20.0, 3.0))
    assert [(d.desired, d.active) for d in (run[-2], run[-1])] == [(0, False), (1, True)]


def test_nothing_held_at_zero_replicas_stays_at_zero():
    run = decided(SPEC, *(at_zero(2.0 * tick, 0.0) for tick in range(100)))
    assert {(d.desired, d.state) for d in run} == {(0, Pressure.GREEN)}


def test_what_a_gateway_holds_counts_as_queue_beside_what_the_engines_hold():
    run = decided(SPEC, *(one_replica(2.0 * tick, 30.0) for tick in range(5)))
    assert (run[-1].estimate.waiting, run[-1].estimate.queue) == (30.0, 30.0)


def test_a_count_that_fails_to_come_stands_for_as_long_as_a_reading_and_is_then_gone():
    held = [one_replica(0.0, 30.0), *(one_replica(2.0 * tick, None) for tick in range(1, 8))]
    run = decided(SPEC, *held)
    assert [d.estimate.waiting for d in run] == [30.0] * 6 + [0.0] * 2


def test_a_count_that_comes_back_is_no_burst_of_arrivals():
    gap = [one_replica(2.0 * tick, None) for tick in range(1, 10)]
    run = decided(SPEC, one_replica(0.0, 30.0), *gap, one_replica(20.0, 30.0), one_replica(22.0, 30.0))
    assert {d.estimate.arrival_per_s for d in run} == {0.0}
