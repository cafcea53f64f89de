"""What Prometheus reads from the scaler, as names and as series for promtool. The collectors are those that ``app.serving`` registers."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from scaler.control.board import Board
from scaler.core.counted import ClassCounted, Counted
from scaler.core.decision import Decision, Finding
from scaler.core.gate import Why
from scaler.core.model import GpuPhase, GpuUse, Observation, Phase, Reading, ReplicaSet
from scaler.telemetry import Reporter
from scaler.telemetry.certificates import OnCertificates
from scaler.telemetry.conditions import OnConditions
from scaler.telemetry.costs import OnCosts
from scaler.telemetry.gauges import AtGates
from scaler.telemetry.objectives import OnObjectives
from tests.support import decisions as made
from tests.support.served import Clock

METRIC = re.compile(r"(?:workload(?:_class)?:)?(?:slo_scaler|grpc_server)_[\w:]+")


@dataclass(frozen=True)
class Certificate:
    """One in use that is good for ninety days."""

    fault: str = ""
    expiries: Mapping[str, float] = field(default_factory=lambda: {"server": 90 * 86400.0})
    refusals: Mapping[str, int] = field(default_factory=lambda: {"client_without_tls": 1})


def page(*decisions: Decision) -> CollectorRegistry:
    """What is exported when Prometheus has asked after each of these decisions of one workload."""
    board, clock = Board(), Clock(39.0)
    reporter = Reporter(board, clock, clock, io.StringIO())
    counted = Counted((ClassCounted("chat", admitted=7, refused=2, would_refuse=1),))
    for collector in (
        OnConditions(board),
        OnObjectives(board, lambda: (made.SPEC,)),
        OnCosts(board.costs, lambda: {"H100": 2.5}),
        OnCertificates(Certificate()),
        AtGates(lambda: ((made.KEY, counted),), lambda: dict.fromkeys(Why, 0)),
    ):
        reporter.registry.register(collector)
    reporter.configured(())
    reporter.handled("GetMetrics", "OK", 0.01)
    for at, decision in enumerate(decisions):
        board.publish(decision)
        board.costs.add(decision.key, _looked(float(at)))
        reporter.ticked(decision, 0.003)
        reporter.failed("GetMetrics", LookupError())
        generate_latest(reporter.registry)
    return reporter.registry


def _looked(at: float) -> Observation:
    """Two replicas with a GPU each, of which one starts, and what the other's engine has counted."""
    gpus = {GpuUse("NVIDIA-H100-80GB-HBM3", phase): 1 for phase in (GpuPhase.STARTING, GpuPhase.SERVING)}
    counted = Reading("llama-0", at, prompt_tokens_total=100 * at, generation_tokens_total=10 * at)
    return Observation(at, ReplicaSet(("llama-0",), (), 2, at, gpus=gpus), (counted,))


def under_pressure() -> CollectorRegistry:
    """A page with every metric on it."""
    red = made.red()
    estimate = replace(red.estimate, tpot_s=0.05, queue_time_s=0.4, start_phases=(Phase("scheduled", 2.0),))
    found = (Finding("demand_above_max", ""), Finding("infeasible_burst", ""))
    return page(made.green(), replace(red, estimate=estimate, findings=found))


def exported() -> frozenset[str]:
    """The names of all series that the scaler exports."""
    return frozenset(sample.name for family in _families(under_pressure()) for sample in family.samples)


def series(registry: CollectorRegistry, minutes: int, rise: int = 0) -> dict[str, str]:
    """Every series of the page as it stands, for so many minutes; what counts may rise."""
    return {
        _named(sample.name, sample.labels): f"{sample.value:f}+{0 if family.type == 'gauge' else rise}x{minutes}"
        for family in _families(registry)
        for sample in family.samples
    }


def healthy(minutes: int) -> dict[str, str]:
    """The series of a scaler and of a workload that nothing is wrong with, whose first tokens come in time."""
    steady = series(page(made.green()), minutes)
    return steady | {
        _named("slo_scaler_first_tokens_total", {"name": "llama", "namespace": "prod"}): f"0+600x{minutes}"
    }


def unknown_metrics(expressions: Iterable[str], recorded: Iterable[str]) -> list[str]:
    """The names of ours in PromQL expressions that are neither exported nor recorded."""
    known = exported().union(recorded)
    return sorted({name for expr in expressions for name in METRIC.findall(expr)} - known)


def _families(registry: CollectorRegistry):
    return text_string_to_metric_families(generate_latest(registry).decode())


def _named(name: str, labels: Mapping[str, str]) -> str:
    return name + "{" + ",".join(f'{label}="{value}"' for label, value in sorted(labels.items())) + "}"
