"""In-memory ports for loops: they do what they are told and remember what they were asked."""

from __future__ import annotations

import asyncio
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
    silent: list[Missing] = field(default_factory=list)

    def ticked(self, outcome: Decision | Pending, took_s: float) -> None:
        self.ticks.append(outcome)

    def looked(self, key: WorkloadKey, missing) -> None:
        self.silent.extend(missing)

    def crashed(self, key: WorkloadKey, error: Exception) -> None:
        self.crashes.append((key, error))

    def forgotten(self, key: WorkloadKey) -> None:
        self.gone.append(key)


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


def parts(script=steady, names: tuple[str, ...] | None = ("llama-0",)) -> ScriptedParts:
    """Parts on the running loop's clock."""
    clock = asyncio.get_running_loop().time
    return ScriptedParts(
        ScriptedSource(clock, script), FixedReplicas(clock, names), Board(), RecordingTelemetry(), clock
    )


async def passing(seconds: float) -> None:
    """Let virtual time pass (looptime only: with sockets this would be a sleep)."""
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, done.set_result, None)
    await done
