"""In-memory ports for loops: they do what they are told and remember what they were asked."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scaler.control.board import Board
from scaler.control.loop import Parts
from scaler.control.ports import Scrape, Snapshot, Target
from scaler.core.decision import Decision, Pending
from scaler.core.model import Missing, ReplicaSet, WorkloadKey
from tests.support.builders import reading


@dataclass
class ScriptedSource:
    """Answers each pass with what ``script`` makes of the time; the script may raise."""

    clock: Callable[[], float]
    script: Callable[[float, Sequence[Target]], Scrape]
    asked_at: list[float] = field(default_factory=list)

    async def read(self, ask) -> Scrape:
        self.asked_at.append(self.clock())
        return self.script(self.clock(), ask.targets)

    def source(self, spec) -> ScriptedSource:
        return self

    def demand(self, spec) -> None:
        return None


@dataclass
class FixedReplicas:
    """The same replicas for every workload, or None: not known."""

    clock: Callable[[], float]
    names: tuple[str, ...] | None = ("llama-0",)

    def why(self, key: WorkloadKey) -> str:
        return ""

    def snapshot(self, key: WorkloadKey) -> Snapshot | None:
        if self.names is None:
            return None
        targets = tuple(Target(name, f"http://{name}:8000/metrics") for name in self.names)
        return Snapshot(ReplicaSet(self.names, (), len(self.names), self.clock()), targets)


@dataclass
class RecordingTelemetry:
    ticks: list[Decision | Pending] = field(default_factory=list)
    crashes: list[tuple[WorkloadKey, Exception]] = field(default_factory=list)
    gone: list[WorkloadKey] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    silent: list[Missing] = field(default_factory=list)

    def ticked(self, outcome: Decision | Pending, took_s: float) -> None:
        self.ticks.append(outcome)

    def looked(self, key: WorkloadKey, missing) -> None:
        self.silent.extend(missing)

    def crashed(self, key: WorkloadKey, error: Exception) -> None:
        self.crashes.append((key, error))

    def recalled(self, key: WorkloadKey, note: str) -> None:
        self.notes.append(note)

    def forgotten(self, key: WorkloadKey) -> None:
        self.gone.append(key)


@dataclass
class SeldomStore:
    """Keeps texts in memory as a ConfigMap would: on a change, and else not more often than every ``every_s`` seconds."""

    clock: Callable[[], float]
    every_s: float = 30.0
    texts: dict[WorkloadKey, str] = field(default_factory=dict)
    put_at: dict[WorkloadKey, float] = field(default_factory=dict)
    changes: list[bool] = field(default_factory=list)

    def recall(self, key: WorkloadKey) -> str | None:
        return self.texts.get(key)

    def due(self, key: WorkloadKey, *, changed: bool) -> bool:
        self.changes.append(changed)
        return changed or self.clock() - self.put_at.get(key, -math.inf) >= self.every_s

    def put(self, key: WorkloadKey, text: str) -> None:
        self.texts[key], self.put_at[key] = text, self.clock()

    def forget(self, key: WorkloadKey) -> None:
        self.texts.pop(key, None)


def steady(now: float, targets: Sequence[Target]) -> Scrape:
    """Every replica reports ten running requests."""
    return Scrape(tuple(reading(target.replica, at=now) for target in targets), ())


def silent(_: float, targets: Sequence[Target]) -> Scrape:
    """No replica answers."""
    return Scrape((), tuple(Missing(target.replica, "timeout") for target in targets))


@dataclass(frozen=True)
class ScriptedParts(Parts):
    """Parts whose source and telemetry can be asked what they saw."""

    inputs: ScriptedSource
    telemetry: RecordingTelemetry


def parts(script=steady, names: tuple[str, ...] | None = ("llama-0",), **rest) -> ScriptedParts:
    """Parts on the running loop's clock."""
    clock = asyncio.get_running_loop().time
    source, replicas = ScriptedSource(clock, script), FixedReplicas(clock, names)
    return ScriptedParts(source, replicas, Board(), RecordingTelemetry(), clock, **rest)


async def passing(seconds: float) -> None:
    """Let virtual time pass (looptime only: with sockets this would be a sleep)."""
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, done.set_result, None)
    await done
