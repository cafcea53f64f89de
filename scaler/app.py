"""The composition root: builds every object, listens, and stops in the order that KEDA does not mind."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TextIO

from aiohttp import web

from scaler.api.http import Ops, View, gate_app, ops_app, runner
from scaler.api.keda import KedaParts, KedaServicer
from scaler.api.keda_server import KedaServer, Listen
from scaler.backpressure import check
from scaler.control.board import Board
from scaler.control.loop import Parts
from scaler.control.ports import Demand, Replicas
from scaler.control.supervisor import Supervisor
from scaler.errors import ConfigError
from scaler.settings import Configuration, Ports
from scaler.sources.inputs import ConfiguredInputs
from scaler.sources.pods import PodSource, scrape_session
from scaler.sources.targets import ConfiguredReplicas
from scaler.telemetry import Reporter
from scaler.workload import parse_workload

GRACE_S = 5.0
LONGEST_SCRAPE_S, SCRAPE_SHARE = 1.5, 0.75
"""A pass over the engines ends well before the next tick."""
SWEEP_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Wiring:
    """What differs between serving and the demo: who knows the replicas, who counts refusals (None: nobody), where to listen and to log."""

    configuration: Configuration
    ports: Ports
    replicas: Replicas
    demand: Demand | None
    log: TextIO


@dataclass(frozen=True, slots=True)
class Bound:
    """A running scaler: the ports it listens on, its board and its supervisor."""

    keda_port: int
    gate_port: int
    ops_port: int
    board: Board
    supervisor: Supervisor


async def serve(configuration: Configuration, ports: Ports) -> None:
    """Run until SIGTERM or SIGINT. Raises ConfigError when a port cannot be opened."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    replicas = ConfiguredReplicas(configuration.targets, loop.time)
    async with AsyncExitStack() as stack:
        await replicas.resolve()
        _background(stack, replicas.run())
        await stack.enter_async_context(running(Wiring(configuration, ports, replicas, None, sys.stdout)))
        await stop.wait()


@asynccontextmanager
async def running(wiring: Wiring) -> AsyncIterator[Bound]:
    """A scaler that listens and decides while the context is open.

    On the way out readiness fails first, streams end with OK, calls under way are answered, and the loops end last.
    """
    clock = asyncio.get_running_loop().time
    board, shutdown = Board(), asyncio.Event()
    reporter = Reporter(board, clock, time.time, wiring.log)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(scrape_session())
        source = PodSource(session, clock, timeout_s=scrape_timeout_s(wiring.configuration.catalog.tick_s))
        inputs = ConfiguredInputs({"default": source}, uncounted=wiring.demand)
        supervisor = Supervisor(Parts(inputs, wiring.replicas, board, reporter, clock))
        stack.push_async_callback(supervisor.stop)
        for spec in wiring.configuration.workloads:
            supervisor.ensure(spec, pinned=True)
        _background(stack, _sweep(supervisor))
        view = View(board, supervisor, clock, random.SystemRandom(), reporter.failed)
        gate_port, ops_port = await _listen_http(stack, view, reporter, wiring.ports, shutdown)
        parse = partial(parse_workload, catalog=wiring.configuration.catalog)
        servicer = KedaServicer(KedaParts(board, supervisor, parse, clock, reporter, shutdown))
        server = KedaServer(servicer, shutdown, Listen(wiring.ports.keda, wiring.ports.host, GRACE_S))
        keda_port = await server.start()
        stack.push_async_callback(server.stop)
        reporter.listening(keda=keda_port, gate=gate_port, ops=ops_port)
        yield Bound(keda_port, gate_port, ops_port, board, supervisor)


def scrape_timeout_s(tick_s: float) -> float:
    """How long one pass over the engines may take, in seconds."""
    return min(LONGEST_SCRAPE_S, SCRAPE_SHARE * tick_s)


async def _listen_http(
    stack: AsyncExitStack, view: View, reporter: Reporter, ports: Ports, shutdown: asyncio.Event
) -> tuple[int, int]:
    """Serve gateways and operators; the two ports."""
    checks = check.Check(view.board, view.clock, view.rng, reporter.failed)
    ops = Ops(view, reporter.registry, lambda: not shutdown.is_set(), check.paths())
    gate_port = await _listen(stack, gate_app(view, check.routes(checks)), ports.host, ports.gate)
    return gate_port, await _listen(stack, ops_app(ops), ports.host, ports.ops)


async def _listen(stack: AsyncExitStack, app: web.Application, host: str, port: int) -> int:
    served = runner(app)
    await served.setup()
    stack.push_async_callback(served.cleanup)
    site = web.TCPSite(served, host, port)
    try:
        await site.start()
    except OSError as error:
        raise ConfigError(f"port {port} for HTTP cannot be opened ({error.strerror}); is it in use?") from None
    bound: int = served.addresses[0][1]
    return bound


def _background(stack: AsyncExitStack, work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine until the stack closes."""
    task = asyncio.get_running_loop().create_task(work)

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)


async def _sweep(supervisor: Supervisor) -> None:
    """Forget, now and then, the workloads that nobody asks for."""
    while True:
        await asyncio.sleep(SWEEP_EVERY_S)
        supervisor.forget_unasked()
