"""Observations as a busy fleet would give them, for the benchmarks that need a workload's whole memory in use."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.core.capacity import Profile
from scaler.core.model import Observation, RequestClass, WorkloadKey
from scaler.core.step import WorkloadSpec
from tests.support.virtual_fleet import VirtualFleet


def spec(number: int = 0) -> WorkloadSpec:
    """One workload with two classes."""
    classes = (RequestClass("chat", ttft_s=2.0, tpot_s=0.1), RequestClass("agent", ttft_s=5.0, order=1))
    return WorkloadSpec(WorkloadKey("bench", f"llama-{number}"), Profile(100.0, 8.0, 0.15, 1000.0), classes)


def observations(replicas: int, ticks: int, seed: int = 1) -> Iterator[Observation]:
    """What a fleet of simulated replicas shows every two seconds."""
    fleet = VirtualFleet(replicas=replicas, seed=seed)
    for tick in range(ticks):
        fleet.offer(lambda _: 6.0 * replicas, 2.0 * (tick + 1))
        yield fleet.observe()
