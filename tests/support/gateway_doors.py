"""The scaler's doors for gateways, with a decision that the test chooses: real routes, gates and servicer, no law behind them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

import grpc.aio
from aiohttp import web
from aiohttp.typedefs import Handler

from scaler.api.http import gate_app, runner
from scaler.api.view import View
from scaler.backpressure import admit, check, ext_authz
from scaler.control.board import Board
from scaler.control.gate import GateParts, Gates
from scaler.core.counted import ClassCounted
from scaler.core.decision import Decision
from scaler.core.model import GateMode, Pressure
from tests.support import decisions as made
from tests.support.gateways import HOST
from tests.support.served import Clock, Failures, Workloads

NOW = 39.0
"""When the observations of ``tests.support.decisions`` have just been made."""


def admitting(ratio: float, state: Pressure = Pressure.RED, gate: GateMode = GateMode.ENFORCE) -> Decision:
    """A decision that admits this share of every class, without a budget: a gate in the path then reckons nothing of its own."""
    decision = made.red()
    classes = tuple(replace(one, state=state, gate=gate, admit_ratio=ratio, budget_s=None) for one in decision.classes)
    return replace(decision, state=state, gate=gate, classes=classes)


def nothing_ready() -> Decision:
    """A decision of a workload that is asked for and has no ready replica."""
    decision = admitting(0.05)
    return replace(decision, estimate=replace(decision.estimate, ready=0))


@dataclass
class Doors:
    """Where gateways ask. ``told`` is how often they did, over HTTP; ``seen`` are the headers of the last question."""

    board: Board
    gates: Gates
    failures: Failures
    gate: int = 0
    authz: int = 0
    told: int = 0
    seen: dict[str, str] = field(default_factory=dict)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    def counted(self) -> ClassCounted:
        """What the gate in the path has counted of the default class."""
        return self.gates.drain(made.KEY).classes[0]

    def say(self, decision: Decision) -> None:
        """Answer by this decision from now on."""
        self.board.publish(decision)

    async def asked(self, times: int) -> None:
        """Wait until they have asked as many times from now on."""
        goal = self.told + times
        async with self._news:
            await self._news.wait_for(lambda: self.told >= goal)

    @web.middleware
    async def counting(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Counts, and remembers the headers."""
        self.seen = {name.lower(): value for name, value in request.headers.items()}
        async with self._news:
            self.told += 1
            self._news.notify_all()
        return await handler(request)


@asynccontextmanager
async def doors(decision: Decision) -> AsyncIterator[Doors]:
    """Doors that answer by the decision while the context is open."""
    board, failed, clock, rng = Board(), Failures(), Clock(NOW), random.Random(7)
    gates = Gates(GateParts(board, lambda key: replace(made.SPEC, key=key), clock, rng, lambda _: None))
    opened = Doors(board, gates, failed)
    opened.say(decision)
    routes = [
        *check.routes(check.Check(board, clock, rng, failed)),
        *admit.routes(admit.Admit(gates, failed)),
    ]
    app = gate_app(View(board, Workloads([made.KEY]), clock, rng, failed), routes)
    app.middlewares.append(opened.counting)
    async with AsyncExitStack() as stack:
        opened.gate = await _served(stack, app)
        opened.authz = await _authz(stack, gates, failed)
        yield opened


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """The port of an engine that answers 200 to everything, with the headers that it was given as JSON."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(dict(request.headers))

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    async with AsyncExitStack() as stack:
        yield await _served(stack, app)


async def _served(stack: AsyncExitStack, app: web.Application) -> int:
    running = runner(app)
    await running.setup()
    stack.push_async_callback(running.cleanup)
    await web.TCPSite(running, HOST, 0).start()
    port: int = running.addresses[0][1]
    return port


async def _authz(stack: AsyncExitStack, gates: Gates, failures: Failures) -> int:
    server = grpc.aio.server(options=ext_authz.OPTIONS)
    parts = ext_authz.CheckParts(gates, lambda *_: None, failures)
    await ext_authz.mount(server, ext_authz.Authorization(parts))
    port: int = server.add_insecure_port(f"{HOST}:0")
    await server.start()
    stack.push_async_callback(server.stop, None)
    return port
