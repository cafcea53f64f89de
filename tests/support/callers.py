"""Who calls a scaler through its Services: KEDA over one connection that it never leaves, and gateways. They remember each answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby

import aiohttp
import grpc

from scaler.api.keda_client import AioKedaClient, RpcFailed, ScaledObject
from tests.support.scaler_pods import pause

SYNC_S, REOPEN_S, POLL_S = 0.2, 0.2, 0.05
TIMEOUT = aiohttp.ClientTimeout(total=5.0)
LONGEST_RECONNECT_MS = 2000
"""KEDA's own pause doubles up to two minutes; here nobody wants to wait for that."""
OPTIONS = [("grpc.max_reconnect_backoff_ms", LONGEST_RECONNECT_MS)]


@dataclass(frozen=True)
class Answer:
    """What the three calls of one sync brought: ``name``, ``target`` and ``value`` of the metric, ``active``; or the failure."""

    name: str = ""
    target: float = 0.0
    value: float = 0.0
    active: bool = False
    failure: str = ""


@dataclass(eq=False)
class Keda:
    """KEDA's operator. ``pushes`` counts what came by stream, ``ends`` how each stream ended: "" is OK."""

    address: str
    of: ScaledObject
    answers: list[Answer] = field(default_factory=list)
    pushes: int = 0
    ends: list[str] = field(default_factory=list)

    @property
    def good(self) -> list[Answer]:
        return [answer for answer in self.answers if not answer.failure]

    @property
    def failures(self) -> list[str]:
        return [answer.failure for answer in self.answers if answer.failure]

    @property
    def longest_failure(self) -> int:
        """The most syncs that failed one after another."""
        runs = [len(list(run)) for failed, run in groupby(self.answers, lambda one: bool(one.failure)) if failed]
        return max(runs, default=0)

    async def run(self) -> None:
        async with grpc.aio.insecure_channel(self.address, options=OPTIONS) as channel:
            client = AioKedaClient(channel)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._sync(client))
                group.create_task(self._listen(client))

    async def _sync(self, client: AioKedaClient) -> None:
        while True:
            self.answers.append(await self._ask(client))
            await pause(SYNC_S)

    async def _ask(self, client: AioKedaClient) -> Answer:
        try:
            spec = await client.metric_spec(self.of)
            found = await client.metrics(self.of, spec.name)
            return Answer(spec.name, spec.target, found.value, await client.is_active(self.of))
        except RpcFailed as error:
            return Answer(failure=str(error))

    async def _listen(self, client: AioKedaClient) -> None:
        while True:
            end = ""
            try:
                async for _ in client.stream_is_active(self.of):
                    self.pushes += 1
            except RpcFailed as error:
                end = str(error)
            self.ends.append(end)
            await pause(REOPEN_S)


@dataclass(eq=False)
class Gateway:
    """Polls one path, each time over a new connection unless it ``keeps`` it. What fails is tried again, once and at once.

    ``heard``: status and state header of each answer, in order. ``hiccups``: first tries that failed. ``failures``: second ones.
    """

    address: str
    path: str
    keeps: bool
    heard: list[tuple[int, str]] = field(default_factory=list)
    hiccups: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    async def run(self) -> None:
        connector = aiohttp.TCPConnector(force_close=not self.keeps)
        async with aiohttp.ClientSession(f"http://{self.address}", connector=connector, timeout=TIMEOUT) as client:
            while True:
                if not await self._ask(client, self.hiccups):
                    await self._ask(client, self.failures)
                await pause(POLL_S)

    async def _ask(self, client: aiohttp.ClientSession, failed: list[str]) -> bool:
        try:
            async with client.get(self.path) as answer:
                await answer.read()
                self.heard.append((answer.status, answer.headers.get("X-Backpressure-State", "")))
        except (aiohttp.ClientError, TimeoutError) as error:
            failed.append(f"{type(error).__name__}: {error}")
            return False
        return True


@asynccontextmanager
async def calling(*callers: Keda | Gateway) -> AsyncIterator[None]:
    """They call while the context is open; one that breaks makes the way out fail."""
    tasks = [asyncio.create_task(caller.run()) for caller in callers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
