"""Gateways that poll the fraction and throw dice of their own count nothing for us: what they refused is told from what they let in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.core.capacity import Profile
from scaler.core.decision import Decision
from scaler.core.model import Histogram, Observation, Reading, ReplicaSet, RequestClass, WorkloadKey
from scaler.core.step import State, WorkloadSpec, step

SPEC = WorkloadSpec(WorkloadKey("prod", "llama"), Profile(100.0, 8.0), (RequestClass("chat", ttft_s=2.0),))
ADMITTED_PER_S = 8.0


def tick(at: float, applied: float | None) -> Observation:
    count = ADMITTED_PER_S * at
    reading = Reading("llama-0", at, 100.0, 0.0, ttft=Histogram((1.0,), (count, count), 0.0))
    return Observation(at, ReplicaSet(("llama-0",), (), 1, at), (reading,), applied_ratio=applied)


def decided(applied: float | None, ticks: int = 40) -> Decision:
    state, outcome = State(), None
    for number in range(ticks):
        state, outcome = step(SPEC, state, tick(2.0 * number, applied))
    assert isinstance(outcome, Decision)
    return outcome


@pytest.mark.parametrize(
    ("applied", "offered"),
    [
        pytest.param(None, 8.0, id="nobody polls"),
        pytest.param(1.0, 8.0, id="all are admitted"),
        pytest.param(0.5, 16.0, id="half are admitted"),
        pytest.param(0.01, 80.0, id="no more than ten times what gets in"),
    ],
)
def test_offered_load_is_what_gets_in_over_the_share_that_is_let_in(applied, offered):
    assert decided(applied).estimate.offered_per_s == pytest.approx(offered)


def test_a_fraction_that_swings_faster_than_gateways_follow_does_not_swell_the_demand():
    """They still admit by the one before: what each look sees entered under both."""
    state, outcome = State(), None
    for number in range(40):
        state, outcome = step(SPEC, state, tick(2.0 * number, (0.2, 0.8)[number % 2]))
    assert isinstance(outcome, Decision)
    assert outcome.estimate.offered_per_s == pytest.approx(ADMITTED_PER_S / 0.5, rel=0.15)


@pytest.mark.parametrize("applied", [0.8, 0.5, 0.25])
def test_with_the_gate_on_as_many_replicas_are_asked_for_as_without_it(applied):
    offered = ADMITTED_PER_S / applied
    without = replace(SPEC, profile=Profile(100.0, 8.0))
    state, outcome = State(), None
    for number in range(40):
        at = 2.0 * number
        count = offered * at
        reading = Reading("llama-0", at, 100.0, 0.0, ttft=Histogram((1.0,), (count, count), 0.0))
        state, outcome = step(without, state, Observation(at, ReplicaSet(("llama-0",), (), 1, at), (reading,)))
    assert isinstance(outcome, Decision)
    assert decided(applied).recommendation.terms.flow == pytest.approx(outcome.recommendation.terms.flow)


def test_that_it_is_an_estimate_is_said():
    assert "offered_estimated" in {finding.code for finding in decided(0.5).findings}
    assert "offered_estimated" not in {finding.code for finding in decided(None).findings}
