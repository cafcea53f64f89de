"""Replicas by configuration: named addresses, and names that resolve."""

from __future__ import annotations

from scaler.control.ports import Snapshot, Target
from scaler.core.model import ReplicaSet, WorkloadKey
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
