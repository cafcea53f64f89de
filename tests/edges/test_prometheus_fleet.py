"""The demo's fleet under steady traffic, read directly and through a real Prometheus: both end in the same state and number."""

import asyncio
from contextlib import AsyncExitStack

import aiohttp
import pytest

from scaler.control.ports import Ask, Target
from scaler.core.capacity import Profile
from scaler.core.decision import Decision
from scaler.core.model import Observation, Pressure, ReplicaSet, RequestClass, WorkloadKey
from scaler.core.step import State, WorkloadSpec, step
from scaler.demo.fleet import Fleet, FleetPlan
from scaler.demo.scenario import MODEL
from scaler.engines import ENGINES
from scaler.sources.pods import PodSource
from scaler.sources.prometheus import PrometheusApi, PrometheusSettings, PrometheusSource
from scaler.sources.scrape import scraping
from tests.support.prometheus import prometheus

KEY = WorkloadKey("demo", "llm")
VLLM = ENGINES["vllm"]
# Six requests at once on two replicas, about 4 a second: with 4 a second safe for one replica the load fills a bit more than one.
SPEC = WorkloadSpec(KEY, Profile(8.0, 4.0), (RequestClass("chat", ttft_s=2.0),), tick_s=1.0)
STREAMS, TOKENS, TICKS = 6, 50, 25


async def keep_asking(client: aiohttp.ClientSession, address: str) -> None:
    body = {"model": MODEL, "prompt": "hello", "max_tokens": TOKENS, "stream": True}
    while True:
        async with client.post(f"http://{address}/v1/completions", json=body) as answer:
            await answer.read()


@pytest.mark.timeout(90)
async def test_at_steady_load_the_demo_fleet_looks_the_same_directly_and_through_prometheus(tmp_path):
    clock = asyncio.get_running_loop().time
    async with AsyncExitStack() as stack:
        fleet = Fleet(FleetPlan(2, 2, 0.05, 0.0, seed=1), clock)
        stack.push_async_callback(fleet.stop)
        fleet.scale(2, warm=True)
        while not all(member.address for member in fleet.members):
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.05)
        found = {member.name: member.address or "" for member in fleet.members}
        running = await stack.enter_async_context(
            prometheus(tmp_path, {f"demo/{name}": address for name, address in found.items()})
        )
        client = await stack.enter_async_context(aiohttp.ClientSession())
        scraper = await stack.enter_async_context(scraping())
        api = PrometheusApi(PrometheusSettings(running.url, interval_s=1.0), clock)
        through, direct = PrometheusSource(api, clock), PodSource(scraper, clock)
        stack.push_async_callback(api.close)
        stack.push_async_callback(through.close)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        addresses = list(found.values())
        asking = [group.create_task(keep_asking(client, addresses[i % 2])) for i in range(STREAMS)]
        ask = Ask(KEY, VLLM, tuple(Target(name, address) for name, address in found.items()))
        states, outcomes = {direct: State(), through: State()}, {}
        for _ in range(TICKS):
            for source in (direct, through):
                scrape, now = await source.read(ask), clock()
                replicas = ReplicaSet(tuple(found), (), len(found), now)
                seen = Observation(now, replicas, scrape.readings, scrape.missing)
                states[source], outcomes[source] = step(SPEC, states[source], seen)
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=SPEC.tick_s)
        for task in asking:
            task.cancel()
    one, other = outcomes[direct], outcomes[through]
    assert isinstance(one, Decision)
    assert isinstance(other, Decision)
    assert (other.desired, other.state) == (one.desired, one.state) == (2, Pressure.GREEN)
    assert other.estimate.running == pytest.approx(one.estimate.running, abs=2)
    assert other.estimate.offered_per_s == pytest.approx(one.estimate.offered_per_s, rel=0.25)
