"""Where chaos happens: the demo's fleet in a stand-in for a cluster, two pods of the scaler, the Services before them, and a gateway."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import grpc.aio

from scaler.api.keda_client import AioKedaClient, MetricSpec, MetricValue, RpcFailed, ScaledObject
from scaler.app.opened import background
from scaler.core.model import known
from scaler.demo import scenario as numbers
from scaler.demo.engine import Engine
from scaler.demo.fleet import FleetPlan
from scaler.demo.gateway import Gateway
from scaler.demo.scenario import KEY, Scenario
from tests.support.chaos_checks import Call, Log, Sight, Span
from tests.support.chaos_fleet import ChaosFleet, Cluster
from tests.support.cluster_objects import scaled_object, trigger
from tests.support.discovery import KINDS, put
from tests.support.kubernetes_api import kubernetes
from tests.support.scaler_pods import CuttableApi, ScalerPods, active, pause, scaler_pods, until
from tests.support.service_proxy import Service, forwarding

OURS = "app.kubernetes.io/name=slo-scaler"
LAG_S, LOOK_S, POLL_S = 0.3, 0.25, 0.5
API_S = 0.02
HEARD_S = 2.5
"""A gateway that was told nothing for so long is not advised, though it goes on with what it was told."""


class AuditedClient(AioKedaClient):
    """KEDA's client, which notes how each call went."""

    def __init__(self, channel: grpc.aio.Channel, log: Log, since: Callable[[], float]) -> None:
        super().__init__(channel, timeout_s=30.0)
        self._log, self._since = log, since

    async def metric_spec(self, of: ScaledObject) -> MetricSpec:
        return await self._noted("GetMetricSpec", super().metric_spec(of), lambda _: None)

    async def metrics(self, of: ScaledObject, name: str = "desired-replicas") -> MetricValue:
        return await self._noted("GetMetrics", super().metrics(of, name), lambda found: found.value)

    async def is_active(self, of: ScaledObject) -> bool:
        return await self._noted("IsActive", super().is_active(of), float)

    async def _noted(self, rpc: str, call: Awaitable[Any], value_of: Callable[[Any], float | None]) -> Any:
        began = self._since()
        try:
            found = await call
        except RpcFailed as failure:
            self._log.calls.append(Call(rpc, began, self._since() - began, failure.code.name))
            raise
        self._log.calls.append(Call(rpc, began, self._since() - began, value=value_of(found)))
        return found


@dataclass(eq=False)
class World:
    """All that there is. ``since`` is the time of the run."""

    rng: random.Random
    api: CuttableApi
    cluster: Cluster
    pods: ScalerPods
    gateway: Gateway
    session: aiohttp.ClientSession
    gate: Service
    keda: Service
    log: Log
    since: Callable[[], float]
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    state: tuple[float, str] = (-1e9, "")
    _first_seen: dict[tuple[Engine, int], float] = field(default_factory=dict)
    names: Iterator[str] = field(default_factory=lambda: (f"c{number}" for number in count(1)))

    def leader(self) -> str:
        """The pod of the scaler that KEDA asks; any that runs where there is none."""
        running = sorted(self.pods.running)
        return next((name for name in running if name in active(self.api)), running[0])

    async def poll(self) -> None:
        """What a gateway is told of the colour."""
        url = f"http://{self.gate.address}/v1/state/{KEY}"
        while True:
            with suppress(aiohttp.ClientError, TimeoutError, KeyError):
                async with self.session.get(url, timeout=aiohttp.ClientTimeout(total=2.0)) as answer:
                    self.state = self.since(), (await answer.json())["state"]
            await pause(POLL_S)

    async def watch(self) -> None:
        while True:
            self.log.sights.append(self.look())
            await pause(LOOK_S)

    def look(self) -> Sight:
        now, oldest_s, running, waiting, shown = self.since(), {}, {}, 0, 0.0
        ready = {endpoint.name for endpoint in self.cluster.serving()}
        for name, served in self.cluster.fleet.engines.items():
            untold = [(served.engine, number) for number, job in served.engine._jobs.items() if not job.told]
            ages = [now - self._first_seen.setdefault(job, now) for job in untold]
            waiting += len(ages)
            if name in ready:
                oldest_s[name] = max(ages, default=0.0)
                page = served.engine.read(name)
                running[name], shown = known(page.running) or 0.0, shown + (known(page.waiting) or 0.0)
        told_at, state = self.state
        heard_at = self.gateway._told_at
        advised = heard_at is not None and asyncio.get_running_loop().time() - heard_at < HEARD_S
        fresh = state if now - told_at < 2.0 else ""
        return Sight(now, running, oldest_s, waiting, shown, fresh, advised, self.cluster.fleet.wanted)

    @asynccontextmanager
    async def fault(self, name: str, of: frozenset[str] = frozenset()) -> AsyncIterator[None]:
        """Note it for as long as it lasts."""
        index = len(self.log.spans)
        self.log.spans.append(Span(name, of, self.since()))
        try:
            yield
        finally:
            self.log.spans[index] = replace(self.log.spans[index], end=self.since())

    def some(self) -> frozenset[str]:
        """One replica, half of them, or all."""
        names = sorted(self.cluster.fleet.engines)
        self.rng.shuffle(names)
        return frozenset(names[: self.rng.choice((1, (len(names) + 1) // 2, len(names)))])

    def lasts_s(self) -> float:
        return self.rng.choice((1.0, 4.0, 12.0, 20.0))


TRIGGER = trigger(**{key: value for key, value in Scenario().metadata.items() if not key.endswith("Replicas")})


def _put_workload(api: CuttableApi) -> None:
    bounds = {"minReplicaCount": 0, "maxReplicaCount": numbers.MAX_REPLICAS}
    put(
        api,
        "scaledobjects",
        KEY.name,
        scaled_object(KEY.name, KEY.namespace, TRIGGER, **bounds),
        KEY.namespace,
    )


@asynccontextmanager
async def world(seed: int, folder: Path) -> AsyncIterator[World]:
    """Everything up, with a first decision."""
    rng, log, clock = random.Random(seed), Log(), asyncio.get_running_loop().time
    plan = FleetPlan(numbers.MIN_REPLICAS, numbers.MAX_REPLICAS, numbers.START_S, numbers.START_SIGMA, seed)
    async with AsyncExitStack() as stack:
        api = CuttableApi(resources=list(KINDS), slow_s=API_S)
        await stack.enter_async_context(kubernetes(api))
        fleet = ChaosFleet(plan, clock)
        stack.push_async_callback(fleet.stop)
        fleet.scale(plan.initial, warm=True)
        cluster = Cluster(api, fleet, clock)
        _put_workload(api)
        keda = await stack.enter_async_context(
            forwarding(Service(api, f"{OURS},slo-scaler/active=true", "keda", LAG_S))
        )
        gate = await stack.enter_async_context(forwarding(Service(api, OURS, "gate", LAG_S)))
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        gateway = Gateway(KEY, cluster.serving, enforce=True, seed=seed)
        pods = ScalerPods(api, folder, numbers.CONFIGURATION, numbers.TICK_S)
        await stack.enter_async_context(background(cluster.run()))
        await stack.enter_async_context(scaler_pods(pods))
        await pods.start("a")
        await until(lambda: active(api) == {"a"} and keda.backends)
        await pods.start("b")
        began = clock()
        yield World(rng, api, cluster, pods, gateway, session, gate, keda, log, lambda: clock() - began)
