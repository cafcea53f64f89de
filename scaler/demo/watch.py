"""What is seen of the running demo, a few times a second."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from scaler.control.board import Board
from scaler.control.ports import Clock
from scaler.core.admission import as_of
from scaler.core.decision import Decision
from scaler.core.explain import binding
from scaler.core.explain_state import state_because
from scaler.core.model import Pressure
from scaler.demo.cluster import FleetReplicas
from scaler.demo.gateway import Counts, Gateway
from scaler.demo.scenario import KEY
from scaler.demo.summary import Sample

LOOK_S = 0.25
NOT_YET = f"{Pressure.UNKNOWN}: no decision yet"
RATE_S = 2.0
"""Rates on the screen are means over so long: shorter ones of Poisson arrivals would only flicker."""


@dataclass(frozen=True, slots=True)
class Sights:
    """Where to look."""

    board: Board
    gateway: Gateway
    replicas: FleetReplicas
    clock: Clock


class Watch:
    """Looks and remembers. ``samples`` fills while ``run`` runs."""

    def __init__(self, sights: Sights, started_at: float, show: Callable[[Sample], None]) -> None:
        """``started_at`` is when traffic begins; ``show`` is given each sample."""
        self.samples: list[Sample] = []
        self._sights = sights
        self._started_at = started_at
        self._show = show
        self._counts: deque[tuple[float, Counts]] = deque()

    async def run(self) -> None:
        """Look for ever."""
        while True:
            sample = self.look()
            self.samples.append(sample)
            self._show(sample)
            await asyncio.sleep(LOOK_S)

    def look(self) -> Sample:
        """The demo now."""
        now = self._sights.clock()
        offered, admitted, would_refuse = self._rates(now)
        snapshot = self._sights.replicas.snapshot(KEY)
        outcome = self._sights.board.latest(KEY)
        decision = as_of(outcome, now) if isinstance(outcome, Decision) else None
        return Sample(
            at_s=now - self._started_at,
            offered_per_s=offered,
            admitted_per_s=admitted,
            would_refuse_per_s=would_refuse,
            state=Pressure.UNKNOWN if decision is None else decision.state,
            state_because=NOT_YET if decision is None else state_because(decision, now),
            admit_ratio=1.0 if decision is None else decision.classes[0].admit_ratio,
            queue_wait_s=0.0 if decision is None else decision.estimate.queue_wait.s,
            desired=0 if decision is None else decision.desired,
            asked=0 if snapshot is None else snapshot.replicas.current,
            starting=0 if snapshot is None else len(snapshot.replicas.starting),
            ready=0 if snapshot is None else len(snapshot.replicas.ready),
            reason="no decision yet" if decision is None else binding(decision, now).text,
        )

    def _rates(self, now: float) -> tuple[float, float, float]:
        """What was offered, what was admitted and what would have been refused, a second, all over the same interval."""
        self._counts.append((now, self._sights.gateway.counts))
        while self._counts[0][0] < now - RATE_S:
            self._counts.popleft()
        (at, before), (_, after) = self._counts[0], self._counts[-1]
        elapsed = now - at
        if elapsed <= 0:
            return 0.0, 0.0, 0.0
        return (
            (after.offered - before.offered) / elapsed,
            (after.admitted - before.admitted) / elapsed,
            (after.would_refuse - before.would_refuse) / elapsed,
        )
