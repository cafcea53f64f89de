"""Faults of the process and of its callers, over real sockets: what everybody sees meanwhile and afterwards."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import grpc
import grpc.aio
import pytest
from aiohttp import web

from scaler.api.keda_client import AioKedaClient, RpcFailed, ScaledObject
from scaler.app import Bound, Wiring, running
from scaler.core.decision import Decision
from scaler.core.model import Pressure, WorkloadKey
from scaler.settings import Ports, parse_configuration
from scaler.sources.targets import ConfiguredReplicas
from tests.support.builders import decision, observation, reading, spec
from tests.support.chaos_fleet import LIES
from tests.support.engines import OVERLOAD, PageEngine, listening
from tests.support.keda_edge import edge

KEY = WorkloadKey("prod", "llama")
OBJECT = ScaledObject(KEY)
CALLED = ScaledObject(KEY, {"safeConcurrency": "100"})
ANY_PORT = {f"SLO_SCALER_{name}_PORT": "0" for name in ("KEDA", "GATE", "OPS", "AUTHZ")}
PROFILES = {"tiny": {"safe_concurrency": 4, "safe_rate_per_s": 1.0}}
TICK_S = 0.4
"""A page must come within three quarters of it, also on a machine that is busy."""
GONE = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
"""What gRPC says of calls that had not reached us yet. For KEDA any error holds the replicas."""


def configuration(*addresses: str) -> str:
    metadata = {"profile": "tiny", "ttftSloSeconds": "5"}
    return json.dumps({"profiles": PROFILES, "workloads": {str(KEY): {"targets": addresses, "metadata": metadata}}})


@asynccontextmanager
async def scaler(*addresses: str) -> AsyncIterator[Bound]:
    """The whole scaler in this process."""
    parsed = parse_configuration(configuration(*addresses), TICK_S)
    replicas = ConfiguredReplicas(parsed.targets, asyncio.get_running_loop().time)
    async with running(Wiring(parsed, Ports("127.0.0.1", 0, 0, 0, 0), replicas, None, io.StringIO())) as bound:
        yield bound


async def asked(engine: PageEngine) -> None:
    """The engine's page is asked for once more."""
    engine.asked.clear()
    await engine.asked.wait()


async def decided(bound: Bound, engine: PageEngine) -> Decision:
    """The first decision."""
    while not isinstance(found := bound.board.latest(KEY), Decision):
        await asked(engine)
    return found


# --- An engine that lies ----------------------------------------------------------------------------------------------


@dataclass
class Liar(PageEngine):
    """An engine of which the page is true until it is told to lie."""

    lie: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        true = await super().answer(request)
        assert isinstance(true.body, bytes)
        return LIES[self.lie](true.body) if self.lie else true


@pytest.mark.fault(
    "engine reports what is no number", "counters go backwards or jump", "half a page",
    "HTML, JSON or a redirect for a page", "gzip bomb or endless page",
)  # fmt: skip
@pytest.mark.parametrize("lie", LIES)
async def test_whatever_an_engine_says_of_itself_keda_is_told_no_less_and_no_nonsense(lie):
    honest, liar = PageEngine(OVERLOAD), Liar(OVERLOAD)
    async with AsyncExitStack() as stack:
        addresses = [await stack.enter_async_context(listening(engine)) for engine in (honest, liar)]
        bound = await stack.enter_async_context(scaler(*addresses))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{bound.keda_port}"))
        client = AioKedaClient(channel)
        before, values = await decided(bound, liar), set()
        liar.lie = lie
        for _ in range(3):
            await asked(liar)
            values.add((await client.metrics(OBJECT)).value)
        after = bound.board.latest(KEY)
    assert isinstance(after, Decision)
    assert min(values) >= before.desired
    assert max(values) <= after.shaped.inputs.max_replicas
    assert (after.state, after.blind) == (before.state, False)


# --- SIGTERM under load -----------------------------------------------------------------------------------------------


