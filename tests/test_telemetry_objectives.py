"""What is promised, how often it was kept, and what holds now, as metrics."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from scaler.control.board import Board
from scaler.core.decision import Decision, Finding, Reason
from scaler.core.model import Absent, Histogram, Missing, Reading
from scaler.core.step import WorkloadSpec
from scaler.telemetry.conditions import OnConditions
from scaler.telemetry.objectives import FirstTokens, OnObjectives, later_than
from tests.support import decisions as made

EDGES = (1.0, 2.0, 5.0)
GREEN = made.green()
COUNTS = st.lists(st.integers(0, 1000), min_size=4, max_size=4)


def histogram(*buckets: float, edges: tuple[float, ...] = EDGES) -> Histogram:
    """So many observations in each bucket, the last beyond all edges."""
    return Histogram(edges, tuple(itertools.accumulate(buckets)), 0.0)


def read(*missing: str, **seen: Histogram) -> Decision:
    """A decision after these replicas were read and those were not."""
    readings = tuple(Reading(name, 0.0, ttft=ttft) for name, ttft in seen.items())
    return replace(GREEN, readings=readings, missing=tuple(Missing(name, "timeout") for name in missing))


def counted(*decisions: Decision, budget_s: float = 2.0) -> tuple[float, float]:
    """All first tokens, and the late ones."""
    tokens = FirstTokens()
    for decision in decisions:
        tokens.add(decision, budget_s)
    return tokens.total, tokens.late


@pytest.mark.parametrize(
    ("limit_s", "late"),
    [
        pytest.param(2.0, 5.0, id="an edge"),
        pytest.param(3.5, 3.0, id="between two edges"),
        pytest.param(0.5, 15.0, id="below the first edge"),
        pytest.param(9.0, 1.0, id="above the last edge"),
    ],
)
def test_late_is_what_lies_above_the_objective(limit_s, late):
    assert later_than(histogram(4, 8, 4, 1), limit_s) == late


def test_the_shares_of_a_bucket_add_up():
    buckets = histogram(4, 8, 4, 1)
    assert later_than(buckets, 0.5) - later_than(buckets, 1.0) == 2.0


@given(COUNTS, COUNTS, st.floats(0.01, 20.0))
def test_more_requests_never_make_fewer_late_ones(before, more, limit_s):
    after = histogram(*(a + b for a, b in zip(before, more, strict=True)))
    assert later_than(after, limit_s) >= later_than(histogram(*before), limit_s) - 1e-9


def test_what_was_counted_before_a_replica_was_seen_does_not_count():
    assert counted(read(a=histogram(0, 50, 0, 50)), read(a=histogram(6, 50, 4, 50))) == (10, 4)


def test_replicas_add_up():
    first, second = histogram(0, 0, 0, 0), histogram(7, 0, 3, 0)
    assert counted(read(a=first, b=first), read(a=second, b=second)) == (20, 6)


@pytest.mark.fault("engine restarts")
@pytest.mark.parametrize(
    "restarted",
    [pytest.param(histogram(1, 0, 1, 0), id="fewer"), pytest.param(histogram(9, 9, edges=(3.0,)), id="other edges")],
)
def test_a_replica_that_restarted_begins_anew(restarted):
    assert counted(read(a=histogram(5, 0, 5, 0)), read(a=restarted), read(a=restarted)) == (0, 0)


def test_what_happened_while_a_replica_was_silent_counts_when_it_is_back():
    silent = read("a")
    assert counted(read(a=histogram(0, 0, 0, 0)), silent, silent, read(a=histogram(3, 0, 2, 0))) == (5, 2)


def test_a_replica_that_left_and_came_back_begins_anew():
    assert counted(read(a=histogram(0, 0, 0, 0)), read(), read(a=histogram(3, 0, 2, 0))) == (0, 0)


class Shown:
    """What Prometheus reads of one workload, time after time."""

    def __init__(self, spec: WorkloadSpec = made.SPEC) -> None:
        self.board, self.registry = Board(), CollectorRegistry()
        self.registry.register(OnObjectives(self.board, lambda: (spec,)))
        self.registry.register(OnConditions(self.board))

    def after(self, *decisions: Decision) -> dict[str, float]:
        """What it reads last, if it reads after each of these decisions."""
        found: dict[str, float] = {}
        for decision in decisions:
            self.board.publish(decision)
            found = dict(self.read())
        return found

    def read(self) -> Iterable[tuple[str, float]]:
        for family in self.registry.collect():
            for sample in family.samples:
                assert (sample.labels.pop("namespace"), sample.labels.pop("name")) == ("prod", "llama")
                yield " ".join([sample.name.removeprefix("slo_scaler_"), *sample.labels.values()]), sample.value


def test_everything_that_is_shown_of_a_workload():
    estimate = replace(GREEN.estimate, waiting=3.0, queue_time_s=0.4)
    found = tuple(Finding(code, "") for code in ("infeasible_ttft", "infeasible_ttft", "stuck"))
    now = replace(GREEN, reason=Reason.MAX_REPLICAS, findings=found, estimate=estimate)
    late = replace(read(a=histogram(6, 0, 4, 0)), reason=now.reason, findings=found, estimate=estimate)
    assert Shown().after(read(a=histogram(0, 0, 0, 0)), late) == {
        "slo_ratio": 0.95,
        "ttft_objective_seconds": 2.0,
        "tpot_objective_seconds": 0.1,
        "first_tokens_total": 10.0,
        "first_tokens_late_total": 4.0,
        "reason max_replicas": 1.0,
        "finding infeasible_ttft": 1.0,
        "finding stuck": 1.0,
        "max_replicas": 10.0,
        "waiting_requests": 3.0,
        "queue_time_seconds": 0.4,
    }


@pytest.mark.parametrize("absent", Absent)
def test_a_queue_time_that_nobody_measured_has_no_series(absent):
    decision = replace(GREEN, estimate=replace(GREEN.estimate, queue_time_s=absent))
    assert "queue_time_seconds" not in Shown().after(decision)


def test_what_is_not_promised_has_no_series():
    spec = replace(made.SPEC, classes=(made.BATCH,))
    shown = Shown(spec).after(made.green(spec))
    assert {name for name in shown if "objective" in name or "tokens" in name} == set()


def test_a_workload_that_is_gone_and_comes_back_counts_from_zero():
    shown, first, second = Shown(), read(a=histogram(0, 0, 0, 0)), read(a=histogram(6, 0, 4, 0))
    shown.after(first, second)
    shown.board.drop(made.KEY)
    assert "first_tokens_total" not in dict(shown.read())
    assert shown.after(second)["first_tokens_total"] == 0.0
