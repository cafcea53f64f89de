"""What one namespace at its limits costs another: tick and verdict times of a calm workload, alone and beside a crowd, in one run.

The crowd is one namespace with as many workloads and replicas as it may have. All of its replicas accept connections and never answer, and
its gateways ask without a pause for verdicts. Calm and crowded phases take turns, so that what else the machine does meets both.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

from aiohttp import web

from scaler.control.board import Board
from scaler.control.gate import GateParts, Gates
from scaler.control.loop import Parts
from scaler.control.ports import Snapshot, Target
from scaler.control.supervisor import Supervisor
from scaler.core.capacity import Profile
from scaler.core.decision import Decision, Pending
from scaler.core.gate import Request
from scaler.core.model import GateMode, ReplicaSet, RequestClass, WorkloadKey
from scaler.core.step import WorkloadSpec
from scaler.sources.inputs import ConfiguredInputs
from scaler.sources.pods import PodSource
from scaler.sources.scrape import Caution, scraping
from scaler.sources.shares import Share, Shares

PAGE = Path(__file__).parents[1] / "tests" / "data" / "metrics" / "0.32.0-03-overload-40-streams.prom"
CALM = WorkloadKey("calm", "llama")
CROWD = tuple(WorkloadKey("crowd", f"llama-{i}") for i in range(200))
REPLICAS_EACH, CALM_REPLICAS = 10, 4
TICK_S, PASS_S, PHASE_S, TURNS, VERDICT_EVERY_S = 2.0, 1.5, 20.0, 2, 0.01
VERDICTS_A_TURN = 20
"""How many verdicts the crowd's gateways get before others have their turn: one message of a busy connection holds about as many."""


@dataclass
class Times:
    """Seconds of one kind of phase."""

    ticks: list[float] = field(default_factory=list)
    verdicts: list[float] = field(default_factory=list)


@dataclass
class Told:
    """The telemetry of all loops; only the calm one's ticks are kept, in the times of the phase."""

    now: Times = field(default_factory=Times)

    def ticked(self, outcome: Decision | Pending, took_s: float) -> None:
        """One tick ended."""
        if outcome.key == CALM:
            self.now.ticks.append(took_s)

    def looked(self, *_: object) -> None:
        """Nobody is told."""

    crashed = recalled = forgotten = looked


@dataclass
class Fleet:
    """Where each workload's replicas are."""

    answering: str
    hanging: str

    def snapshot(self, key: WorkloadKey) -> Snapshot:
        """All ready."""
        address, count = (self.answering, CALM_REPLICAS) if key == CALM else (self.hanging, REPLICAS_EACH)
        names = tuple(f"r-{i}" for i in range(count))
        replicas = ReplicaSet(names, (), count, asyncio.get_running_loop().time())
        return Snapshot(replicas, tuple(Target(name, address) for name in names))

    def why(self, _: WorkloadKey) -> str:
        """They are always known."""
        return ""


def spec(key: WorkloadKey) -> WorkloadSpec:
    """A workload with a gate that acts."""
    classes = (RequestClass("chat", ttft_s=2.0),)
    return WorkloadSpec(key, Profile(100.0, 8.0, 0.15), classes, tick_s=TICK_S, gate=GateMode.ENFORCE)


@asynccontextmanager
async def engine() -> AsyncIterator[str]:
    """An engine that answers with a real page."""
    page = PAGE.read_bytes()

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=page, content_type="text/plain")

    app = web.Application()
    app.router.add_get("/metrics", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield "{}:{}".format(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()


@asynccontextmanager
async def black_hole() -> AsyncIterator[str]:
    """Accepts connections and never answers."""

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1 << 16):
            pass
        writer.close()

    server = await asyncio.start_server(swallow, "127.0.0.1", 0, backlog=4096)
    async with server:
        yield "{}:{}".format(*server.sockets[0].getsockname())


async def asking(gates: Gates, times: Told) -> None:
    """A gateway of the calm workload, whose verdicts are timed."""
    while True:
        begun = time.perf_counter()
        gates.ask(CALM, Request())
        times.now.verdicts.append(time.perf_counter() - begun)
        await asyncio.sleep(VERDICT_EVERY_S)


async def flooding(gates: Gates) -> None:
    """The gateways of the crowd."""
    while True:
        for key in CROWD[:VERDICTS_A_TURN]:
            gates.ask(key, Request())
        await asyncio.sleep(0.002)


async def measure() -> tuple[Times, Times]:
    """The calm workload's times, alone and beside the crowd."""
    alone, beside, told, board = Times(), Times(), Told(), Board()
    clock = asyncio.get_running_loop().time
    async with AsyncExitStack() as stack:
        fleet = Fleet(*[await stack.enter_async_context(one) for one in (engine(), black_hole())])
        scraper = await stack.enter_async_context(scraping(caution=Caution(Shares(Share, clock))))
        inputs = ConfiguredInputs({"default": PodSource(scraper, clock, timeout_s=PASS_S)}, uncounted=None)
        gates = Gates(GateParts(board, spec, clock, random.Random(1), lambda _: None))
        supervisor = Supervisor(Parts(inputs, fleet, board, told, clock, gate=gates))
        stack.push_async_callback(supervisor.stop)
        supervisor.ensure(spec(CALM), pinned=True)
        gateway = asyncio.create_task(asking(gates, told))
        stack.callback(gateway.cancel)
        await asyncio.sleep(2 * TICK_S)
        for _ in range(TURNS):
            told.now = alone
            await asyncio.sleep(PHASE_S)
            for key in CROWD:
                supervisor.ensure(spec(key), pinned=True)
            flood = asyncio.create_task(flooding(gates))
            told.now = Times()  # two hundred loops that begin at once are no state that lasts
            await asyncio.sleep(2 * TICK_S)
            told.now = beside
            await asyncio.sleep(PHASE_S)
            told.now = Times()
            flood.cancel()
            for key in CROWD:
                supervisor.forget(key)
            await asyncio.sleep(2 * TICK_S)
    return alone, beside


def line(name: str, alone: Iterable[float], beside: Iterable[float]) -> str:
    """Medians and 95th percentiles, and their ratios."""
    (a50, a95), (b50, b95) = ((cuts[9], cuts[18]) for cuts in (quantiles(alone, n=20), quantiles(beside, n=20)))
    return (
        f"{name:<8} alone p50 {1e3 * a50:7.3f} p95 {1e3 * a95:7.3f} ms   beside p50 {1e3 * b50:7.3f} p95 {1e3 * b95:7.3f} ms   "
        f"ratio p50 {b50 / a50:5.2f} p95 {b95 / a95:5.2f}"
    )


def run() -> list[str]:
    """The lines of the result."""
    lines = [
        f"crowd: {len(CROWD)} workloads, {len(CROWD) * REPLICAS_EACH} replicas that never answer, its gateways without a pause"
    ]
    alone, beside = asyncio.run(measure())
    lines += [line("tick", alone.ticks, beside.ticks), line("verdict", alone.verdicts, beside.verdicts)]
    return lines


if __name__ == "__main__":
    print("\n".join(run()))
