"""What a loop needs from outside. Real parts, the demo's parts and the tests' fakes implement the same protocols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from scaler.core.counted import Counted
    from scaler.core.decision import Decision, Pending
    from scaler.core.memory import Recalled
    from scaler.core.model import Missing, Reading, ReplicaSet, WorkloadKey
    from scaler.core.step import State, WorkloadSpec
    from scaler.engines.row import Engine

Clock = Callable[[], float]
"""Monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where one replica answers: its name, and host:port. ``scheme`` is http or https where the platform says it, else empty.

    ``discovered``: the address is the platform's word and not the operator's, so it is looked at before it is dialled.
    """

    replica: str
    address: str
    scheme: str = ""
    discovered: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """What one tick wants to read: whose replicas, of which engine, where. ``model_name`` tells workloads of one namespace apart."""

    key: WorkloadKey
    engine: Engine
    targets: tuple[Target, ...]
    model_name: str | None = None


@dataclass(frozen=True, slots=True)
class Scrape:
    """What one pass over the targets brought: a reading or a reason for each."""

    readings: tuple[Reading, ...]
    missing: tuple[Missing, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Which replicas a workload has now, and where the ready ones are read."""

    replicas: ReplicaSet
    targets: tuple[Target, ...]


class MetricSource(Protocol):
    """Reads engines. Never raises for a target that fails: that is a reason in ``missing``."""

    async def read(self, ask: Ask) -> Scrape:
        """One pass over all targets, bounded in time."""
        ...


class Replicas(Protocol):
    """Knows which replicas exist; kept up to date by others (a watch, a resolver, a demo)."""

    def why(self, key: WorkloadKey) -> str:
        """Why there is no snapshot, in one short phrase that says what to do; empty when there is one."""
        ...

    def snapshot(self, key: WorkloadKey) -> Snapshot | None:
        """The replicas now, None when they are not known.

        ``observed_at`` is when this was last known to be true: now, while a watch is live, though nothing changed in hours.
        """
        ...


class Demand(Protocol):
    """Knows what was refused, or is held, before it reaches an engine."""

    def refused_total(self, key: WorkloadKey) -> float | None:
        """First attempts refused so far, cumulative; None when nobody counts."""
        ...

    def queued(self, key: WorkloadKey) -> float | None:
        """Requests held upstream of the engines now; None when nobody counts."""
        ...


class StateStore(Protocol):
    """Keeps one short text a workload across restarts. Answers from memory; what it writes, it writes later."""

    def recall(self, key: WorkloadKey) -> str | None:
        """What was stored for a workload, None when nothing was or nothing is known yet."""
        ...

    def due(self, key: WorkloadKey, *, changed: bool) -> bool:
        """Whether the workload should be put now. ``changed``: its desired count or its state differ from the last tick's."""
        ...

    def put(self, key: WorkloadKey, text: str) -> None:
        """Store this text soon. Never waits and never raises."""
        ...

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone: what is stored for it may go."""
        ...


class Memory(Protocol):
    """Makes the text that a store keeps of a state, and a state of such a text. ``core.memory`` does, in 700 bytes."""

    def remember(self, state: State, now: float, wall: float) -> str:
        """What is to be stored of a state that has decided."""
        ...

    def recall(self, text: str, spec: WorkloadSpec, now: float, wall: float) -> Recalled:
        """The state to begin with. Never raises, whatever was stored."""
        ...


class Gate(Protocol):
    """Our own gate in the path, where gateways ask for a verdict a request."""

    def drain(self, key: WorkloadKey) -> Counted:
        """What was counted for a workload since the last call, and how many requests wait now for its first replica."""
        ...


class Inputs(Protocol):
    """Finds what a spec names: where its engines are read, and who counts what was refused."""

    def source(self, spec: WorkloadSpec) -> MetricSource:
        """The source that ``spec.source`` names. Raises SourceError when it is not configured any more."""
        ...

    def demand(self, spec: WorkloadSpec) -> Demand | None:
        """The counter that ``spec.demand`` names, None when nobody counts."""
        ...


class Telemetry(Protocol):
    """Is told what happened. Must not block and must not raise."""

    def ticked(self, outcome: Decision | Pending, took_s: float) -> None:
        """One tick ended with a decision or with none yet."""
        ...

    def looked(self, key: WorkloadKey, missing: Sequence[Missing]) -> None:
        """One pass over the engines ended; these replicas gave no reading in it."""
        ...

    def crashed(self, key: WorkloadKey, error: Exception) -> None:
        """A tick raised something unexpected; the loop restarts after a pause."""
        ...

    def recalled(self, key: WorkloadKey, note: str) -> None:
        """What was stored for the workload could not be used, or not all of it; why, in one phrase."""
        ...

    def forgotten(self, key: WorkloadKey) -> None:
        """The workload is gone; drop what is kept for it."""
        ...
