"""A whole scaler in the stand-in for a cluster, in this process, over real sockets."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from scaler.app import Bound, Wiring, running
from scaler.app.clustered import Cluster
from scaler.cluster.client import Client
from scaler.cluster.lease import Member, Timings
from scaler.cluster.scaled_objects import Service
from scaler.settings import Ports, WatchedFile
from scaler.sources.targets import ConfiguredReplicas
from tests.support.cluster_objects import deployment, scaled_object, serving, trigger, vllm
from tests.support.discovery import QUICK, put, put_pod
from tests.support.kubernetes_api import KubernetesApi

SERVICES = frozenset({Service("slo-scaler", "keda")})
TIMINGS = Timings(duration_s=0.6, give_up_s=0.4, renew_s=0.2, retry_s=0.1, recheck_s=0.2, settle_s=0.05)
GOOD = {"safeConcurrency": "100", "ttftSloSeconds": "2"}


def put_workload(
    api: KubernetesApi, name: str, address: str, namespace: str = "prod", metadata: dict[str, str] = GOOD
) -> None:
    """A ScaledObject that names us, with one ready pod whose engine listens at that address."""
    host, _, port = address.rpartition(":")
    put(api, "scaledobjects", name, scaled_object(name, namespace, trigger(**metadata)), namespace)
    put(api, "deployments", name, deployment(name, 1, {"app": name}), namespace)
    containers = {"containers": [vllm("main", "--port", port)]}
    put_pod(api, serving(f"{name}-0", {"app": name}, spec=containers, status={"podIP": host}), namespace)


@dataclass
class Setting:
    """What a scaler in a cluster is started with. ``configuration`` is written into ``folder``, and followed there."""

    folder: Path
    configuration: dict[str, Any] = field(default_factory=dict)
    tick_s: float = 1.0
    log: io.StringIO = field(default_factory=io.StringIO)

    @property
    def file(self) -> Path:
        return self.folder / "slo-scaler.yaml"


@asynccontextmanager
async def scaler(api: KubernetesApi, setting: Setting) -> AsyncIterator[Bound]:
    put_pod(api, serving("scaler-0", {"app.kubernetes.io/name": "slo-scaler"}), "keda")
    setting.file.write_text(json.dumps(setting.configuration))
    watched = WatchedFile(setting.file, setting.tick_s)
    configuration = watched.first()
    replicas = ConfiguredReplicas(configuration.targets, asyncio.get_running_loop().time)
    client = Client.at(api.url, Random(1), QUICK)
    cluster = Cluster(client, Member("keda", "scaler-0", "uid-scaler-0"), SERVICES, TIMINGS)
    ports = Ports("127.0.0.1", 0, 0, 0, 0)
    try:
        async with running(Wiring(configuration, ports, replicas, None, setting.log, watched, cluster)) as bound:
            yield bound
    finally:
        await client.aclose()


async def until(true: Any) -> None:
    """Wait for what a tick, a watch or a review could have changed."""
    async with asyncio.timeout(20):
        while not true():
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.02)
