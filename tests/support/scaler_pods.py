"""Pods of the scaler itself: a process each, and what kubelet and a Deployment do for them in the stand-in for the API server."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.kubernetes_api import Asked, KubernetesApi
from tests.support.kubernetes_objects import Place

NAMESPACE = "keda"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ACTIVE = "slo-scaler/active"
THIS_VERSION, NEXT_VERSION = "scaler", "tests.support.next_version"
PATIENCE_S = 45.0
PROBE_EVERY_S = 0.1
HOST = "127.0.0.1"


@dataclass(eq=False)
class CuttableApi(KubernetesApi):
    """Can be silent to some pods alone: requests of those ``cut`` hang. Each pod's token is its name."""

    cut: set[str] = field(default_factory=set)

    async def _admit(self, asked: Asked, place: Place | None) -> None:
        while asked.headers.get("Authorization", "").removeprefix("Bearer ") in self.cut:
            await pause(0.05)
        await super()._admit(asked, place)


async def until(true: Callable[[], object]) -> None:
    """Wait for what a process could have done."""
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await pause(0.02)


async def pause(seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()


@dataclass(eq=False)
class ScalerPod:
    """``lines``: what its process logged. ``complaints``: what it wrote on stderr."""

    api: KubernetesApi
    name: str
    process: asyncio.subprocess.Process
    lines: list[dict[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def code(self) -> int | None:
        """Its exit code."""
        return self.process.returncode

    @property
    def path(self) -> str:
        return f"{PODS}/{self.name}"

    @property
    def ready(self) -> bool:
        conditions = (self.api.get(self.path) or {}).get("status", {}).get("conditions", ())
        return any(condition["status"] == "True" for condition in conditions)

    @property
    def ports(self) -> dict[str, int]:
        return next((line for line in self.lines if line["event"] == "listening"), {})

    def logged(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]

    def tell(self, *, ready: bool) -> None:
        """What kubelet writes into the pod's status."""
        found = self.api.get(self.path)
        if found is None or not self.ports:
            return
        ports = [{"name": name, "containerPort": self.ports[name]} for name in ("keda", "gate", "ops")]
        found["spec"]["containers"][0]["ports"] = ports
        found["status"] = {"podIP": HOST, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
        self.api.put(self.path, found)

    async def until_explained(self, true: Callable[[dict[str, Any]], object], workload: str = "prod/llama") -> None:
        """Wait for what the explanation of a workload should show."""
        url = f"http://{HOST}:{self.ports['ops']}/v1/explain/{workload}"
        async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as client:
            while True:
                async with client.get(url) as answer:
                    if true(await answer.json()):
                        return
                await pause(0.1)

    async def probe(self) -> None:
        """Kubelet's readiness probe, for ever."""
        async with aiohttp.ClientSession() as client:
            while True:
                ready = False
                with suppress(aiohttp.ClientError):
                    if self.ports:
                        async with client.get(f"http://{HOST}:{self.ports['ops']}/readyz") as answer:
                            ready = answer.status == 200
                if ready != self.ready and self.process.returncode is None:
                    self.tell(ready=ready)
                await pause(PROBE_EVERY_S)

    async def read_log(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(json.loads(line))

    async def read_complaints(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.complaints.append(line.decode())


@dataclass(eq=False)
class ScalerPods:
    """The Deployment's pods: those that are ``running``, by name, and those that have ``ended``, in order."""

    api: KubernetesApi
    folder: Path
    configuration: str
    tick_s: float = 0.5
    running: dict[str, ScalerPod] = field(default_factory=dict)
    ended: list[ScalerPod] = field(default_factory=list)
    _tasks: dict[ScalerPod, list[asyncio.Task[None]]] = field(default_factory=dict)

    @property
    def all(self) -> list[ScalerPod]:
        return [*self.ended, *self.running.values()]

    async def start(self, name: str, version: str = THIS_VERSION) -> ScalerPod:
        """Return once it is ready."""
        labels = {"app.kubernetes.io/name": "slo-scaler"}
        stored = self.api.get(f"{PODS}/{name}") or self.api.put(
            f"{PODS}/{name}",
            {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "slo-scaler"}]}, "status": {}},
        )
        process = await self._launch(name, stored["metadata"]["uid"], version)
        pod = self.running[name] = ScalerPod(self.api, name, process)
        self._tasks[pod] = [asyncio.create_task(w) for w in (pod.read_log(), pod.read_complaints(), pod.probe())]
        await until(lambda: pod.ready or process.returncode is not None)
        assert process.returncode is None, pod.complaints
        return pod

    async def stop(self, name: str) -> ScalerPod:
        """As ``kubectl delete pod``. Return once it is gone."""
        pod = self.running[name]
        found = self.api.get(pod.path)
        assert found is not None
        found["metadata"]["deletionTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.api.put(pod.path, found)
        pod.process.send_signal(signal.SIGTERM)
        await self._end(pod)
        self.api.delete(pod.path)
        return pod

    async def kill(self, name: str) -> ScalerPod:
        """Its process dies at once; the pod's object stays, not ready."""
        pod = self.running[name]
        pod.process.kill()
        await self._end(pod)
        pod.tell(ready=False)
        return pod

    async def _end(self, pod: ScalerPod) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await pod.process.wait()
        log, complaints, probe = self._tasks.pop(pod)
        probe.cancel()
        await asyncio.gather(log, complaints)
        self.ended.append(self.running.pop(pod.name))

    async def _launch(self, name: str, uid: str, version: str) -> asyncio.subprocess.Process:
        kubeconfig, configuration = self.folder / f"{name}.kubeconfig", self.folder / "slo-scaler.yaml"
        document = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": name}}],
            "clusters": [{"name": "here", "cluster": {"server": self.api.url}}],
            "users": [{"name": name, "user": {"token": name}}],
        }
        kubeconfig.write_text(json.dumps(document))
        configuration.write_text(self.configuration)
        given = {
            "KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": NAMESPACE, "POD_NAME": name, "POD_UID": uid,
            "HOST": HOST, "KEDA_PORT": "0", "GATE_PORT": "0", "OPS_PORT": "0", "AUTHZ_PORT": "0", "TICK_S": str(self.tick_s),
        }  # fmt: skip
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", version, "serve", "--config", str(configuration)),
            env={**os.environ, **{f"SLO_SCALER_{key}": value for key, value in given.items()}},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )


@asynccontextmanager
async def scaler_pods(pods: ScalerPods) -> AsyncIterator[ScalerPods]:
    """Ends whatever runs at the end."""
    try:
        yield pods
    finally:
        for name in tuple(pods.running):
            await pods.kill(name)


def active(api: KubernetesApi) -> set[str]:
    """The pods with the label by which KEDA's Service selects."""
    found = api.page(Place.of(PODS, api.resources), {"labelSelector": f"{ACTIVE}=true"})
    return {pod["metadata"]["name"] for pod in found["items"]}
