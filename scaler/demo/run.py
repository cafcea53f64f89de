"""Puts the demo together and plays it."""

from __future__ import annotations

import asyncio
import io
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

import aiohttp
import grpc.aio

from scaler.api.keda_client import AioKedaClient, ScaledObject
from scaler.app import Bound, Wiring, running
from scaler.control.board import Board
from scaler.core.decision import Decision
from scaler.core.model import GateMode
from scaler.demo import scenario as numbers
from scaler.demo.addresses import Addresses, addresses
from scaler.demo.closing import Closing, closing
from scaler.demo.cluster import DemoFailed, FleetReplicas, fleet_process
from scaler.demo.fleet import FleetPlan
from scaler.demo.gateway import Gateway
from scaler.demo.keda import Keda, Rhythm
from scaler.demo.scenario import KEY, Scenario, arrivals
from scaler.demo.summary import Cpu, Record, Rpcs, Sample, summarize
from scaler.demo.traffic import Outcome, Traffic
from scaler.demo.watch import Sights, Watch
from scaler.settings import Ports, parse_configuration

LOOK_S, LOOKS = 0.1, 150
"""How often the first replicas and the first decision are looked for, in seconds, and how many times at most."""
KEPT_LINES = 40


class Tail(io.StringIO):
    """Where the scaler logs to: the last lines are kept, for the case that something goes wrong."""

    def __init__(self) -> None:
        """Nothing was logged yet."""
        super().__init__()
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)

    def write(self, text: str) -> int:
        """Keep what is a line."""
        self._lines.extend(line for line in text.splitlines() if line)
        return len(text)

    def text(self) -> str:
        """The last lines."""
        return "\n".join(self._lines)


@dataclass(frozen=True, slots=True)
class _Cast:
    """Everybody who acts."""

    replicas: FleetReplicas
    gateway: Gateway
    keda: Keda
    traffic: Traffic
    bound: Bound
    at: Addresses


@dataclass(slots=True)
class Stage:
    """A demo that is up."""

    scenario: Scenario
    _log: Tail = field(repr=False)
    _cast: _Cast = field(repr=False)
    _record: Record | None = field(default=None, repr=False)

    @property
    def log(self) -> str:
        """The end of the scaler's log."""
        return self._log.text()

    @property
    def at(self) -> Addresses:
        """Where it answers."""
        return self._cast.at

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """What has become of requests so far."""
        return self._cast.traffic.outcomes

    @property
    def record(self) -> Record | None:
        """What was seen of the play; None before anything was."""
        return self._record if self._record is not None and self._record.samples else None

    async def decided(self) -> None:
        """Wait for the first decision, but not for ever: that it is missing then shows in the summary."""
        await _until(lambda: _decided(self._cast.bound.board))

    async def play(self, show: Callable[[Sample], None]) -> None:
        """Play the scenario, once. ``show`` is given what is seen. Cancelled, it still keeps what was seen until then."""
        clock, cast = asyncio.get_running_loop().time, self._cast
        await self.decided()
        started_at, own_cpu_s, fleet_cpu_s = clock(), time.process_time(), cast.replicas.cpu_s
        watch = Watch(Sights(cast.bound.board, cast.gateway, cast.replicas, clock), started_at, show)
        watching, complete = asyncio.create_task(watch.run()), False
        try:
            await cast.traffic.play(arrivals(self.scenario), started_at)
            complete = True
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            lasted_s = clock() - started_at
            cpu = Cpu(
                fleet=round((cast.replicas.cpu_s - fleet_cpu_s) / lasted_s, 3),
                rest=round((time.process_time() - own_cpu_s) / lasted_s, 3),
            )
            self._record = Record(
                scenario=self.scenario,
                samples=tuple(watch.samples),
                outcomes=tuple(cast.traffic.outcomes),
                gateway=cast.gateway.counts,
                rpcs=_rpcs(cast.keda, started_at),
                cpu=cpu,
                cut_at_s=None if complete else round(lasted_s, 2),
            )

    def closing(self) -> Closing | None:
        """What was seen; None before anything was."""
        return None if self.record is None else closing(summarize(self.record))


@asynccontextmanager
async def staged(scenario: Scenario, ports: Ports) -> AsyncIterator[Stage]:
    """Start everything, and keep it up while the context lasts. Raises DemoFailed, and ConfigError for a port that was just taken."""
    log = Tail()
    async with AsyncExitStack() as stack:
        cast = await _assemble(stack, scenario, ports, log)
        clock = asyncio.get_running_loop().time
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(cast.replicas.run()),
                group.create_task(cast.keda.run(cast.replicas)),
                group.create_task(cast.gateway.poll(cast.at.state, cast.traffic.session, clock)),
            ]
            yield Stage(scenario, log, cast)
            for task in background:
                task.cancel()


async def _assemble(stack: AsyncExitStack, scenario: Scenario, ports: Ports, log: Tail) -> _Cast:
    clock = asyncio.get_running_loop().time
    plan = FleetPlan(numbers.MIN_REPLICAS, numbers.MAX_REPLICAS, numbers.START_S, numbers.START_SIGMA, scenario.seed)
    control = await stack.enter_async_context(fleet_process(plan))
    connector = aiohttp.TCPConnector(limit=0)
    session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
    replicas = FleetReplicas(KEY, control, session, clock)
    await _until_ready(replicas)
    enforce = scenario.gate is GateMode.ENFORCE
    gateway = Gateway(KEY, lambda: replicas.endpoints, enforce=enforce, seed=scenario.seed)
    configuration = parse_configuration(numbers.CONFIGURATION, numbers.TICK_S)
    wiring = Wiring(configuration, ports, replicas, gateway, log)
    bound = await stack.enter_async_context(running(wiring))
    at = addresses(bound)
    channel = await stack.enter_async_context(grpc.aio.insecure_channel(at.keda))
    rhythm = Rhythm(numbers.POLLING_S, numbers.SYNC_S, numbers.MIN_REPLICAS, numbers.MAX_REPLICAS)
    scaled_object = ScaledObject(KEY, {"scalerAddress": at.keda, **scenario.metadata})
    keda = Keda(AioKedaClient(channel), scaled_object, rhythm, clock)
    return _Cast(replicas, gateway, keda, Traffic(gateway, session, clock), bound, at)


def _rpcs(keda: Keda, started_at: float) -> Rpcs:
    calls = keda.calls
    failures = tuple(replace(failure, at_s=round(failure.at_s - started_at, 2)) for failure in calls.failures)
    return Rpcs(dict(calls.answered), failures, calls.pushed)


async def _until_ready(replicas: FleetReplicas) -> None:
    for _ in range(LOOKS):
        await replicas.refresh()
        if len(replicas.endpoints) >= numbers.MIN_REPLICAS:
            return
        await asyncio.sleep(LOOK_S)
    raise DemoFailed(f"the first {numbers.MIN_REPLICAS} emulated replicas did not become ready")


async def _until(true: Callable[[], bool]) -> None:
    for _ in range(LOOKS):
        if true():
            return
        await asyncio.sleep(LOOK_S)


def _decided(board: Board) -> bool:
    return isinstance(board.latest(KEY), Decision)
