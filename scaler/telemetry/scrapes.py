"""What was counted for each workload that is not forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from scaler.core.model import WorkloadKey
from scaler.telemetry.gauges import WORKLOAD


@dataclass(frozen=True, slots=True, eq=False)
class OnScrapes(Collector):
    """``failures`` gives how many passes over a replica of a workload have failed."""

    failures: Callable[[], Iterable[tuple[WorkloadKey, int]]]

    def collect(self) -> Iterator[Metric]:
        """One series a workload."""
        found = CounterMetricFamily(
            "slo_scaler_scrape_failures", "Passes over a ready replica that brought no reading", labels=WORKLOAD
        )
        for key, count in sorted(self.failures()):
            found.add_metric((key.namespace, key.name), count)
        yield found
