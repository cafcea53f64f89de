"""One workload's loop: look, decide, publish, on a fixed beat."""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scaler.core.decision import Decision, Reason
from scaler.core.model import Observation
from scaler.core.step import State, resume, step
from scaler.engines import ENGINES

if TYPE_CHECKING:
    from scaler.control.board import Board
    from scaler.control.ports import Clock, Demand, MetricSource, Replicas, Telemetry
    from scaler.core.step import WorkloadSpec

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
NUDGE_EVERY_S = 1.0
LATEST_START_S = 1.0
"""The first look does not wait for the beat: KEDA gets no number before it."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What every loop of a process shares."""

    source: MetricSource
    replicas: Replicas
    demand: Demand
    board: Board
    telemetry: Telemetry
    clock: Clock


class ControlLoop:
    """Owns one workload's ``State``. ``spec`` may be replaced while it runs; the next tick uses it."""

    def __init__(self, spec: WorkloadSpec, parts: Parts) -> None:
        """A loop that has not ticked yet."""
        self.spec = spec
        self._parts = parts
        self._state = State()
        self._nudged = asyncio.Event()
        self._ticked_at: float | None = None

    async def tick(self) -> None:
        """Look once, decide once, publish once."""
        parts, started = self._parts, self._parts.clock()
        self._ticked_at = started
        seen = await self._look()
        self._state, outcome = step(self.spec, self._state, seen)
        if isinstance(outcome, Decision) or not isinstance(parts.board.latest(self.spec.key), Decision):
            parts.board.publish(outcome)  # after a crash there is no decision for a while, and the last one still holds
        parts.telemetry.ticked(outcome, parts.clock() - started)

    async def run(self) -> None:
        """Tick for ever. A tick that raises makes the workload blind and is tried again after a pause that doubles."""
        pause, share = FIRST_PAUSE_S, self._phase_ratio()
        due = self._parts.clock() + share * self.spec.tick_s
        await asyncio.sleep(share * min(self.spec.tick_s, LATEST_START_S))
        while True:
            try:
                await self.tick()
                pause = FIRST_PAUSE_S
                due = max(due + self.spec.tick_s, self._parts.clock())
                await self._rest(due)
            except Exception as error:  # noqa: BLE001 - one workload's bug must not reach the others
                self._crash(error)
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE_S, 2 * pause)
                due = self._parts.clock()

    def nudge(self) -> None:
        """Tick soon, at most once a second."""
        self._nudged.set()

    async def _look(self) -> Observation:
        key = self.spec.key
        snapshot = self._parts.replicas.snapshot(key)
        refused = self._parts.demand.refused_total(key)
        if snapshot is None:
            return Observation(self._parts.clock(), None, refused_total=refused)
        scrape = await self._parts.source.read(ENGINES[self.spec.engine], snapshot.targets)
        self._parts.telemetry.looked(key, scrape.missing)
        now = self._parts.clock()
        return Observation(now, snapshot.replicas, scrape.readings, scrape.missing, refused)

    async def _rest(self, due: float) -> None:
        """Wait for the beat, or for a nudge once a second has passed since the last tick."""
        clock = self._parts.clock
        earliest = (self._ticked_at or 0.0) + NUDGE_EVERY_S
        await asyncio.sleep(max(0.0, min(earliest, due) - clock()))
        try:
            async with asyncio.timeout(max(0.0, due - clock())):
                await self._nudged.wait()
        except TimeoutError:
            pass
        self._nudged.clear()

    def _phase_ratio(self) -> float:
        """A share of the beat that differs between workloads, so that a thousand of them do not scrape in one instant."""
        return (zlib.crc32(str(self.spec.key).encode()) % 1000) / 1000

    def _crash(self, error: Exception) -> None:
        """Keep the published number, drop the memory that may have caused it."""
        parts = self._parts
        outcome = parts.board.latest(self.spec.key)
        self._state = State()
        if isinstance(outcome, Decision):
            parts.board.publish(replace(outcome, blind=True, reason=Reason.BLIND_HOLD))
            self._state = resume(outcome.desired, parts.clock())
        parts.telemetry.crashed(self.spec.key, error)
