"""Whom a call is about: what introduces a workload, what edits it, what is refused; health and reflection beside it.

The table of facts is in test_keda.
"""

import asyncio
from dataclasses import replace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from scaler.api.keda import METRIC_NAME
from scaler.api.keda_client import MetricSpec, MetricValue, RpcFailed, ScaledObject
from scaler.api.keda_server import KedaServer, Listen
from scaler.control.board import Board
from scaler.core.model import WorkloadKey
from scaler.errors import ConfigError
from tests.support.builders import KEY, decision, spec
from tests.support.keda_edge import NEVER_S, edge

METADATA = {"scalerAddress": "slo-scaler:6000", "safeConcurrency": "100"}
LLAMA = ScaledObject(KEY, METADATA)
LOOK = ScaledObject(KEY)


@pytest.fixture
async def keda():
    async with edge() as opened:
        yield opened


async def failure(call) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(RpcFailed) as caught:
        await call
    return caught.value.code, caught.value.details


async def refused(iterator) -> grpc.StatusCode:
    with pytest.raises(RpcFailed) as caught:
        await anext(iterator)
    return caught.value.code


# --- Workloads come with their metadata ---


async def test_metadata_introduces_a_workload_once(keda) -> None:
    for _ in range(3):
        await keda.client.metric_spec(LLAMA)
    assert list(keda.supervisor.specs()) == [spec(KEY, tick_s=NEVER_S)]
    assert keda.parse.seen == [(KEY, METADATA)]


async def test_an_edit_reaches_the_loop(keda) -> None:
    await keda.client.metric_spec(LLAMA)
    await keda.client.metric_spec(ScaledObject(KEY, METADATA | {"safeConcurrency": "50"}))
    assert keda.supervisor.spec(KEY) == spec(KEY, 50.0, tick_s=NEVER_S)


async def test_metadata_is_parsed_anew_when_what_it_refers_to_was_edited(keda) -> None:
    await keda.client.metric_spec(LLAMA)
    keda.servicer.forget_parsed()
    await keda.client.metric_spec(LLAMA)
    assert keda.parse.seen == [(KEY, METADATA)] * 2


async def test_the_parsed_metadata_of_forgotten_workloads_is_dropped(keda) -> None:
    others = [ScaledObject(WorkloadKey("prod", f"model-{i}"), METADATA) for i in range(300)]
    for other in others:
        await keda.client.metric_spec(other)
        keda.supervisor.forget(other.key)
    assert len(keda.servicer._parsed._entries) <= 64


async def test_hands_every_key_to_the_parser_as_it_came(keda) -> None:
    given = {"scalerAddress": "slo-scaler:6000", "safeConcurrencyFromEnv": "40"}
    await keda.client.metric_spec(ScaledObject(KEY, given))
    assert keda.parse.seen == [(KEY, given)]
    assert keda.supervisor.spec(KEY) == spec(KEY, 40.0, tick_s=NEVER_S)


async def test_bad_metadata_is_refused_with_every_fault_by_key_and_never_by_value(keda) -> None:
    bad = ScaledObject(KEY, {"safeConcurency": "value-1", "colour": "value-2"})
    code, details = await failure(keda.client.metric_spec(bad))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert sorted(details.split("; ")) == [
        "colour: unknown key",
        "safeConcurency: unknown key",
        "safeConcurrency: required",
    ]
    assert KEY not in keda.supervisor


async def test_connection_keys_alone_are_metadata_that_lacks_something(keda) -> None:
    alone = ScaledObject(KEY, {"scalerAddress": "slo-scaler:6000"})
    assert await failure(keda.client.metric_spec(alone)) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "safeConcurrency: required",
    )


async def test_a_fault_of_any_length_fits_into_the_status() -> None:
    def long_winded(key, metadata):
        raise ConfigError("ü" * 100_000)

    async with edge(parse=long_winded) as keda:
        code, details = await failure(keda.client.metric_spec(LLAMA))
    assert (code, details) == (grpc.StatusCode.INVALID_ARGUMENT, "ü" * 500)


async def test_a_ref_without_a_name_is_refused(keda) -> None:
    code, _ = await failure(keda.client.metric_spec(ScaledObject(WorkloadKey("prod", ""), METADATA)))
    assert (code, list(keda.supervisor.specs())) == (grpc.StatusCode.INVALID_ARGUMENT, [])


async def test_two_triggers_that_take_turns_are_both_told_why(keda) -> None:
    other = ScaledObject(KEY, METADATA | {"safeConcurrency": "50"})
    await keda.client.metric_spec(LLAMA)
    await keda.client.metric_spec(other)
    answers = [await failure(keda.client.metric_spec(of)) for of in (LLAMA, other, LLAMA)]
    assert {code for code, _ in answers} == {grpc.StatusCode.INVALID_ARGUMENT}
    assert all("several triggers" in details for _, details in answers)


