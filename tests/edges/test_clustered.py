"""The whole scaler in a cluster, over real sockets: ScaledObject, pods and their pages, decision, gRPC answer, stored state."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

import aiohttp
import grpc
import pytest

from scaler.api.keda_client import AioKedaClient, RpcFailed, ScaledObject
from scaler.app import Bound, Wiring, running
from scaler.app.clustered import Cluster
from scaler.cluster.client import Client
from scaler.cluster.lease import Member, Timings
from scaler.cluster.scaled_objects import Service
from scaler.core.decision import Decision, Pending, Reason
from scaler.core.model import GateMode, WorkloadKey
from scaler.settings import Ports, parse_configuration
from scaler.sources.targets import ConfiguredReplicas
from tests.support.cluster_objects import deployment, scaled_object, serving, trigger, vllm
from tests.support.discovery import KINDS, QUICK, put, put_pod
from tests.support.engines import OVERLOAD, PageEngine, listening
from tests.support.kubernetes_api import KubernetesApi, kubernetes
from tests.support.kubernetes_objects import Place
from tests.support.law import near

KEY = WorkloadKey("prod", "llama")
PROFILES = {"tiny": {"safe_concurrency": 4, "safe_rate_per_s": 1.0, "unloaded_ttft_s": 0.1}}
TICK_S = 0.5
SERVICES = frozenset({Service("slo-scaler", "keda")})
TIMINGS = Timings(duration_s=0.6, give_up_s=0.4, renew_s=0.2, retry_s=0.1, recheck_s=0.2, settle_s=0.05)
OURS = {"app.kubernetes.io/name": "slo-scaler"}


def put_llama(api: KubernetesApi, address: str, **metadata: str) -> None:
    """A workload with one ready pod, whose engine listens at that address."""
    host, _, port = address.rpartition(":")
    put(api, "scaledobjects", "llama", scaled_object("llama", "prod", trigger(**{"profile": "tiny"} | metadata)))
    put(api, "deployments", "llama", deployment("llama", 1))
    containers = {"containers": [vllm("main", "--port", port)]}
    put_pod(api, serving("llama-0", spec={"nodeName": "gpu-1", **containers}, status={"podIP": host}))


def annotate(api: KubernetesApi, **annotations: str) -> None:
    path = "/apis/keda.sh/v1alpha1/namespaces/prod/scaledobjects/llama"
    found = api.get(path)
    assert found is not None
    found["metadata"]["annotations"] = annotations
    api.put(path, found)


def put_scaler(api: KubernetesApi, name: str) -> None:
    put_pod(api, serving(name, dict(OURS)), "keda")


def active(api: KubernetesApi) -> list[str]:
    """The pods that KEDA's Service selects."""
    names = ("scaler-0", "scaler-1")
    pods = {name: api.get(f"/api/v1/namespaces/keda/pods/{name}") for name in names}
    return [n for n, pod in pods.items() if pod and pod["metadata"]["labels"].get("slo-scaler/active") == "true"]


@asynccontextmanager
async def scaler(api: KubernetesApi, pod: str = "scaler-0", log: io.StringIO | None = None) -> AsyncIterator[Bound]:
    configuration = parse_configuration(json.dumps({"profiles": PROFILES}), TICK_S)
    replicas = ConfiguredReplicas({}, asyncio.get_running_loop().time)
    client = Client.at(api.url, Random(1), QUICK)
    cluster = Cluster(client, Member("keda", pod, f"uid-{pod}"), SERVICES, TIMINGS)
    wiring = Wiring(
        configuration, Ports("127.0.0.1", 0, 0, 0, 0), replicas, None, log or io.StringIO(), cluster=cluster
    )
    try:
        async with running(wiring) as bound:
            yield bound
    finally:
        await client.aclose()


@asynccontextmanager
async def keda(bound: Bound) -> AsyncIterator[AioKedaClient]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{bound.keda_port}") as channel:
        yield AioKedaClient(channel)


async def until(true: Callable[[], object]) -> None:
    """Wait for what a tick, a watch or a try at the Lease could have changed."""
    async with asyncio.timeout(20):
        while not true():
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.02)


async def decided(bound: Bound, fits: Callable[[Decision], object] = lambda _: True) -> Decision:
    def found() -> Decision | None:
        outcome = bound.board.latest(KEY)
        return outcome if isinstance(outcome, Decision) and fits(outcome) else None

    try:
        await until(found)
    except TimeoutError:
        pytest.fail(f"not decided: {bound.board.latest(KEY)}")
    outcome = found()
    assert outcome is not None
    return outcome


