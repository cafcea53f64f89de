"""From one version of the configuration to the next, without losing a window, a stream or an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scaler.core.decision import Pending
from scaler.sources.targets import ConfiguredReplicas

if TYPE_CHECKING:
    from scaler.api.keda import KedaServicer
    from scaler.app.directory import Directory
    from scaler.app.live import Live
    from scaler.control.supervisor import Supervisor
    from scaler.core.model import WorkloadKey
    from scaler.settings import Configuration, WatchedFile
    from scaler.telemetry import Reporter

LOOK_EVERY_S = 1.0
WAITS = "configured; waits for KEDA to bring the trigger's metadata (or write metadata: beside its targets)"


@dataclass(slots=True)
class Reload:
    """Applies configurations. A workload that changes keeps its windows, its stabilization and its history: only its spec is replaced."""

    live: Live
    supervisor: Supervisor
    servicer: KedaServicer
    reporter: Reporter
    directory: Directory
    _pinned: frozenset[WorkloadKey] = field(default=frozenset(), init=False)

    async def apply(self, configuration: Configuration) -> None:
        """Take a good configuration."""
        before = self.live.configuration
        await self.live.follow(configuration)
        if isinstance(self.live.listed, ConfiguredReplicas):
            self.live.listed.rename(configuration.targets)
        self.servicer.forget_parsed()
        self.supervisor.reconfigured()
        pinned = {spec.key: spec for spec in configuration.workloads}
        for spec in pinned.values():
            self.supervisor.ensure(spec, pinned=True)
        for key in self._pinned - pinned.keys():
            self.supervisor.release(key)
        self._pinned = frozenset(pinned)
        self._announce(configuration)
        self.directory.follow_all(self._pinned)
        self.reporter.configured((), tuple(_later(before, configuration)))

    def _announce(self, configuration: Configuration) -> None:
        """Show the workloads that are named and wait for KEDA, so that nobody looks in vain for what went wrong."""
        board = self.supervisor.board
        for waiting in [outcome.key for outcome in board.pending() if outcome.key not in self.supervisor]:
            board.drop(waiting)
        for key in configuration.targets:
            if key not in self.supervisor:
                board.publish(Pending(key, WAITS))

    async def watch(self, file: WatchedFile) -> None:
        """Look for ever; tell of each version once, taken or refused."""
        told: tuple[str, ...] = ()
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            fresh = await asyncio.to_thread(file.changed)
            if fresh is not None:
                await self.apply(fresh)
            if file.faults and (fresh is not None or file.faults != told):
                self.reporter.configured(file.faults)
            told = file.faults


def _later(before: Configuration, now: Configuration) -> Iterator[str]:
    """What has changed and is not followed."""
    if now.tls != before.tls:
        yield "server.tls: takes effect at the next start"
    if now.namespaces != before.namespaces:
        yield "cluster.namespaces: takes effect at the next start"
