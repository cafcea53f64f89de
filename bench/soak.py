"""Whether a process grows: minutes at full rate over sockets, and an hour of a thousand workloads in virtual time.

``python -m bench soak --minutes 15`` is the first, with ``--virtual`` the second. Growth is judged by the last third against the second:
the first one fills windows and caches.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from statistics import fmean

import aiohttp
import grpc
import grpc.aio

from bench.callers import CALLS_PER_WORKLOAD_S, calling, streaming
from bench.outside import Used, configuration, engines, scaler
from bench.scale import MIB, TICK_S, Ops
from bench.traffic import observations, spec
from scaler.core.step import State, step
from scaler.pb import externalscaler_pb2_grpc as pb_grpc

GROWTH, SAMPLE_S, STATES = 1.05, 1.0, 20
HOUR_S, VIRTUAL_TICK_S = 3600.0, 2.0


def thirds(values: list[float]) -> tuple[float, float]:
    """The means of the second and of the last third."""
    third = len(values) // 3
    return fmean(values[third : 2 * third]), fmean(values[2 * third :])


def grown(name: str, values: list[float], unit: str) -> str:
    """The last third against the second."""
    second, last = thirds(values)
    verdict = "ok" if last <= GROWTH * second else "OVER"
    return f"{name}: {second:.1f}, then {last:.1f} {unit}; ratio {last / second:.3f}, limit {GROWTH}   {verdict}"


async def _sockets(workloads: int, minutes: float, folder: Path) -> list[str]:
    seen: list[Used] = []
    async with engines() as port:
        path = folder / "slo-scaler.yaml"
        path.write_text(configuration(workloads, port))
        async with scaler(path, TICK_S) as process, aiohttp.ClientSession() as session:
            await Ops(session, process.ports["ops"]).until_decided(workloads)
            async with grpc.aio.insecure_channel(f"127.0.0.1:{process.ports['keda']}") as channel:
                stub = pb_grpc.ExternalScalerStub(channel)
                async with streaming(stub, workloads):
                    calls = asyncio.create_task(calling(stub, workloads, 60 * minutes))
                    while not calls.done():
                        seen.append(process.used())
                        await asyncio.wait((calls,), timeout=SAMPLE_S)
                    asked = await calls
    rate = round(CALLS_PER_WORKLOAD_S * workloads)
    return [
        f"{workloads:,} workloads, {rate} RPC/s, {workloads:,} streams, {minutes:g} minutes; load average {os.getloadavg()[0]:.1f}",
        f"{len(asked.latencies_s)} calls; what failed: {dict(asked.failed.most_common(3))}",
        grown("memory", [used.rss / MIB for used in seen], "MiB"),
        grown("descriptors", [float(used.descriptors) for used in seen], ""),
    ]


def virtual(workloads: int) -> list[str]:
    """An hour of ticks of so many workloads, all with the same two replicas: what their states weigh, and the process."""
    states, sizes, rss = [State()] * workloads, list[float](), list[float]()
    of = spec()
    for tick, seen in enumerate(observations(2, int(HOUR_S / VIRTUAL_TICK_S))):
        states = [step(of, state, seen)[0] for state in states]
        if tick % STATES == 0:
            sizes.append(fmean(len(pickle.dumps(state)) for state in states[:STATES]) / 1024)
            rss.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB)
    head = f"an hour of {workloads:,} workloads with 2 replicas, a tick each {VIRTUAL_TICK_S:g} s"
    return [head, grown("a state, pickled", sizes, "KiB"), grown("memory of the process", rss, "MiB")]


def main(arguments: list[str]) -> int:
    """1 when something grows."""
    parser = ArgumentParser(prog="python -m bench soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--workloads", type=int, default=1000)
    parser.add_argument("--virtual", action="store_true")
    given = parser.parse_args(arguments)
    if given.virtual:
        lines = virtual(given.workloads)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            lines = asyncio.run(_sockets(given.workloads, given.minutes, Path(temporary)))
    print("\n".join(lines))
    return int(any(line.endswith("OVER") for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