async def test_a_scaled_object_and_its_pods_are_all_that_is_needed():
    async with kubernetes(KubernetesApi(resources=list(KINDS))) as api, listening(PageEngine(OVERLOAD)) as address:
        put_scaler(api, "scaler-0")
        put_llama(api, address)
        async with scaler(api) as bound, keda(bound) as client:
            decision = await decided(bound)
            value = await client.metrics(ScaledObject(KEY))  # without metadata: it is known before KEDA's first call
    assert (value.value, decision.estimate.running, decision.estimate.waiting) == (decision.desired, 4.0, 32.0)
    assert decision.recommendation.inputs.max_replicas == 8


async def test_metadata_in_a_call_does_not_replace_what_the_scaled_object_says():
    async with kubernetes(KubernetesApi(resources=list(KINDS))) as api, listening(PageEngine()) as address:
        put_scaler(api, "scaler-0")
        put_llama(api, address)
        async with scaler(api) as bound, keda(bound) as client:
            await decided(bound)
            await client.metric_spec(ScaledObject(KEY, {"ttftSloSeconds": "9", "safeConcurrency": "77"}))
            spec = bound.supervisor.spec(KEY)
    assert spec is not None
    assert (spec.budget_s, spec.profile.name) == (2.0, "tiny")


async def test_an_edit_of_the_scaled_object_takes_effect_and_its_end_ends_the_workload():
    async with kubernetes(KubernetesApi(resources=list(KINDS))) as api, listening(PageEngine()) as address:
        put_scaler(api, "scaler-0")
        put_llama(api, address)
        async with scaler(api) as bound, keda(bound) as client:
            await decided(bound)
            put_llama(api, address, headroom="0.5")
            await decided(bound, lambda d: d.estimate.capacity.target == 2.0)
            api.delete("/apis/keda.sh/v1alpha1/namespaces/prod/scaledobjects/llama")
            await until(lambda: bound.board.latest(KEY) is None)
            with pytest.raises(RpcFailed) as refused:
                await client.metrics(ScaledObject(KEY))
    assert refused.value.code is grpc.StatusCode.NOT_FOUND


async def test_an_annotation_turns_the_gate_while_everything_runs():
    async with kubernetes(KubernetesApi(resources=list(KINDS))) as api, listening(PageEngine()) as address:
        put_scaler(api, "scaler-0")
        put_llama(api, address)
        async with scaler(api) as bound:
            before = await decided(bound)
            annotate(api, **{"slo-scaler/gate": "enforce"})
            after = await decided(bound, lambda d: d.gate is GateMode.ENFORCE)
    assert (before.gate, after.sequence > before.sequence) == (GateMode.OBSERVE, True)


async def test_a_floor_by_annotation_counts_at_once_and_stands_in_the_state_the_explanation_and_an_event():
    until_when, log = "2999-12-01T18:00Z", io.StringIO()
    async with kubernetes(KubernetesApi(resources=list(KINDS))) as api, listening(PageEngine()) as address:
        put_scaler(api, "scaler-0")
        put_llama(api, address)
        async with scaler(api, log=log) as bound, keda(bound) as client:
            await until(lambda: active(api))
            await decided(bound)
            annotate(api, **{"slo-scaler/floor": f"6 until {until_when}"})
            decision = await decided(bound, lambda d: d.reason is Reason.FLOOR)
            value = await client.metrics(ScaledObject(KEY))
            state, explained = [await served(bound, f"/v1/{what}/prod/llama") for what in ("state", "explain")]
            place = Place.of("/api/v1/namespaces/prod/events", api.resources)
            await until(lambda: {one["reason"] for one in api.page(place, {})["items"]} >= {"Scaled", "BreakGlass"})
    assert (value.value, decision.reason, state["floor"]["until"]) == (6, Reason.FLOOR, until_when)
    assert explained["binding"]["text"].endswith(f"a person has set a floor until {until_when}")
    assert f'"until": "{until_when}"' in log.getvalue()


async def test_a_scaled_object_of_other_triggers_is_computed_for_by_annotation_and_keda_is_told_what_moves_nothing():
    written = json.dumps({"profile": "tiny", "ttftSloSeconds": "2"})
    others = [{"type": "prometheus", "metadata": {"query": "sum(x)"}}] * 2
    async with kubernetes(KubernetesApi(resources=list(KINDS))) as api, listening(PageEngine(OVERLOAD)) as address:
        put_scaler(api, "scaler-0")
        put_llama(api, address)
        shadow = scaled_object("llama", "prod", *others, annotations={"slo-scaler/shadow": written})
        put(api, "scaledobjects", "llama", shadow)
        async with scaler(api) as bound, keda(bound) as client:
            decision = await decided(bound, lambda d: d.sequence >= 2)
            asked = ScaledObject(KEY, {"scalerAddress": "elsewhere:6000", "nonsense": "1"})
            value, is_active = await client.metrics(asked), await client.is_active(asked)
            explained = await served(bound, "/v1/explain/prod/llama")
    assert (decision.shadow, decision.desired > 1, value.value, is_active) == (True, True, 0, False)
    assert explained["shadow"]["ours_replica_s"] > explained["shadow"]["real_replica_s"] > 0


