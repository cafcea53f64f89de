"""What the GPUs of every workload did, and what of it a price list knows.

Counters only, and the price beside them: whoever asks divides over the stretch of time that the question is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from scaler.core.cost import price_of
from scaler.telemetry.gauges import WORKLOAD

if TYPE_CHECKING:
    from scaler.control.costs import Costs

UNKNOWN = "unknown"
"""Prometheus takes an empty label for none."""


@dataclass(frozen=True, slots=True, eq=False)
class OnCosts(Collector):
    """GPU-seconds and tokens of every workload that has been looked at, and the prices of the GPUs among them."""

    costs: Costs
    prices: Callable[[], Mapping[str, float]]

    def collect(self) -> Iterator[Metric]:
        """Three families. What nobody tells has no series."""
        text = "GPUs that replicas held, times seconds"
        gpus = CounterMetricFamily("slo_scaler_gpu_seconds", text, labels=(*WORKLOAD, "gpu", "phase"))
        tokens = CounterMetricFamily(
            "slo_scaler_tokens", "Tokens as the engines count them", labels=(*WORKLOAD, "kind")
        )
        products: set[str] = set()
        for key, spent in self.costs.every():
            for (gpu, phase), seconds in sorted(spent.gpu_s.items()):
                products.add(gpu)
                gpus.add_metric((key.namespace, key.name, gpu or UNKNOWN, phase), seconds)
            for kind, count in (("prompt", spent.prompt_tokens), ("generation", spent.generation_tokens)):
                if count is not None:
                    tokens.add_metric((key.namespace, key.name, kind), count)
        yield gpus
        yield tokens
        yield self._priced(products)

    def _priced(self, products: set[str]) -> Metric:
        prices = self.prices()
        family = GaugeMetricFamily(
            "slo_scaler_gpu_hour_price", "Of the configuration, where it has one", labels=("gpu",)
        )
        for gpu in sorted(products):
            price = price_of(prices, gpu)
            if price is not None:
                family.add_metric((gpu,), price)
        return family
