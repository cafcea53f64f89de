"""Knative's pod autoscaler (KPA)."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from scaler.sim.actuators import Direct
from scaler.sim.stage import Follows, Stage


@dataclass(frozen=True, slots=True)
class Kpa:
    """Concurrency over a target a replica: the mean of ``stable_s``, and in a panic the highest answer to the mean of ``panic_s``.

    A panic begins when the short mean asks for ``panic_threshold`` times the ready replicas, and ends ``stable_s`` after that was last so.
    Source: knative/serving config/core/configmaps/autoscaler.yaml (target 100 x 70 %, stable-window 60 s, panic-window 10 % of it,
    panic-threshold 200 %, max-scale-up-rate 1000, max-scale-down-rate 2, tick 2 s, scale-down-delay 0) and
    pkg/autoscaler/scaling/autoscaler.go. Charitably its concurrency is exact and counts all that was sent, queued or not, and it owns the
    replicas. ``target`` times ``utilisation`` is what to tune: its own target is for no particular engine.
    """

    target: float = 100.0
    utilisation: float = 0.7
    stable_s: float = 60.0
    panic_s: float = 6.0
    panic_threshold: float = 2.0
    up_rate: float = 1000.0
    down_rate: float = 2.0
    every_s: float = 2.0

    @property
    def follows(self) -> Follows:
        """It scales the deployment itself."""
        return Direct(self.every_s, phase_s=self.every_s)

    def start(self, stage: Stage) -> Autoscaler:
        """No request has been seen, and there is no panic."""
        return Autoscaler(self, stage)


class Autoscaler:
    """What it remembers. Mutable, one owner."""

    def __init__(self, law: Kpa, stage: Stage) -> None:
        """It begins calm: its panic after a restart would only be forgotten here."""
        self._law = law
        self._fleet = stage.fleet
        self._seen: deque[tuple[float, int]] = deque()
        self._panicked_at: float | None = None
        self._most = 0.0
        stage.agenda.every(1.0, 1.0, self._scrape)

    def value(self, now: float) -> float | None:
        """The count of replicas."""
        law, ready = self._law, max(1, self._fleet.ready(now))
        stable, panic = (
            self._bounded(self._mean(now, window_s) / (law.target * law.utilisation), ready)
            for window_s in (law.stable_s, law.panic_s)
        )
        if panic / ready >= law.panic_threshold:
            self._panicked_at = now
        elif self._panicked_at is not None and now - self._panicked_at > law.stable_s:
            self._panicked_at, self._most = None, 0.0
        if self._panicked_at is None:
            return stable
        self._most = max(self._most, stable, panic)
        return self._most

    def active(self, now: float) -> bool:  # noqa: ARG002 - nobody asks: it scales itself
        """It has bounds of its own."""
        return True

    def nudge(self, now: float) -> None:
        """It does not listen."""

    def _bounded(self, wanted: float, ready: int) -> float:
        law = self._law
        return min(max(math.ceil(wanted), math.floor(ready / law.down_rate)), math.ceil(law.up_rate * ready))

    def _scrape(self, now: float) -> None:
        self._seen.append((now, sum(self._fleet.in_engines(now))))
        while self._seen[0][0] <= now - self._law.stable_s:
            self._seen.popleft()

    def _mean(self, now: float, window_s: float) -> float:
        within = [count for at, count in self._seen if at > now - window_s]
        return sum(within) / len(within) if within else 0.0
