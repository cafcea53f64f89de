"""The gauges of every workload, read off the board when Prometheus asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from scaler.core.admission import as_of
from scaler.core.decision import Decision
from scaler.core.model import Absent, GateMode, Pressure, Signal, known
from scaler.core.retry import age_s

if TYPE_CHECKING:
    from scaler.control.board import Board
    from scaler.control.ports import Clock
    from scaler.core.counted import Counted
    from scaler.core.gate import Why
    from scaler.core.model import WorkloadKey

WORKLOAD = ("namespace", "name")
"""The labels that every series of a workload has."""
_Read = Callable[[Decision, float], Signal | None]
_GAUGES: tuple[tuple[str, str, _Read], ...] = (
    ("desired_replicas", "Replicas that are asked for", lambda d, _: d.desired),
    ("ready_replicas", "Replicas that are ready and awake", lambda d, _: d.estimate.ready),
    ("starting_replicas", "Replicas that are not ready yet", lambda d, _: d.estimate.starting),
    ("stuck_replicas", "Starting replicas that have outlived the usual start", lambda d, _: d.estimate.stuck),
    ("missing_replicas", "Ready replicas without a fresh reading", lambda d, _: len(d.missing)),
    ("target_requests", "Ongoing requests a replica should hold", lambda d, _: d.estimate.capacity.target),
    ("safe_concurrency_requests", "Safe concurrency a replica", lambda d, _: d.estimate.capacity.safe_concurrency),
    ("ongoing_requests", "Requests in the engines", lambda d, _: d.estimate.ongoing),
    ("queued_requests", "Waiting requests, and running ones above the safe concurrency", lambda d, _: d.estimate.queue),
    ("above_safe_concurrency_ratio", "Share of replicas above it", lambda d, _: _above_safe(d)),
    ("offered_per_second", "Requests that want to enter", lambda d, _: d.estimate.offered_per_s),
    ("arrival_per_second", "Requests that enter the engines", lambda d, _: d.estimate.arrival_per_s),
    ("throughput_per_second", "First tokens", lambda d, _: d.estimate.throughput_per_s),
    ("drain_per_second", "Requests that can be started", lambda d, _: d.estimate.drain_per_s),
    ("refused_per_second", "Requests that were refused", lambda d, _: d.estimate.refused_per_s),
    ("queue_wait_seconds", "Wait of a request that arrives now", lambda d, _: d.estimate.queue_wait.s),
    ("ttft_seconds", "Time to first token at sloPercentile (P95 by default)", lambda d, _: d.estimate.ttft_s),
    ("ttft_p99_seconds", "Time to first token, P99", lambda d, _: d.estimate.ttft_p99_s),
    ("tpot_seconds", "Time per output token at sloPercentile (P95 by default)", lambda d, _: d.estimate.tpot_s),
    ("replica_ready_seconds", "P90 from asking for a replica to ready", lambda d, _: d.estimate.replica_ready_s),
    (
        "profile_mismatch_ratio",
        "How far live latency or the mix of tokens is from the load test; 0: as it says",
        lambda d, _: _mismatch(d),
    ),
    (
        "would_admit_ratio",
        "Smallest share of a class to admit, whether its gate is enforced or not",
        lambda d, _: min(verdict.admit_ratio for verdict in d.classes),
    ),
    ("saturation_ratio", "Ongoing requests over what is safe", lambda d, _: d.estimate.saturation_ratio),
    ("eta_seconds", "P90 of the time until the next replica is ready", lambda d, _: d.estimate.eta_s),
    ("decision_age_seconds", "Age of the newest reading behind the decision", age_s),
)


def _above_safe(decision: Decision) -> float | None:
    """The share of awake replicas that run more than the safe concurrency; None without any."""
    safe = decision.estimate.capacity.safe_concurrency
    awake = [reading for reading in decision.readings if reading.awake]
    return sum((known(r.running) or 0.0) > safe for r in awake) / len(awake) if awake else None


def _mismatch(decision: Decision) -> float:
    """By how much the safe rate is derated, or the residence time scaled, whichever is more."""
    cap = decision.estimate.capacity
    return max(abs(cap.drift_ratio - 1), 1 - cap.derate_ratio)


@dataclass(frozen=True, slots=True, eq=False)
class OnBoard(Collector):
    """Every gauge of every workload with a decision, as it must be seen when Prometheus asks."""

    board: Board
    clock: Clock

    def collect(self) -> Iterator[Metric]:
        """One family after the other. What is unknown or idle has no series: a 0 would read as a measurement."""
        now = self.clock()
        decisions = [as_of(decision, now) for decision in self.board.decisions()]
        labels = [(d.key.namespace, d.key.name) for d in decisions]
        for name, text, read in _GAUGES:
            family = GaugeMetricFamily(f"slo_scaler_{name}", text, labels=WORKLOAD)
            for label, decision in zip(labels, decisions, strict=True):
                value = read(decision, now)
                if value is not None and not isinstance(value, Absent):
                    family.add_metric(label, value)
            yield family
        yield _states(decisions)
        yield _phases(decisions)
        yield from _by_class(decisions)


def _states(decisions: Iterable[Decision]) -> Metric:
    family = GaugeMetricFamily("slo_scaler_state", "1 for the state it is in", labels=(*WORKLOAD, "state"))
    for decision in decisions:
        for state in Pressure:
            family.add_metric((decision.key.namespace, decision.key.name, state), float(state is decision.state))
    return family


def _phases(decisions: Iterable[Decision]) -> Metric:
    labels = (*WORKLOAD, "phase")
    family = GaugeMetricFamily("slo_scaler_start_phase_seconds", "Median of each phase of recent starts", labels=labels)
    for decision in decisions:
        for phase in decision.estimate.start_phases:
            family.add_metric((decision.key.namespace, decision.key.name, phase.name), phase.took_s)
    return family


def _by_class(decisions: Iterable[Decision]) -> Iterator[Metric]:
    labels = (*WORKLOAD, "class")
    text = (
        "Share of the class to admit; 1 unless its gate is enforced"  # whoever reads it acts on it, and knows no gate
    )
    admit = GaugeMetricFamily("slo_scaler_admit_ratio", text, labels=labels)
    left = GaugeMetricFamily("slo_scaler_remaining_budget_seconds", "TTFT budget less queue wait", labels=labels)
    for decision in decisions:
        for verdict in decision.classes:
            label = (decision.key.namespace, decision.key.name, verdict.name)
            admit.add_metric(label, verdict.admit_ratio if verdict.gate is GateMode.ENFORCE else 1.0)
            if verdict.remaining_budget_s is not None:
                left.add_metric(label, verdict.remaining_budget_s)
    yield admit
    yield left


@dataclass(frozen=True, slots=True, eq=False)
class AtGates(Collector):
    """What the gates in the path counted, by class, and what they let in because nothing was known."""

    counted: Callable[[], Iterable[tuple[WorkloadKey, Counted]]]
    unknown: Callable[[], Mapping[Why, int]]

    def collect(self) -> Iterator[Metric]:
        """Workloads that nobody asked a verdict for have no series."""
        labels = (*WORKLOAD, "class")
        totals = {
            name: CounterMetricFamily(f"slo_scaler_gate_{name}", text, labels=labels)
            for name, text in (
                ("admitted", "Requests that the gate let in"),
                ("refused", "Requests that the gate refused"),
                ("would_refuse", "Requests that it let in because it only observes"),
            )
        }
        for key, counted in self.counted():
            for one in counted.classes:
                for name, family in totals.items():
                    family.add_metric((key.namespace, key.name, one.name), getattr(one, name))
        yield from totals.values()
        let_in = CounterMetricFamily("slo_scaler_gate_unknown", "Requests let in unjudged", labels=("reason",))
        for reason, count in self.unknown().items():
            let_in.add_metric((reason,), count)
        yield let_in
