"""The KEDA interface as KEDA meets it: a real server on a loopback port, a real client, decisions of the real law.

What KEDA and the HPA do, and the test that says how we answer it. W: the wire contract. R: what a real KEDA 2.20 was
seen to do. P: a pain that users of other scalers reported.

| fact | test |
|---|---|
| W both number fields count, by version; P13 | answers_desired_in_both_fields |
| W values of one answer are summed; R8 | answers_desired_in_both_fields, serves_one_constant_spec_before_anything_is_known |
| W the name is a path segment; R9 | names_its_metric_so_that_the_metrics_api_can_carry_it |
| W an unknown name is an error | refuses_another_metric_and_names_its_own |
| W keys end in FromEnv | test_keda_refs: hands_every_key_to_the_parser_as_it_came |
| W ref without metadata: a person | test_keda_refs: without_metadata_* |
| §8 errors reach the users of a namespace as Events | test_keda_refs: a_bug_* , bad_metadata_* |
| R1, R2, P16: errors hold, 0 shrinks | cold_*, blind_*, every_value_is_* |
| R3, P14: NaN and negatives shrink | every_value_is_finite_and_what_was_decided, refuses_to_serve_a_negative_number |
| R4: IsActive=false means zero at once | is_active_*, a_false_is_never_said_in_ignorance |
| R5, P4: the target is read on reconcile only | serves_the_same_spec_over_edits |
| R10, P29: a hung handler stops others | test_keda_stream: an_unread_stream_does_not_keep_others_waiting |
| R11: reopening is quick only after OK | test_keda_stream: stopping_ends_every_stream_with_ok |
| R12, P1, P3: fallback needs the spec | serves_one_constant_spec_before_anything_is_known, cold_*, blind_* |
| R14, P12: push of true and false | test_keda_stream: says_true_*, a_stream_never_carries_false |
| P2: one bad trigger fails all | blind_* (the spec and the port stay up) |
| P5: StreamMetricSpec is optional | leaves_stream_metric_spec_unimplemented |
| P6, P7, P8: connections come and go | test_keda_stream: connections_that_come_and_go_leave_nothing_behind |
| P17: the last value for a while | blind_answers_are_held_for_a_minute_and_then_refused |
| P40: streams starve unary calls | test_keda_stream: two_hundred_open_streams_do_not_starve_unary_calls |
"""

import asyncio
import re
from dataclasses import replace

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.api.keda import METRIC_NAME
from scaler.api.keda_client import MetricSpec, MetricValue, RpcFailed, ScaledObject
from scaler.core.decision import Pending
from scaler.core.model import Missing
from scaler.pb import externalscaler_pb2 as pb
from scaler.pb import externalscaler_pb2_grpc as pb_grpc
from tests.support.builders import KEY, blind, decision, idle, observation, outcome, reading, spec
from tests.support.keda_edge import edge

METADATA = {"scalerAddress": "slo-scaler:6000", "safeConcurrency": "100"}
LLAMA = ScaledObject(KEY, METADATA)
LOOK = ScaledObject(KEY)
REFUSED = Missing("llama-0", "connection refused")


@pytest.fixture
async def keda():
    async with edge() as opened:
        yield opened


async def failure(call) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(RpcFailed) as caught:
        await call
    return caught.value.code, caught.value.details


# --- The metric ---


async def test_serves_one_constant_spec_before_anything_is_known(keda) -> None:
    answer = await pb_grpc.ExternalScalerStub(keda.channel).GetMetricSpec(
        pb.ScaledObjectRef(namespace="prod", name="llama", scalerMetadata=METADATA)
    )
    assert list(answer.metricSpecs) == [pb.MetricSpec(metricName=METRIC_NAME, targetSize=1, targetSizeFloat=1.0)]


async def test_serves_the_same_spec_over_edits(keda) -> None:
    edited = ScaledObject(KEY, METADATA | {"safeConcurrency": "50"})
    specs = [await keda.client.metric_spec(of) for of in (LLAMA, edited, LOOK)]
    assert specs == [MetricSpec(METRIC_NAME, 1.0)] * 3


def test_names_its_metric_so_that_the_metrics_api_can_carry_it() -> None:
    assert re.fullmatch(r"[a-z0-9-]+", METRIC_NAME)


async def test_answers_desired_in_both_fields(keda) -> None:
    keda.board.publish(decision(spec(), observation(0.0, reading(running=250.0))))
    asked = pb.GetMetricsRequest(
        scaledObjectRef=pb.ScaledObjectRef(namespace="prod", name="llama", scalerMetadata=METADATA),
        metricName=METRIC_NAME,
    )
    answer = await pb_grpc.ExternalScalerStub(keda.channel).GetMetrics(asked)
    assert list(answer.metricValues) == [pb.MetricValue(metricName=METRIC_NAME, metricValue=3, metricValueFloat=3.0)]


async def test_refuses_another_metric_and_names_its_own(keda) -> None:
    code, details = await failure(keda.client.metrics(LLAMA, "queue-depth"))
    assert (code, METRIC_NAME in details, "queue-depth" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True, False)
    assert KEY not in keda.supervisor


async def test_leaves_stream_metric_spec_unimplemented(keda) -> None:
    call = pb_grpc.ExternalScalerStub(keda.channel).StreamMetricSpec(pb.ScaledObjectRef(namespace="prod", name="llama"))
    assert await call.code() is grpc.StatusCode.UNIMPLEMENTED


# --- What is not known is an error ---


