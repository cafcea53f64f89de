"""The KEDA interface on a loopback port, with a real board and supervisor, and the ports behind them silent."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
import grpc.aio

from scaler.api.callers import Callers
from scaler.api.certificates import Certificates
from scaler.api.keda import KedaParts, KedaServicer, Pace
from scaler.api.keda_client import AioKedaClient
from scaler.api.keda_server import KedaServer, Listen
from scaler.control.board import Board
from scaler.control.loop import Parts
from scaler.control.ports import Scrape
from scaler.control.supervisor import Limits, Supervisor
from scaler.core.model import WorkloadKey
from scaler.core.shadow import ShadowRole
from scaler.core.step import WorkloadSpec
from scaler.errors import ConfigError
from tests.support.builders import spec

NEVER_S = 1e6
"""A tick that does not come while a test runs: the test publishes."""


@dataclass
class HandClock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class Silent:
    """Every port of a loop, saying nothing."""

    def source(self, spec):
        return self

    def demand(self, spec) -> None:
        return None

    async def read(self, ask) -> Scrape:
        return Scrape((), ())

    def why(self, key: WorkloadKey) -> str:
        return ""

    def snapshot(self, key: WorkloadKey) -> None:
        return None

    def ticked(self, outcome, took_s: float) -> None: ...

    def looked(self, key: WorkloadKey, missing) -> None: ...

    def crashed(self, key: WorkloadKey, error: Exception) -> None: ...

    def recalled(self, key: WorkloadKey, note: str) -> None: ...

    def forgotten(self, key: WorkloadKey) -> None: ...


@dataclass
class RpcLog:
    """Remembers the RPCs that ended, and lets a test wait for them."""

    ended: list[tuple[str, grpc.StatusCode]] = field(default_factory=list)
    failures: list[tuple[str, Exception]] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def handled(self, method: str, code: grpc.StatusCode, took_s: float) -> None:
        self.ended.append((method, code))
        self._news.set()

    def failed(self, method: str, error: Exception) -> None:
        self.failures.append((method, error))

    async def until_ended(self, method: str, count: int) -> None:
        while sum(name == method for name, _ in self.ended) < count:
            self._news.clear()
            await self._news.wait()


@dataclass
class Parser:
    """Reads one key and refuses what it does not know, as the real one does."""

    seen: list[tuple[WorkloadKey, Mapping[str, str]]] = field(default_factory=list)

    def __call__(self, key: WorkloadKey, metadata: Mapping[str, str]) -> WorkloadSpec:
        self.seen.append((key, metadata))
        given = {name.removesuffix("FromEnv"): value for name, value in metadata.items()}
        unknown = [f"{name}: unknown key" for name in given if name not in {"scalerAddress", "safeConcurrency"}]
        missing = [] if "safeConcurrency" in given else ["safeConcurrency: required"]
        if unknown or missing:
            raise ConfigError(*unknown, *missing)
        return spec(key, float(given["safeConcurrency"]), tick_s=NEVER_S)


@dataclass
class Edge:
    clock: HandClock
    board: Board
    supervisor: Supervisor
    parse: Parser
    rpcs: RpcLog
    servicer: KedaServicer
    server: KedaServer
    channel: grpc.aio.Channel
    port: int = 0

    @property
    def client(self) -> AioKedaClient:
        return AioKedaClient(self.channel)

    def dial(self) -> grpc.aio.Channel:
        """A connection of its own."""
        return grpc.aio.insecure_channel(f"127.0.0.1:{self.port}", options=[("grpc.use_local_subchannel_pool", 1)])


@asynccontextmanager
async def edge(
    *,
    pace: Pace | None = None,
    board: Board | None = None,
    parse=None,
    grace_s: float = 5.0,
    limit: int = 100_000,
    in_namespace: int = 100_000,
    shadow: ShadowRole | None = None,
    vouch: Callable[[WorkloadKey], str] = lambda _: "",
    callers: Callers | None = None,
    held: Certificates | None = None,
) -> AsyncIterator[Edge]:
    clock, board, rpcs, shutdown, silent = HandClock(), board or Board(), RpcLog(), asyncio.Event(), Silent()
    supervisor = Supervisor(Parts(silent, silent, board, silent, clock), lambda: Limits(limit, in_namespace))
    parse = parse or Parser()
    given = KedaParts(board, supervisor, parse, clock, rpcs, shutdown, lambda _: shadow, callers or Callers(), vouch)
    servicer = KedaServicer(given, pace or Pace())
    server = KedaServer(servicer, shutdown, Listen(0, "127.0.0.1", grace_s, held))
    port = await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            yield Edge(clock, board, supervisor, parse, rpcs, servicer, server, channel, port)
        finally:
            await server.stop()
            await supervisor.stop()
