"""Which workloads exist, and a running loop for each. Starting, editing and forgetting are idempotent and never wait."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from scaler.control.loop import ControlLoop, Parts
from scaler.errors import ConfigError, ScalerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scaler.control.board import Board
    from scaler.core.model import WorkloadKey
    from scaler.core.step import WorkloadSpec

ALTERNATION_S = 60.0
REMEMBERED_SPECS = 16
MOST_INTRODUCED = 5000
"""Each workload costs a loop and its memory, and whoever reaches KEDA's port can introduce some."""
MOST_IN_NAMESPACE = 1000
"""A share of that: whoever may write ScaledObjects in one namespace must not take it all."""
FORGET_AFTER_S = 6 * 3600.0
"""A workload that KEDA introduced and that nobody has asked for since is gone; KEDA asks at least once a polling interval."""
FORGET_RELEASED_AFTER_S = 600.0
"""Likewise one that the operator has just taken out of the configuration: either KEDA speaks for it now, or nobody does."""


@dataclass(slots=True)
class _Running:
    loop: ControlLoop
    task: asyncio.Task[None]
    asked_at: float
    pinned: bool
    asked: dict[WorkloadSpec, float] = field(default_factory=dict)
    contested_until: float = 0.0


class TooManyWorkloads(ScalerError):
    """No other workload is begun before one of those that run is forgotten."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many workloads may run: ``introduced`` by calls in all, and ``in_namespace`` that the operator did not name himself."""

    introduced: int = MOST_INTRODUCED
    in_namespace: int = MOST_IN_NAMESPACE


