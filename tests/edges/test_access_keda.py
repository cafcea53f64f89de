"""Port 6000: whose certificate may call, that what a call says of itself is no proof of a workload, and what one namespace may take."""

import grpc
import pytest

from scaler.api.callers import STRANGER, Callers
from scaler.api.keda_client import AioKedaClient, RpcFailed, ScaledObject
from scaler.core.model import WorkloadKey
from tests.support.builders import spec
from tests.support.keda_edge import NEVER_S, edge
from tests.support.tls import Authority, Issued, Told, certificates, channel

GOOD = {"scalerAddress": "scaler:6000", "safeConcurrency": "100"}
VICTIM = WorkloadKey("victim", "llama")
FORGED = ScaledObject(VICTIM, GOOD)
UNSEEN = "no ScaledObject victim/llama has a trigger whose scalerAddress is this scaler's"
CALLS = {
    "GetMetricSpec": lambda client: client.metric_spec(FORGED),
    "GetMetrics": lambda client: client.metrics(FORGED),
    "IsActive": lambda client: client.is_active(FORGED),
    "StreamIsActive": lambda client: anext(aiter(client.stream_is_active(FORGED))),
}


async def failure(call) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(RpcFailed) as failed:
        await call
    return failed.value.code, failed.value.details


@pytest.fixture
def ours(tmp_path) -> Authority:
    return Authority(tmp_path / "ours")


# --- Whose certificate ---


async def said(port: int, ours: Authority, shown: Issued) -> str:
    async with channel(port, ours.ca, shown) as link:
        try:
            await AioKedaClient(link).metric_spec(ScaledObject(WorkloadKey("prod", "llama"), GOOD))
        except RpcFailed as failed:
            return f"{failed.code.name}: {failed.details}"
    return "OK"


@pytest.mark.parametrize(
    ("names", "common", "answer"),
    [
        ("DNS:localhost", "keda-operator", "OK"),
        ("DNS:keda-operator.keda.svc", None, "OK"),
        ("URI:spiffe://cluster.local/ns/keda/sa/keda-operator", None, "OK"),
        ("DNS:gateway.prod.svc", "gateway", f"PERMISSION_DENIED: {STRANGER}"),
        ("DNS:keda-operator.evil.svc", "keda-operator2", f"PERMISSION_DENIED: {STRANGER}"),
    ],
)
async def test_of_the_certificates_of_the_ca_only_those_that_bear_a_name_of_kedas_may_call(ours, names, common, answer):
    kedas = frozenset({"keda-operator", "keda-operator.keda.svc", "spiffe://cluster.local/ns/keda/sa/keda-operator"})
    told = Told()
    held = certificates(ours.issue(), ours.ca, told)
    async with edge(held=held, callers=Callers(lambda: kedas, held.refused)) as keda:
        found = await said(keda.port, ours, ours.issue(names=names, common=common))
        made = WorkloadKey("prod", "llama") in keda.supervisor
    assert (found, made, told.kinds) == (answer, answer == "OK", [] if answer == "OK" else ["client_name_not_allowed"])


async def test_without_names_any_certificate_of_the_ca_may_call(ours):
    async with edge(held=certificates(ours.issue(), ours.ca)) as keda:
        assert await said(keda.port, ours, ours.issue(names="DNS:whoever")) == "OK"


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
async def test_a_stranger_gets_no_answer_from_any_call(call):
    async with edge(callers=Callers(lambda: frozenset({"keda-operator"}))) as keda:
        assert await failure(call(keda.client)) == (grpc.StatusCode.PERMISSION_DENIED, STRANGER)


# --- The claimed namespace ---


@pytest.mark.parametrize("method", ["GetMetrics", "IsActive", "StreamIsActive"])
async def test_a_workload_that_no_scaled_object_vouches_for_is_never_made_by_a_call(method):
    async with edge(vouch=lambda _: UNSEEN) as keda:
        found = await failure(CALLS[method](keda.client))
        assert (found, list(keda.supervisor.specs())) == ((grpc.StatusCode.UNAVAILABLE, UNSEEN), [])


async def test_its_constant_spec_is_served_for_a_watch_may_be_a_moment_behind_keda_and_nothing_is_made():
    async with edge(vouch=lambda _: UNSEEN) as keda:
        assert (await keda.client.metric_spec(FORGED)).target == 1.0
        assert list(keda.supervisor.specs()) == []


async def test_wrong_metadata_is_told_before_anybody_vouches():
    async with edge(vouch=lambda _: UNSEEN) as keda:
        code, _ = await failure(keda.client.metric_spec(ScaledObject(VICTIM, {"safeConcurency": "1"})))
    assert code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_workload_that_runs_is_answered_whoever_vouches():
    async with edge(vouch=lambda _: UNSEEN) as keda:
        keda.supervisor.ensure(spec(VICTIM, tick_s=NEVER_S), pinned=True)
        code, details = await failure(keda.client.metrics(FORGED))
    assert (code, details) == (grpc.StatusCode.UNAVAILABLE, "victim/llama: no decision yet")


# --- What one namespace may take ---


async def test_a_namespace_at_its_limit_gets_no_other_workload_and_its_neighbours_do():
    async with edge(in_namespace=2) as keda:
        for name in ("a", "b"):
            await keda.client.metric_spec(ScaledObject(WorkloadKey("crowd", name), GOOD))
        code, details = await failure(keda.client.metric_spec(ScaledObject(WorkloadKey("crowd", "c"), GOOD)))
        neighbour = (await keda.client.metric_spec(FORGED)).target
        keda.supervisor.forget(WorkloadKey("crowd", "a"))
        freed = (await keda.client.metric_spec(ScaledObject(WorkloadKey("crowd", "c"), GOOD))).target
    assert (code, details.partition(",")[0], neighbour, freed) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "namespace crowd has 2 workloads",
        1.0,
        1.0,
    )
