"""The whole scaler over real sockets: engine page, decision, gRPC answer, HTTP state."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import grpc
import pytest

from scaler.api.keda_client import AioKedaClient, RpcFailed, ScaledObject
from scaler.app import Bound, Wiring, running
from scaler.core.decision import Decision, LawInputs, ShapeInputs
from scaler.core.explain import recompute
from scaler.core.model import WorkloadKey
from scaler.core.plain import restore
from scaler.errors import ConfigError
from scaler.settings import Ports, parse_configuration
from scaler.sources.targets import ConfiguredReplicas
from scaler.workload import parse_workload
from tests.support.engines import OVERLOAD, PageEngine, black_hole, listening

KEY = WorkloadKey("prod", "llama")
TRIGGER = {"scalerAddress": "slo-scaler:6000", "ttftSloSeconds": "5", "profile": "tiny"}
PROFILES = {"tiny": {"safe_concurrency": 4, "safe_rate_per_s": 1.0, "unloaded_ttft_s": 0.1}}
TICK_S = 0.1


@asynccontextmanager
async def scaler(addresses: list[str], log: io.StringIO | None = None) -> AsyncIterator[Bound]:
    text = json.dumps({"profiles": PROFILES, "workloads": {"prod/llama": {"targets": addresses}}})
    configuration = parse_configuration(text, TICK_S)
    replicas = ConfiguredReplicas(configuration.targets, asyncio.get_running_loop().time)
    ports = Ports("127.0.0.1", 0, 0, 0, 0)
    async with running(Wiring(configuration, ports, replicas, None, log or io.StringIO())) as bound:
        yield bound


@asynccontextmanager
async def keda(bound: Bound) -> AsyncIterator[AioKedaClient]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{bound.keda_port}") as channel:
        yield AioKedaClient(channel)


async def decided(bound: Bound, until=lambda _: True) -> Decision:
    """The first decision for which ``until`` holds; asked of the board each time a tick could have changed it."""
    while True:
        outcome = bound.board.latest(KEY)
        if isinstance(outcome, Decision) and until(outcome):
            return outcome
        await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=TICK_S / 4)


async def fetch(port: int, path: str) -> tuple[int, dict]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.json()


def _spec():
    return parse_workload(KEY, TRIGGER, parse_configuration(json.dumps({"profiles": PROFILES}), TICK_S).catalog)


async def test_an_engines_page_becomes_a_number_for_keda_and_a_state_for_gateways():
    async with listening(PageEngine(OVERLOAD)) as address, scaler([address]) as bound, keda(bound) as client:
        await client.metric_spec(ScaledObject(KEY, TRIGGER))
        decision = await decided(bound)
        value = await client.metrics(ScaledObject(KEY, TRIGGER))
        status, state = await fetch(bound.gate_port, "/v1/state/prod/llama")
        _, told = await fetch(bound.ops_port, "/v1/explain/prod/llama")
    assert (decision.estimate.running, decision.estimate.waiting) == (4.0, 32.0)
    assert (value.value, status, state["desired"], told["desired"], told["recomputed"]) == (
        decision.desired,
        200,
        decision.desired,
        decision.desired,
        decision.desired,
    )


async def test_the_spec_is_served_and_the_number_refused_before_the_first_reading():
    async with black_hole() as hole, scaler([hole]) as bound, keda(bound) as client:
        spec = await client.metric_spec(ScaledObject(KEY, TRIGGER))
        with pytest.raises(RpcFailed) as refused:
            await client.metrics(ScaledObject(KEY, TRIGGER))
    assert (spec.target, refused.value.code) == (1.0, grpc.StatusCode.UNAVAILABLE)


@pytest.mark.fault("engine hangs")
async def test_one_of_five_engines_down_still_serves_and_does_not_lower_the_number():
    async with AsyncExitStack() as stack:
        addresses = [await stack.enter_async_context(listening(PageEngine())) for _ in range(4)]
        addresses.append(await stack.enter_async_context(black_hole()))
        bound = await stack.enter_async_context(scaler(addresses))
        client = await stack.enter_async_context(keda(bound))
        bound.supervisor.ensure(_spec())
        before = bound.board.latest(KEY)
        assert not isinstance(before, Decision)
        # With one replica silent from the start the first decision waits until its reading would be stale.
        async with asyncio.timeout(20):
            decision = await decided(bound)
        value = await client.metrics(ScaledObject(KEY))
    assert (value.value >= 5, decision.estimate.ready, decision.estimate.missing) == (True, 5, 1)


@pytest.mark.fault("engine dies")
async def test_an_engine_that_stops_answering_leaves_the_answers_as_they_were():
    engine = PageEngine()
    async with AsyncExitStack() as stack:
        serving = AsyncExitStack()
        address = await serving.enter_async_context(listening(engine))
        bound = await stack.enter_async_context(scaler([address]))
        client = await stack.enter_async_context(keda(bound))
        bound.supervisor.ensure(_spec())
        before = await decided(bound)
        await serving.aclose()
        engine.asked.clear()
        answers = await asyncio.gather(*(client.metrics(ScaledObject(KEY)) for _ in range(50)))
    assert {answer.value for answer in answers} == {float(before.desired)}


async def test_streams_end_with_ok_when_the_scaler_stops():
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(listening(PageEngine()))
        stopping = AsyncExitStack()
        bound = await stopping.enter_async_context(scaler([address]))
        client = await stack.enter_async_context(keda(bound))
        await client.metric_spec(ScaledObject(KEY, TRIGGER))
        stream = client.stream_is_active(ScaledObject(KEY, TRIGGER))
        first = await anext(stream)
        await stopping.aclose()
        rest = [message async for message in stream]
    assert (first, rest) == (True, [])


async def test_every_line_of_the_log_is_json_and_a_decision_can_be_recomputed_from_it():
    log = io.StringIO()
    async with listening(PageEngine(OVERLOAD)) as address, scaler([address], log) as bound:
        bound.supervisor.ensure(_spec())
        decision = await decided(bound)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    told = next(line for line in lines if line["event"] == "decision")
    assert recompute(restore(LawInputs, told["inputs"]), restore(ShapeInputs, told["shape"])) == told["desired"]
    assert told["desired"] == decision.desired


async def test_a_port_that_is_taken_is_a_configuration_error_that_names_it():
    async with scaler([]) as bound:
        taken = Ports("127.0.0.1", bound.keda_port, 0, 0, 0)
        configuration = parse_configuration("")
        replicas = ConfiguredReplicas({}, asyncio.get_running_loop().time)
        with pytest.raises(ConfigError, match=str(bound.keda_port)):
            async with running(Wiring(configuration, taken, replicas, None, io.StringIO())):
                pass


async def test_a_verdict_is_counted_where_prometheus_reads():
    async with listening(PageEngine()) as address, scaler([address]) as bound, keda(bound) as client:
        await client.metric_spec(ScaledObject(KEY, TRIGGER))
        await decided(bound)
        status, _ = await fetch(bound.gate_port, "/v1/admit/prod/llama")
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{bound.ops_port}/metrics") as answer,
        ):
            shown = await answer.text()
    assert status == 200
    assert 'slo_scaler_gate_admitted_total{class="default",name="llama",namespace="prod"} 1.0' in shown
