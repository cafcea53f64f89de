"""AIBrix's application-specific pod autoscaler (APA)."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from scaler.core.model import known
from scaler.sim.actuators import Direct
from scaler.sim.stage import Follows, Pages, Stage


@dataclass(frozen=True, slots=True)
class Apa:
    """The replicas times the mean KV cache usage over its ``target``, unless that is within a tolerance.

    Source: vllm-project/aibrix@4148b7a pkg/controller/podautoscaler/algorithm/apa.go (the formula, rates of 2 up and down);
    benchmarks/scenarios/autoscaling (``gpu_cache_usage_perc`` 0.5, window 30 s, tolerances 0.1 up and 0.2 down); context.go (scale-down
    cool-down 300 s: the largest answer of that time). As there, replicas that are starting are multiplied, too (aibrix#2670). Charitably
    its controller looks every 10 s at pages that are never older. ``target`` is what to tune.
    """

    target: float = 0.5
    window_s: float = 30.0
    up_tolerance: float = 0.1
    down_tolerance: float = 0.2
    up_rate: float = 2.0
    down_rate: float = 2.0
    cooldown_s: float = 300.0
    every_s: float = 10.0

    @property
    def follows(self) -> Follows:
        """It scales the deployment itself."""
        return Direct(self.every_s)

    def start(self, stage: Stage) -> PodAutoscaler:
        """No page has been seen."""
        return PodAutoscaler(self, stage)

    def replicas(self, usage: float, current: int) -> int:
        """What it asks for."""
        ratio = usage / self.target
        wanted = math.ceil(current * ratio)
        if ratio > 1 + self.up_tolerance:
            return min(wanted, math.ceil(self.up_rate * current))
        if ratio < 1 - self.down_tolerance:
            return max(wanted, math.floor(current / self.down_rate))
        return current


class PodAutoscaler:
    """The usage of the last window and the answers of the last cool-down. Mutable, one owner."""

    def __init__(self, law: Apa, stage: Stage) -> None:
        """Nothing is read before it is asked for."""
        self._law = law
        self._fleet = stage.fleet
        self._pages = Pages(stage, None, stage.dice("apa"))
        self._usage: deque[tuple[float, float]] = deque()
        self._answers: deque[tuple[float, float]] = deque()

    def value(self, now: float) -> float | None:
        """The count of replicas; None without any page."""
        law, replicas = self._law, self._fleet.replica_set(now)
        pages = self._pages.read(replicas.ready, now)
        if not pages:
            return None
        usage = sum(known(page.kv_usage_ratio) or 0.0 for page in pages) / len(pages)
        _remembered(self._usage, (now, usage), law.window_s)
        mean = sum(value for _, value in self._usage) / len(self._usage)
        answer = law.replicas(mean, replicas.current)
        _remembered(self._answers, (now, answer), law.cooldown_s)
        return float(max(answer, min(replicas.current, max(value for _, value in self._answers))))

    def active(self, now: float) -> bool:  # noqa: ARG002 - nobody asks: it scales itself
        """It has bounds of its own."""
        return True

    def nudge(self, now: float) -> None:
        """It does not listen."""


def _remembered(memory: deque[tuple[float, float]], item: tuple[float, float], for_s: float) -> None:
    memory.append(item)
    while memory[0][0] <= item[0] - for_s:
        memory.popleft()
