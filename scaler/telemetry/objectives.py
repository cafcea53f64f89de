"""What was promised and how often it was kept: the objectives of every workload, and the first tokens that came too late.

A burn rate needs a share of requests. Quantiles give none, so the engines' own histograms are read here, against the objective.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from scaler.telemetry.gauges import WORKLOAD

if TYPE_CHECKING:
    from scaler.control.board import Board
    from scaler.core.decision import Decision
    from scaler.core.model import Histogram, WorkloadKey
    from scaler.core.step import WorkloadSpec

_Read = Callable[["WorkloadSpec"], float | None]
_OBJECTIVES: tuple[tuple[str, str, _Read], ...] = (
    ("slo_ratio", "Share of requests that the objectives are for: 0.95 for P95", lambda spec: spec.slo_quantile),
    ("ttft_objective_seconds", "Strictest TTFT objective of the classes", lambda spec: spec.budget_s),
    (
        "tpot_objective_seconds",
        "Strictest TPOT objective of the classes",
        lambda spec: min((c.tpot_s for c in spec.classes if c.tpot_s is not None), default=None),
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class OnObjectives(Collector):
    """The objectives as they are configured when Prometheus asks, and what was counted between two times that it did."""

    board: Board
    specs: Callable[[], Iterable[WorkloadSpec]]
    _counted: dict[WorkloadKey, FirstTokens] = field(default_factory=dict)

    def collect(self) -> Iterator[Metric]:
        """One family after the other; what is not promised has no series."""
        specs = tuple(self.specs())
        for name, text, read in _OBJECTIVES:
            family = GaugeMetricFamily(f"slo_scaler_{name}", text, labels=WORKLOAD)
            for spec in specs:
                value = read(spec)
                if value is not None:
                    family.add_metric((spec.key.namespace, spec.key.name), value)
            yield family
        yield from self._tokens()

    def _tokens(self) -> Iterator[Metric]:
        decisions = {decision.key: decision for decision in self.board.decisions()}
        for gone in self._counted.keys() - decisions.keys():
            del self._counted[gone]
        total = CounterMetricFamily("slo_scaler_first_tokens", "First tokens under a TTFT objective", labels=WORKLOAD)
        text = "First tokens that came later than the strictest TTFT objective"
        late = CounterMetricFamily("slo_scaler_first_tokens_late", text, labels=WORKLOAD)
        for key, decision in decisions.items():
            budget_s = min((one.budget_s for one in decision.classes if one.budget_s is not None), default=None)
            if budget_s is None:
                continue
            counted = self._counted.setdefault(key, FirstTokens())
            counted.add(decision, budget_s)
            total.add_metric((key.namespace, key.name), counted.total)
            late.add_metric((key.namespace, key.name), counted.late)
        yield total
        yield late


@dataclass(slots=True)
class FirstTokens:
    """First tokens of one workload, of all its classes since engines do not tell them apart, and those that came too late."""

    total: float = 0.0
    late: float = 0.0
    _seen: dict[str, Histogram] = field(default_factory=dict)

    def add(self, decision: Decision, budget_s: float) -> None:
        """What the engines counted since the last time. A replica that is new, or whose counter fell, begins anew."""
        now = {reading.replica: reading.ttft for reading in decision.readings if reading.ttft is not None}
        for name, after in now.items():
            before = self._seen.get(name)
            if before is not None and before.edges == after.edges and before.count <= after.count:
                self.total += after.count - before.count
                self.late += max(0.0, later_than(after, budget_s) - later_than(before, budget_s))
        silent = {missing.replica for missing in decision.missing}
        self._seen = {name: seen for name, seen in self._seen.items() if name in silent} | now


def later_than(histogram: Histogram, limit_s: float) -> float:
    """How many observations are above the limit, linear in the bucket that it lies in; above the last edge, those beyond that edge."""
    bucket = bisect_left(histogram.edges, limit_s)
    below = histogram.counts[bucket - 1] if bucket else 0.0
    if bucket < len(histogram.edges):
        low = histogram.edges[bucket - 1] if bucket else 0.0
        share = (limit_s - low) / (histogram.edges[bucket] - low)
        below += share * (histogram.counts[bucket] - below)
    return histogram.count - below
