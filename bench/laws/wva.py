"""llm-d's Workload-Variant-Autoscaler (WVA), its saturation analyzer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from scaler.core.model import Reading, known
from scaler.sim.actuators import Direct
from scaler.sim.laws.by_metric import SCRAPE_S
from scaler.sim.stage import Follows, Pages, Stage

LEAST_TO_SHRINK = 2
"""Fewer replicas that are not saturated are never reduced (``MinNonSaturatedReplicasForScaleDown``)."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """One replica more when those that are not saturated have little to spare, one less when they would still have it without it.

    Source: workload-variant-autoscaler@36587f8 internal/saturation/analyzer.go and docs/saturation-analyzer.md: saturated at KV usage 0.80
    or 5 waiting; more below 0.1 or 3 to spare; the highest of the last minute; every 30 s; nothing while what is desired, exists and
    reports differ. Charitably its answer needs no HPA, whose tolerance would swallow one in ten.
    """

    kv_threshold: float = 0.80
    queue_threshold: float = 5.0
    kv_spare: float = 0.1
    queue_spare: float = 3.0
    window_s: float = 60.0
    every_s: float = 30.0
    scrape_s: float = SCRAPE_S

    @property
    def follows(self) -> Follows:
        """The beat of its engine."""
        return Direct(self.every_s)

    def start(self, stage: Stage) -> Analyzer:
        """No page has been seen."""
        return Analyzer(self, stage)

    def change(self, usages: Iterable[tuple[float, float]]) -> int:
        """By how many replicas: from the KV usage and the queue of each."""
        spare = [
            (self.kv_threshold - kv, self.queue_threshold - queue)
            for kv, queue in usages
            if kv < self.kv_threshold and queue < self.queue_threshold
        ]
        if not spare:
            return 1
        spare_kv, spare_queue = (fmean(each) for each in zip(*spare, strict=True))
        if spare_kv < self.kv_spare or spare_queue < self.queue_spare:
            return 1
        if len(spare) < LEAST_TO_SHRINK:
            return 0
        grows = len(spare) / (len(spare) - 1)
        kv_then = self.kv_threshold - (self.kv_threshold - spare_kv) * grows
        queue_then = self.queue_threshold - (self.queue_threshold - spare_queue) * grows
        return -1 if kv_then >= self.kv_spare and queue_then >= self.queue_spare else 0


class Analyzer:
    """The pages of the last minute, a scrape apart. Mutable, one owner."""

    def __init__(self, law: Saturation, stage: Stage) -> None:
        """It reads from the beginning."""
        self._law = law
        self._fleet = stage.fleet
        self._pages = Pages(stage, law.scrape_s, stage.dice("prometheus"))
        self._seen: deque[tuple[float, Mapping[str, Reading]]] = deque()
        stage.agenda.every(law.scrape_s, 0.0, self._look)

    def value(self, now: float) -> float | None:
        """The count of replicas."""
        self._look(now)
        replicas = self._fleet.replica_set(now)
        reported = self._seen[-1][1]
        if len(reported) != replicas.current:
            return float(replicas.current)
        return float(replicas.current + self._law.change(self._highest(name) for name in reported))

    def active(self, now: float) -> bool:  # noqa: ARG002 - nobody asks: it scales itself
        """It has bounds of its own."""
        return True

    def nudge(self, now: float) -> None:
        """It does not listen."""

    def _look(self, now: float) -> None:
        pages = self._pages.read(self._fleet.replica_set(now).ready, now)
        self._seen.append((now, {page.replica: page for page in pages}))
        while self._seen[0][0] < now - self._law.window_s:
            self._seen.popleft()

    def _highest(self, name: str) -> tuple[float, float]:
        pages = [pages[name] for _, pages in self._seen if name in pages]
        return (
            max(known(page.kv_usage_ratio) or 0.0 for page in pages),
            max(known(page.waiting) or 0.0 for page in pages),
        )