@pytest.mark.fault("process is killed")
@pytest.mark.parametrize(
    ("published", "reason"),
    [
        pytest.param(None, "no decision yet", id="nothing"),
        pytest.param(Pending(KEY, "no list of replicas yet"), "no list of replicas yet", id="pending"),
    ],
)
async def test_cold_it_refuses_values_with_the_reason_and_still_serves_the_spec(keda, published, reason) -> None:
    if published is not None:
        keda.board.publish(published)
    assert await keda.client.metric_spec(LLAMA) == MetricSpec(METRIC_NAME, 1.0)
    expected = grpc.StatusCode.UNAVAILABLE, f"prod/llama: {reason}"
    assert await failure(keda.client.metrics(LLAMA)) == expected
    assert await failure(keda.client.is_active(LLAMA)) == expected


@pytest.mark.fault("whole fleet is unreachable")
async def test_blind_answers_are_held_for_a_minute_and_then_refused(keda) -> None:
    of = spec()
    keda.board.publish(blind(of, observation(0.0, reading(running=250.0)), missing=(REFUSED,)))
    keda.clock.now = 60.0
    assert await keda.client.metrics(LLAMA) == MetricValue(METRIC_NAME, 3.0)
    assert await keda.client.is_active(LLAMA)
    keda.clock.now = 60.1
    reason = "prod/llama: the last observation is 60 s old; no reading from llama-0 (connection refused)"
    assert await failure(keda.client.metrics(LLAMA)) == (grpc.StatusCode.UNAVAILABLE, reason)
    assert await failure(keda.client.is_active(LLAMA)) == (grpc.StatusCode.UNAVAILABLE, reason)
    assert await keda.client.metric_spec(LLAMA) == MetricSpec(METRIC_NAME, 1.0)


@pytest.mark.fault("bug in a tick")
async def test_a_dead_loop_cannot_keep_its_last_decision_alive(keda) -> None:
    keda.board.publish(decision(spec()))
    keda.clock.now = 3600.0
    reason = "prod/llama: the last observation is 3600 s old"
    assert await failure(keda.client.metrics(LLAMA)) == (grpc.StatusCode.UNAVAILABLE, reason)


async def test_a_large_silent_fleet_is_told_within_what_a_status_can_carry(keda) -> None:
    silent = tuple(Missing(f"llama-{i:04d}", "timeout") for i in range(500))
    keda.board.publish(replace(decision(spec()), missing=silent))
    keda.clock.now = 61.0
    code, details = await failure(keda.client.metrics(LLAMA))
    assert code is grpc.StatusCode.UNAVAILABLE
    assert details.endswith("llama-0000 (timeout), llama-0001 (timeout), llama-0002 (timeout) and 497 more")


async def test_is_active_says_what_was_decided(keda) -> None:
    keda.board.publish(decision(spec()))
    assert await keda.client.is_active(LLAMA) is True
    keda.board.publish(idle())
    assert await keda.client.is_active(LLAMA) is False
    assert await keda.client.metrics(LLAMA) == MetricValue(METRIC_NAME, 0.0)


@pytest.mark.fault("whole fleet is unreachable")
@pytest.mark.parametrize(
    ("now", "is_blind"), [pytest.param(5.0, True, id="blind"), pytest.param(10.1, False, id="old")]
)
async def test_is_active_refuses_a_false_that_nothing_fresh_supports(keda, now, is_blind) -> None:
    keda.board.publish(replace(idle(), blind=is_blind))
    keda.clock.now = now
    code, _ = await failure(keda.client.is_active(LLAMA))
    assert code is grpc.StatusCode.UNAVAILABLE


async def test_refuses_to_serve_a_negative_number(keda) -> None:
    keda.board.publish(replace(decision(spec()), desired=-1))
    code, _ = await failure(keda.client.metrics(LLAMA))
    assert code is grpc.StatusCode.INTERNAL


@pytest.mark.fault("engine reports what is no number")
def test_every_value_is_finite_and_what_was_decided() -> None:
    with asyncio.Runner() as runner:
        context = edge()
        keda = runner.run(context.__aenter__())

        @given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), min_size=1, max_size=5), st.integers(0, 1000))
        def check(loads, current) -> None:
            readings = tuple(reading(f"llama-{i}", 0.0, *load) for i, load in enumerate(loads))
            decided = decision(spec(), observation(0.0, *readings, current=current))
            keda.board.publish(decided)
            asked = pb.GetMetricsRequest(
                scaledObjectRef=pb.ScaledObjectRef(namespace="prod", name="llama", scalerMetadata=METADATA),
                metricName=METRIC_NAME,
            )
            [value] = runner.run(ask(keda, asked)).metricValues
            assert value.metricValue == value.metricValueFloat == decided.desired >= 0

        check()
        runner.run(context.__aexit__(None, None, None))


async def ask(keda, asked: pb.GetMetricsRequest) -> pb.GetMetricsResponse:
    return await pb_grpc.ExternalScalerStub(keda.channel).GetMetrics(asked)


@pytest.mark.fault("whole fleet is unreachable")
def test_a_false_is_never_said_in_ignorance() -> None:
    known = (idle(), decision(spec()), outcome(spec(), observation(0.0, missing=(REFUSED,))))
    with asyncio.Runner() as runner:
        context = edge()
        keda = runner.run(context.__aenter__())

        @given(st.sampled_from(known), st.booleans(), st.floats(0, 1e6))
        def check(published, is_blind, age_s) -> None:
            informed = not isinstance(published, Pending) and not is_blind and age_s <= published.valid_s
            keda.board.publish(published if isinstance(published, Pending) else replace(published, blind=is_blind))
            keda.clock.now = age_s
            try:
                active = runner.run(keda.client.is_active(LLAMA))
            except RpcFailed as error:
                assert error.code is grpc.StatusCode.UNAVAILABLE  # noqa: PT017 - an answer is as good here
            else:
                assert active or (informed and published.desired == 0)

        check()
        runner.run(context.__aexit__(None, None, None))