@dataclass
class Load:
    """Callers that ask again and again until nobody listens any more, and what they heard."""

    heard: list[object] = field(default_factory=list)
    enough: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, answer: object) -> None:
        self.heard.append(answer)
        if len(self.heard) > 300:
            self.enough.set()

    async def ask_the_gate(self, url: str) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.get(url) as answer:
                        await answer.read()
                        self.hear(answer.status)
                except aiohttp.ClientConnectionError:
                    return

    async def ask_as_keda(self, address: str) -> None:
        async with grpc.aio.insecure_channel(address) as channel:
            client = AioKedaClient(channel)
            while True:
                try:
                    self.hear((await client.metrics(OBJECT)).value)
                except RpcFailed as failure:
                    self.hear(failure.code)
                    return


async def event(process: asyncio.subprocess.Process, name: str) -> dict:
    assert process.stdout is not None
    while (line := json.loads(await process.stdout.readline()))["event"] != name:
        pass
    return line


@pytest.mark.fault("SIGTERM under load")
async def test_whoever_asks_while_the_process_goes_gets_an_answer_or_finds_nobody(tmp_path):
    load, path = Load(), tmp_path / "slo-scaler.yaml"
    async with listening(PageEngine()) as address:
        path.write_text(configuration(address))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "scaler", "serve", "--config", str(path), "--tick", str(TICK_S),
            env={**os.environ, **ANY_PORT, "SLO_SCALER_HOST": "127.0.0.1"}, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            ports = await event(process, "listening")
            await event(process, "decision")
            gate, keda = f"http://127.0.0.1:{ports['gate']}/v1/admit/{KEY}", f"127.0.0.1:{ports['keda']}"
            callers = [*(load.ask_the_gate(gate) for _ in range(8)), *(load.ask_as_keda(keda) for _ in range(4))]
            async with asyncio.TaskGroup() as group:
                for caller in callers:
                    group.create_task(caller)
                await load.enough.wait()
                process.send_signal(signal.SIGTERM)
            rest, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
    events = {json.loads(line)["event"] for line in rest.splitlines()}
    assert set(load.heard) - GONE == {200, 1.0}
    assert process.returncode == 0
    assert events & {"crash", "handler_failed", "library"} == set()


# --- A storm of reconnects --------------------------------------------------------------------------------------------


@pytest.mark.fault("reconnect storm")
async def test_in_a_storm_of_reconnects_each_stream_begins_with_what_is_known_and_each_call_is_answered():
    values: set[float] = set()
    async with edge() as keda:
        keda.board.publish(decision(spec(), observation(0.0, reading())))
        await keda.client.metric_spec(CALLED)

        async def reconnect() -> list[bool]:
            told = []
            for _ in range(5):
                async with keda.dial() as channel, aclosing(AioKedaClient(channel).stream_is_active(CALLED)) as stream:
                    told.append(await anext(stream))
            return told

        async def ask() -> None:
            while True:
                values.add((await keda.client.metrics(CALLED)).value)

        asking = asyncio.create_task(ask())
        told = await asyncio.gather(*(reconnect() for _ in range(40)))
        await keda.rpcs.until_ended("StreamIsActive", 200)
        assert (asking.done(), keda.servicer.open_streams, keda.rpcs.failures) == (False, 0, [])
        asking.cancel()
    assert (told, values) == ([[True] * 5] * 40, {1.0})


# --- A stall of the event loop ----------------------------------------------------------------------------------------


def stall() -> None:
    """Five ticks, in which nothing runs."""
    time.sleep(2.0)


@pytest.mark.fault("event loop stalls")
async def test_after_a_stall_of_the_loop_all_is_as_if_there_had_been_none():
    engine = PageEngine(OVERLOAD)
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(listening(engine))
        bound = await stack.enter_async_context(scaler(address))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{bound.keda_port}"))
        client = AioKedaClient(channel)
        before = await decided(bound, engine)
        under_way = [asyncio.create_task(client.metrics(OBJECT)) for _ in range(20)]
        await asked(engine)
        stall()
        answers = {(await answer).value for answer in under_way}
        for _ in range(2):
            await asked(engine)
        after = bound.board.latest(KEY)
        stream = client.stream_is_active(OBJECT)
        active = await anext(stream)
        await stream.aclose()
    assert isinstance(after, Decision)
    assert answers == {float(before.desired)}
    assert (after.desired >= before.desired, after.blind, active) == (True, False, True)
    assert Pressure.UNKNOWN not in {before.state, after.state}
