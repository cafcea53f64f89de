"""llm-d's SLO-aware scaling."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from operator import sub

from scaler.core.hpa import Behavior, Policy, PolicyKind, Rules, Tolerance
from scaler.core.model import Histogram, Reading
from scaler.core.windows import read_quantile, summed
from scaler.sim.actuators import Keda
from scaler.sim.laws.by_metric import SCRAPE_S
from scaler.sim.stage import Follows, Pages, Stage

ITS_BEHAVIOR = Behavior(
    up=Rules(30.0, (Policy(PolicyKind.PERCENT, 100, 60.0), Policy(PolicyKind.PODS, 4, 60.0))),
    down=Rules(180.0, (Policy(PolicyKind.PODS, 1, 120.0),)),
)


@dataclass(frozen=True, slots=True)
class SloAware:
    """The larger of P90 TTFT and P90 TPOT over their objectives, ``s``, held between two edges.

    Above ``up_ratio``: ``n + ceil(n (s c / up_ratio - 1))``, where ``c`` is the share of the n replicas that is ready; below
    ``down_ratio``: ``n - floor(n (1 - s / down_ratio))``. Source: llm-d#2011 (``s`` is at most 2 and averaged over 45 s; 0.55 and 0.40;
    HPA up by the larger of 100 % and 4 a minute, window 30 s; down by 1 in two minutes, window 180 s). Its objectives are those of the
    workload; without traffic ``s`` is 0.
    """

    up_ratio: float = 0.55
    down_ratio: float = 0.40
    most_ratio: float = 2.0
    window_s: float = 45.0
    scrape_s: float = SCRAPE_S
    follows: Follows = Keda(behavior=ITS_BEHAVIOR, tolerance=Tolerance())

    def start(self, stage: Stage) -> Watching:
        """No page has been seen."""
        return Watching(self, stage)

    def replicas(self, slowness: float, existing: int, ready: int) -> int:
        """What it asks for."""
        if slowness > self.up_ratio and existing:
            scaled = slowness * ready / existing / self.up_ratio
            return existing + max(0, math.ceil(existing * (scaled - 1)))
        if slowness < self.down_ratio:
            return existing - math.floor(existing * (1 - slowness / self.down_ratio))
        return existing


class Watching:
    """The pages of the last window. Mutable, one owner."""

    def __init__(self, law: SloAware, stage: Stage) -> None:
        """Nothing is read before it is asked for."""
        self._law = law
        self._fleet = stage.fleet
        self._pages = Pages(stage, law.scrape_s, stage.dice("prometheus"))
        self._seen: deque[tuple[float, Mapping[str, Reading]]] = deque()
        classes = stage.setting.spec.classes
        self._ttft_s = min((one.ttft_s for one in classes if one.ttft_s is not None), default=math.inf)
        self._tpot_s = min((one.tpot_s for one in classes if one.tpot_s is not None), default=math.inf)

    def value(self, now: float) -> float | None:
        """The count of replicas."""
        replicas = self._fleet.replica_set(now)
        pages = {page.replica: page for page in self._pages.read(replicas.ready, now)}
        self._seen.append((now, pages))
        while len(self._seen) > 1 and self._seen[1][0] <= now - self._law.window_s:
            self._seen.popleft()
        slowness = self._slowness(self._seen[0][1], pages)
        return float(self._law.replicas(slowness, replicas.current, len(replicas.ready)))

    def active(self, now: float) -> bool:  # noqa: ARG002 - the protocol's
        """It has at least one replica: without any there is nothing to be slow."""
        return True

    def nudge(self, now: float) -> None:
        """It does not listen."""

    def _slowness(self, before: Mapping[str, Reading], after: Mapping[str, Reading]) -> float:
        pairs = [(before.get(name), page) for name, page in after.items()]
        ttft = _p90([(old.ttft if old else None, new.ttft) for old, new in pairs])
        tpot = _p90([(old.tpot if old else None, new.tpot) for old, new in pairs])
        return min(self._law.most_ratio, max(ttft / self._ttft_s, tpot / self._tpot_s))


def _p90(pairs: list[tuple[Histogram | None, Histogram | None]]) -> float:
    """Of what was observed between a page and the next of each replica; 0 of nothing."""
    increases = summed(tuple(_since(old, new) for old, new in pairs if new is not None))
    return (
        read_quantile(increases.edges, list(increases.counts), 0.9).value if increases and increases.count > 0 else 0.0
    )


def _since(old: Histogram | None, new: Histogram) -> Histogram:
    if old is None:
        return new
    return Histogram(new.edges, tuple(map(sub, new.counts, old.counts)), new.sum - old.sum)
