"""A thousand workloads in one process: what it takes, next to what it may take; and how that grows from ten.

Each workload has one engine, read every five seconds. KEDA's three calls come at the rate that KEDA makes them (0.3 a second a workload)
and every workload has a push stream, all on one connection, as KEDA has it. The scaler is ``slo-scaler serve``, seen from outside.

Run as ``python -m bench scale``; with ``--quick`` ten and a hundred workloads, in a minute.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from argparse import ArgumentParser
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import grpc
import grpc.aio

from bench.callers import CALLS_PER_WORKLOAD_S, Asked, calling, ref, streaming
from bench.outside import Scaler, Turns, configuration, engines, scaler
from scaler.api.keda import METRIC_NAME
from scaler.pb import externalscaler_pb2 as pb
from scaler.pb import externalscaler_pb2_grpc as pb_grpc

TICK_S, DEFAULT_TICK_S = 5.0, 2.0
SETTLE_S, PHASE_S = 8.0, 20.0
SIZES = (10, 100, 1000)
MIB = 1 << 20
PAGES = 3
"""How often the page of metrics is asked for while the loop is watched."""


@dataclass(frozen=True)
class Measured:
    """One size. ``idle`` is the share of a core for engines and ticks, ``busy`` the same with calls and streams."""

    workloads: int
    idle: float
    busy: float
    asked: Asked
    pushed: int
    rss: int
    most_rss: int
    descriptors: int
    tick_s: float
    page: int
    page_s: float
    calm: Turns
    turns: Turns


@dataclass
class Ops:
    """The operator's port of a scaler."""

    session: aiohttp.ClientSession
    port: int

    async def page(self) -> tuple[bytes, float]:
        """The page of metrics as Prometheus asks for it, and the seconds it took."""
        begun = time.perf_counter()
        accept = {"Accept": "application/openmetrics-text;version=1.0.0"}
        async with self.session.get(f"http://127.0.0.1:{self.port}/metrics", headers=accept) as answer:
            page = await answer.read()
        return page, time.perf_counter() - begun

    async def until_decided(self, workloads: int) -> None:
        """Every workload has a number."""
        for _ in range(24):
            if (await self.page())[0].count(b"\nslo_scaler_desired_replicas{") >= workloads:
                return
            await asyncio.sleep(5)  # the page is no small work either
        raise TimeoutError("not every workload had a number within two minutes")


def ticks(page: bytes) -> tuple[float, float]:
    """How many ticks there were, and the seconds they took, from the page of metrics."""
    name = b"\nslo_scaler_tick_duration_seconds_"
    count, total = (float(page.partition(name + end + b" ")[2].partition(b"\n")[0]) for end in (b"count", b"sum"))
    return count, total


async def measure(workloads: int, folder: Path, tick_s: float = TICK_S, phase_s: float = PHASE_S) -> Measured:
    """One size, from a process that has just begun."""
    async with engines() as port:
        path = folder / f"{workloads}.yaml"
        path.write_text(configuration(workloads, port))
        async with scaler(path, tick_s) as process, aiohttp.ClientSession() as session:
            ops = Ops(session, process.ports["ops"])
            await ops.until_decided(workloads)
            await asyncio.sleep(SETTLE_S)
            return await _phases(process, ops, workloads, phase_s)


async def _phases(process: Scaler, ops: Ops, workloads: int, phase_s: float) -> Measured:
    before, begun = ticks((await ops.page())[0]), process.used()
    await asyncio.sleep(phase_s)
    idle = process.used().cores_since(begun)
    after = ticks((await ops.page())[0])
    async with grpc.aio.insecure_channel(f"127.0.0.1:{process.ports['keda']}") as channel:
        stub = pb_grpc.ExternalScalerStub(channel)
        await calling(stub, workloads, min(SETTLE_S, phase_s))
        async with streaming(stub, workloads) as streams:
            await asyncio.sleep(SETTLE_S)
            begun, pushed = process.used(), streams.pushed
            asked = await calling(stub, workloads, phase_s)
            busy, pushed = process.used().cores_since(begun), streams.pushed - pushed
            calm = await process.turns_during(phase_s / 3)
            turns, (page, page_s) = await asyncio.gather(process.turns_during(phase_s / 3), _pages(ops))
        used = process.used()
    tick_s = (after[1] - before[1]) / (after[0] - before[0])
    return Measured(
        workloads, idle, busy, asked, pushed, used.rss, used.most_rss, used.descriptors,
        tick_s, len(page), page_s, calm, turns,
    )  # fmt: skip


async def _pages(ops: Ops) -> tuple[bytes, float]:
    """The last of some pages, and the seconds of the slowest."""
    found = [await ops.page() for _ in range(PAGES)]
    return found[-1][0], max(took for _, took in found)


