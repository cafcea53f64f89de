"""Strangers on our ports, and a log that nobody reads: the process answers the others, and writes down little and no secret."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp
import pytest

SECRET = "canary-9d27"
TLS_HELLO = bytes.fromhex("16030100a5010000a10303") + SECRET.encode() + bytes(80)
GARBAGE = (
    TLS_HELLO,
    b"GET /v1/state?key=" + SECRET.encode() + b" HTTP/9.9\r\n\r\n",
    b"GET /\x01" + SECRET.encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nA\x00" + SECRET.encode() + b": \x01\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: " + SECRET.encode() + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nX: " + SECRET.encode() * 4000 + b"\r\n\r\n",
)
SYSTEM_PORTS = ("keda", "gate", "ops")


@dataclass
class Scaler:
    process: asyncio.subprocess.Process
    ports: dict[str, int]

    async def until_alive(self) -> None:
        """Returns when livez answers."""
        while self.process.returncode is None:
            with suppress(aiohttp.ClientError):
                assert await self.livez() == 200
                return
            await asyncio.wait({asyncio.ensure_future(self.process.wait())}, timeout=0.05)

    async def livez(self) -> int:
        timeout, url = aiohttp.ClientTimeout(total=10), f"http://127.0.0.1:{self.ports['ops']}/livez"
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
            return answer.status

    async def stopped(self) -> tuple[int, str, str]:
        """Its exit code, its log and what it wrote to stderr, once it was told to stop."""
        self.process.send_signal(signal.SIGTERM)
        log, noise = await self.process.communicate()
        return self.process.returncode or 0, (log or b"").decode(), noise.decode()


def free_ports() -> dict[str, int]:
    with socket.socket() as keda, socket.socket() as gate, socket.socket() as ops:
        for door in (keda, gate, ops):
            door.bind(("127.0.0.1", 0))
        return {name: door.getsockname()[1] for name, door in zip(SYSTEM_PORTS, (keda, gate, ops), strict=True)}


@asynccontextmanager
async def serving(before: str = "", stdout: int = asyncio.subprocess.PIPE) -> AsyncIterator[Scaler]:
    ports = free_ports()
    given = {f"SLO_SCALER_{name.upper()}_PORT": str(port) for name, port in ports.items()}
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", f"{before} exec {shlex.quote(sys.executable)} -m scaler serve",
        env={**os.environ, **given, "SLO_SCALER_HOST": "127.0.0.1"}, stdout=stdout, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    scaler = Scaler(process, ports)
    try:
        await scaler.until_alive()
        yield scaler
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def sent(port: int, message: bytes) -> bytes:
    """What came back for these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(message)
    writer.write_eof()
    with suppress(ConnectionError):
        await writer.drain()
    answer = b""
    with suppress(ConnectionError):
        answer = await reader.read()
    writer.close()
    return answer


async def test_what_strangers_send_floods_no_log_and_is_not_written_down():
    async with serving() as scaler:
        for _ in range(20):
            for message in GARBAGE:
                await asyncio.gather(*(sent(scaler.ports[name], message) for name in ("gate", "ops")))
        code, log, noise = await scaler.stopped()
    lines = [json.loads(line) for line in log.splitlines()]
    told = [line for line in lines if line["event"] == "library"]
    assert (code, noise, SECRET in log, 1 <= len(told) <= 12) == (0, "", False, True)


@pytest.mark.parametrize("flooded", ["gate", "ops"])
async def test_idle_connections_without_number_leave_the_probes_answered_and_the_log_short(flooded):
    async with AsyncExitStack() as stack:
        scaler = await stack.enter_async_context(serving("ulimit -n 128;"))
        for _ in range(400):
            _, writer = await asyncio.open_connection("127.0.0.1", scaler.ports[flooded])
            stack.callback(writer.close)
        alive = [await scaler.livez() for _ in range(5)]
        code, log, noise = await scaler.stopped()
    crowded = [json.loads(line)["port"] for line in log.splitlines() if '"crowded"' in line]
    assert (alive, code, noise, crowded, len(log.splitlines()) < 20) == ([200] * 5, 0, "", [flooded], True)


async def test_idle_connections_to_kedas_port_leave_the_probes_answered():
    async with AsyncExitStack() as stack:
        scaler = await stack.enter_async_context(serving("ulimit -n 128;"))
        for _ in range(400):
            _, writer = await asyncio.open_connection("127.0.0.1", scaler.ports["keda"])
            stack.callback(writer.close)
        alive = [await scaler.livez() for _ in range(5)]
        code, log, _ = await scaler.stopped()
    assert (alive, code, len(log.splitlines()) < 20) == ([200] * 5, 0, True)


async def test_the_soft_limit_of_files_is_raised_to_the_hard_one():
    async with serving("ulimit -Sn 64;") as scaler:
        with open(f"/proc/{scaler.process.pid}/limits", encoding="ascii") as limits:  # noqa: ASYNC230, PTH123
            (line,) = [line for line in limits if line.startswith("Max open files")]
    soft, hard = line.split()[3:5]
    assert soft == hard


@pytest.mark.fault("log is not read")
async def test_a_reader_of_the_log_that_stalls_stops_nothing():
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(512))
    os.set_blocking(writing, True)
    try:
        async with serving(stdout=writing) as scaler:
            alive = await scaler.livez()
            code, _, noise = await scaler.stopped()
    finally:
        os.close(reading)
        os.close(writing)
    assert (alive, code, noise) == (200, 0, "")
