"""One workload's loop: look, decide, publish, on a fixed beat."""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scaler.control.ports import Ask, Scrape
from scaler.core.decision import Decision, Reason
from scaler.core.model import GateMode, Missing, Observation
from scaler.core.step import State, resume, step
from scaler.engines import ENGINES
from scaler.errors import SourceError

if TYPE_CHECKING:
    from scaler.control.board import Board
    from scaler.control.ports import Clock, Inputs, Replicas, Telemetry
    from scaler.core.step import WorkloadSpec

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
NUDGE_EVERY_S = 1.0
POLLS, POLLED_S = 3, 15.0
"""A gateway polls every two seconds or so; a person who looks once or twice applies nothing."""
LATEST_START_S = 1.0
"""The first look does not wait for the beat: KEDA gets no number before it."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What every loop of a process shares."""

    inputs: Inputs
    replicas: Replicas
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
        self._polls: deque[float] = deque(maxlen=POLLS)
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

    def polled(self) -> None:
        """Somebody read the workload's admit fraction."""
        self._polls.append(self._parts.clock())

    def _applied_ratio(self) -> float | None:
        """The share that gateways admit by the fraction they poll, None while none polls: one look by a person is no gateway."""
        outcome = self._parts.board.latest(self.spec.key)
        steady = len(self._polls) == POLLS and self._parts.clock() - self._polls[0] <= POLLED_S
        if not steady or not isinstance(outcome, Decision):
            return None
        ratios = [v.admit_ratio if v.gate is GateMode.ENFORCE else 1.0 for v in outcome.classes]
        return sum(ratios) / len(ratios)

    async def _look(self) -> Observation:
        spec, parts = self.spec, self._parts
        snapshot, demand = parts.replicas.snapshot(spec.key), parts.inputs.demand(spec)
        refused = None if demand is None else demand.refused_total(spec.key)
        queued = None if demand is None else demand.queued(spec.key)
        if snapshot is None:
            unlisted = parts.replicas.why(spec.key)
            return Observation(parts.clock(), None, refused_total=refused, queued=queued, unlisted=unlisted)
        applied = self._applied_ratio() if refused is None else None
        scrape = await self._read(Ask(spec.key, ENGINES[spec.engine], snapshot.targets, spec.model_name))
        parts.telemetry.looked(spec.key, scrape.missing)
        return Observation(parts.clock(), snapshot.replicas, scrape.readings, scrape.missing, refused, queued, applied)

    async def _read(self, ask: Ask) -> Scrape:
        """A source that fails as a whole leaves every replica without a reading; the law then holds."""
        try:
            return await self._parts.inputs.source(self.spec).read(ask)
        except SourceError as error:
            return Scrape((), tuple(Missing(target.replica, str(error)) for target in ask.targets))

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
