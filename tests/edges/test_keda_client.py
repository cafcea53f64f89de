"""The client against a channel that the test answers by hand: it reads what KEDA would read."""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import grpc
import grpc_testing
import pytest

from scaler.api.keda_client import AioKedaClient, KedaClient, MetricSpec, MetricValue, RpcFailed, ScaledObject
from scaler.core.model import WorkloadKey
from scaler.pb import externalscaler_pb2 as pb
from tests.support.keda_edge import edge

SERVICE = pb.DESCRIPTOR.services_by_name["ExternalScaler"]
LLAMA = ScaledObject(WorkloadKey("prod", "llama"), {"ttftSloSeconds": "2"})
REF = pb.ScaledObjectRef(namespace="prod", name="llama", scalerMetadata={"ttftSloSeconds": "2"})


class Wire:
    """A channel, a client on it, and the scaler's side of each call."""

    def __init__(self) -> None:
        self._channel = grpc_testing.channel([SERVICE], grpc_testing.strict_fake_time(0.0))
        self._pool = ThreadPoolExecutor(1)
        self.client = KedaClient(self._channel)

    def close(self) -> None:
        self._pool.shutdown()

    def exchange(self, call, method: str, answer, code=grpc.StatusCode.OK, details: str = "") -> tuple[object, Future]:
        """What the client asked, and what it made of the answer."""
        result = self._pool.submit(call)
        _, asked, rpc = self._channel.take_unary_unary(SERVICE.methods_by_name[method])
        rpc.send_initial_metadata(())
        rpc.terminate(answer, (), code, details)
        return asked, result


@pytest.fixture
def wire():
    with closing(Wire()) as opened:
        yield opened


def specs(*entries: pb.MetricSpec) -> pb.GetMetricSpecResponse:
    return pb.GetMetricSpecResponse(metricSpecs=entries)


def values(*entries: pb.MetricValue) -> pb.GetMetricsResponse:
    return pb.GetMetricsResponse(metricValues=entries)


@pytest.mark.parametrize(
    ("as_float", "as_int", "read"),
    [
        pytest.param(2.5, 3, 2.5, id="the float when it is above zero"),
        pytest.param(0.0, 3, 3.0, id="the integer when the float is zero"),
        pytest.param(-1.0, 3, 3.0, id="the integer when the float is negative"),
        pytest.param(float("nan"), 3, 3.0, id="the integer when the float is no number"),
        pytest.param(0.0, 0, 0.0, id="zero when both are"),
    ],
)
def test_reads_numbers_as_keda_does(wire, as_float, as_int, read) -> None:
    answer = values(pb.MetricValue(metricName="ignored", metricValue=as_int, metricValueFloat=as_float))
    asked, result = wire.exchange(lambda: wire.client.metrics(LLAMA, "m"), "GetMetrics", answer)
    assert asked == pb.GetMetricsRequest(scaledObjectRef=REF, metricName="m")
    assert result.result() == MetricValue("m", read)


def test_reads_the_metric_spec(wire) -> None:
    answer = specs(pb.MetricSpec(metricName="m", targetSize=1, targetSizeFloat=1.0))
    asked, result = wire.exchange(lambda: wire.client.metric_spec(LLAMA), "GetMetricSpec", answer)
    assert (asked, result.result()) == (REF, MetricSpec("m", 1.0))


@pytest.mark.parametrize("active", [True, False])
def test_reads_the_activity(wire, active) -> None:
    answer = pb.IsActiveResponse(result=active)
    asked, result = wire.exchange(lambda: wire.client.is_active(LLAMA), "IsActive", answer)
    assert (asked, result.result()) == (REF, active)


def test_a_look_carries_no_metadata(wire) -> None:
    look = ScaledObject(LLAMA.key)
    asked, result = wire.exchange(lambda: wire.client.is_active(look), "IsActive", pb.IsActiveResponse(result=True))
    assert (asked, result.result()) == (pb.ScaledObjectRef(namespace="prod", name="llama"), True)


@pytest.mark.parametrize("count", [0, 2])
def test_any_number_of_specs_or_values_but_one_is_no_answer(wire, count) -> None:
    one = pb.MetricSpec(metricName="m", targetSize=1), pb.MetricValue(metricName="m", metricValue=1)
    _, spec = wire.exchange(lambda: wire.client.metric_spec(LLAMA), "GetMetricSpec", specs(*[one[0]] * count))
    _, value = wire.exchange(lambda: wire.client.metrics(LLAMA), "GetMetrics", values(*[one[1]] * count))
    assert [str(spec.exception()), str(value.exception())] == [
        f"INTERNAL: the answer has {count} metric specs where one is expected",
        f"INTERNAL: the answer has {count} metric values where one is expected",
    ]


def test_an_error_keeps_its_code_and_its_words(wire) -> None:
    empty, code = pb.GetMetricsResponse(), grpc.StatusCode.UNAVAILABLE
    _, result = wire.exchange(lambda: wire.client.metrics(LLAMA), "GetMetrics", empty, code, "no decision yet")
    error = result.exception()
    assert isinstance(error, RpcFailed)
    assert (error.code, error.details, str(error)) == (code, "no decision yet", "UNAVAILABLE: no decision yet")


async def test_the_asynchronous_client_says_that_nobody_listens() -> None:
    async with edge() as keda:
        await keda.server.stop()
        async with keda.dial() as channel:
            with pytest.raises(RpcFailed) as caught:
                await AioKedaClient(channel).metric_spec(LLAMA)
    assert caught.value.code is grpc.StatusCode.UNAVAILABLE
