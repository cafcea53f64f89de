"""One workload's loop: look, decide, publish, on a fixed beat."""

from __future__ import annotations

import asyncio
import math
import time
import zlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

from scaler.control.ports import Ask, Gate, Memory, Scrape, StateStore
from scaler.core import memory as short_memory
from scaler.core.counted import ClassCounted, Counted
from scaler.core.decision import Decision, Reason
from scaler.core.model import GateMode, Missing, Observation, Pressure, WorkloadKey
from scaler.core.step import State, resume, step
from scaler.engines import ENGINES
from scaler.errors import SourceError

if TYPE_CHECKING:
    from scaler.control.board import Board
    from scaler.control.ports import Clock, Inputs, Replicas, Telemetry
    from scaler.core.memory import Recalled
    from scaler.core.step import WorkloadSpec

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
NUDGE_EVERY_S = 1.0
POLLS, POLLED_S = 3, 15.0
"""A gateway polls every two seconds or so; a person who looks once or twice applies nothing."""
LATEST_START_S = 1.0
"""The first look does not wait for the beat: KEDA gets no number before it."""


class NothingStored:
    """A store that keeps nothing: each start is the first."""

    def recall(self, key: WorkloadKey) -> str | None:
        """Nothing."""

    def due(self, key: WorkloadKey, *, changed: bool) -> bool:  # noqa: ARG002 - the port's
        """Never."""
        return False

    def put(self, key: WorkloadKey, text: str) -> None:
        """Is dropped."""

    def forget(self, key: WorkloadKey) -> None:
        """There is nothing to forget."""


class NobodyAsks:
    """A gate in no path."""

    def drain(self, key: WorkloadKey) -> Counted:  # noqa: ARG002 - the port's
        """Nothing."""
        return Counted()


@dataclass(frozen=True, slots=True)
class Parts:
    """What every loop of a process shares. ``wall`` is the time of day in seconds, for what is stored."""

    inputs: Inputs
    replicas: Replicas
    board: Board
    telemetry: Telemetry
    clock: Clock
    store: StateStore = NothingStored()
    memory: Memory = short_memory
    wall: Clock = time.time
    gate: Gate = NobodyAsks()


class _Upstream(TypedDict):
    refused_total: float | None
    queued: float | None
    asked: tuple[ClassCounted, ...]


def _sum(counts: Iterable[float | None]) -> float | None:
    """The sum of what is known; None where nothing is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


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
        self._recalls = True  # until the first decision: a store may be filled later than the loop starts
        self._note: str | None = None
        self._crashed = False
        self._told: tuple[int, tuple[Pressure, ...]] | None = None
        self._asked, self._refused = False, 0

    async def tick(self) -> None:
        """Look once, decide once, publish once."""
        parts, started = self._parts, self._parts.clock()
        self._ticked_at = started
        seen = await self._look()
        parts.board.costs.add(self.spec.key, seen)
        if self._recalls:
            self._recall(seen.at)
        self._state, outcome = step(self.spec, self._state, seen)
        self._crashed = False
        if isinstance(outcome, Decision) or not isinstance(parts.board.latest(self.spec.key), Decision):
            parts.board.publish(outcome)  # after a crash there is no decision for a while, and the last one still holds
        if isinstance(outcome, Decision):
            self._remember(outcome)
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

    def adopt(self) -> None:
        """This process speaks from now on: what another one told last is not lowered by that. A loop that has not decided recalls it."""
        recalled = self._stored(self._parts.memory, self._parts.clock())
        published = None if recalled is None else recalled.state.stabilizer.published
        if published is not None and not self._recalls:
            self._answer_for(published)
            self.nudge()

    def _answer_for(self, published: int) -> None:
        """For a whole window from now on the number is not below one that was told before."""
        own = self._state.stabilizer
        downs = own.downs.add(self._parts.clock(), float(published), math.inf)
        raised = replace(own, published=max(published, own.published or 0), downs=downs)
        self._state = replace(self._state, stabilizer=raised)

    def _stored(self, memory: Memory, now: float) -> Recalled | None:
        text = self._parts.store.recall(self.spec.key)
        return None if text is None else memory.recall(text, self.spec, now, self._parts.wall())

    def _recall(self, now: float) -> None:
        """Begin with what is stored, once it is there and there are replicas. What was seen before stays."""
        seen = self._state.history
        if self._note is not None and seen.replicas is not None:
            return
        recalled = self._stored(self._parts.memory, now)
        if recalled is None:
            return
        self._state = recalled.state if seen.replicas is None else replace(recalled.state, history=seen)
        if recalled.note and recalled.note != self._note:
            self._parts.telemetry.recalled(self.spec.key, recalled.note)
        self._note = recalled.note

    def _remember(self, decision: Decision) -> None:
        parts, told = self._parts, (decision.desired, tuple(verdict.state for verdict in decision.classes))
        changed, self._told, self._recalls = told != self._told, told, False
        if parts.store.due(self.spec.key, changed=changed):
            parts.store.put(self.spec.key, parts.memory.remember(self._state, decision.decided_at, parts.wall()))

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
        snapshot, upstream = parts.replicas.snapshot(spec.key), self._upstream()
        if snapshot is None:
            unlisted = parts.replicas.why(spec.key)
            return Observation(parts.clock(), None, unlisted=unlisted, **upstream)
        applied = self._applied_ratio() if upstream["refused_total"] is None else None
        scrape = await self._read(Ask(spec.key, ENGINES[spec.engine], snapshot.targets, spec.model_name))
        parts.telemetry.looked(spec.key, scrape.missing)
        seen = Observation(parts.clock(), snapshot.replicas, scrape.readings, scrape.missing, **upstream)
        return replace(seen, applied_ratio=applied)

    def _upstream(self) -> _Upstream:
        """What is refused and what waits before it reaches an engine: as others count it, and at our own gate. None: nobody counts."""
        key, demand = self.spec.key, self._parts.inputs.demand(self.spec)
        counted = self._parts.gate.drain(key)
        self._refused += sum(one.refused_first for one in counted.classes)
        self._asked = self._asked or bool(counted.classes)
        own = (self._refused, counted.wanted) if self._asked else (None, None)
        others = (None, None) if demand is None else (demand.refused_total(key), demand.queued(key))
        refused, queued = (_sum(pair) for pair in zip(own, others, strict=True))
        return _Upstream(refused_total=refused, queued=queued, asked=counted.classes)

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
        """Keep the published number, and what is stored in short; when that does not help, the published number alone."""
        parts, outcome = self._parts, self._parts.board.latest(self.spec.key)
        recalled = None if self._crashed else self._stored(short_memory, parts.clock())
        self._crashed, self._recalls = True, False
        self._state = State() if recalled is None else recalled.state
        if isinstance(outcome, Decision):
            parts.board.publish(replace(outcome, blind=True, reason=Reason.BLIND_HOLD))
            if recalled is None:
                self._state = resume(outcome.desired, parts.clock())
            else:
                self._answer_for(outcome.desired)
        parts.telemetry.crashed(self.spec.key, error)
