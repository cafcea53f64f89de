"""Why the number is what it is, and what a person should know beside it, as series that exist only while that holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scaler.core.model import Absent, Signal
from scaler.telemetry.gauges import WORKLOAD

if TYPE_CHECKING:
    from scaler.control.board import Board
    from scaler.core.decision import Decision

_NAMED: tuple[tuple[str, str, str, Callable[[Decision], Iterable[str]]], ...] = (
    ("reason", "reason", "1 for what binds the number", lambda d: (d.reason,)),
    (
        "finding",
        "code",
        "1 for each thing that a person should know; /v1/explain has the sentence",
        lambda d: sorted({finding.code for finding in d.findings}),
    ),
)
_GAUGES: tuple[tuple[str, str, Callable[[Decision], Signal]], ...] = (
    ("max_replicas", "Most replicas that may be asked for", lambda d: d.shaped.inputs.max_replicas),
    ("waiting_requests", "Requests that wait in the engines", lambda d: d.estimate.waiting),
    (
        "queue_time_seconds",
        "Queue time at sloPercentile of requests that ended lately, as the engines measured it",
        lambda d: d.estimate.queue_time_s,
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class OnConditions(Collector):
    """Reason, findings and bound of every workload with a decision, and what waits in its engines."""

    board: Board

    def collect(self) -> Iterator[Metric]:
        """One family after the other; what is unknown or idle has no series."""
        decisions = tuple(self.board.decisions())
        for name, label, text, names in _NAMED:
            family = GaugeMetricFamily(f"slo_scaler_{name}", text, labels=(*WORKLOAD, label))
            for decision in decisions:
                for one in names(decision):
                    family.add_metric((decision.key.namespace, decision.key.name, one), 1.0)
            yield family
        for name, text, read in _GAUGES:
            family = GaugeMetricFamily(f"slo_scaler_{name}", text, labels=WORKLOAD)
            for decision in decisions:
                value = read(decision)
                if not isinstance(value, Absent):
                    family.add_metric((decision.key.namespace, decision.key.name), value)
            yield family
