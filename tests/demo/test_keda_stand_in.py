"""The stand-in for KEDA and the HPA against a scaler that answers by script, over a real port."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
import grpc.aio

from scaler.api.keda_client import AioKedaClient, ScaledObject
from scaler.core.hpa import ScaleStatus
from scaler.core.model import WorkloadKey
from scaler.demo.keda import Keda, Rhythm
from scaler.pb import externalscaler_pb2 as pb
from scaler.pb import externalscaler_pb2_grpc as pb_grpc

METADATA = {"profile": "demo", "scalerAddress": "here"}
OBJECT = ScaledObject(WorkloadKey("demo", "llm"), METADATA)
NEVER_S = 1000.0
POLL = ["GetMetricSpec", "GetMetrics", "IsActive"]


@dataclass
class Script(pb_grpc.ExternalScalerServicer):
    value: float = 2.0
    failing: str = ""
    asked: list[str] = field(default_factory=list)
    metadata: list[dict[str, str]] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def note(self, rpc: str, context) -> None:
        self.asked.append(rpc)
        self.news.set()
        if rpc == self.failing:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "blind")

    async def GetMetricSpec(self, request, context) -> pb.GetMetricSpecResponse:
        self.metadata.append(dict(request.scalerMetadata))
        await self.note("GetMetricSpec", context)
        spec = pb.MetricSpec(metricName="replicas", targetSize=1, targetSizeFloat=1.0)
        return pb.GetMetricSpecResponse(metricSpecs=[spec])

    async def GetMetrics(self, request, context) -> pb.GetMetricsResponse:
        await self.note("GetMetrics", context)
        value = pb.MetricValue(metricName=request.metricName, metricValue=int(self.value), metricValueFloat=self.value)
        return pb.GetMetricsResponse(metricValues=[value])

    async def IsActive(self, request, context) -> pb.IsActiveResponse:
        await self.note("IsActive", context)
        return pb.IsActiveResponse(result=True)

    async def StreamIsActive(self, request, context):
        await self.note("StreamIsActive", context)
        yield pb.IsActiveResponse(result=True)
        await asyncio.Event().wait()

    async def StreamMetricSpec(self, request, context):
        yield await context.abort(grpc.StatusCode.UNIMPLEMENTED, "")

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(10.0):
            while not true():
                self.news.clear()
                await self.news.wait()


@dataclass
class Deployment:
    status: ScaleStatus | None = ScaleStatus(2, 2, 2)
    scaled: list[int] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def scale_status(self) -> ScaleStatus | None:
        return self.status

    async def scale(self, wanted: int) -> None:
        self.scaled.append(wanted)
        self.status = ScaleStatus(wanted, wanted, 2)
        self.done.set()


@asynccontextmanager
async def watching(
    script: Script, deployment: Deployment, *, polling_s: float = NEVER_S, sync_s: float = NEVER_S
) -> AsyncIterator[Keda]:
    server = grpc.aio.server()
    pb_grpc.add_ExternalScalerServicer_to_server(script, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        clock = asyncio.get_running_loop().time
        keda = Keda(AioKedaClient(channel), OBJECT, Rhythm(polling_s, sync_s, 2, 6), clock)
        running = asyncio.create_task(keda.run(deployment))
        try:
            yield keda
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await server.stop(None)


async def test_a_new_object_is_asked_about_in_the_order_that_was_observed() -> None:
    script = Script()
    async with watching(script, Deployment()) as keda:
        await script.until(lambda: "StreamIsActive" in script.asked and script.asked.count("IsActive") == 2)
        await script.until(lambda: len(script.asked) == 9)
    creation = ["GetMetricSpec", *POLL, "GetMetricSpec"]
    assert script.asked[:5] == creation
    assert sorted(script.asked[5:]) == sorted([*POLL, "StreamIsActive"]), "the first sync and the stream, in any order"
    assert script.metadata[0] == METADATA
    assert keda.calls.failures == []


async def test_polls_ask_for_the_same_three_again_and_again() -> None:
    script = Script()
    async with watching(script, Deployment(status=None), polling_s=0.02):
        await script.until(lambda: script.asked.count("IsActive") >= 9)
    unary = [rpc for rpc in script.asked if rpc != "StreamIsActive"]
    settled = 5 + len(POLL) * 5  # the creation, the one sync, and some polls that may have run beside it
    assert unary[settled : settled + 2 * len(POLL)] == POLL * 2


async def test_a_sync_scales_to_the_value_within_the_bounds() -> None:
    script, deployment = Script(value=5.0), Deployment()
    async with watching(script, deployment, sync_s=0.02):
        await asyncio.wait_for(deployment.done.wait(), 10.0)
        script.value = 99.0
        deployment.done.clear()
        await asyncio.wait_for(deployment.done.wait(), 10.0)
    assert deployment.scaled == [5, 6]


async def test_an_error_is_tried_once_more_at_once_and_then_the_count_is_held() -> None:
    script, deployment = Script(value=5.0, failing="GetMetrics"), Deployment()
    async with watching(script, deployment, sync_s=0.02) as keda:
        await script.until(lambda: script.asked.count("GetMetrics") >= 8)
    unary = [rpc for rpc in script.asked if rpc != "StreamIsActive"]
    assert unary[:5] == ["GetMetricSpec", "GetMetricSpec", "GetMetrics", "GetMetrics", "GetMetricSpec"]
    assert deployment.scaled == []
    assert {(failure.rpc, failure.code, failure.cold) for failure in keda.calls.failures} == {
        ("GetMetrics", "UNAVAILABLE", True)
    }


async def test_both_are_asked_again_when_the_activity_fails() -> None:
    script = Script(failing="IsActive")
    async with watching(script, Deployment()):
        await script.until(lambda: len(script.asked) >= 6)
    assert script.asked[1:6] == ["GetMetricSpec", "GetMetrics", "IsActive", "GetMetrics", "IsActive"]


async def test_no_hpa_is_made_while_the_spec_fails() -> None:
    script = Script(failing="GetMetricSpec")
    async with watching(script, Deployment(), sync_s=0.02):
        await script.until(lambda: len(script.asked) >= 6)
        script.failing = ""
        await script.until(lambda: "StreamIsActive" in script.asked)
    assert set(script.asked[:6]) == {"GetMetricSpec"}


async def test_a_failure_after_the_first_value_is_not_cold() -> None:
    script = Script()
    async with watching(script, Deployment(), sync_s=0.02) as keda:
        await script.until(lambda: script.asked.count("IsActive") >= 3)
        script.failing = "GetMetrics"
        await script.until(lambda: script.asked[-2:] == ["GetMetrics", "GetMetrics"])
        script.failing = ""
        await script.until(lambda: script.asked[-1] == "IsActive")
    assert {failure.cold for failure in keda.calls.failures} == {False}
