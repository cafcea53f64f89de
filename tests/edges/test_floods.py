"""Floods: what strangers may hold of each port is bounded, probes are answered throughout, and so is a caller who asks as one should."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import grpc
import pytest

from scaler.api.doors import MOST_UNASKED_BYTES, Cap, Listener, answering, opened
from scaler.api.http import KEEPALIVE_S
from scaler.api.keda_client import AioKedaClient, ScaledObject
from scaler.app import Bound, Wiring, running
from scaler.core.model import WorkloadKey
from scaler.settings import Ports, parse_configuration
from scaler.sources.targets import ConfiguredReplicas
from tests.support.flooding import CALLS, Http2Peer, connections

KEY = WorkloadKey("prod", "llama")
METADATA = {"safeConcurrency": "8", "ttftSloSeconds": "2"}
SLOW_HEAD = b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: "
SLOW_BODY = b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx"
LONG_HEADER = b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: " + bytes(b"a" * 70_000) + b"\r\n\r\n"


@asynccontextmanager
async def scaler() -> AsyncIterator[Bound]:
    replicas = ConfiguredReplicas({}, asyncio.get_running_loop().time)
    wiring = Wiring(parse_configuration(""), Ports("127.0.0.1", 0, 0, 0, 0), replicas, None, io.StringIO())
    async with running(wiring) as bound:
        yield bound


async def answered(bound: Bound) -> tuple[int, bool]:
    """The status of livez, and whether a caller who connects now is told the metric."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{bound.ops_port}/livez") as alive,
        grpc.aio.insecure_channel(f"127.0.0.1:{bound.keda_port}") as channel,
        asyncio.timeout(20),
    ):
        spec = await AioKedaClient(channel).metric_spec(ScaledObject(KEY, METADATA))
        return alive.status, bool(spec)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("said", [b"", SLOW_HEAD, SLOW_BODY, LONG_HEADER, b"PRI * HTTP/2.0\r\n\r\n"], ids=repr)
@pytest.mark.parametrize("port", ["ops_port", "gate_port"])
async def test_connections_that_ask_nothing_whole_leave_others_answered(port, said):
    async with scaler() as bound:
        strangers = await connections(getattr(bound, port), 300, said[:200] if said is not LONG_HEADER else said)
        assert await answered(bound) == (200, True)
        for stranger in strangers:
            stranger.close()


@pytest.mark.parametrize("door", ["keda", "authz"])
async def test_a_connection_may_hold_so_many_calls_that_say_nothing_and_no_more(door):
    async with scaler() as bound:
        peer = await Http2Peer.of(getattr(bound, f"{door}_port"))
        allowed = {"keda": 8192, "authz": 1024}[door]
        await peer.streams(CALLS[door], 1200)
        outcome = await answered(bound), peer.most_streams, peer.ended.is_set()
        await peer.close()
    assert outcome == ((200, True), allowed, False)


@pytest.mark.parametrize("door", ["keda", "authz"])
async def test_calls_beyond_what_a_connection_may_hold_are_refused(door):
    async with scaler() as bound:
        peer = await Http2Peer.of(getattr(bound, f"{door}_port"))
        assert peer.most_streams is not None
        await peer.streams(CALLS[door], peer.most_streams + 500)
        async with asyncio.timeout(30):
            while not (peer.heard["RstStreamFrame"] >= 500 or peer.ended.is_set()):
                await asyncio.wait((asyncio.ensure_future(peer.ended.wait()),), timeout=0.05)
        assert await answered(bound) == (200, True)
        await peer.close()


@pytest.mark.parametrize("door", ["keda", "authz"])
async def test_calls_that_are_taken_back_at_once_leave_nothing_behind(door):
    async with scaler() as bound:
        before = descriptors(), len(asyncio.all_tasks())
        peer = await Http2Peer.of(getattr(bound, f"{door}_port"))
        await peer.streams(CALLS[door], 5000, reset=True)
        assert await answered(bound) == (200, True)
        await peer.close()
        async with asyncio.timeout(30):
            while len(asyncio.all_tasks()) > before[1] + 5:
                await asyncio.wait((asyncio.ensure_future(peer.ended.wait()),), timeout=0.05)
                await answered(bound)
        assert descriptors() <= before[0] + 10


