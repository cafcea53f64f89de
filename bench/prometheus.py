"""What a poll of a large Prometheus costs, and how long it keeps the event loop from its other work.

A server in a process of its own answers every query with 5,000 series, as many as one answer should have. The loop
meanwhile wakes as often as it can; the longest time between two wakes is the gap that an RPC could have to wait.
Beside it stands the same poll done on the loop, which is what the threads are for.

Run as ``python bench/prometheus.py``; importable for ``run()``.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from urllib.parse import parse_qs

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scaler.control.ports import Ask, Target  # noqa: E402
from scaler.core.model import WorkloadKey  # noqa: E402
from scaler.engines import ENGINES  # noqa: E402
from scaler.sources.prometheus import PrometheusApi, PrometheusSettings, PrometheusSource  # noqa: E402
from scaler.sources.prometheus_poll import SERIES_LIMIT  # noqa: E402

VLLM = ENGINES["vllm"]
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
EDGES = ("0.1", "0.25", "0.5", "0.75", "1.0", "2.5", "5.0", "7.5", "+Inf")
HISTOGRAMS = (
    "vllm:time_to_first_token_seconds",
    "vllm:request_time_per_output_token_seconds",
    "vllm:request_queue_time_seconds",
    "vllm:request_prompt_tokens",
)
NUMBERS = {
    "vllm:num_requests_running": 80.0,
    "vllm:num_requests_waiting": 0.0,
    "vllm:kv_cache_usage_perc": 0.5,
    "vllm:generation_tokens_total": 1e6,
    "vllm:time_to_first_token_seconds_count": 1e4,
}
PODS = SERIES_LIMIT // (len(EDGES) + 1)
POLLS = 12


def answers() -> dict[str, bytes]:
    """The body of the answer for each kind of query, by what its text begins with or names."""
    pods = [f"llama-7f9c6d5b8-{number:05d}" for number in range(PODS)]
    rank = {"namespace": "prod", "model_name": MODEL, "engine": "0"}
    bodies: dict[str, list[tuple[dict[str, str], float]]] = {
        "timestamp(": [({"namespace": "prod", "pod": pod}, NOW) for pod in pods],
        "count by (__name__": [({"__name__": f"{name}_bucket", "le": le}, PODS) for name in HISTOGRAMS for le in EDGES],
        "count by (namespace": [
            ({"__name__": f"{name}_bucket", "namespace": "prod"}, PODS * len(EDGES)) for name in HISTOGRAMS
        ],
        "num_requests_running": [
            ({"__name__": name, **rank, "pod": pod}, value) for pod in pods for name, value in NUMBERS.items()
        ],
    }
    for name in HISTOGRAMS:
        buckets = [({"__name__": f"{name}_bucket", "le": le, **rank, "pod": pod}, 1e4) for pod in pods for le in EDGES]
        bodies[f"{name}_bucket"] = [*buckets, *[({"__name__": f"{name}_sum", **rank, "pod": pod}, 5e3) for pod in pods]]
    return {kind: body(rows) for kind, rows in bodies.items()}


NOW = 1_700_000_000.0


def body(rows: list[tuple[dict[str, str], float]]) -> bytes:
    """An answer as Prometheus spells it."""
    result = [{"metric": labels, "value": [NOW, str(value)]} for labels, value in rows]
    data = {"resultType": "vector", "result": result}
    return json.dumps({"status": "success", "data": data}, separators=(",", ":")).encode()


def serve(ready: Connection) -> None:
    """Answer for ever; runs in a process of its own."""
    bodies, empty, polls = answers(), body([]), count()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet, as any real server sends them

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            query = parse_qs(form)["query"][0]
            answer = next((text for kind, text in bodies.items() if kind in query), empty)
            if "timestamp(" in query:  # every poll finds a new scrape
                answer = answer.replace(b"1700000000", str(round(NOW) + next(polls)).encode())
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
            self.wfile.flush()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    ready.send(server.server_port)
    server.serve_forever()


@contextmanager
def serving() -> Iterator[str]:
    """The address of the server."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()


async def gaps(stop: asyncio.Event) -> list[float]:
    """The milliseconds between two turns of the loop, of all turns until ``stop``."""
    found, before = [], perf_counter()
    while not stop.is_set():
        await asyncio.sleep(0.001)
        now = perf_counter()
        found.append((now - before) * 1000)
        before = now
    return found


async def measure(url: str) -> tuple[list[float], list[float], list[float], int]:
    """Milliseconds: gaps of an idle loop, gaps while it polls, each poll; and how many replicas were read."""
    api = PrometheusApi(PrometheusSettings(url, interval_s=0.001, timeout_s=15.0), perf_counter)
    source = PrometheusSource(api, perf_counter, lambda: (2.0,))
    targets = tuple(Target(f"llama-7f9c6d5b8-{number:05d}", "") for number in range(PODS))
    ask = Ask(WorkloadKey("prod", "llama"), VLLM, targets)
    await source.read(ask)
    idle = await watched(asyncio.sleep(1.0))
    polls: list[float] = []
    read = 0

    async def poll() -> None:
        nonlocal read
        for _ in range(POLLS):
            start = perf_counter()
            read = len((await source.read(ask)).readings)
            polls.append((perf_counter() - start) * 1000)

    busy = await watched(poll())
    await source.close()
    await api.close()
    return idle, busy, polls, read


async def watched(work: object) -> list[float]:
    """The gaps while ``work`` is under way."""
    stop = asyncio.Event()
    watch = asyncio.create_task(gaps(stop))
    await work  # type: ignore[misc]
    stop.set()
    return await watch


def run() -> list[str]:
    """The gaps without and with polls, and the time of a poll: as Python comes, and after ``gc.freeze()``.

    Polls leave garbage enough for a full collection now and then, which stops the process while it looks through all
    that was ever imported, unless that is frozen.
    """
    with serving() as url:
        plain = asyncio.run(measure(url))
        gc.collect()
        gc.freeze()
        try:
            frozen = asyncio.run(measure(url))
        finally:
            gc.unfreeze()
    size = max(len(text) for text in answers().values())
    return [
        f"{plain[3]} replicas, {SERIES_LIMIT} series and {size / 1e6:.2f} MB an answer, {len(HISTOGRAMS)} such a poll",
        *shown("as it comes", *plain),
        *shown("after gc.freeze()", *frozen),
    ]


def shown(title: str, idle: list[float], busy: list[float], polls: list[float], _: int) -> list[str]:
    """The lines of one measurement."""
    return [
        f"{title}: event-loop gap without polls p99 {p99(idle):.1f} ms, max {max(idle):.1f} ms",
        f"{title}: event-loop gap during polls p99 {p99(busy):.1f} ms, max {max(busy):.1f} ms",
        f"{title}: one poll median {median(polls):.0f} ms, max {max(polls):.0f} ms",
    ]


def p99(values: list[float]) -> float:
    """The 99th percentile."""
    return quantiles(values, n=100)[98]


if __name__ == "__main__":
    print("\n".join(run()))