async def test_metadata_does_not_edit_what_the_operator_pinned(keda) -> None:
    pinned = spec(KEY, 70.0, tick_s=NEVER_S)
    keda.supervisor.ensure(pinned, pinned=True)
    assert await keda.client.metric_spec(LLAMA) == MetricSpec(METRIC_NAME, 1.0)
    assert keda.supervisor.spec(KEY) is pinned


# --- A person with grpcurl ---


async def test_without_metadata_a_known_workload_is_answered_and_not_changed(keda) -> None:
    await keda.client.metric_spec(LLAMA)
    before = keda.supervisor.spec(KEY)
    keda.board.publish(decision(spec()))
    assert await keda.client.metrics(LOOK) == MetricValue(METRIC_NAME, 1.0)
    assert await keda.client.is_active(LOOK)
    assert keda.supervisor.spec(KEY) is before


async def test_without_metadata_a_look_keeps_the_workload_from_being_forgotten(keda) -> None:
    await keda.client.metric_spec(LLAMA)
    keda.clock.now = 5 * 3600.0
    await keda.client.metric_spec(LOOK)
    keda.clock.now = 10 * 3600.0
    keda.supervisor.forget_unasked()
    assert KEY in keda.supervisor


async def test_without_metadata_an_unknown_workload_is_not_found_and_not_created(keda) -> None:
    calls = keda.client.metric_spec(LOOK), keda.client.metrics(LOOK), keda.client.is_active(LOOK)
    assert [(await failure(call))[0] for call in calls] == [grpc.StatusCode.NOT_FOUND] * 3
    assert await refused(keda.client.stream_is_active(LOOK)) is grpc.StatusCode.NOT_FOUND
    assert (KEY in keda.supervisor, keda.parse.seen) == (False, [])


# --- Bugs, and many callers ---


class BrokenBoard(Board):
    def latest(self, key):
        raise RuntimeError("secret-value")


def broken_parser(key, metadata):
    raise RuntimeError("secret-value")


INTERNAL = grpc.StatusCode.INTERNAL, "internal error of the scaler, described in its log"


async def test_a_bug_in_the_parser_is_internal_and_keeps_its_text() -> None:
    async with edge(parse=broken_parser) as keda:
        assert await failure(keda.client.metric_spec(LLAMA)) == INTERNAL
        assert await refused(keda.client.stream_is_active(LLAMA)) is grpc.StatusCode.INTERNAL
        assert [(method, str(error)) for method, error in keda.rpcs.failures] == [
            ("GetMetricSpec", "secret-value"),
            ("StreamIsActive", "secret-value"),
        ]


async def test_a_bug_behind_the_board_is_internal_while_the_spec_is_served() -> None:
    async with edge(board=BrokenBoard()) as keda:
        assert await failure(keda.client.metrics(LLAMA)) == INTERNAL
        assert await failure(keda.client.is_active(LLAMA)) == INTERNAL
        assert await refused(keda.client.stream_is_active(LLAMA)) is grpc.StatusCode.INTERNAL
        assert await keda.client.metric_spec(LLAMA) == MetricSpec(METRIC_NAME, 1.0)


async def test_every_rpc_is_told_to_telemetry_with_its_code(keda) -> None:
    await keda.client.metric_spec(LLAMA)
    await failure(keda.client.metrics(LLAMA))
    await failure(keda.client.is_active(ScaledObject(WorkloadKey("prod", "other"))))
    assert keda.rpcs.ended == [
        ("GetMetricSpec", grpc.StatusCode.OK),
        ("GetMetrics", grpc.StatusCode.UNAVAILABLE),
        ("IsActive", grpc.StatusCode.NOT_FOUND),
    ]


async def test_calls_for_many_workloads_at_once_each_get_their_own_value(keda) -> None:
    objects = [ScaledObject(WorkloadKey(f"team-{i % 7}", f"model-{i}"), METADATA) for i in range(200)]
    for wanted, of in enumerate(objects):
        keda.board.publish(replace(decision(spec(of.key)), desired=wanted))
    values = await asyncio.gather(*(keda.client.metrics(of) for of in objects))
    assert [value.value for value in values] == [float(wanted) for wanted in range(200)]


# --- The server around it ---


@pytest.mark.parametrize("name", ["", "liveness", "readiness"])
async def test_health_is_serving_whatever_is_known_of_engines(keda, name) -> None:
    health: Any = health_pb2_grpc.HealthStub(keda.channel)
    answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
    assert answer.status is health_pb2.HealthCheckResponse.SERVING


async def test_reflection_lists_the_scaler(keda) -> None:
    reflection: Any = reflection_pb2_grpc.ServerReflectionStub(keda.channel)
    call = reflection.ServerReflectionInfo()
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    await call.done_writing()
    answer = await call.read()
    names = {service.name for service in answer.list_services_response.service}
    assert {"externalscaler.ExternalScaler", "grpc.health.v1.Health"} <= names


async def test_a_port_that_is_taken_is_said_so(keda) -> None:
    second = KedaServer(keda.servicer, asyncio.Event(), Listen(keda.port, "127.0.0.1"))
    with pytest.raises(ConfigError, match="in use"):
        await second.start()
