"""A whole scaler, and the engines that it reads, each a process of its own.

What it takes is read from /proc. ``python -m bench.outside CONFIG TICK_S`` is ``slo-scaler serve`` with one thing more: between SIGUSR1 and
SIGUSR2 it notes how long its event loop takes to come round.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from scaler.app import serve
from scaler.core.model import WorkloadKey
from scaler.settings import Place, read_ports

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "tests" / "data" / "metrics" / "0.32.0-07-admission-limit-20-overload.prom"
ANY_PORT = {f"SLO_SCALER_{name}_PORT": "0" for name in ("KEDA", "GATE", "OPS", "AUTHZ")}
METADATA = {
    "scalerAddress": "slo-scaler.slo-scaler.svc:6000",
    "ttftSloSeconds": "2",
    "tpotSloSeconds": "0.1",
    "profile": "llama-8b-chat",
    "minReplicas": "1",
    "maxReplicas": "20",
}
NEW_PAGE_S = 5.0
WAKE_S = 0.001
_COUNTER = re.compile(rb"^([^#\s]+(?:_total|_count|_sum|_bucket)(?:\{[^}]*\})?) ([0-9.e+]+)$", re.MULTILINE)
_TICKS_A_S = os.sysconf("SC_CLK_TCK")


def key(number: int) -> WorkloadKey:
    """One of very many workloads, in twenty namespaces."""
    return WorkloadKey(f"team-{number % 20}", f"model-{number}")


def configuration(workloads: int, port: int) -> str:
    """The file that names so many workloads with one engine each: one server, at a thousand addresses of the loopback."""
    lines = [
        "profiles: {llama-8b-chat: {safe_concurrency: 100, safe_rate_per_s: 8, unloaded_ttft_s: 0.15}}",
        "workloads:",
    ]
    for number in range(workloads):
        address = f"127.{1 + number // 250}.0.{1 + number % 250}:{port}"
        metadata = {name: text for name, text in METADATA.items() if name != "scalerAddress"}
        lines.append(f"  {key(number)}: {json.dumps({'targets': [address], 'metadata': metadata})}")
    return "\n".join(lines) + "\n"


class _Engine(asyncio.Protocol):
    """Answers every request with the page of this moment: real vLLM's, with counters that grow."""

    pages: Mapping[int, bytes] = {}
    begun = time.monotonic()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        step = int((time.monotonic() - self.begun) / NEW_PAGE_S)
        if step not in _Engine.pages:
            grown = _COUNTER.sub(lambda m: b"%s %r" % (m[1], float(m[2]) * (1 + 0.01 * step)), PAGE.read_bytes())
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(grown)}\r\n\r\n"
            _Engine.pages = {step: head.encode() + grown}
        self._transport.write(_Engine.pages[step] * data.count(b"\r\n\r\n"))


def _engines(told: Connection) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Engine, "0.0.0.0", 0, backlog=4096)  # noqa: S104
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


@asynccontextmanager
async def engines() -> AsyncIterator[int]:
    """The port on which all engines answer."""
    processes = get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_engines, args=(theirs,), daemon=True)
    process.start()
    try:
        yield await asyncio.to_thread(ours.recv)
    finally:
        process.terminate()
        await asyncio.to_thread(process.join)


@dataclass(frozen=True, slots=True)
class Used:
    """What a process has used until a moment: seconds of CPU, bytes in memory now and at most, open descriptors."""

    at: float
    cpu_s: float
    rss: int
    most_rss: int
    descriptors: int

    def cores_since(self, before: Used) -> float:
        """Share of one core between two moments."""
        return (self.cpu_s - before.cpu_s) / (self.at - before.at)


@dataclass(frozen=True, slots=True)
class Turns:
    """How long the loop took to come round between two moments: seconds of the clock and of CPU, 99th percentile and most."""

    p99_s: float
    most_s: float
    most_cpu_s: float


@dataclass(slots=True)
class Scaler:
    """A scaler that runs. Its log is read and, but for what is asked for here, forgotten."""

    process: asyncio.subprocess.Process
    ports: dict[str, int] = field(default_factory=dict)
    turns: asyncio.Queue[Turns] = field(default_factory=asyncio.Queue)
    listening: asyncio.Event = field(default_factory=asyncio.Event)
    lines: int = 0

    def used(self) -> Used:
        """Until now."""
        proc = Path(f"/proc/{self.process.pid}")
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        sizes = dict(line.split(":") for line in (proc / "status").read_text().splitlines() if line.startswith("Vm"))
        rss, most = (int(sizes[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
        cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_A_S
        return Used(time.monotonic(), cpu_s, rss, most, len(list((proc / "fd").iterdir())))

    async def turns_during(self, seconds: float) -> Turns:
        """How long its loop takes to come round meanwhile."""
        self.process.send_signal(signal.SIGUSR1)
        await asyncio.sleep(seconds)
        self.process.send_signal(signal.SIGUSR2)
        return await self.turns.get()

    async def read(self) -> None:
        """Reads the log to its end."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines += 1
            if b'"turns"' in line[:12]:
                self.turns.put_nowait(Turns(**json.loads(line)["turns"]))
            elif not self.ports and b'"listening"' in line:
                self.ports = {name: json.loads(line)[name] for name in ("keda", "gate", "ops", "authz")}
                self.listening.set()


@asynccontextmanager
async def scaler(path: Path, tick_s: float, *command: str) -> AsyncIterator[Scaler]:
    """One that listens. ``command`` is what Python runs instead of this module."""
    arguments = command or ("-m", "bench.outside", str(path), str(tick_s))
    environment = {**os.environ, **ANY_PORT, "SLO_SCALER_HOST": "127.0.0.1"}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env=environment, cwd=ROOT, stdout=pipe, limit=1 << 22
    )
    found = Scaler(process)
    reading = asyncio.create_task(found.read())
    try:
        await asyncio.wait((reading, asyncio.create_task(found.listening.wait())), return_when="FIRST_COMPLETED")
        assert found.ports, "the scaler did not start"
        yield found
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await reading
        await process.wait()


async def _watch(ended: asyncio.Event) -> Turns:
    """Notes each turn until the end. What a sleep of a millisecond takes more than that is the loop's other work, or the machine's."""
    clock, cpu, turns = time.perf_counter, time.thread_time, list[tuple[float, float]]()
    while not ended.is_set():
        before, used = clock(), cpu()
        await asyncio.sleep(WAKE_S)
        turns.append((clock() - before - WAKE_S, cpu() - used))
    gaps = sorted(gap for gap, _ in turns)
    return Turns(gaps[int(0.99 * (len(gaps) - 1))], gaps[-1], max(used for _, used in turns))


async def _serve(path: Path, tick_s: float) -> None:
    loop, ended, watching = asyncio.get_running_loop(), asyncio.Event(), set[asyncio.Task[None]]()

    async def tell() -> None:
        turns = await _watch(ended)
        told = {"p99_s": turns.p99_s, "most_s": turns.most_s, "most_cpu_s": turns.most_cpu_s}
        print(json.dumps({"turns": told}), flush=True)

    def begin() -> None:
        ended.clear()
        watching.add(asyncio.ensure_future(tell()))

    loop.add_signal_handler(signal.SIGUSR1, begin)
    loop.add_signal_handler(signal.SIGUSR2, ended.set)
    await serve(path, read_ports(), Place(), tick_s)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), float(sys.argv[2])))