class Supervisor:
    """Owns the loops' tasks. Call it from the event loop's thread only."""

    def __init__(self, parts: Parts, limits: Callable[[], Limits] = Limits) -> None:
        """A supervisor without workloads. ``limits`` are those of the moment; what runs above them runs on."""
        self._parts, self._limits = parts, limits
        self._pinned: set[WorkloadKey] = set()
        self._running: dict[WorkloadKey, _Running] = {}
        self._in_namespace: Counter[str] = Counter()

    def __contains__(self, key: WorkloadKey) -> bool:
        """Whether a loop runs for that workload."""
        return key in self._running

    @property
    def board(self) -> Board:
        """The board that all loops publish on."""
        return self._parts.board

    def specs(self) -> Iterator[WorkloadSpec]:
        """The spec of every workload, in the order of their keys."""
        for key in sorted(self._running):
            yield self._running[key].loop.spec

    def spec(self, key: WorkloadKey) -> WorkloadSpec | None:
        """The spec that the workload's loop uses now."""
        running = self._running.get(key)
        return None if running is None else running.loop.spec

    def full(self, namespace: str) -> str:
        """Why no other workload of the namespace is begun, empty while there is room. Those that the operator names do not ask."""
        most = self._limits().in_namespace
        if self._in_namespace[namespace] < most:
            return ""
        return (
            f"namespace {namespace} has {most} workloads, which is its limit; take some away, or let the operator of this scaler raise "
            "access.per_namespace.workloads"
        )

    def ensure(self, spec: WorkloadSpec, *, pinned: bool = False) -> None:
        """Make a loop run with this spec. A ``pinned`` one comes from the operator: others cannot edit it and it is never forgotten.

        Raises ConfigError when two specs take turns: the ScaledObject then has several triggers that name us. Raises
        TooManyWorkloads.
        """
        now = self._parts.clock()
        running = self._running.get(spec.key)
        if pinned:
            self._pinned.add(spec.key)
        elif running is None:
            self._refuse_beyond_the_limits(spec.key.namespace)
        if running is None:
            self._start(spec, now, pinned=pinned)
            return
        running.asked_at = now
        if pinned:
            running.pinned, running.loop.spec = True, spec
        elif not running.pinned:
            self._edit(running, spec, now)

    def warn(self, key: WorkloadKey, sentence: str) -> None:
        """Let the workload's decisions say this about its spec, until there is another one."""
        running = self._running.get(key)
        if running is not None:
            running.loop.spec = replace(running.loop.spec, warnings=(sentence,))

    def release(self, key: WorkloadKey) -> None:
        """The operator no longer names the workload: it runs on as one that KEDA introduced."""
        running = self._running.get(key)
        self._pinned.discard(key)
        if running is not None:
            running.pinned, running.asked_at = False, self._parts.clock() - FORGET_AFTER_S + FORGET_RELEASED_AFTER_S

    def reconfigured(self) -> None:
        """What the names in specs stand for has changed: specs that now differ are edits, and none of them takes turns."""
        for running in self._running.values():
            running.asked, running.contested_until = {}, 0.0

    def touch(self, key: WorkloadKey) -> None:
        """Somebody asked for the workload: it is not forgotten for a while."""
        running = self._running.get(key)
        if running is not None:
            running.asked_at = self._parts.clock()

    def polled(self, key: WorkloadKey) -> None:
        """Somebody read the workload's admit fraction, perhaps to apply it."""
        running = self._running.get(key)
        if running is not None:
            running.loop.polled()

    def nudge(self, key: WorkloadKey) -> None:
        """Ask the workload's loop for an early tick."""
        running = self._running.get(key)
        if running is not None:
            running.loop.nudge()

    def adopt(self, key: WorkloadKey) -> None:
        """Another process spoke for the workload until now: what it stored last is not lowered by the change."""
        running = self._running.get(key)
        if running is not None:
            running.loop.adopt()

    def forget(self, key: WorkloadKey) -> None:
        """Stop the workload's loop and drop what is kept for it."""
        running = self._running.pop(key, None)
        self._pinned.discard(key)
        if running is None:
            return
        self._in_namespace -= Counter({key.namespace: 1})  # drops what has none left
        running.task.cancel()
        self._parts.board.drop(key)
        self._parts.store.forget(key)
        self._parts.telemetry.forgotten(key)

    def forget_unasked(self) -> None:
        """Forget the workloads that KEDA introduced and that nobody has asked for in a long while."""
        oldest = self._parts.clock() - FORGET_AFTER_S
        for key in [k for k, running in self._running.items() if not running.pinned and running.asked_at < oldest]:
            self.forget(key)

    async def stop(self) -> None:
        """Cancel every loop and wait until they have ended."""
        tasks = [running.task for running in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _refuse_beyond_the_limits(self, namespace: str) -> None:
        most = self._limits().introduced
        if len(self._running) - len(self._pinned) >= most:
            raise TooManyWorkloads(
                f"this scaler runs {most} workloads that calls introduced, which is its limit; name more of them in "
                "its configuration, where they do not count, or run another scaler"
            )
        if full := self.full(namespace):
            raise TooManyWorkloads(full)

    def _start(self, spec: WorkloadSpec, now: float, *, pinned: bool) -> None:
        loop = ControlLoop(spec, self._parts)
        task = asyncio.get_running_loop().create_task(loop.run(), name=f"loop {spec.key}")
        self._running[spec.key] = _Running(loop, task, now, pinned, {spec: now})
        self._in_namespace[spec.key.namespace] += 1

    def _edit(self, running: _Running, spec: WorkloadSpec, now: float) -> None:
        """Take an edit; refuse all of the specs that take turns, until only one has been asked for during a whole minute.

        Specs take turns when one comes back that was asked for less than a minute ago, with another in between.
        """
        newest = next(reversed(running.asked), None)
        recent = {one: at for one, at in list(running.asked.items())[-REMEMBERED_SPECS:] if now - at < ALTERNATION_S}
        if spec != newest and (spec in recent or now < running.contested_until):
            running.contested_until = now + ALTERNATION_S
        recent.pop(spec, None)  # so that it stands last
        running.asked = recent | {spec: now}
        if now < running.contested_until:
            message = (
                "scalerMetadata takes turns between several versions: this ScaledObject has several triggers that name this scaler; "
                "keep one, its request classes cover what the others were for. An edit that was taken back is accepted after a minute"
            )
            raise ConfigError(message)
        running.loop.spec = spec
