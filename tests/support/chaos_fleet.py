"""The demo's fleet as pods of a cluster: engines that freeze, restart and die, and pages of metrics that hang, break off and lie."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType

from aiohttp import web

from scaler.control.ports import Clock
from scaler.core.hpa import ScaleStatus
from scaler.demo.cluster import Endpoint
from scaler.demo.fleet import Fleet, FleetPlan, Member, Stage
from scaler.demo.page import CONTENT_TYPE, page
from scaler.demo.scenario import KEY, LIMITS, MODEL
from scaler.demo.server import Served, serving
from tests.support.cluster_objects import Json, condition, deployment, pod, vllm
from tests.support.discovery import put, put_pod
from tests.support.kubernetes_api import KubernetesApi
from tests.support.scaler_pods import pause

RESTART_S, LOOK_S = 2.0, 0.1
HOST = "127.0.0.1"
LABELS = {"app": KEY.name}


def _wall() -> float:
    return datetime.now(UTC).timestamp()


SLOW = 1000.0
"""A frozen engine's clock goes so much slower. One that stood would make the engine ask for the time without end."""


class StoppableClock:
    """An engine's clock. While it hardly moves, the engine computes nothing; afterwards it goes on where it was."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lag_s = clock, 0.0
        self._frozen_at: float | None = None

    def __call__(self) -> float:
        now = self._clock()
        if self._frozen_at is None:
            return now - self._lag_s
        return self._frozen_at + (now - self._frozen_at) / SLOW - self._lag_s

    def stop(self) -> None:
        self._frozen_at = self._clock() if self._frozen_at is None else self._frozen_at

    def go(self) -> None:
        if self._frozen_at is not None:
            self._lag_s += (self._clock() - self._frozen_at) * (1.0 - 1.0 / SLOW)
            self._frozen_at = None


def _changed(pattern: str, text: str) -> Callable[[bytes], web.Response]:
    """The page with other numbers."""

    def lie(body: bytes) -> web.Response:
        return _said(re.sub(pattern.encode(), text.encode(), body))

    return lie


def _said(body: bytes, kind: str = CONTENT_TYPE, status: int = 200, **headers: str) -> web.Response:
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.Response(body=body, status=status, headers={"Content-Type": kind, **more})


GAUGES = r"(vllm:num_requests_(?:running|waiting)\{[^}]*\}) \S+"
LIES: Mapping[str, Callable[[bytes], web.Response]] = MappingProxyType(
    {
        "negative": _changed(GAUGES, r"\1 -5"),
        "NaN": _changed(GAUGES, r"\1 NaN"),
        "huge": _changed(GAUGES, r"\1 1e18"),
        "counters go backwards": _changed(r"(_(?:total|bucket|count|sum)\{[^}]*\}) \S+", r"\1 1"),
        "half a page": lambda body: _said(body[: len(body) // 2]),
        "HTML": lambda _: _said(b"<html>sign in</html>", "text/html"),
        "gzip bomb": lambda _: _said(gzip.compress(bytes(20_000_000)), Content_Encoding="gzip"),
        "500": lambda _: _said(b"oops", status=500),
    }
)


@dataclass(eq=False)
class Door:
    """Where the scaler reads one replica's page. ``lie``: a name of ``LIES``, "hang" or "cut"; "" tells the truth."""

    name: str
    engines: Mapping[str, Served]
    lie: str = ""
    port: int = 0
    created_at: float = field(default_factory=_wall)
    _opened: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def open(self) -> None:
        app = web.Application()
        app.router.add_get("/metrics", self.answer)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        self._opened.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, HOST, 0).start()
        self.port = runner.addresses[0][1]

    async def close(self) -> None:
        await self._opened.aclose()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        served = self.engines.get(self.name)
        if self.lie == "hang":
            await asyncio.Event().wait()
        if self.lie == "cut" or served is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        body = page(MODEL, served.engine.contents(self.name, self.created_at)).encode()
        return LIES[self.lie](body) if self.lie else _said(body)


