"""What laws have in common that scale by a Prometheus query on the engines: a number made of the pages that a Prometheus has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scaler.core.model import Reading, ReplicaSet, known
from scaler.sim.stage import Pages, Stage

SCRAPE_S = 15.0
"""How often a Prometheus reads each engine where nobody says more: the interval of the vLLM and KServe guides."""
Metric = Callable[[Sequence[Reading], ReplicaSet], float | None]
"""A query: what it says of the pages of the ready replicas. None: it has no result."""


class ByMetric:
    """One query, made whenever KEDA or the HPA asks. Mutable, one owner."""

    def __init__(self, stage: Stage, scrape_s: float, metric: Metric) -> None:
        """Nothing is read before it is asked for."""
        self._fleet = stage.fleet
        self._pages = Pages(stage, scrape_s, stage.dice("prometheus"))
        self._metric = metric

    def value(self, now: float) -> float | None:
        """The result now."""
        replicas = self._fleet.replica_set(now)
        return self._metric(self._pages.read(replicas.ready, now), replicas)

    def active(self, now: float) -> bool:
        """As KEDA's activationThreshold of 0 has it. No engine, no series: such a trigger never comes back from zero."""
        return (self.value(now) or 0.0) > 0

    def nudge(self, now: float) -> None:
        """It does not listen."""


def running(pages: Sequence[Reading], replicas: ReplicaSet) -> float | None:  # noqa: ARG001 - a query's signature
    """``sum(vllm:num_requests_running)``."""
    return sum(known(page.running) or 0.0 for page in pages) if pages else None


def waiting(pages: Sequence[Reading], replicas: ReplicaSet) -> float | None:  # noqa: ARG001 - a query's signature
    """``sum(vllm:num_requests_waiting)``."""
    return sum(known(page.waiting) or 0.0 for page in pages) if pages else None


def gpu_percent(pages: Sequence[Reading], replicas: ReplicaSet) -> float | None:  # noqa: ARG001 - a query's signature
    """``sum(DCGM_FI_DEV_GPU_UTIL)`` in percent: 100 for a replica that runs anything, and 0 for one that starts."""
    return sum(100.0 for page in pages if (known(page.running) or 0.0) > 0) if pages else None
