"""Which workloads there are and which replicas each has: the ScaledObjects that name us, followed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Protocol

from scaler.cluster.api import Api, Json
from scaler.cluster.following import Cluster
from scaler.cluster.namespaces import Namespace
from scaler.cluster.nodes import Nodes
from scaler.cluster.reflector import Pace, Reflector
from scaler.cluster.scale import ScalePaths
from scaler.cluster.scaled_objects import NamedWorkload, Service, named_workload
from scaler.control.ports import Clock, Snapshot
from scaler.core.model import WorkloadKey

GROUP = "/apis/keda.sh/v1alpha1"
LANES = 8
"""Reads of scales and nodes under way at once: a start with a thousand workloads must not be felt by the API server."""


@dataclass(frozen=True, slots=True)
class DiscoverySettings:
    """Where to look. No ``namespaces``: in all of them. ``services`` are the Services that lead to this scaler."""

    services: frozenset[Service]
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Means:
    """What looking takes. ``clock`` is monotonic; ``wall`` is read once, to understand the cluster's stamps."""

    api: Api
    clock: Clock
    wall: Clock
    pace: Pace
    rng: Random


class Workloads(Protocol):
    """Is told which workloads there are. Must not block and must not raise."""

    def named(self, workload: NamedWorkload) -> None:
        """A ScaledObject names us, or says something else than before. Not called for changes of its status."""
        ...

    def gone(self, key: WorkloadKey) -> None:
        """It was deleted, or names us no longer."""
        ...


class Discovery:
    """The ``Replicas`` port over Kubernetes. ``run`` must be running; ``snapshot`` and ``why`` answer from memory."""

    def __init__(self, means: Means, settings: DiscoverySettings, workloads: Workloads) -> None:
        """Nothing is known yet."""
        lanes = asyncio.Semaphore(LANES)
        self._cluster = Cluster(
            api=means.api,
            clock=means.clock,
            offset_s=means.wall() - means.clock(),
            pace=means.pace,
            rng=means.rng,
            lanes=lanes,
            paths=ScalePaths(means.api),
            nodes=Nodes(means.api, lanes, means.clock),
        )
        self._settings, self._workloads = settings, workloads
        self._changed = asyncio.Event()
        self._named: Mapping[WorkloadKey, NamedWorkload] = {}
        self._namespaces: dict[str, tuple[Namespace, asyncio.Task[None]]] = {}
        self._watched = {namespace: self._scaled_objects(namespace) for namespace in settings.namespaces or ("",)}

    def snapshot(self, key: WorkloadKey) -> Snapshot | None:
        """The replicas of a workload, None when they are not known or no ScaledObject of that name names us."""
        return self._namespaces[key.namespace][0].snapshot(key) if key in self._named else None

    def why(self, key: WorkloadKey) -> str:
        """Why there is no snapshot, in one phrase that says what to do; empty when there is one."""
        if key in self._named:
            return self._namespaces[key.namespace][0].why(key)
        watched = self._watched.get(key.namespace) or self._watched.get("")
        if watched is None:
            return f"namespace {key.namespace} is not among those that this scaler watches"
        if not watched.listed:
            return watched.why or "the ScaledObjects have not been listed yet"
        if why := watched.faults.get(str(key)):
            return f"ScaledObject {key} cannot be read: {why}"
        names = " or ".join(sorted(f"{service.name}.{service.namespace}" for service in self._settings.services))
        return f"no ScaledObject {key} has a trigger whose scalerAddress is this scaler's ({names}, and the port), or is a shadow"

    @property
    def listed(self) -> bool:
        """Whether all ScaledObjects are known, and ``workloads`` was told of them."""
        return not self._changed.is_set() and all(watched.listed for watched in self._watched.values())

    async def run(self) -> None:
        """Look for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cluster.nodes.run(), name="nodes")
            for namespace, reflector in self._watched.items():
                group.create_task(reflector.run(), name=f"ScaledObjects of {namespace or 'all namespaces'}")
            while True:
                await self._changed.wait()
                self._changed.clear()
                self._settle(group)

    def _scaled_objects(self, namespace: str) -> Reflector[NamedWorkload]:
        path = f"{GROUP}/namespaces/{namespace}/scaledobjects" if namespace else f"{GROUP}/scaledobjects"

        def keep(item: Json) -> NamedWorkload | None:
            return named_workload(item, self._settings.services)

        return Reflector(self._cluster.api, path, keep, self._cluster.pace, changed=self._changed.set)

    def _settle(self, group: asyncio.TaskGroup) -> None:
        """Follow what is named now, and tell of what differs."""
        before, now = (
            self._named,
            {one.key: one for watched in self._watched.values() for one in watched.items.values()},
        )
        self._named = now
        for key, named in now.items():
            if before.get(key) != named:
                self._namespace(key.namespace, group).put(named)
                self._workloads.named(named)
        for key in before.keys() - now.keys():
            self._leave(key)

    def _namespace(self, name: str, group: asyncio.TaskGroup) -> Namespace:
        if name not in self._namespaces:
            namespace = Namespace(name, self._cluster)
            self._namespaces[name] = namespace, group.create_task(namespace.run(), name=f"namespace {name}")
        return self._namespaces[name][0]

    def _leave(self, key: WorkloadKey) -> None:
        namespace, task = self._namespaces[key.namespace]
        namespace.drop(key)
        if namespace.idle:
            task.cancel()
            del self._namespaces[key.namespace]
        self._workloads.gone(key)
