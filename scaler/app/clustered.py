"""The parts that exist in a cluster only, put together: discovery, the store in ConfigMaps, and the election of the pod that KEDA asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from random import SystemRandom
from typing import Any, Protocol

from scaler.app.opened import vital
from scaler.cluster.api import Api
from scaler.cluster.client import Client
from scaler.cluster.config_maps import ConfigMapStore
from scaler.cluster.discovery import Discovery, DiscoverySettings, Means, Workloads
from scaler.cluster.events import Events, Speaker
from scaler.cluster.leadership import ActiveLabel, Duties, Leadership
from scaler.cluster.lease import Elector, Member, Timings
from scaler.cluster.reflector import Pace
from scaler.cluster.scaled_objects import Service
from scaler.cluster.shards import ConfigMaps
from scaler.control.board import Board
from scaler.control.ports import Clock
from scaler.control.supervisor import Supervisor
from scaler.core.decision import Decision
from scaler.core.model import WorkloadKey
from scaler.settings import Kubernetes

FIRST_NUMBERS_S, LOOK_EVERY_S = 5.0, 0.05


class Heard(Protocol):
    """Is told how the cluster fares. Must not block and must not raise."""

    def led(self, leads: bool, why: str) -> None:  # noqa: FBT001 - a sentence's subject, not a switch
        """Whether this pod is the one that KEDA asks, and what is wrong, each time one of the two changes."""
        ...

    def unstored(self, sentence: str) -> None:
        """State could not be stored, or read."""
        ...

    def unannounced(self, sentence: str) -> None:
        """Kubernetes Events cannot be written; said once for as long as that goes on."""
        ...


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that is talked to through ``api``, and which pod of it this process is."""

    api: Api
    member: Member
    services: frozenset[Service]
    timings: Timings = Timings()


@asynccontextmanager
async def reached(kubernetes: Kubernetes) -> AsyncIterator[Cluster]:
    """The cluster that the settings name. Raises ConfigError for credentials that are none; the API server need not answer yet."""
    rng = SystemRandom()
    path = kubernetes.kubeconfig
    client = Client.in_cluster(rng) if path is None else Client.from_kubeconfig(path, rng)
    member = Member(kubernetes.namespace, kubernetes.pod, kubernetes.uid)
    try:
        yield Cluster(client, member, frozenset({Service(kubernetes.service, kubernetes.namespace)}))
    finally:
        await client.aclose()


@dataclass(frozen=True, slots=True)
class Clustered:
    """What a cluster gives the process: ``store`` for its state, and what looks and leads while the contexts are open."""

    cluster: Cluster
    clock: Clock
    heard: Heard
    store: ConfigMapStore
    election: Elector

    @classmethod
    def of(cls, cluster: Cluster, clock: Clock, heard: Heard) -> Clustered:
        """Nothing is asked yet."""
        elector = Elector(cluster.api, cluster.member, clock, time.time, cluster.timings)
        maps = ConfigMaps(cluster.api, cluster.member.namespace)
        return cls(cluster, clock, heard, ConfigMapStore(maps, elector.term, clock, heard.unstored), elector)

    @asynccontextmanager
    async def looking(self, namespaces: tuple[str, ...], workloads: Workloads) -> AsyncIterator[Discovery]:
        """Discovery, which tells ``workloads`` while the context is open."""
        rng = SystemRandom()
        means = Means(self.cluster.api, self.clock, time.time, Pace(self.clock, rng), rng)
        discovery = Discovery(means, DiscoverySettings(self.cluster.services, namespaces), workloads)
        async with vital(discovery.run()):
            yield discovery

    @asynccontextmanager
    async def announcing(self, board: Board, uid_of: Callable[[WorkloadKey], str | None]) -> AsyncIterator[None]:
        """Kubernetes Events of what happens on the board, while the context is open and this process leads."""
        cluster = self.cluster
        speaker = Speaker(
            api=cluster.api,
            pod=cluster.member.pod,
            clock=self.clock,
            wall=time.time,
            leads=self.election.leads,
            uid_of=uid_of,
            unannounced=self.heard.unannounced,
            rng=SystemRandom(),
        )
        events = Events(board, speaker)
        unfollow = board.follow(events.heard)
        try:
            async with vital(events.run()):
                yield
        finally:
            unfollow()

    @asynccontextmanager
    async def leading(
        self, adopt: Callable[[WorkloadKey], None], send_away: Callable[[], Coroutine[Any, Any, None]]
    ) -> AsyncIterator[None]:
        """Take part in the election, and hand over on the way out.

        ``adopt`` is told of each workload that another pod spoke for last, ``send_away`` runs when another pod has taken over.
        """
        replaced = asyncio.Event()

        async def take_over() -> None:
            for key in await self.store.reload():
                adopt(key)

        def told(leads: bool, why: str) -> None:  # noqa: FBT001 - what Duties calls
            self.heard.led(leads, why)
            if not leads and not why:  # with a fault nobody else leads either, and KEDA may as well stay
                replaced.set()

        label = ActiveLabel(self.cluster.api, self.cluster.member)
        leadership = Leadership(self.election, label, Duties(take_over, told))
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(vital(self.store.run()))
            await stack.enter_async_context(vital(leadership.run()))
            stack.push_async_callback(leadership.stop)
            stack.push_async_callback(self.store.stop)
            # Ends first: a process that stops sends its callers away when the next holder has the label, not before.
            await stack.enter_async_context(vital(self._sending_away(replaced, send_away)))
            yield

    async def _sending_away(self, replaced: asyncio.Event, send_away: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A caller that is sent away before every node knows where to would come back, and stay for ever."""
        while True:
            await replaced.wait()
            replaced.clear()
            await asyncio.sleep(self.cluster.timings.settle_s)
            if not self.election.leads():
                await send_away()


async def decided(discovery: Discovery, supervisor: Supervisor) -> None:
    """Wait until every workload has its number, though not for one that cannot get any: who finds this pod finds what it asks for."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FIRST_NUMBERS_S):
            while not discovery.listed or any(  # noqa: ASYNC110 - for a moment at the start; neither tells when it changes
                not isinstance(supervisor.board.latest(spec.key), Decision) for spec in supervisor.specs()
            ):
                await asyncio.sleep(LOOK_EVERY_S)
