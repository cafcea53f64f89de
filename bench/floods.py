"""What strangers can do to the four ports with connections, streams and frames, and what it costs the scaler.

Memory and descriptors at most, and whether probes are answered meanwhile and a legitimate caller afterwards.

Run as ``python -m bench floods``.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import grpc
import grpc.aio

from bench.callers import ref
from bench.outside import Scaler, configuration, engines, scaler
from bench.scale import MIB
from scaler.pb import externalscaler_pb2_grpc as pb_grpc
from tests.support.flooding import CALLS, Http2Peer, connections

MOST_MIB, MOST_DESCRIPTORS = 300, 8192
HELD: list[asyncio.StreamWriter] = []
"""Connections that are kept until their flood is over: what nobody holds is closed."""
Flood = Callable[[dict[str, int]], Awaitable[None]]


async def silence(ports: dict[str, int]) -> None:
    """Two thousand sockets that say nothing, on each port."""
    for port in ports.values():
        HELD.extend(await connections(port, 2000, b""))


async def slow_heads(ports: dict[str, int]) -> None:
    """A thousand requests on each HTTP port whose head grows and never ends: half a megabyte each."""
    head = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"a" * 60_000) for i in range(9))
    for name in ("gate", "ops"):
        HELD.extend(await connections(ports[name], 1000, head))


async def slow_bodies(ports: dict[str, int]) -> None:
    """A thousand requests on each HTTP port whose body never ends."""
    head = b"POST /v1/state HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + bytes(200_000)
    for name in ("gate", "ops"):
        HELD.extend(await connections(ports[name], 1000, head))


async def open_streams(ports: dict[str, int]) -> None:
    """Ten thousand calls on each gRPC port that never say what they ask."""
    for name, path in CALLS.items():
        peer = await Http2Peer.of(ports[name])
        await peer.streams(path, 10_000)


async def resets(ports: dict[str, int]) -> None:
    """Fifty thousand calls on each gRPC port that are taken back at once."""
    for name, path in CALLS.items():
        peer = await Http2Peer.of(ports[name])
        await peer.streams(path, 50_000, reset=True)


async def control_frames(ports: dict[str, int]) -> None:
    """Twenty thousand PINGs and as many SETTINGS on each gRPC port."""
    for name in CALLS:
        for send in (Http2Peer.pings, Http2Peer.settings):
            await send(await Http2Peer.of(ports[name]), 20_000)


FLOODS: tuple[Flood, ...] = (silence, slow_heads, slow_bodies, open_streams, resets, control_frames)


async def _livez(port: int) -> bool:
    timeout = aiohttp.ClientTimeout(total=5)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        try:
            async with session.get(f"http://127.0.0.1:{port}/livez") as answer:
                return answer.ok
        except (aiohttp.ClientError, TimeoutError):
            return False


async def _under(flood: Flood, process: Scaler) -> str:
    before, most, probes = process.used(), process.used(), list[bool]()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{process.ports['keda']}") as channel:
        stub = pb_grpc.ExternalScalerStub(channel)
        await stub.GetMetricSpec(ref(0))
        flooding = asyncio.create_task(asyncio.wait_for(flood(process.ports), 60))
        while not flooding.done():
            probes.append(await _livez(process.ports["ops"]))
            await asyncio.wait((flooding,), timeout=0.2)
            most = max(most, process.used(), key=lambda used: used.descriptors)
        await flooding
        await stub.GetMetricSpec(ref(0), timeout=10)
    while HELD:
        HELD.pop().transport.abort()
    rss, cpu_s = process.used().most_rss / MIB, process.used().cpu_s - before.cpu_s
    verdict = "ok" if all(probes) and rss < MOST_MIB and most.descriptors < MOST_DESCRIPTORS else "OVER"
    told = (flood.__doc__ or "").strip()
    return (
        f"{told:<84} memory {rss:4.0f} MiB (limit {MOST_MIB})  descriptors {most.descriptors:5d}  CPU {cpu_s:5.1f} s  "
        f"livez {sum(probes)} of {len(probes)}  {verdict}"
    )


async def _run() -> list[str]:
    lines = [f"load average at the beginning: {os.getloadavg()[0]:.1f}"]
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "slo-scaler.yaml"
        for flood in FLOODS:
            async with engines() as port:
                path.write_text(configuration(3, port))
                async with scaler(path, 2.0) as process:
                    lines.append(await _under(flood, process))
    return lines


def run() -> list[str]:
    """A line for each flood, each against a process of its own."""
    return asyncio.run(_run())


def main(_: list[str]) -> int:
    """1 when something is over its limit."""
    lines = run()
    print("\n".join(lines))
    return int(any(line.endswith("OVER") for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
