"""Replicas and demand as Prometheus knows them."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from aiohttp import web

from scaler.control.ports import Ask, Snapshot, Target
from scaler.core.model import ReplicaSet, WorkloadKey
from scaler.engines import ENGINES
from scaler.errors import ConfigError
from scaler.sources.prometheus import PrometheusApi, PrometheusSettings, PrometheusSource
from scaler.sources.prometheus_demand import PrometheusDemand
from scaler.sources.prometheus_replicas import PrometheusReplicas, Sought
from tests.support.prometheus_fake import NOW, FakePrometheus, faking, vector

VLLM = ENGINES["vllm"]
KEY = WorkloadKey("prod", "llama")
QUIET = WorkloadKey("prod", "nameless")
SOUGHT = {KEY: Sought(VLLM, "tiny"), QUIET: Sought(VLLM, None)}


@dataclass
class Hand:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def pod(name: str, at: float = NOW, model: str = "tiny") -> list:
    labels = {"namespace": "prod", "pod": name, "model_name": model, "engine": "0"}
    return [({"__name__": f"vllm:num_requests_{kind}", **labels}, 1.0, at) for kind in ("running", "waiting")]


def snapshot(*pods: str, at: float = 1000.0) -> Snapshot:
    return Snapshot(ReplicaSet(pods, (), len(pods), at), tuple(Target(name, "") for name in pods))


@dataclass
class Watched:
    fake: FakePrometheus
    clock: Hand
    source: PrometheusSource
    replicas: PrometheusReplicas

    async def later(self, seconds: float, *series: list, **beside) -> Snapshot | None:
        """The snapshot after this many seconds and a poll of this content."""
        self.clock.now += seconds
        self.fake.now += seconds
        self.fake.series = [one for pods in series for one in pods]
        self.fake.beside = beside
        await self.source.read(Ask(KEY, VLLM, ()))
        return self.replicas.snapshot(KEY)


@asynccontextmanager
async def watching(fake: FakePrometheus):
    clock = Hand()
    async with faking(fake):
        api = PrometheusApi(PrometheusSettings(fake.url, timeout_s=10.0), clock)
        source = PrometheusSource(api, clock)
        yield Watched(fake, clock, source, PrometheusReplicas(source, SOUGHT.get, clock))
        await source.close()
        await api.close()


async def test_the_pods_that_serve_the_model_are_the_replicas():
    async with watching(FakePrometheus()) as watched:
        before = watched.replicas.snapshot(KEY)
        seen = await watched.later(0.0, pod("b"), pod("a"), pod("other", model="large"))

    assert before is None
    assert seen == snapshot("a", "b")


async def test_a_pod_that_stays_away_leaves_when_its_last_sample_is_stale():
    async with watching(FakePrometheus()) as watched:
        await watched.later(0.0, pod("a"), pod("b"))
        missed = await watched.later(30.0, pod("a", at=NOW + 30.0))
        gone = await watched.later(30.0, pod("a", at=NOW + 60.0))

    assert missed == snapshot("a", "b", at=1030.0)
    assert gone == snapshot("a", at=1060.0)


@pytest.mark.fault("Prometheus answers with nothing")
async def test_a_fleet_that_vanishes_whole_is_not_an_empty_fleet():
    async with watching(FakePrometheus()) as watched:
        await watched.later(0.0, pod("a"), pod("b"))
        await watched.later(30.0)
        gone = await watched.later(30.0)

    assert gone == snapshot("a", "b", at=1030.0)


@pytest.mark.fault("Prometheus answers in part")
async def test_nobody_leaves_while_answers_are_partial_or_fail():
    async with watching(FakePrometheus()) as watched:
        await watched.later(0.0, pod("a"), pod("b"))
        partial = await watched.later(40.0, pod("a", at=NOW + 40.0), warnings=["a store is away"])
        failed = await watched.later(40.0, status="error")

    assert partial == snapshot("a", "b", at=1040.0)
    assert failed == snapshot("a", "b", at=1040.0)


async def test_the_background_finds_replicas_that_nobody_could_name():
    async with watching(FakePrometheus([*pod("a")])) as watched:
        run = asyncio.create_task(watched.source.run())
        assert watched.replicas.snapshot(KEY) is None
        await watched.fake.asked.wait()
        await watched.source.read(Ask(KEY, VLLM, ()))
        run.cancel()

        assert watched.replicas.snapshot(KEY) == snapshot("a")


async def test_why_there_is_no_snapshot_is_said():
    async with watching(FakePrometheus()) as watched:
        unasked = watched.replicas.why(KEY)
        await watched.later(0.0)
        unseen = watched.replicas.why(KEY)
        await watched.later(15.0, status="error")
        failed = watched.replicas.why(KEY)
        await watched.later(15.0, pod("a", at=NOW + 30.0))
        nameless = watched.replicas.snapshot(QUIET), watched.replicas.why(QUIET)

        assert unasked == "Prometheus has not answered yet"
        assert unseen == "Prometheus sees no pod in prod that serves the model in modelName"
        assert failed == "Prometheus: status is not success"
        assert watched.replicas.why(KEY) == ""
        assert nameless == (None, "nothing tells which replicas there are: set modelName, or name targets")
        assert watched.replicas.snapshot(WorkloadKey("prod", "stranger")) is None
        assert watched.replicas.why(WorkloadKey("prod", "stranger")) == ""


REFUSED = 'sum(refused_total{namespace="{namespace}",route="{name}"})'
QUEUED = 'sum(queued{route=~"{name}-.*"})'


@dataclass
class Gateway:
    """Answers each query with what the test says."""

    refused: object = 7.0
    queued: object = 3.0
    queries: int = 0

    async def answer(self, request: web.Request) -> web.Response:
        query = str((await request.post())["query"])
        self.queries += 1
        result = self.refused if "refused" in query else self.queued
        return web.json_response(vector([({}, result)]) if isinstance(result, float) else result)


@asynccontextmanager
async def demanding(gateway: Gateway, clock: Hand, **queries):
    fake = FakePrometheus(misbehave=gateway.answer)
    async with faking(fake):
        api = PrometheusApi(PrometheusSettings(fake.url, timeout_s=10.0), clock)
        yield PrometheusDemand(api, clock, **{"refused": REFUSED, "queued": QUEUED, **queries}), fake
        await api.close()


async def told(demand: PrometheusDemand) -> tuple[float | None, float | None]:
    demand.refused_total(KEY)
    await demand.poll()
    return demand.refused_total(KEY), demand.queued(KEY)


async def test_demand_is_what_the_gateway_counts_for_a_workload():
    async with demanding(Gateway(), Hand()) as (demand, fake):
        before = demand.refused_total(KEY), demand.queued(KEY)
        after = await told(demand)

    assert (before, after) == ((None, None), (7.0, 3.0))
    assert fake.queries == [
        'sum(refused_total{namespace="prod",route="llama"})',
        'sum(queued{route=~"llama-.*"})',
    ]


@pytest.mark.fault("Prometheus answers with nothing")
@pytest.mark.parametrize(
    ("result", "why"),
    [
        pytest.param(vector([]), "0 series instead of one number", id="empty"),
        pytest.param(vector([({"a": "1"}, 1.0), ({"a": "2"}, 2.0)]), "2 series instead of one number", id="several"),
        pytest.param(float("nan"), "no finite number", id="not a number"),
        pytest.param(float("inf"), "no finite number", id="infinite"),
        pytest.param(-1.0, "no finite number", id="negative"),
        pytest.param(vector([({}, 7.0)], warnings=["x"]), "partial answer: x", id="partial"),
        pytest.param(vector([({}, 7.0)], isPartial=True), "partial answer: the server says so", id="partial otherwise"),
        pytest.param({"status": "error", "errorType": "e", "error": "x"}, "Prometheus: e: x", id="error"),
    ],
)
async def test_no_number_is_unknown_and_never_zero(result, why):
    async with demanding(Gateway(refused=result), Hand()) as (demand, _):
        assert await told(demand) == (None, 3.0)
        assert demand.faults == {KEY: why}


async def test_a_vector_spelled_in_another_order_is_a_number():
    turned = {"data": {"result": [{"value": [NOW, "4"], "metric": {}}], "resultType": "vector"}, "status": "success"}

    async with demanding(Gateway(refused=turned), Hand()) as (demand, _):
        assert await told(demand) == (4.0, 3.0)


async def test_a_scalar_is_a_number():
    scalar = {"status": "success", "data": {"resultType": "scalar", "result": [NOW, "4"]}}

    async with demanding(Gateway(refused=scalar), Hand()) as (demand, _):
        assert await told(demand) == (4.0, 3.0)


async def test_a_number_counts_for_three_intervals():
    gateway, clock = Gateway(), Hand()

    async with demanding(gateway, clock) as (demand, _):
        await told(demand)
        gateway.refused = gateway.queued = vector([])
        clock.now += 45.0
        held = await told(demand)
        clock.now += 1.0
        gone = await told(demand)

    assert (held, gone) == ((7.0, 3.0), (None, None))


async def test_a_query_that_is_not_set_is_unknown():
    async with demanding(Gateway(), Hand(), queued=None) as (demand, _):
        assert await told(demand) == (7.0, None)


async def test_the_background_asks_as_soon_as_somebody_wants_to_know():
    async with demanding(Gateway(), Hand(), queued=None) as (demand, fake):
        run = asyncio.create_task(demand.run())
        demand.refused_total(KEY)
        await fake.asked.wait()
        run.cancel()


async def test_whoever_asks_no_more_is_not_asked_about():
    gateway, clock = Gateway(), Hand()

    async with demanding(gateway, clock) as (demand, _):
        await told(demand)
        clock.now += 61.0
        await demand.poll()

    assert gateway.queries == 2


async def test_a_placeholder_outside_of_a_string_is_a_fault():
    async with faking(FakePrometheus()) as fake:
        api = PrometheusApi(PrometheusSettings(fake.url), Hand())
        with pytest.raises(ConfigError, match="inside"):
            PrometheusDemand(api, Hand(), refused="refused_{name}")
        await api.close()