@pytest.mark.parametrize("door", ["keda", "authz"])
async def test_who_pings_without_end_is_hung_up_on(door):
    async with scaler() as bound:
        peer = await Http2Peer.of(getattr(bound, f"{door}_port"))
        await peer.pings(5000)
        async with asyncio.timeout(20):
            await peer.ended.wait()
        assert await answered(bound) == (200, True)
        await peer.close()


@pytest.mark.parametrize("door", ["keda", "authz"])
async def test_settings_without_end_leave_others_answered(door):
    async with scaler() as bound:
        peer = await Http2Peer.of(getattr(bound, f"{door}_port"))
        await peer.settings(5000)
        assert await answered(bound) == (200, True)
        await peer.close()


@pytest.mark.parametrize("door", ["keda", "authz"])
async def test_headers_and_messages_that_are_too_long_are_refused_before_they_are_read(door):
    async with scaler() as bound:
        peer = await Http2Peer.of(getattr(bound, f"{door}_port"))
        await peer.streams(CALLS[door], 20, more=[(f"x-{i}", "a" * 4000) for i in range(4)])
        await peer.message(CALLS[door], 1 << 30)
        async with asyncio.timeout(20):
            while peer.heard["HeadersFrame"] + peer.heard["RstStreamFrame"] < 1 and not peer.ended.is_set():
                await asyncio.wait((asyncio.ensure_future(peer.ended.wait()),), timeout=0.05)
        assert await answered(bound) == (200, True)
        await peer.close()


class Asked(asyncio.Protocol):
    """Answers each line with a line; a line is a whole request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"\n"):
            with answering(self.transport, 0):
                self.transport.write(b"yes\n")


@asynccontextmanager
async def listening(cap: Cap) -> AsyncIterator[int]:
    (door,) = await opened("127.0.0.1", 0)
    listener = Listener((door,), Asked, cap)
    try:
        yield door.getsockname()[1]
    finally:
        await listener.close()


async def test_a_connection_that_never_ends_its_request_is_hung_up_on_and_one_that_asks_is_not():
    async with listening(Cap(10, ask_within_s=0.3)) as port:
        slow = await asyncio.open_connection("127.0.0.1", port)
        asking = await asyncio.open_connection("127.0.0.1", port)
        slow[1].write(b"wh")
        while not slow[0].at_eof():
            asking[1].write(b"now?\n")
            assert await asking[0].readline() == b"yes\n"
            with pytest.raises((TimeoutError, asyncio.IncompleteReadError, ConnectionError)):
                async with asyncio.timeout(0.05):
                    await slow[0].readexactly(1)
            if isinstance(slow[0].exception(), ConnectionError):
                break
        for _, writer in (slow, asking):
            writer.close()


async def test_bytes_that_come_one_by_one_do_not_keep_a_place():
    crowded: list[str] = []
    async with listening(Cap(2, lambda: crowded.append("out"))) as port:
        slow = await asyncio.open_connection("127.0.0.1", port)
        asking = await asyncio.open_connection("127.0.0.1", port)
        asking[1].write(b"now?\n")
        assert await asking[0].readline() == b"yes\n"
        slow[1].write(b"wh")
        await slow[1].drain()
        late = await asyncio.open_connection("127.0.0.1", port)
        late[1].write(b"now?\n")
        assert await late[0].readline() == b"yes\n"
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await slow[0].readexactly(1)
        asking[1].write(b"now?\n")
        assert (await asking[0].readline(), crowded) == (b"yes\n", ["out"])
        for _, writer in (slow, asking, late):
            writer.close()


async def test_what_has_come_without_a_request_is_bounded_over_all_connections():
    crowded: list[str] = []
    async with listening(Cap(100, lambda: crowded.append("out"))) as port:
        writers = await connections(port, 8, bytes(MOST_UNASKED_BYTES // 6))
        asking = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(20):
            while not crowded:
                asking[1].write(b"now?\n")
                assert await asking[0].readline() == b"yes\n"
        for writer in (*writers, asking[1]):
            writer.close()


def test_the_http_server_ends_idle_connections_before_the_listener_does():
    assert Cap(1).ask_within_s > KEEPALIVE_S
