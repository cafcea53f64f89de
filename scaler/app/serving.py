"""A scaler that listens and decides while a context is open, and the process around it."""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext
from typing import TextIO

from aiohttp import web

from scaler.api.access import Keeper
from scaler.api.callers import Callers
from scaler.api.certificates import Certificates
from scaler.api.doors import Cap, ConnectionCaps, Listener, cannot_open, opened
from scaler.api.http import Ops, gate_app, ops_app, runner
from scaler.api.keda import KedaParts, KedaServicer
from scaler.api.keda_server import KedaServer, Listen
from scaler.api.view import View
from scaler.app import authz
from scaler.app.clustered import Cluster, Clustered, decided, reached
from scaler.app.directory import Directory
from scaler.app.keeping import keeping
from scaler.app.live import Live
from scaler.app.opened import vital
from scaler.app.reload import Reload
from scaler.backpressure import admit, check
from scaler.backpressure.asked import Trust
from scaler.backpressure.ext_authz import Authorization, CheckParts
from scaler.control.board import Board
from scaler.control.gate import GateParts, Gates
from scaler.control.loop import NothingStored, Parts
from scaler.control.ports import Demand, Memory, Replicas, StateStore
from scaler.control.supervisor import Supervisor
from scaler.core import memory as short_memory
from scaler.core.step import DEFAULT_TICK_S
from scaler.settings import Configuration, Place, Ports, WatchedFile, read_configuration
from scaler.settings.process import open_files, raise_open_files
from scaler.sources.targets import ConfiguredReplicas
from scaler.store import FileStore, WholeState
from scaler.telemetry import Reporter
from scaler.telemetry.certificates import OnCertificates
from scaler.telemetry.conditions import OnConditions
from scaler.telemetry.costs import OnCosts
from scaler.telemetry.gauges import AtGates
from scaler.telemetry.libraries import listened_to
from scaler.telemetry.objectives import OnObjectives

