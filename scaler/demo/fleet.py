"""The emulated fleet, and the process that it lives in: ``python -m scaler.demo.fleet``.

It stands in for the cluster: a number of replicas is asked for, replicas start after a while, serve, and drain when
they are no longer asked for. The process ends when its standard input closes, so it cannot outlive whoever started it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
import time
from argparse import ArgumentParser
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from aiohttp import web

from scaler.control.ports import Clock
from scaler.demo.server import HOST, Served, serving

LONGEST_DRAIN_S = 30.0


class Stage(StrEnum):
    """Where a replica is in its life."""

    STARTING = "starting"
    READY = "ready"
    TERMINATING = "terminating"


@dataclass(frozen=True, slots=True)
class Member:
    """One replica. ``created_at`` is when it was asked for; ``address`` is host:port once it answers. Seconds of the fleet's clock."""

    name: str
    stage: Stage
    created_at: float
    ready_at: float | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """How many replicas are ready from the start, how many there may be, and how long a start takes (lognormal, seconds).

    A replica that is no longer asked for serves on for ``linger_s``, as a preStop pause does: gateways need to hear of it.
    """

    initial: int
    max_replicas: int
    start_s: float
    start_sigma: float
    seed: int
    linger_s: float = 1.0


def victims(members: tuple[Member, ...], want: int) -> tuple[Member, ...]:
    """Who goes when only ``want`` may stay: those that do not serve yet before those that do, the youngest first."""
    alive = [member for member in members if member.stage is not Stage.TERMINATING]
    order = sorted(alive, key=lambda member: (member.stage is Stage.READY, -member.created_at, member.name))
    return tuple(order[: max(0, len(alive) - want)])


class Fleet:
    """The replicas and what is asked of them. Owns one task a replica."""

    def __init__(self, plan: FleetPlan, clock: Clock) -> None:
        """No replica yet; ``scale`` makes them."""
        self.wanted = 0
        self._plan = plan
        self._clock = clock
        self._random = Random(plan.seed)
        self._members: dict[str, Member] = {}
        self._released: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._created = 0

    @property
    def members(self) -> tuple[Member, ...]:
        """Every replica that exists, the oldest first."""
        return tuple(self._members.values())

    def scale(self, wanted: int, *, warm: bool = False) -> None:
        """Ask for that many, within the fleet's bounds; ``warm`` ones need no time to start."""
        self.wanted = max(0, min(wanted, self._plan.max_replicas))
        for member in victims(self.members, self.wanted):
            self._update(member.name, stage=Stage.TERMINATING)
            self._released[member.name].set()
        alive = sum(member.stage is not Stage.TERMINATING for member in self.members)
        for _ in range(self.wanted - alive):
            drawn_s = self._plan.start_s * self._random.lognormvariate(0.0, self._plan.start_sigma)
            self._create(0.0 if warm else drawn_s)

    async def stop(self) -> None:
        """End every replica now."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _create(self, start_s: float) -> None:
        name = f"llm-{self._created}"
        self._created += 1
        self._members[name] = Member(name, Stage.STARTING, self._clock())
        self._released[name] = asyncio.Event()
        task = asyncio.create_task(self._live(name, start_s), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _live(self, name: str, start_s: float) -> None:
        try:
            if not await _within(self._released[name], start_s):
                async with serving(name, self._clock) as served:
                    self._update(name, stage=Stage.READY, ready_at=self._clock(), address=served.address)
                    await self._released[name].wait()
                    await self._drain(served)
        finally:
            del self._members[name], self._released[name]

    async def _drain(self, served: Served) -> None:
        await asyncio.sleep(self._plan.linger_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_DRAIN_S):
                await served.engine.idle()

    def _update(self, name: str, *, stage: Stage, ready_at: float | None = None, address: str | None = None) -> None:
        before = self._members[name]
        self._members[name] = replace(
            before, stage=stage, ready_at=ready_at or before.ready_at, address=address or before.address
        )


async def _within(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event came before the time was up."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def control_app(fleet: Fleet, plan: FleetPlan, clock: Clock) -> web.Application:
    """What a cluster's API is for the rest: ``GET /replicas`` and ``PUT /scale``. Times are ages in seconds: clocks differ."""

    async def replicas(_: web.Request) -> web.Response:
        return web.json_response(state(fleet, plan, clock()))

    async def scale(request: web.Request) -> web.Response:
        try:
            wanted = int(json.loads(await request.read())["replicas"])
        except (ValueError, TypeError, KeyError):
            return web.json_response({"error": 'send {"replicas": N}'}, status=400)
        fleet.scale(wanted)
        return web.json_response(state(fleet, plan, clock()))

    app = web.Application()
    app.add_routes([web.get("/replicas", replicas), web.put("/scale", scale)])
    return app


def state(fleet: Fleet, plan: FleetPlan, now: float) -> dict[str, object]:
    """The fleet as the control endpoint tells it."""
    listed = [
        {
            "name": member.name,
            "stage": member.stage.value,
            "age_s": now - member.created_at,
            "ready_for_s": None if member.ready_at is None else now - member.ready_at,
            "address": member.address,
        }
        for member in fleet.members
    ]
    return {
        "wanted": fleet.wanted,
        "max_replicas": plan.max_replicas,
        "cpu_s": time.process_time(),
        "replicas": listed,
    }


async def run(plan: FleetPlan) -> None:
    """Serve until standard input closes. The control endpoint's address is printed first."""
    loop = asyncio.get_running_loop()
    fleet, stop = Fleet(plan, loop.time), asyncio.Event()
    fleet.scale(plan.initial, warm=True)
    runner = web.AppRunner(control_app(fleet, plan, loop.time), access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0).start()
        sys.stdout.write(f"http://{HOST}:{runner.addresses[0][1]}\n")
        sys.stdout.flush()
        _when_input_closes(loop, stop)
        await stop.wait()
    finally:
        await fleet.stop()
        await runner.cleanup()


def _when_input_closes(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """A daemon thread: a blocking read must keep neither the loop nor the process from ending."""

    def watch() -> None:
        while sys.stdin.buffer.read(1):
            pass
        loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=watch, name="stdin", daemon=True).start()


def _parsed() -> FleetPlan:
    parser = ArgumentParser(description="An emulated fleet of vLLM replicas.")
    parser.add_argument("--initial", type=int, required=True)
    parser.add_argument("--max", type=int, required=True)
    parser.add_argument("--start-seconds", type=float, required=True)
    parser.add_argument("--start-sigma", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    given = parser.parse_args()
    return FleetPlan(given.initial, given.max, given.start_seconds, given.start_sigma, given.seed)


if __name__ == "__main__":
    # Ctrl-C reaches the whole terminal; the parent ends this process in its own time.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(run(_parsed()))
