"""Where the process listens: families, brackets, and what is said when it cannot."""

from __future__ import annotations

import asyncio
import io
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import grpc
import pytest

from scaler.api.doors import Cap, ConnectionCaps, Listener, answering, opened
from scaler.app import Bound, Wiring, running
from scaler.errors import ConfigError
from scaler.settings import Ports, parse_configuration, read_ports
from scaler.sources.targets import ConfiguredReplicas

ANY = {f"SLO_SCALER_{name}_PORT": "0" for name in ("KEDA", "GATE", "OPS")}


@asynccontextmanager
async def scaler(ports: Ports) -> AsyncIterator[Bound]:
    replicas = ConfiguredReplicas({}, asyncio.get_running_loop().time)
    async with running(Wiring(parse_configuration(""), ports, replicas, None, io.StringIO())) as bound:
        yield bound


async def answers(bound: Bound, loopback: str) -> tuple[int, bool]:
    """The status of livez, and whether a channel to KEDA's port gets ready."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{loopback}:{bound.ops_port}/livez") as answer,
        grpc.aio.insecure_channel(f"{loopback}:{bound.keda_port}") as channel,
        asyncio.timeout(5),
    ):
        await channel.channel_ready()
        return answer.status, True


@pytest.mark.parametrize(
    ("host", "loopbacks"),
    [
        pytest.param("::", ["127.0.0.1", "[::1]"], id="everywhere"),
        pytest.param("[::]", ["127.0.0.1", "[::1]"], id="everywhere, in brackets"),
        pytest.param("::1", ["[::1]"], id="the loopback of IPv6"),
        pytest.param("[::1]", ["[::1]"], id="the loopback of IPv6, in brackets"),
        pytest.param("0.0.0.0", ["127.0.0.1"], id="everywhere, IPv4 only"),
        pytest.param("localhost", ["127.0.0.1"], id="a name"),
        pytest.param(None, ["127.0.0.1", "[::1]"], id="the default"),
    ],
)
async def test_every_way_to_write_a_host_is_listened_on(host, loopbacks):
    ports = read_ports(ANY if host is None else {**ANY, "SLO_SCALER_HOST": host})
    async with scaler(ports) as bound:
        assert [await answers(bound, loopback) for loopback in loopbacks] == [(200, True)] * len(loopbacks)


@pytest.mark.parametrize("host", ["", " ", "[]", "[::1", "::1]", "a b"])
def test_a_host_that_is_none_is_a_fault_that_names_the_variable(host):
    with pytest.raises(ConfigError, match="SLO_SCALER_HOST: "):
        read_ports({"SLO_SCALER_HOST": host})


@pytest.mark.parametrize("name", ["keda", "gate", "ops"])
async def test_a_port_in_use_is_said_to_be_in_use_and_by_its_variable(name):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        wanted = {"keda": 0, "gate": 0, "ops": 0} | {name: port}
        with pytest.raises(ConfigError) as refused:
            async with scaler(Ports("127.0.0.1", **wanted)):
                pass
    assert str(refused.value) == (
        f"127.0.0.1:{port} cannot be opened: it is in use; change SLO_SCALER_{name.upper()}_PORT or SLO_SCALER_HOST"
    )


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "no-such-name.invalid"])
async def test_a_host_that_is_not_ours_is_not_called_a_port_in_use(host):
    with pytest.raises(ConfigError, match=rf"{re.escape(host)}.* cannot be opened: .*SLO_SCALER_HOST") as refused:
        async with scaler(Ports(host, 0, 0, 0, 0)):
            pass
    assert "in use" not in str(refused.value)


class Held(asyncio.Protocol):
    """Keeps a connection, and answers a byte with a byte: each is a whole request."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        with answering(self.transport, 0):
            self.transport.write(data)


@asynccontextmanager
async def held(cap: Cap) -> AsyncIterator[int]:
    (door,) = await opened("127.0.0.1", 0)
    listener = Listener((door,), Held, cap)
    try:
        yield door.getsockname()[1]
    finally:
        await listener.close()


async def test_beyond_the_cap_the_connection_that_asked_longest_ago_makes_way():
    crowded: list[str] = []
    async with held(Cap(2, lambda: crowded.append("out"))) as port:
        talking = await asyncio.open_connection("127.0.0.1", port)
        silent = await asyncio.open_connection("127.0.0.1", port)
        for reader, writer in (silent, talking):  # the one that came first speaks last
            writer.write(b"a")
            await reader.readexactly(1)
        late = await asyncio.open_connection("127.0.0.1", port)
        for reader, writer in (late, talking):
            writer.write(b"b")
            assert await reader.readexactly(1) == b"b"
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await silent[0].readexactly(1)
        assert crowded == ["out"]
        for _, writer in (talking, silent, late):
            writer.close()


async def test_a_connection_that_ended_takes_no_place():
    async with held(Cap(2)) as port:
        kept = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"a")
            writer.write_eof()
            assert await reader.read() == b"a"
            writer.close()
        kept[1].write(b"c")
        assert await kept[0].readexactly(1) == b"c"
        kept[1].close()


@pytest.mark.parametrize("files", [64, 128, 1024, 20_000, 1_048_576])
def test_the_caps_leave_half_of_the_files_to_scrapes_and_the_process(files):
    caps = ConnectionCaps.within(files)
    assert (
        caps.gate + caps.ops + caps.keda + caps.authz <= files // 2,
        min(caps.gate, caps.ops, caps.keda, caps.authz) >= 4,
    ) == (True, True)