class ChaosFleet(Fleet):
    """The fleet, with levers. ``engines``: those that answer, by name."""

    def __init__(self, plan: FleetPlan, clock: Clock) -> None:
        super().__init__(plan, clock)
        self.engines: dict[str, Served] = {}
        self.clocks: dict[str, StoppableClock] = {}
        self._restarts: dict[str, asyncio.Event] = {}

    def restart(self, name: str) -> None:
        """Its container: whatever was under way is cut off, counters begin anew, and it is not ready for a while."""
        self._restarts[name].set()

    def kill(self, name: str) -> None:
        """The pod is gone, and its ReplicaSet makes another."""
        self._update(name, stage=Stage.TERMINATING)
        next(task for task in self._tasks if task.get_name() == name).cancel()
        self.scale(self.wanted)

    async def _live(self, name: str, start_s: float) -> None:
        released, restarted = self._released[name], asyncio.Event()
        self._restarts[name] = restarted
        try:
            await _first_of(start_s, released)
            while not released.is_set():
                await self._serve(name, released, restarted)
                if not released.is_set():
                    self._update(name, stage=Stage.STARTING)
                    await _first_of(RESTART_S, released)
                restarted.clear()
        finally:
            del self._members[name], self._released[name], self._restarts[name]

    async def _serve(self, name: str, released: asyncio.Event, restarted: asyncio.Event) -> None:
        clock = self.clocks[name] = StoppableClock(self._clock)
        async with serving(name, clock) as served:
            self.engines[name] = served
            try:
                self._update(name, stage=Stage.READY, ready_at=self._clock(), address=served.address)
                await _first_of(None, released, restarted)
                if released.is_set():
                    clock.go()
                    await self._drain(served)
            finally:
                del self.engines[name], self.clocks[name]


async def _first_of(seconds: float | None, *events: asyncio.Event) -> None:
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


@dataclass(eq=False)
class Cluster:
    """Keeps the API server's pods what the fleet's members are; is the scale subresource for the HPA, and tells gateways who serves."""

    api: KubernetesApi
    fleet: ChaosFleet
    clock: Clock
    doors: dict[str, Door] = field(default_factory=dict)
    _told: dict[str, Member] = field(default_factory=dict)
    _spec: int = -1

    def serving(self) -> tuple[Endpoint, ...]:
        """What gateways route to."""
        ready = [
            member for member in self.fleet.members if member.stage is Stage.READY and member.name in self.fleet.engines
        ]
        return tuple(Endpoint(member.name, self.fleet.engines[member.name].address) for member in ready)

    def scale_status(self) -> ScaleStatus:
        alive = [member for member in self.fleet.members if member.stage is not Stage.TERMINATING]
        return ScaleStatus(self.fleet.wanted, len(alive), sum(member.stage is Stage.READY for member in alive))

    async def scale(self, wanted: int) -> None:
        self.fleet.scale(wanted)

    async def run(self) -> None:
        try:
            while True:
                await self.look()
                await pause(LOOK_S)
        finally:
            for door in self.doors.values():
                await door.close()

    async def look(self) -> None:
        members = {member.name: member for member in self.fleet.members}
        if self.fleet.wanted != self._spec:
            self._spec = self.fleet.wanted
            put(self.api, "deployments", KEY.name, deployment(KEY.name, self._spec), KEY.namespace)
        for name, member in members.items():
            if self._told.get(name) != member:
                if name not in self.doors:
                    self.doors[name] = Door(name, self.fleet.engines)
                    await self.doors[name].open()
                put_pod(self.api, self._pod(member), KEY.namespace)
        for name in self._told.keys() - members.keys():
            self.api.delete(f"/api/v1/namespaces/{KEY.namespace}/pods/{name}")
            await self.doors.pop(name).close()
        self._told = members

    def _pod(self, member: Member) -> Json:
        offset_s, port = _wall() - self.clock(), str(self.doors[member.name].port)
        created_at = member.created_at + offset_s
        ready_at = None if member.ready_at is None else member.ready_at + offset_s
        ready = member.stage is not Stage.STARTING and ready_at is not None
        states = [
            condition("PodScheduled", "True", created_at),
            condition("Initialized", "True", created_at),
            condition("Ready", "True" if ready else "False", ready_at or created_at),
        ]
        started = {"name": "main", "ready": ready, "restartCount": 0, "state": {"running": {}}}
        status = {"phase": "Running", "podIP": HOST, "conditions": states, "containerStatuses": [started]}
        cap = str(LIMITS.max_num_seqs)
        spec = {"nodeName": "gpu-1", "containers": [vllm("main", "--port", port, "--max-num-seqs", cap)]}
        leaving = {"deletionTimestamp": condition("", "", _wall())["lastTransitionTime"]}
        metadata = {"namespace": KEY.namespace, **(leaving if member.stage is Stage.TERMINATING else {})}
        return pod(member.name, LABELS, created_at=created_at, spec=spec, status=status, metadata=metadata)
