"""Which workloads exist, and a running loop for each. Starting, editing and forgetting are idempotent and never wait."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaler.control.loop import ControlLoop, Parts
from scaler.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scaler.core.model import WorkloadKey
    from scaler.core.step import WorkloadSpec

ALTERNATION_S = 60.0
FORGET_AFTER_S = 6 * 3600.0
"""A workload that KEDA introduced and that nobody has asked for since is gone; KEDA asks at least once a polling interval."""


@dataclass(slots=True)
class _Running:
    loop: ControlLoop
    task: asyncio.Task[None]
    asked_at: float
    pinned: bool
    previous: WorkloadSpec | None = None
    edited_at: float = 0.0
    contested_until: float = 0.0
    last_asked: WorkloadSpec | None = None


class Supervisor:
    """Owns the loops' tasks. Call it from the event loop's thread only."""

    def __init__(self, parts: Parts) -> None:
        """A supervisor without workloads."""
        self._parts = parts
        self._running: dict[WorkloadKey, _Running] = {}

    def __contains__(self, key: WorkloadKey) -> bool:
        """Whether a loop runs for that workload."""
        return key in self._running

    def specs(self) -> Iterator[WorkloadSpec]:
        """The spec of every workload, in the order of their keys."""
        for key in sorted(self._running):
            yield self._running[key].loop.spec

    def spec(self, key: WorkloadKey) -> WorkloadSpec | None:
        """The spec that the workload's loop uses now."""
        running = self._running.get(key)
        return None if running is None else running.loop.spec

    def ensure(self, spec: WorkloadSpec, *, pinned: bool = False) -> None:
        """Make a loop run with this spec. A ``pinned`` one comes from the operator: others cannot edit it and it is never forgotten.

        Raises ConfigError when two specs take turns: the ScaledObject then has two triggers that name us.
        """
        now = self._parts.clock()
        running = self._running.get(spec.key)
        if running is None:
            self._start(spec, now, pinned=pinned)
            return
        running.asked_at = now
        if pinned:
            running.pinned, running.loop.spec = True, spec
        elif not running.pinned:
            self._edit(running, spec, now)

    def release(self, key: WorkloadKey) -> None:
        """The operator no longer names the workload: it runs on as one that KEDA introduced."""
        running = self._running.get(key)
        if running is not None:
            running.pinned, running.asked_at = False, self._parts.clock()

    def reconfigured(self) -> None:
        """What the names in specs stand for has changed: specs that now differ are edits, and none of them takes turns."""
        for running in self._running.values():
            running.previous, running.contested_until = None, 0.0

    def touch(self, key: WorkloadKey) -> None:
        """Somebody asked for the workload: it is not forgotten for a while."""
        running = self._running.get(key)
        if running is not None:
            running.asked_at = self._parts.clock()

    def nudge(self, key: WorkloadKey) -> None:
        """Ask the workload's loop for an early tick."""
        running = self._running.get(key)
        if running is not None:
            running.loop.nudge()

    def forget(self, key: WorkloadKey) -> None:
        """Stop the workload's loop and drop what is kept for it."""
        running = self._running.pop(key, None)
        if running is None:
            return
        running.task.cancel()
        self._parts.board.drop(key)
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

    def _start(self, spec: WorkloadSpec, now: float, *, pinned: bool) -> None:
        loop = ControlLoop(spec, self._parts)
        task = asyncio.get_running_loop().create_task(loop.run(), name=f"loop {spec.key}")
        self._running[spec.key] = _Running(loop, task, now, pinned, last_asked=spec)

    def _edit(self, running: _Running, spec: WorkloadSpec, now: float) -> None:
        """Take an edit; refuse both of two specs that take turns, until only one has been asked for during a whole minute."""
        asked_before, running.last_asked = running.last_asked, spec
        back = spec == running.previous and now - running.edited_at < ALTERNATION_S
        if spec != asked_before and (back or now < running.contested_until):
            running.contested_until = now + ALTERNATION_S
        if now < running.contested_until:
            message = (
                "scalerMetadata takes turns between two versions: this ScaledObject has two triggers that name this scaler; "
                "keep one, its request classes cover what the other was for"
            )
            raise ConfigError(message)
        if spec != running.loop.spec:
            running.previous, running.edited_at, running.loop.spec = running.loop.spec, now, spec