async def served(bound: Bound, path: str) -> Any:
    port = bound.gate_port if "state" in path else bound.ops_port
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return await answer.json()


async def test_a_trigger_that_is_wrong_says_so_where_people_look():
    async with kubernetes(KubernetesApi(resources=list(KINDS))) as api, listening(PageEngine()) as address:
        put_llama(api, address, headrom="0.2")
        async with scaler(api) as bound:
            await until(lambda: isinstance(bound.board.latest(KEY), Pending))
            outcome = bound.board.latest(KEY)
    assert outcome == Pending(KEY, "headrom: unknown key, did you mean headroom?")


async def test_a_trigger_that_is_edited_to_something_wrong_says_so_while_the_last_good_one_stands_and_until_it_is_mended():
    async with kubernetes(KubernetesApi(resources=list(KINDS))) as api, listening(PageEngine()) as address:
        put_llama(api, address, headroom="0.5")
        async with scaler(api) as bound:
            await decided(bound)
            put_llama(api, address, headrom="0.2")
            wrong = await decided(bound, lambda d: d.findings)
            put_llama(api, address, headroom="0.2")
            mended = await decided(bound, lambda d: not d.findings)
    assert [finding.text for finding in wrong.findings] == [
        "its ScaledObject was edited and cannot be used: headrom: unknown key, did you mean headroom?; the last good trigger stands"
    ]
    assert (wrong.estimate.capacity.target, mended.estimate.capacity.target) == (2.0, near(3.2))


@pytest.mark.fault("API server is gone")
async def test_while_the_api_server_is_gone_the_engines_are_read_and_keda_is_answered():
    async with kubernetes(KubernetesApi(resources=list(KINDS))) as api, listening(PageEngine(OVERLOAD)) as address:
        put_scaler(api, "scaler-0")
        put_llama(api, address)
        async with scaler(api) as bound, keda(bound) as client:
            before = await decided(bound)
            api.hang()
            api.reset()
            later = await decided(bound, lambda d: d.sequence > before.sequence + 5)
            value = await client.metrics(ScaledObject(KEY))
            api.recover()
    assert (value.value >= before.desired, later.estimate.ready, later.blind) == (True, 1, False)


@pytest.mark.fault("process is killed")
async def test_a_new_process_goes_on_where_the_last_one_stopped():
    engine = PageEngine(OVERLOAD)
    async with kubernetes(KubernetesApi(resources=list(KINDS))) as api, listening(engine) as address:
        put_scaler(api, "scaler-0")
        put_llama(api, address)
        async with scaler(api) as bound:
            before = await decided(bound, lambda d: d.desired > 1)
            await until(lambda: api.get("/api/v1/namespaces/keda/configmaps/slo-scaler-state-0"))
            last = bound.board.latest(KEY)
        assert isinstance(last, Decision)
        async with scaler(api) as bound:
            after = await decided(bound)
    assert before.desired > 1
    assert (after.desired >= last.desired, after.state) == (True, last.state)


@pytest.mark.fault("two scalers at once")
async def test_two_pods_answer_alike_and_keda_is_led_to_one_of_them_at_any_time():
    async with kubernetes(KubernetesApi(resources=list(KINDS))) as api, AsyncExitStack() as stack:
        address = await stack.enter_async_context(listening(PageEngine(OVERLOAD)))
        for name in ("scaler-0", "scaler-1"):
            put_scaler(api, name)
        put_llama(api, address)
        first = await stack.enter_async_context(AsyncExitStack())
        one = await first.enter_async_context(scaler(api, "scaler-0"))
        await until(lambda: active(api) == ["scaler-0"])
        other = await stack.enter_async_context(scaler(api, "scaler-1"))
        before, alike = [await decided(bound, lambda d: d.sequence > 3) for bound in (one, other)]
        led = active(api)
        await first.aclose()
        await until(lambda: active(api) == ["scaler-1"])
        after = await decided(other, lambda d: d.sequence > alike.sequence + 2)
    assert led == ["scaler-0"]
    assert after.desired >= before.desired == alike.desired
