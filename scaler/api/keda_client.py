"""The one client of the KEDA interface: synchronous for the command line, asynchronous for the demo.

It reads answers as KEDA does, so that what it shows is what KEDA acts upon.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc
import grpc.aio

from scaler.api.keda import METRIC_NAME
from scaler.core.model import WorkloadKey
from scaler.errors import ScalerError
from scaler.pb import externalscaler_pb2 as pb
from scaler.pb import externalscaler_pb2_grpc as pb_grpc

TIMEOUT_S = 5.0
"""KEDA itself sets none; whoever waits in front of a terminal wants one."""


class RpcFailed(ScalerError):
    """The scaler answered with an error, or with something that is no answer, or not at all."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{code.name}: {details}")
        self.code = code
        self.details = details


@dataclass(frozen=True, slots=True)
class ScaledObject:
    """Whom a question is about. Without ``metadata`` it is a look that neither creates nor changes anything."""

    key: WorkloadKey
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """The metric that the HPA is given, and its target."""

    name: str
    target: float


@dataclass(frozen=True, slots=True)
class MetricValue:
    """What the HPA divides by the target: with target 1, replicas."""

    name: str
    value: float


class KedaClient:
    """Asks over a channel that its owner opens and closes. Every call raises RpcFailed."""

    def __init__(self, channel: grpc.Channel, timeout_s: float = TIMEOUT_S) -> None:
        """``timeout_s`` bounds each call, in seconds."""
        self._stub = pb_grpc.ExternalScalerStub(channel)
        self._timeout_s = timeout_s

    def metric_spec(self, of: ScaledObject) -> MetricSpec:
        """GetMetricSpec."""
        with _failures():
            return _spec(self._stub.GetMetricSpec(_ref(of), timeout=self._timeout_s))

    def metrics(self, of: ScaledObject, name: str = METRIC_NAME) -> MetricValue:
        """GetMetrics of the metric that GetMetricSpec named."""
        with _failures():
            return _value(self._stub.GetMetrics(_asked(of, name), timeout=self._timeout_s), name)

    def is_active(self, of: ScaledObject) -> bool:
        """IsActive."""
        with _failures():
            return self._stub.IsActive(_ref(of), timeout=self._timeout_s).result


class AioKedaClient:
    """The same over an asyncio channel, and the stream of type external-push."""

    def __init__(self, channel: grpc.aio.Channel, timeout_s: float = TIMEOUT_S) -> None:
        """``timeout_s`` bounds each call but the stream, in seconds."""
        self._stub = pb_grpc.ExternalScalerStub(channel)
        self._timeout_s = timeout_s

    async def metric_spec(self, of: ScaledObject) -> MetricSpec:
        """GetMetricSpec."""
        with _failures():
            return _spec(await self._stub.GetMetricSpec(_ref(of), timeout=self._timeout_s))

    async def metrics(self, of: ScaledObject, name: str = METRIC_NAME) -> MetricValue:
        """GetMetrics of the metric that GetMetricSpec named."""
        with _failures():
            return _value(await self._stub.GetMetrics(_asked(of, name), timeout=self._timeout_s), name)

    async def is_active(self, of: ScaledObject) -> bool:
        """IsActive."""
        with _failures():
            return (await self._stub.IsActive(_ref(of), timeout=self._timeout_s)).result

    async def stream_is_active(self, of: ScaledObject) -> AsyncGenerator[bool, None]:
        """StreamIsActive: ends when the scaler ends it with OK, raises RpcFailed otherwise. Closing it ends the call."""
        call = self._stub.StreamIsActive(_ref(of))
        try:
            with _failures():
                async for answer in call:
                    yield answer.result
        finally:
            call.cancel()


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        # Whatever a channel raises is a call at the same time, which its type does not say.
        code = error.code() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else grpc.StatusCode.UNKNOWN
        details = error.details() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else str(error)
        raise RpcFailed(code, details or "") from error


def _ref(of: ScaledObject) -> pb.ScaledObjectRef:
    return pb.ScaledObjectRef(namespace=of.key.namespace, name=of.key.name, scalerMetadata=of.metadata)


def _asked(of: ScaledObject, name: str) -> pb.GetMetricsRequest:
    return pb.GetMetricsRequest(scaledObjectRef=_ref(of), metricName=name)


def _spec(answer: pb.GetMetricSpecResponse) -> MetricSpec:
    if len(answer.metricSpecs) != 1:
        raise _not_one("metric spec", len(answer.metricSpecs))
    spec = answer.metricSpecs[0]
    return MetricSpec(spec.metricName, _chosen(spec.targetSizeFloat, spec.targetSize))


def _value(answer: pb.GetMetricsResponse, name: str) -> MetricValue:
    """The value under the name that was asked for: KEDA ignores the name in the answer."""
    if len(answer.metricValues) != 1:
        raise _not_one("metric value", len(answer.metricValues))
    value = answer.metricValues[0]
    return MetricValue(name, _chosen(value.metricValueFloat, value.metricValue))


def _chosen(as_float: float, as_int: int) -> float:
    """KEDA's choice between the two fields: the float when it is above 0 (NaN is not), else the integer."""
    return as_float if as_float > 0 else float(as_int)


def _not_one(what: str, count: int) -> RpcFailed:
    return RpcFailed(grpc.StatusCode.INTERNAL, f"the answer has {count} {what}s where one is expected")