GRACE_S = 5.0
SWEEP_EVERY_S = 60.0
COLLECT = (100, 10, 1000)
"""The young often, in moments; all objects seldom: with a thousand workloads that stops every loop for a fifth of a second."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """What differs between serving, the demo and tests.

    Who knows the replicas, who counts refusals (None: nobody), where to listen and to log, the file to follow, the cluster that is talked
    to, and the directory where state is kept without one, if any.
    """

    configuration: Configuration
    ports: Ports
    replicas: Replicas
    demand: Demand | None
    log: TextIO
    watched: WatchedFile | None = None
    cluster: Cluster | None = None
    state_dir: Path | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """A running scaler: the ports it listens on, its board and its supervisor."""

    keda_port: int
    gate_port: int
    ops_port: int
    authz_port: int
    board: Board
    supervisor: Supervisor


async def serve(path: Path | None, ports: Ports, place: Place, tick_s: float = DEFAULT_TICK_S) -> None:
    """Run until SIGTERM or SIGINT. Raises ConfigError for a bad file and for a port that cannot be opened."""
    watched = None if path is None else WatchedFile(path, tick_s)
    configuration = read_configuration(None, tick_s) if watched is None else watched.first()
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    raise_open_files()
    replicas = ConfiguredReplicas(configuration.targets, loop.time)
    async with AsyncExitStack() as stack:
        await replicas.resolve()
        await stack.enter_async_context(vital(replicas.run()))
        cluster = None if place.kubernetes is None else await stack.enter_async_context(reached(place.kubernetes))
        wiring = Wiring(configuration, ports, replicas, None, sys.stdout, watched, cluster, place.state_dir)
        await stack.enter_async_context(running(wiring))
        # What lives as long as the process need not be looked at by each full collection, which stops every loop meanwhile.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECT)
        await stop.wait()


@asynccontextmanager
async def running(wiring: Wiring) -> AsyncIterator[Bound]:
    """A scaler that listens and decides while the context is open.

    On the way out another pod takes over first, then readiness fails, streams end with OK, calls under way are answered, and the loops
    end last.
    """
    clock = asyncio.get_running_loop().time
    board, ready, shutdown = Board(), asyncio.Event(), asyncio.Event()
    reporter = Reporter(board, clock, time.time, wiring.log)
    live = Live(wiring.configuration, clock, wiring.replicas, wiring.demand)
    live.loopback = wiring.cluster is not None and wiring.cluster.api.local
    async with AsyncExitStack() as stack:
        stack.callback(reporter.close)
        stack.enter_context(listened_to(reporter.library, asyncio.get_running_loop()))
        certificates = await _certificates(stack, wiring.configuration, reporter)
        kept = await _kept(stack, wiring, reporter)
        gates = Gates(GateParts(board, live.spec_of, clock, random.SystemRandom(), live.nudge))
        parts = Parts(live.inputs, live, board, reporter, clock, kept.store, kept.memory, gate=gates)
        supervisor = Supervisor(parts, lambda: live.configuration.access.limits)
        live.specs = supervisor
        stack.push_async_callback(live.close)
        stack.push_async_callback(supervisor.stop)
        directory = Directory(supervisor, live.parse)
        callers = Callers() if certificates is None else Callers(live.keda_names, certificates.refused)
        asked = KedaParts(
            board, supervisor, live.parse, clock, reporter, shutdown, live.shadow, callers, directory.vouch
        )
        servicer = KedaServicer(asked)
        directory.reparsed, directory.listed = servicer.forget_parsed, live.lists
        live.bounds, live.overrides = directory.bounds, directory.overrides
        live.annotated, live.role = directory.annotated, directory.role
        await _follow(stack, wiring, Reload(live, supervisor, servicer, reporter, directory))
        if kept.clustered is not None:
            looking = kept.clustered.looking(wiring.configuration.namespaces, directory)
            live.cluster = discovery = await stack.enter_async_context(looking)
            directory.unseen = discovery.why
            await stack.enter_async_context(kept.clustered.announcing(board, directory.uid))
        await stack.enter_async_context(vital(_sweep(supervisor)))
        faults: Callable[[], tuple[str, ...]] = tuple if wiring.watched is None else wiring.watched.current_faults
        rng = random.SystemRandom()
        view = View(
            board, supervisor, clock, rng, reporter.failed, faults, lambda: live.configuration.prices, gates.asked
        )
        caps = ConnectionCaps.within(open_files())
        api = None if wiring.cluster is None else wiring.cluster.api
        keeper = await stack.enter_async_context(keeping(live.readers, api, clock, reporter))
        listening = _Listening(
            stack, wiring.ports, certificates, ready, shutdown, caps, reporter, gates, live.trust, keeper
        )
        gate_port, ops_port = await _listen_http(listening, view)
        authz_port = await _listen_authz(listening)
        server, keda_port = await _listen_keda(listening, servicer)
        reporter.listening(keda=keda_port, gate=gate_port, ops=ops_port, authz=authz_port)
        if kept.clustered is not None:
            await decided(discovery, supervisor)
            await stack.enter_async_context(kept.clustered.leading(supervisor.adopt, server.renew))
        ready.set()
        yield Bound(keda_port, gate_port, ops_port, authz_port, board, supervisor)


@dataclass(frozen=True, slots=True)
class _Kept:
    """Where state is kept, and in which form; in ConfigMaps if there is a cluster."""

    store: StateStore = NothingStored()
    memory: Memory = short_memory
    clustered: Clustered | None = None


async def _kept(stack: AsyncExitStack, wiring: Wiring, reporter: Reporter) -> _Kept:
    """The store, read before any loop runs."""
    if wiring.cluster is not None:
        clustered = Clustered.of(wiring.cluster, asyncio.get_running_loop().time, reporter)
        await clustered.store.start()
        return _Kept(clustered.store, clustered=clustered)
    if wiring.state_dir is None:
        return _Kept()
    files = FileStore(wiring.state_dir, reporter.unstored)
    await asyncio.to_thread(files.load)
    stack.callback(files.close)
    return _Kept(files, WholeState())


async def _follow(stack: AsyncExitStack, wiring: Wiring, reload: Reload) -> None:
    await reload.apply(wiring.configuration)
    if wiring.watched is not None:
        await stack.enter_async_context(vital(reload.watch(wiring.watched)))


@dataclass(frozen=True, slots=True)
class _Listening:
    stack: AsyncExitStack
    ports: Ports
    certificates: Certificates | None
    ready: asyncio.Event
    shutdown: asyncio.Event
    caps: ConnectionCaps
    reporter: Reporter
    gates: Gates
    trust: Callable[[], Trust]
    keeper: Keeper


async def _certificates(stack: AsyncExitStack, configuration: Configuration, reporter: Reporter) -> Certificates | None:
    if configuration.tls is None:
        return None
    certificates = Certificates.load(configuration.tls, time.time, reporter.tls)
    reporter.registry.register(OnCertificates(certificates))
    await stack.enter_async_context(vital(certificates.run()))
    return certificates


async def _listen_keda(at: _Listening, servicer: KedaServicer) -> tuple[KedaServer, int]:
    listen = Listen(at.ports.keda, at.ports.host, GRACE_S, at.certificates, most=at.caps.keda)
    server = KedaServer(servicer, at.shutdown, listen)
    port = await server.start()
    at.stack.push_async_callback(server.stop)
    return server, port


async def _listen_authz(at: _Listening) -> int:
    servicer = Authorization(CheckParts(at.gates, at.reporter.handled, at.reporter.failed, at.trust, at.keeper.may_ask))
    door = authz.Door(at.ports.host, at.ports.authz, GRACE_S, at.certificates, at.caps.authz)
    return await at.stack.enter_async_context(authz.authorizing(servicer, door))


async def _listen_http(at: _Listening, view: View) -> tuple[int, int]:
    """Serve gateways, with TLS if it is configured, and operators, without: kubelet and Prometheus ask there. The two ports."""
    reporter, gates = at.reporter, at.gates
    for collector in (
        AtGates(gates.counted, lambda: gates.let_in_unknown),
        OnConditions(view.board),
        OnCosts(view.board.costs, view.prices),
        OnObjectives(view.board, view.workloads.specs),
    ):
        reporter.registry.register(collector)
    checks = check.Check(view.board, view.clock, view.rng, reporter.failed, at.keeper.may_ask)
    ops = Ops(
        view,
        reporter.registry,
        lambda: at.ready.is_set() and not at.shutdown.is_set(),
        {**check.paths(), **admit.paths()},
        at.keeper,
    )
    tls = None if at.certificates is None else at.certificates.http_context()
    gate = _Door("GATE", at.ports.gate, Cap(at.caps.gate, lambda: reporter.crowded("gate")), tls)
    ops_door = _Door("OPS", at.ports.ops, Cap(at.caps.ops, lambda: reporter.crowded("ops")))
    asked = admit.Admit(gates, reporter.failed, at.trust, at.keeper.may_ask)
    gate_port = await _listen(at, gate_app(view, [*check.routes(checks), *admit.routes(asked)], at.keeper), gate)
    return gate_port, await _listen(at, ops_app(ops), ops_door)


@dataclass(frozen=True, slots=True)
class _Door:
    """One HTTP port: the name of its variable, its number, how many connections it holds, and TLS if it speaks that."""

    name: str
    port: int
    cap: Cap
    tls: SSLContext | None = None


async def _listen(at: _Listening, app: web.Application, door: _Door) -> int:
    served = runner(app)
    await served.setup()
    at.stack.push_async_callback(served.cleanup)
    if served.server is None:
        raise RuntimeError("a runner that is set up has a server")
    try:
        sockets = await opened(at.ports.host, door.port)
    except OSError as error:
        raise cannot_open(at.ports.host, door.port, door.name, error) from None
    at.stack.push_async_callback(Listener(sockets, served.server, door.cap, door.tls).close)
    bound: int = sockets[0].getsockname()[1]
    return bound


async def _sweep(supervisor: Supervisor) -> None:
    """Forget, now and then, the workloads that nobody asks for."""
    while True:
        await asyncio.sleep(SWEEP_EVERY_S)
        supervisor.forget_unasked()
