"""Both HTTP ports on real sockets in a thread of their own, for clients that block."""

import asyncio
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace

from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge

from scaler.api.http import Ops, gate_app, ops_app, runner
from scaler.api.view import View
from scaler.backpressure import admit, check
from scaler.control.gate import GateParts, Gates
from scaler.core.decision import Decision, Pending
from scaler.core.model import WorkloadKey
from tests.support import decisions as made
from tests.support.served import Clock, Failures, Workloads, board_of

NOW = 39.0
"""The observations of ``tests.support.decisions`` end a second before."""
GATE, OPS = "http://localhost:8080", "http://localhost:8081"


def outcomes() -> tuple[Decision | Pending, ...]:
    """A workload of each kind: GREEN, YELLOW, RED, RED with nothing ready, blind, and without a decision yet."""
    kinds: dict[str, Decision | Pending] = {
        "green": made.green(),
        "yellow": made.yellow(),
        "red": made.red(),
        "none-ready": made.nothing_ready(),
        "blind": made.blind(),
        "pending": made.pending(),
    }
    return tuple(replace(outcome, key=WorkloadKey("prod", name)) for name, outcome in kinds.items())


@dataclass(frozen=True, slots=True)
class Served:
    """Where each port answers, by the address that the contract gives it, and what failed within."""

    urls: Mapping[str, str]
    keys: tuple[WorkloadKey, ...]
    failures: Failures


@contextmanager
def both_ports() -> Iterator[Served]:
    """Both answer until the block ends."""
    view, gate, ops = _apps()
    assert isinstance(view.failed, Failures)
    ready, ends = Future[Mapping[str, str]](), Future[Callable[[], object]]()

    async def serve() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        ends.set_result(lambda: loop.call_soon_threadsafe(stop.set))
        running = {GATE: runner(gate), OPS: runner(ops)}
        for one in running.values():
            await one.setup()
            await web.TCPSite(one, "127.0.0.1", 0).start()
        ready.set_result({name: "http://{}:{}".format(*one.addresses[0][:2]) for name, one in running.items()})
        await stop.wait()
        for one in running.values():
            await one.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        yield Served(ready.result(30), tuple(view.known()), view.failed)
    finally:
        ends.result(30)()
        thread.join()


def _apps() -> tuple[View, web.Application, web.Application]:
    """As the scaler itself puts them together."""
    seen, clock = outcomes(), Clock(NOW)
    keys = [outcome.key for outcome in seen]
    specs = {key: replace(made.SPEC, key=key) for key in keys}
    view = View(board_of(seen), Workloads([*keys, WorkloadKey("prod", "new")]), clock, random.Random(7), Failures())
    gates = Gates(GateParts(view.board, specs.get, clock, view.rng, lambda _: None))
    registry = CollectorRegistry()
    Gauge("slo_scaler_probe", "for the test", registry=registry).set(3)
    checks = check.routes(check.Check(view.board, clock, view.rng, view.failed))
    asked = admit.routes(admit.Admit(gates, view.failed))
    gate = gate_app(view, [*checks, *asked])
    return view, gate, ops_app(Ops(view, registry, lambda: True, {**check.paths(), **admit.paths()}))
