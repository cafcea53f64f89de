"""Replicas by configuration: named addresses, and names that resolve."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from scaler.control.ports import Snapshot, Target
from scaler.core.model import GpuPhase, GpuUse, ReplicaSet, WorkloadKey
from scaler.sources.names import Lookups, Question, Resolver
from scaler.sources.targets import ConfiguredReplicas, NamedTargets

KEY = WorkloadKey("prod", "llama")


def replicas(named: NamedTargets, now: float = 7.0) -> ConfiguredReplicas:
    return ConfiguredReplicas({KEY: named}, lambda: now)


async def test_named_addresses_are_the_ready_replicas():
    assert replicas(NamedTargets(("10.0.0.7:8000", "10.0.0.8:8000"))).snapshot(KEY) == Snapshot(
        ReplicaSet(("10.0.0.7:8000", "10.0.0.8:8000"), (), 2, 7.0),
        (
            Target("10.0.0.7:8000", "10.0.0.7:8000"),
            Target("10.0.0.8:8000", "10.0.0.8:8000"),
        ),
    )


async def test_each_replica_holds_the_gpus_that_are_configured():
    found = replicas(NamedTargets(("10.0.0.7:8000", "10.0.0.8:8000"), gpus={"H100": 4})).snapshot(KEY)
    assert found is not None
    assert found.replicas.gpus == {GpuUse("H100", GpuPhase.SERVING): 8}


async def test_a_workload_that_is_not_configured_is_not_known():
    assert replicas(NamedTargets()).snapshot(WorkloadKey("prod", "other")) is None


async def test_a_name_says_nothing_before_it_was_resolved():
    assert replicas(NamedTargets(dns="localhost:8000")).snapshot(KEY) is None


async def test_a_name_resolves_to_the_ready_replicas():
    found = replicas(NamedTargets(dns="127.0.0.1:8000"))
    await found.resolve()
    assert found.snapshot(KEY) == Snapshot(
        ReplicaSet(("127.0.0.1:8000",), (), 1, 7.0), (Target("127.0.0.1:8000", "127.0.0.1:8000"),)
    )


async def test_a_name_that_does_not_resolve_is_no_news_and_not_zero_replicas():
    found = replicas(NamedTargets(dns="no-such-name.invalid:8000"))
    await found.resolve()
    assert found.snapshot(KEY) is None


async def test_an_ipv6_address_is_written_in_brackets():
    found = replicas(NamedTargets(dns="::1:8000"))
    await found.resolve()
    snapshot = found.snapshot(KEY)
    assert snapshot is not None
    assert snapshot.targets == (Target("[::1]:8000", "[::1]:8000"),)


@dataclass
class HungNames:
    """A resolver that answers for addresses, and for names not before it is released."""

    released: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)

    def __call__(self, host: str, port: int, **how):
        self.asked.append(host)
        if host.startswith("hung"):
            self.released.wait()
            host = "127.0.0.9"
        return socket.getaddrinfo(host, port, **how)


@asynccontextmanager
async def one_shared_thread(names: HungNames) -> AsyncIterator[None]:
    """A process whose shared pool has one thread; the names are released in the end."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    try:
        yield
    finally:
        names.released.set()


async def test_names_that_hang_hold_up_no_other_name_and_no_shared_thread():
    names = HungNames()
    async with one_shared_thread(names):
        keys = [WorkloadKey("prod", name) for name in ("a", "b", "good")]
        hosts = ("hung-a:8000", "hung-b:8000", "127.0.0.1:8000")
        named = {key: NamedTargets(dns=host) for key, host in zip(keys, hosts, strict=True)}
        found = ConfiguredReplicas(named, lambda: 7.0, Lookups(names, timeout_s=0.05))
        await found.resolve()
        assert await asyncio.to_thread(lambda: "free") == "free"
        assert [found.snapshot(key) is not None for key in keys] == [False, False, True]


async def test_a_name_that_hangs_is_asked_once_and_its_late_answer_serves_who_asks_then():
    names = HungNames()
    async with one_shared_thread(names):
        found = ConfiguredReplicas({KEY: NamedTargets(dns="hung:8000")}, lambda: 7.0, Lookups(names, timeout_s=0.05))
        for _ in range(3):
            await found.resolve()
        asked = list(names.asked)
        waiting = asyncio.create_task(found.resolve())
        names.released.set()
        await waiting
    snapshot = found.snapshot(KEY)
    assert snapshot is not None
    assert (asked, names.asked, snapshot.targets) == (
        ["hung"],
        ["hung"],
        (Target("127.0.0.9:8000", "127.0.0.9:8000"),),
    )


async def test_lookups_under_way_are_bounded():
    names = HungNames()
    lookups = Lookups(names, timeout_s=0.05, lanes=2)
    async with one_shared_thread(names):
        asked = [lookups.infos(Question(f"hung-{i}", 80)) for i in range(5)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        under_way = len(names.asked)
    assert ([type(answer) for answer in answers], under_way) == ([TimeoutError] * 5, 2)


async def test_engines_names_are_looked_up_in_the_same_way():
    names = HungNames()
    resolver = Resolver(Lookups(names, timeout_s=0.05))
    async with one_shared_thread(names):
        with pytest.raises(TimeoutError):
            await resolver.resolve("hung", 8000)
        assert await asyncio.to_thread(lambda: "free") == "free"
        (found,) = await resolver.resolve("127.0.0.1", 8000)
    assert (found["hostname"], found["host"], found["port"], found["family"]) == (
        "127.0.0.1",
        "127.0.0.1",
        8000,
        socket.AF_INET,
    )


@pytest.mark.parametrize("host", ["no-such-name.invalid", "x" * 64 + ".invalid", "a..b"])
async def test_a_name_that_can_be_none_ends_nothing(host):
    found = replicas(NamedTargets(dns=f"{host}:8000"))
    await found.resolve()
    assert (found.snapshot(KEY), found.why(KEY)) == (None, f"{host}:8000 does not resolve")
