"""KEDA as one scaler sees it: calls at their rate and push streams, of very many workloads on one connection."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from statistics import quantiles
from typing import Any

import grpc.aio

from bench.outside import METADATA, key
from scaler.api.keda import METRIC_NAME
from scaler.pb import externalscaler_pb2 as pb
from scaler.pb import externalscaler_pb2_grpc as pb_grpc

CALLS_PER_WORKLOAD_S = 0.3
"""The HPA every 15 s and KEDA every 30 s, three calls each time."""


@dataclass
class Asked:
    """What came of calls: their latencies in seconds, those that failed, how late the caller itself was at most."""

    latencies_s: list[float] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    late_s: float = 0.0

    def percentile_s(self, percent: int) -> float:
        """Of the latencies."""
        return quantiles(self.latencies_s, n=100)[percent - 1]


def ref(number: int) -> pb.ScaledObjectRef:
    """As KEDA sends it."""
    of = key(number)
    return pb.ScaledObjectRef(namespace=of.namespace, name=of.name, scalerMetadata=METADATA)


async def calling(stub: pb_grpc.ExternalScalerStub, workloads: int, seconds: float) -> Asked:
    """KEDA's calls, each at its time, whether or not those before it are answered."""
    asked, under_way = Asked(), set[asyncio.Task[None]]()
    clock, each_s = time.perf_counter, 1 / (CALLS_PER_WORKLOAD_S * workloads)
    calls = _calls(stub, workloads)

    async def one() -> None:
        begun = clock()
        try:
            await next(calls)
        except grpc.aio.AioRpcError as error:
            asked.failed[f"{error.code().name}: {error.details()}"] += 1
        asked.latencies_s.append(clock() - begun)

    begun = clock()
    for count in range(int(seconds / each_s)):
        due = begun + count * each_s
        await asyncio.sleep(max(0.0, due - clock()))
        asked.late_s = max(asked.late_s, clock() - due)
        task = asyncio.create_task(one())
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    await asyncio.gather(*under_way)
    return asked


def _calls(stub: Any, workloads: int) -> Iterator[Awaitable[object]]:
    refs = [ref(number) for number in range(workloads)]
    for of in cycle(refs):
        yield stub.GetMetricSpec(of)
        yield stub.IsActive(of)
        yield stub.GetMetrics(pb.GetMetricsRequest(scaledObjectRef=of, metricName=METRIC_NAME))


class Streams:
    """A push stream of each workload; ``pushed`` is how many messages came."""

    pushed = 0

    async def read(self, stub: Any, number: int) -> None:
        """One stream, to its end."""
        async for _ in stub.StreamIsActive(ref(number)):
            self.pushed += 1


@asynccontextmanager
async def streaming(stub: pb_grpc.ExternalScalerStub, workloads: int) -> AsyncIterator[Streams]:
    """They are open meanwhile."""
    streams = Streams()
    tasks = [asyncio.create_task(streams.read(stub, number)) for number in range(workloads)]
    try:
        yield streams
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