async def start(workloads: int, folder: Path) -> tuple[float, float]:
    """Seconds from the start of a process with that many workloads until it answers, and until it has a number."""
    async with engines() as port:
        path = folder / "start.yaml"
        path.write_text(configuration(workloads, port))
        begun = time.perf_counter()
        command = ("-m", "scaler", "serve", "--config", str(path))
        async with (
            scaler(path, DEFAULT_TICK_S, *command) as process,
            grpc.aio.insecure_channel(f"127.0.0.1:{process.ports['keda']}") as channel,
        ):
            stub = pb_grpc.ExternalScalerStub(channel)
            await stub.GetMetricSpec(ref(0))
            answered = time.perf_counter() - begun
            while True:
                with suppress(grpc.aio.AioRpcError):
                    await stub.GetMetrics(pb.GetMetricsRequest(scaledObjectRef=ref(0), metricName=METRIC_NAME))
                    return answered, time.perf_counter() - begun
                await asyncio.sleep(0.02)


def judged(name: str, value: float, limit: float, unit: str) -> str:
    """A figure, its limit, and whether it is within."""
    verdict = "ok" if value <= limit else "OVER"
    return f"{name:<78} {value:8.1f} {unit:<10} limit {limit:6.0f}   {verdict}"


def against_limits(of: Measured, started: tuple[float, float]) -> list[str]:
    """Each figure of the largest size against its limit."""
    calls = round(CALLS_PER_WORKLOAD_S * of.workloads)
    each, asked = f"{of.workloads:,} workloads", of.asked
    return [
        judged(f"{each}, an engine each, read every {TICK_S:g} s: CPU", 100 * of.idle, 50, "% of core"),
        judged(f"and {calls} RPC/s and a push stream each: CPU on top of it", 100 * (of.busy - of.idle), 25, "% of core"),
        judged("memory", of.rss / MIB, 300, "MiB"),
        judged("RPCs that failed", asked.failed.total(), 0, f"of {len(asked.latencies_s)}"),
        judged("RPC, median", 1e3 * asked.percentile_s(50), 10, "ms"),
        judged("RPC, 99th percentile", 1e3 * asked.percentile_s(99), 100, "ms"),
        judged(f"loop away at most while /metrics ({of.page / MIB:.1f} MiB) is made, by its CPU", 1e3 * of.turns.most_cpu_s, 20, "ms"),
        judged("start to first answer", started[0], 2, "s"),
        f"the loop away by the clock, while /metrics is made {turns(of.turns)}, otherwise {turns(of.calm)}",
        f"first number {started[1]:.1f} s after the start; {of.pushed} pushes; most memory {of.most_rss / MIB:.0f} MiB",
        f"the caller itself was late by {1e3 * asked.late_s:.0f} ms at most; what failed: {dict(asked.failed.most_common(3))}",
    ]  # fmt: skip


def turns(of: Turns) -> str:
    """In milliseconds."""
    return f"p99 {1e3 * of.p99_s:.1f} ms, most {1e3 * of.most_s:.1f} ms (CPU {1e3 * of.most_cpu_s:.1f} ms)"


def growth(sizes: list[Measured]) -> list[str]:
    """The table, in Markdown."""
    heads = ("workloads", "CPU engines+ticks", "CPU a tick", "CPU calls+streams", "CPU a call", "memory", "tick", "/metrics", "made in",
             "RPC p50", "RPC p99", "descriptors")  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|--:" * len(heads) + "|"]
    for of in sizes:
        per_s = of.workloads / TICK_S
        calls = CALLS_PER_WORKLOAD_S * of.workloads
        cells = (
            f"{of.workloads:,}",
            f"{100 * of.idle:.1f} %", f"{1e3 * of.idle / per_s:.2f} ms",
            f"{100 * (of.busy - of.idle):.1f} %", f"{1e3 * (of.busy - of.idle) / calls:.2f} ms",
            f"{of.rss / MIB:.0f} MiB", f"{1e3 * of.tick_s:.1f} ms",
            f"{of.page / 1024:,.0f} KiB", f"{of.page_s:.2f} s",
            f"{1e3 * of.asked.percentile_s(50):.1f} ms", f"{1e3 * of.asked.percentile_s(99):.1f} ms",
            str(of.descriptors),
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return lines


async def _run(*, quick: bool) -> list[str]:
    sizes = SIZES[:2] if quick else SIZES
    phase_s = 6.0 if quick else PHASE_S
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        begun = os.getloadavg()[0]
        found = [await measure(size, folder, phase_s=phase_s) for size in sizes]
        lines = against_limits(found[-1], await start(sizes[-1], folder))
        if not quick:
            often = await measure(sizes[-1], folder, DEFAULT_TICK_S)
            cores = f"{100 * often.idle:.0f} % of a core for engines and ticks, {100 * often.busy:.0f} % in all"
            lines.append(f"at the default tick of {DEFAULT_TICK_S:g} s: {cores}")
    load = f"load average of {os.cpu_count()} cores: {begun:.1f} at the beginning, {os.getloadavg()[0]:.1f} at the end"
    return [*lines, load, "", *growth(found)]


def run() -> list[str]:
    """The figures against their limits, then the growth."""
    return asyncio.run(_run(quick=False))


def main(arguments: list[str]) -> int:
    """1 when a figure is over its limit."""
    parser = ArgumentParser(prog="python -m bench scale", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    lines = asyncio.run(_run(quick=parser.parse_args(arguments).quick))
    print("\n".join(lines))
    return int(any(line.endswith("OVER") for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
