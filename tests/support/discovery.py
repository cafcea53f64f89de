"""Discovery at work against the stand-in for the API server, through the real client, with clocks that a test sets."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from scaler.cluster.client import Bounds, Client
from scaler.cluster.discovery import Discovery, DiscoverySettings, Means
from scaler.cluster.reflector import Pace
from scaler.cluster.scaled_objects import NamedWorkload, Service
from scaler.control.ports import Snapshot
from scaler.core.model import ReplicaSet, WorkloadKey
from tests.support.cluster_objects import WALL, Json, deployment, scaled_object
from tests.support.kubernetes_api import KubernetesApi, kubernetes
from tests.support.kubernetes_objects import RESOURCES, Resource

LLAMA = WorkloadKey("prod", "llama")
SERVICES = frozenset({Service("slo-scaler", "keda")})
KINDS = [
    *RESOURCES,
    Resource("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", subresources=("status",)),
    Resource("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets", subresources=("scale", "status")),
    Resource("argoproj.io/v1alpha1", "Rollout", "rollouts", subresources=("scale",)),
]
QUICK = Bounds(call_s=2.0)


@dataclass
class Clocks:
    """``now`` is monotonic and ``wall`` is not; neither moves by itself."""

    now: float = 1000.0
    wall: float = WALL

    def monotonic(self) -> float:
        return self.now

    def of_day(self) -> float:
        return self.wall


@dataclass
class Told:
    """Remembers what it was told of workloads."""

    words: list[tuple[str, WorkloadKey]] = field(default_factory=list)
    newest: dict[WorkloadKey, NamedWorkload] = field(default_factory=dict)

    def named(self, workload: NamedWorkload) -> None:
        self.words.append(("named", workload.key))
        self.newest[workload.key] = workload

    def gone(self, key: WorkloadKey) -> None:
        self.words.append(("gone", key))
        del self.newest[key]


@dataclass
class World:
    api: KubernetesApi
    discovery: Discovery
    clocks: Clocks
    told: Told

    def snapshot(self, key: WorkloadKey = LLAMA) -> Snapshot:
        found = self.discovery.snapshot(key)
        assert found is not None, self.discovery.why(key)
        return found

    def replicas(self, key: WorkloadKey = LLAMA) -> ReplicaSet:
        return self.snapshot(key).replicas

    def notes(self, key: WorkloadKey = LLAMA) -> list[str]:
        return [note.code for note in self.replicas(key).notes]

    async def until_known(self, *keys: WorkloadKey) -> None:
        await self.api.until(lambda: all(self.discovery.snapshot(key) for key in keys or (LLAMA,)))

    async def until(self, true: Callable[[ReplicaSet], object], key: WorkloadKey = LLAMA) -> None:
        """Wait for what a workload's replicas should show."""
        await self.api.until(lambda: (found := self.discovery.snapshot(key)) is not None and true(found.replicas))


def put(api: KubernetesApi, plural: str, name: str, body: Json, namespace: str = "prod") -> None:
    """Create or replace an object of a kind that these tests use."""
    prefix = next(one.prefix for one in KINDS if one.plural == plural)
    metadata = {**body.get("metadata", {}), "name": name, "namespace": namespace}
    api.put(f"{prefix}/namespaces/{namespace}/{plural}/{name}", {**body, "metadata": metadata})


def put_pod(api: KubernetesApi, item: Json, namespace: str = "prod") -> None:
    put(api, "pods", item["metadata"]["name"], item, namespace)


def put_llama(api: KubernetesApi, *pods: Json, name: str = "llama", namespace: str = "prod", replicas: int = 1) -> None:
    """A ScaledObject, its Deployment with pods labelled ``app: NAME``, and these pods."""
    put(api, "scaledobjects", name, scaled_object(name, namespace), namespace)
    put(api, "deployments", name, deployment(name, replicas), namespace)
    for item in pods:
        put_pod(api, item, namespace)


@asynccontextmanager
async def discovering(
    *namespaces: str, prepare: Callable[[KubernetesApi], object] = lambda api: None
) -> AsyncIterator[World]:
    """``prepare`` fills the cluster before anything looks at it."""
    clocks, told = Clocks(), Told()
    pace = Pace(clocks.monotonic, random.Random(1), first_s=0.02, longest_s=0.1, denied_s=0.05)
    async with kubernetes(KubernetesApi(resources=list(KINDS))) as api:
        prepare(api)
        client = Client.at(api.url, random.Random(2), QUICK)
        means = Means(client, clocks.monotonic, clocks.of_day, pace, random.Random(3))
        discovery = Discovery(means, DiscoverySettings(SERVICES, namespaces), told)
        task = asyncio.create_task(discovery.run())
        try:
            yield World(api, discovery, clocks, told)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await client.aclose()
