"""Replicas that are named in the configuration: by address, or by a DNS name that resolves to the ready ones (a headless Service)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

from scaler.control.ports import Clock, Snapshot, Target
from scaler.core.model import GpuPhase, GpuUse, ReplicaSet, WorkloadKey
from scaler.sources.names import Lookups, Question

RESOLVE_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class NamedTargets:
    """Where one workload's replicas are: ``addresses`` as host:port, or ``dns`` as host:port, or both.

    ``gpus`` are those of one replica, by product; empty where nobody says.
    """

    addresses: tuple[str, ...] = ()
    dns: str | None = None
    gpus: Mapping[str, int] = field(default_factory=dict)


class ConfiguredReplicas:
    """The ``Replicas`` port over configured names. ``run`` keeps the resolved ones fresh; ``snapshot`` answers from memory.

    A name that does not resolve says nothing about replicas: what was known before stands, and its age shows.
    """

    def __init__(self, named: Mapping[WorkloadKey, NamedTargets], clock: Clock, lookups: Lookups | None = None) -> None:
        """Nothing is resolved yet."""
        self._lookups = lookups or Lookups()
        self._named = named
        self._clock = clock
        self._resolved: dict[WorkloadKey, tuple[float, tuple[str, ...]]] = {}

    def snapshot(self, key: WorkloadKey) -> Snapshot | None:
        """The replicas of a workload, None when it is not configured or its name has never been resolved."""
        named = self._named.get(key)
        if named is None:
            return None
        observed_at, found = self._clock(), named.addresses
        if named.dns is not None:
            if key not in self._resolved:
                return None
            observed_at, resolved = self._resolved[key]
            found = tuple(sorted({*found, *resolved}))
        targets = tuple(Target(address, address) for address in found)
        held = {GpuUse(gpu, GpuPhase.SERVING): count * len(found) for gpu, count in named.gpus.items()}
        return Snapshot(ReplicaSet(found, (), len(found), observed_at, gpus=held), targets)

    def why(self, key: WorkloadKey) -> str:
        """Why there is no snapshot; empty when there is one."""
        named = self._named.get(key)
        if named is None:
            return f"nothing names its replicas: set workloads.{key}.targets or .dns in the configuration"
        return f"{named.dns} does not resolve" if named.dns is not None and key not in self._resolved else ""

    def rename(self, named: Mapping[WorkloadKey, NamedTargets]) -> None:
        """Take other names. What was resolved stands for a name that stays."""
        self._resolved = {
            key: found
            for key, found in self._resolved.items()
            if key in named and named[key].dns == self._named[key].dns
        }
        self._named = named

    async def resolve(self) -> None:
        """Resolve every name once, all at the same time, each within the time that a lookup may take."""
        keys = [key for key, named in self._named.items() if named.dns is not None]
        answers = await asyncio.gather(*(self._resolve(self._named[key].dns or "") for key in keys))
        for key, found in zip(keys, answers, strict=True):
            if found is not None and key in self._named:
                self._resolved[key] = (self._clock(), found)

    async def run(self) -> None:
        """Resolve for ever."""
        while True:
            await self.resolve()
            await asyncio.sleep(RESOLVE_EVERY_S)

    async def _resolve(self, name: str) -> tuple[str, ...] | None:
        host, _, port = name.rpartition(":")
        try:
            found = await self._lookups.infos(Question(host, int(port)))
        except (OSError, UnicodeError):
            return None
        return tuple(sorted({_host_port(str(address[0]), int(port)) for *_, address in found}))


def _host_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ip_address(address).version == 6 else f"{address}:{port}"  # noqa: PLR2004 - IPv6
