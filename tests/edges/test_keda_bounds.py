"""How much a call may bring, and how many workloads calls may introduce."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.api.keda_client import RpcFailed, ScaledObject
from scaler.api.refs import checked
from scaler.core.model import WorkloadKey
from scaler.errors import ConfigError
from scaler.pb import externalscaler_pb2 as pb
from tests.support.builders import spec
from tests.support.keda_edge import NEVER_S, Edge, edge

KEY = WorkloadKey("prod", "llama")
GOOD = {"safeConcurrency": "10"}
SECRET = "canary-77aa"
LONG = "x" * 4097


@pytest.fixture
async def keda() -> AsyncIterator[Edge]:
    async with edge() as running:
        yield running


async def failure(call) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(RpcFailed) as refused:
        await call
    return refused.value.code, refused.value.details


@pytest.mark.parametrize(
    ("key", "metadata", "said"),
    [
        pytest.param(WorkloadKey("prod", "Llama"), GOOD, "name", id="upper case"),
        pytest.param(WorkloadKey("prod", "a/b"), GOOD, "name", id="a path"),
        pytest.param(WorkloadKey("prod", ".."), GOOD, "name", id="dots"),
        pytest.param(WorkloadKey("prod", "a\n"), GOOD, "name", id="a line"),
        pytest.param(WorkloadKey("prod", "x" * 254), GOOD, "name", id="a long name"),
        pytest.param(WorkloadKey("a.b", "llama"), GOOD, "namespace", id="a namespace with a dot"),
        pytest.param(WorkloadKey("x" * 64, "llama"), GOOD, "namespace", id="a long namespace"),
        pytest.param(WorkloadKey("", "llama"), GOOD, "namespace", id="no namespace"),
        pytest.param(KEY, {f"k{i}": SECRET for i in range(65)}, "64 keys", id="many keys"),
        pytest.param(KEY, {"k" * 129: SECRET}, "128 characters", id="a long key"),
        pytest.param(KEY, {"modelName": SECRET + LONG}, "modelName: at most 4096 bytes", id="a long value"),
        pytest.param(KEY, {"modelName": "é" * 2049}, "modelName: at most 4096 bytes", id="a long value in bytes"),
    ],
)
async def test_what_no_scaled_object_holds_is_refused_before_it_is_parsed(keda, key, metadata, said):
    code, details = await failure(keda.client.metric_spec(ScaledObject(key, metadata)))
    assert (code, said in details, SECRET in details, len(details) < 300, keda.parse.seen) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        True,
        False,
        True,
        [],
    )


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(WorkloadKey("prod", "x" * 253), id="the longest name"),
        pytest.param(WorkloadKey("p" * 63, "llama-3.1-8b"), id="the longest namespace"),
        pytest.param(WorkloadKey("0", "0"), id="digits"),
    ],
)
async def test_every_name_of_kubernetes_is_taken(keda, key):
    assert (await keda.client.metric_spec(ScaledObject(key, GOOD))).target == 1.0


texts = st.text(st.characters(codec="utf-8"), max_size=300) | st.from_regex(r"[a-z0-9.-]{0,300}", fullmatch=True)


@given(namespace=texts, name=texts)
def test_a_ref_is_a_key_or_a_configuration_error(namespace, name):
    said = ""
    try:
        key = checked(pb.ScaledObjectRef(namespace=namespace, name=name))
    except ConfigError as error:
        key, said = WorkloadKey(namespace, name), str(error)
    assert (key, len(said) < 300) == (WorkloadKey(namespace, name), True)


async def test_a_message_above_64_kib_is_refused_by_its_size(keda):
    code, _ = await failure(keda.client.metric_spec(ScaledObject(KEY, {f"k{i}": "v" * 4000 for i in range(20)})))
    assert (code, keda.parse.seen) == (grpc.StatusCode.RESOURCE_EXHAUSTED, [])


async def test_of_many_faults_ten_are_named_and_the_rest_counted(keda):
    code, details = await failure(keda.client.metric_spec(ScaledObject(KEY, {f"wrong{i}": "1" for i in range(30)})))
    assert (code, details.count("unknown key"), details.endswith("and 21 more")) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        10,
        True,
    )


async def test_long_faults_are_cut_to_a_thousand_bytes_and_the_rest_is_counted(keda):
    long = {"é" * 120 + str(i): "1" for i in range(30)}
    _, details = await failure(keda.client.metric_spec(ScaledObject(KEY, long)))
    assert (len(details.encode()) <= 1000, details.rpartition("; ")[2].startswith("and ")) == (True, True)


async def test_beyond_the_limit_no_call_introduces_a_workload_and_those_that_run_are_answered():
    async with edge(limit=2) as keda:
        keda.supervisor.ensure(spec(WorkloadKey("ops", "pinned"), tick_s=NEVER_S), pinned=True)
        objects = [ScaledObject(WorkloadKey("prod", f"w{i}"), GOOD) for i in range(3)]
        for of in objects[:2]:
            await keda.client.metric_spec(of)
        refused = await failure(keda.client.metric_spec(objects[2]))
        again = [(await keda.client.metric_spec(of)).target for of in objects[:2]]
        keda.supervisor.forget(objects[0].key)
        freed = (await keda.client.metric_spec(objects[2])).target
    assert (refused[0], "2 workloads" in refused[1], again, freed) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        True,
        [1.0, 1.0],
        1.0,
    )


async def test_a_workload_that_is_pinned_or_released_is_counted_as_what_it_is_now():
    async with edge(limit=1) as keda:
        await keda.client.metric_spec(ScaledObject(KEY, GOOD))
        keda.supervisor.ensure(spec(KEY, tick_s=NEVER_S), pinned=True)
        await keda.client.metric_spec(ScaledObject(WorkloadKey("prod", "second"), GOOD))
        keda.supervisor.release(KEY)
        keda.supervisor.forget(WorkloadKey("prod", "second"))
        code, _ = await failure(keda.client.metric_spec(ScaledObject(WorkloadKey("prod", "third"), GOOD)))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
