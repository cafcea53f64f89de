"""What a GetMetrics costs with 1,000 workloads on one connection, next to a grpc.aio handler that does nothing.

The server is a process of its own, so that the client's work does not count. Calls come one after another, as KEDA's do
for one ScaledObject; both kinds take turns in blocks, so that what else the machine does meets both.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import quantiles
from typing import Any

import grpc
import grpc.aio

from scaler.api.keda import METRIC_NAME, KedaParts, KedaServicer
from scaler.api.keda_server import OPTIONS
from scaler.control.board import Board
from scaler.control.loop import Parts
from scaler.control.ports import Scrape, Snapshot
from scaler.control.supervisor import Supervisor
from scaler.core.capacity import Profile
from scaler.core.model import Observation, Reading, ReplicaSet, RequestClass, WorkloadKey
from scaler.core.step import State, WorkloadSpec, step
from scaler.pb import externalscaler_pb2 as pb
from scaler.pb import externalscaler_pb2_grpc as pb_grpc

WORKLOADS, BLOCKS, BLOCK = 1000, 20, 500
KEYS = tuple(WorkloadKey(f"team-{i % 20}", f"model-{i}") for i in range(WORKLOADS))
METADATA = {
    "scalerAddress": "slo-scaler.slo-scaler.svc:6000",
    "ttftSloSeconds": "2",
    "tpotSloSeconds": "0.1",
    "profile": "llama-8b-chat",
    "minReplicas": "1",
    "maxReplicas": "20",
}
NEVER_S = 1e6


REPLICAS = ReplicaSet(("r-0",), (), 1, 0.0)
READING = Reading("r-0", 0.0, running=250.0, waiting=0.0)


class Constant:
    """Every port of a loop and of the servicer: one replica with one load, and nobody who listens."""

    async def read(self, *_: object) -> Scrape:
        """The same each time."""
        return Scrape((READING,), ())

    def why(self, _: WorkloadKey) -> str:
        """They are always known."""
        return ""

    def snapshot(self, _: WorkloadKey) -> Snapshot:
        """The same each time."""
        return Snapshot(REPLICAS, ())

    def source(self, _: WorkloadSpec) -> Constant:
        """Itself."""
        return self

    def demand(self, _: WorkloadSpec) -> None:
        """Nobody counts."""

    def ticked(self, *_: object) -> None:
        """Nobody is told."""

    looked = crashed = recalled = forgotten = handled = failed = ticked


def parse(key: WorkloadKey, _: object) -> WorkloadSpec:
    """A spec whose loop does not tick while the benchmark runs."""
    return WorkloadSpec(key, Profile(100.0, 8.0), (RequestClass("chat", ttft_s=2.0),), tick_s=NEVER_S)


async def serve(ready: Connection) -> None:
    """The scaler with a decision for every workload, an empty method, and one that tells this process's CPU seconds."""
    board, ports = Board(), Constant()
    supervisor = Supervisor(Parts(ports, ports, board, ports, lambda: 0.0))
    for key in KEYS:
        board.publish(step(parse(key, None), State(), Observation(0.0, REPLICAS, (READING,)))[1])
    parts = KedaParts(board, supervisor, parse, lambda: 0.0, ports, asyncio.Event())
    server = grpc.aio.server(options=OPTIONS)
    pb_grpc.add_ExternalScalerServicer_to_server(KedaServicer(parts), server)
    methods: dict[str, Any] = {
        "Empty": grpc.unary_unary_rpc_method_handler(empty),
        "Cpu": grpc.unary_unary_rpc_method_handler(cpu),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Bench", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    ready.send(port)
    await server.wait_for_termination()


async def empty(_: bytes, __: object) -> bytes:
    """The least that a handler can do."""
    return b""


async def cpu(_: bytes, __: object) -> bytes:
    """CPU seconds of this process so far."""
    return struct.pack("d", time.process_time())


def server(ready: Connection) -> None:
    """The server's process."""
    asyncio.run(serve(ready))


@dataclass
class Cost:
    """Latencies in seconds, and the server's CPU seconds in all."""

    latencies_s: list[float] = field(default_factory=list)
    cpu_s: float = 0.0

    @property
    def cpu_per_rpc_s(self) -> float:
        """The server's CPU seconds for one call."""
        return self.cpu_s / len(self.latencies_s)

    def __str__(self) -> str:
        """One line."""
        cuts = quantiles(self.latencies_s, n=100)
        micros = (1e6 * seconds for seconds in (cuts[49], cuts[98], self.cpu_per_rpc_s))
        return "p50 {:5.0f} us  p99 {:5.0f} us  server CPU {:5.0f} us an RPC".format(*micros)


async def measure(port: int) -> tuple[Cost, Cost]:
    """The cost of GetMetrics and of the empty method."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub, calls = pb_grpc.ExternalScalerStub(channel), cycle(requests())
        nothing: Any = channel.unary_unary("/bench.Bench/Empty")
        used: Any = channel.unary_unary("/bench.Bench/Cpu")

        async def block(cost: Cost, call: Callable[[], Awaitable[object]]) -> None:
            [before] = struct.unpack("d", await used(b""))
            for _ in range(BLOCK):
                started = time.perf_counter()
                await call()
                cost.latencies_s.append(time.perf_counter() - started)
            cost.cpu_s += struct.unpack("d", await used(b""))[0] - before

        for request in islice(calls, WORKLOADS):  # introduces every workload, and warms the connection
            answer = await stub.GetMetrics(request)
            assert [value.metricValueFloat for value in answer.metricValues] == [3.0]
        metrics, floor = Cost(), Cost()
        for _ in range(BLOCKS):
            await block(metrics, lambda: stub.GetMetrics(next(calls)))
            await block(floor, lambda: nothing(b""))
        return metrics, floor


def requests() -> Iterator[pb.GetMetricsRequest]:
    """One for each workload."""
    for key in KEYS:
        ref = pb.ScaledObjectRef(namespace=key.namespace, name=key.name, scalerMetadata=METADATA)
        yield pb.GetMetricsRequest(scaledObjectRef=ref, metricName=METRIC_NAME)


def run() -> list[str]:
    """One line for each method, and their ratio."""
    processes = get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=server, args=(theirs,), daemon=True)
    process.start()
    try:
        metrics, floor = asyncio.run(measure(ours.recv()))
    finally:
        process.terminate()
        process.join()
    return [
        f"GetMetrics, {WORKLOADS:,} workloads  {metrics}",
        f"empty grpc.aio handler       {floor}",
        f"ratio of server CPU          {metrics.cpu_per_rpc_s / floor.cpu_per_rpc_s:.2f}",
    ]
