"""A real Prometheus between engines and the law: at steady load, and when it dies, stalls or loses a target."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import pytest
from aiohttp import web

from scaler.control.ports import Ask, MetricSource, Scrape, Target
from scaler.core.capacity import Profile
from scaler.core.decision import Decision, Pending
from scaler.core.model import Histogram, Missing, Observation, Pressure, Reading, ReplicaSet, RequestClass, WorkloadKey
from scaler.core.step import State, WorkloadSpec, step
from scaler.engines import ENGINES
from scaler.sources.pods import PodSource
from scaler.sources.prometheus import PrometheusApi, PrometheusSettings, PrometheusSource
from scaler.sources.prometheus_replicas import PrometheusReplicas, Sought
from scaler.sources.scrape import scraping
from tests.support.engines import listening
from tests.support.prometheus import Prometheus, prometheus

KEY = WorkloadKey("prod", "llama")
VLLM = ENGINES["vllm"]
SPEC = WorkloadSpec(KEY, Profile(100.0, 50.0), (RequestClass("chat", ttft_s=2.0, tpot_s=0.1),), tick_s=1.0)
RATE_PER_S = 56.0
TICKS = 7
NAMES = ("llama-0", "llama-1")
PAGE = """\
vllm:num_requests_running{{engine="0",model_name="tiny"}} 80
vllm:num_requests_waiting{{engine="0",model_name="tiny"}} 0
vllm:kv_cache_usage_perc{{engine="0",model_name="tiny"}} 0.5
vllm:generation_tokens_total{{engine="0",model_name="tiny"}} {tokens}
vllm:time_to_first_token_seconds_bucket{{engine="0",le="0.1",model_name="tiny"}} {first}
vllm:time_to_first_token_seconds_bucket{{engine="0",le="2.5",model_name="tiny"}} {first}
vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf",model_name="tiny"}} {first}
vllm:time_to_first_token_seconds_count{{engine="0",model_name="tiny"}} {first}
vllm:time_to_first_token_seconds_sum{{engine="0",model_name="tiny"}} {first}
"""


@dataclass
class SteadyEngine:
    """80 requests running, and as many first tokens a second as the rate. ``scraped`` counts Prometheus' visits."""

    since: float = field(default_factory=perf_counter)
    visits: int = 0
    visited: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def answer(self, request: web.Request) -> web.Response:
        first = int(RATE_PER_S * (perf_counter() - self.since))
        if request.headers.get("User-Agent", "").startswith("Prometheus"):
            async with self.visited:
                self.visits += 1
                self.visited.notify_all()
        return web.Response(text=PAGE.format(first=first, tokens=100 * first))

    async def next_visit(self) -> None:
        seen = self.visits
        async with self.visited:
            await self.visited.wait_for(lambda: self.visits > seen)


@dataclass
class Rig:
    engines: tuple[SteadyEngine, ...]
    ask: Ask
    pods: PodSource
    source: PrometheusSource
    listeners: tuple[AsyncExitStack, ...]

    async def beat(self) -> None:
        """A scrape interval passes."""
        await self.engines[0].next_visit()

    async def look(self, source: MetricSource) -> Observation:
        scrape, at = await source.read(self.ask), perf_counter()
        return Observation(at, ReplicaSet(NAMES, (), len(NAMES), at), scrape.readings, scrape.missing)


def ask(addresses: Sequence[str]) -> Ask:
    return Ask(KEY, VLLM, tuple(Target(name, at) for name, at in zip(NAMES, addresses, strict=True)))


@asynccontextmanager
async def asking(running: Prometheus) -> AsyncIterator[PrometheusSource]:
    api = PrometheusApi(PrometheusSettings(running.url, interval_s=1.0, timeout_s=0.7), perf_counter)
    source = PrometheusSource(api, perf_counter, lambda: (2.0, 0.1))
    try:
        yield source
    finally:
        await source.close()
        await api.close()


@asynccontextmanager
async def rig(directory) -> AsyncIterator[Rig]:
    engines = (SteadyEngine(), SteadyEngine())
    async with AsyncExitStack() as stack:
        listeners = tuple([await stack.enter_async_context(AsyncExitStack()) for _ in engines])
        pairs: list[Any] = list(zip(listeners, engines, strict=True))
        addresses = [await listener.enter_async_context(listening(engine)) for listener, engine in pairs]
        scraped = {f"prod/{name}": address for name, address in zip(NAMES, addresses, strict=True)}
        running = await stack.enter_async_context(prometheus(directory, scraped))
        scraper = await stack.enter_async_context(scraping())
        source = await stack.enter_async_context(asking(running))
        for engine in engines:
            while engine.visits < 2:
                await engine.next_visit()
        yield Rig(engines, ask(addresses), PodSource(scraper, perf_counter), source, listeners)


async def test_both_sources_decide_alike_at_steady_load_and_see_an_engine_die(tmp_path):
    async with rig(tmp_path) as of:
        states: dict[MetricSource, State] = {}
        outcomes: dict[MetricSource, Decision | Pending] = {}
        for _ in range(TICKS):
            for source in (of.pods, of.source):
                states[source], outcomes[source] = step(SPEC, states.get(source, State()), await of.look(source))
            await of.beat()
        replicas = PrometheusReplicas(of.source, {KEY: Sought(VLLM, "tiny")}.get, perf_counter)
        await of.listeners[1].aclose()
        scrape = await of.source.read(of.ask)
        while not scrape.missing:
            await of.beat()
            scrape = await of.source.read(of.ask)
        snapshot = replicas.snapshot(KEY)

    direct, through = outcomes[of.pods], outcomes[of.source]
    assert isinstance(direct, Decision)
    assert isinstance(through, Decision)
    assert (through.desired, through.state, through.reason) == (direct.desired, direct.state, direct.reason)
    assert (direct.desired, direct.state, direct.missing) == (3, Pressure.GREEN, ())
    assert through.estimate.running == direct.estimate.running == 160.0
    assert [reading.replica for reading in scrape.readings] == ["llama-0"]
    assert scrape.missing == (Missing("llama-1", "Prometheus has no fresh sample with pod llama-1"),)
    assert snapshot is not None
    assert snapshot.replicas.ready == NAMES  # one failed scrape is no farewell


def everyone(why: str) -> Scrape:
    return Scrape((), tuple(Missing(name, why) for name in NAMES))


def held_then_blind(state: State, desired: int, scrape: Scrape, now: float) -> list[bool]:
    """Blind or not, soon after readings stopped and long after; the number stands."""
    blind = []
    for later_s in (1.0, SPEC.stale_s + 2.0):
        replicas = ReplicaSet(NAMES, (), len(NAMES), now + later_s)
        state, outcome = step(SPEC, state, Observation(now + later_s, replicas, scrape.readings, scrape.missing))
        assert isinstance(outcome, Decision)
        assert outcome.desired == desired
        blind.append(outcome.blind)
    return blind


@pytest.mark.fault("Prometheus is slow or gone", "Prometheus answers with nothing")
async def test_a_prometheus_that_stalls_knows_nothing_or_dies_is_held_and_then_blind_and_never_zero(tmp_path):
    busy = tuple(Reading(name, 0.0, 80.0, 0.0, ttft=Histogram((), (0.0,), 0.0)) for name in NAMES)
    replicas = ReplicaSet(NAMES, (), len(NAMES), 0.0)
    state, before = step(SPEC, State(), Observation(0.0, replicas, busy))
    assert isinstance(before, Decision)

    scrapes = {}
    async with prometheus(tmp_path, {}) as running:
        running.freeze()
        async with asking(running) as source:
            scrapes["Prometheus: timeout after 0.7 s"] = await source.read(ask(NAMES))
        running.thaw()
        async with asking(running) as source:
            empty = await source.read(ask(NAMES))
        await running.kill()
        async with asking(running) as source:
            scrapes["Prometheus: connection refused"] = await source.read(ask(NAMES))

    assert scrapes == {why: everyone(why) for why in scrapes}
    assert [missing.why for missing in empty.missing] == [
        f"Prometheus has no fresh sample with pod {name}" for name in NAMES
    ]
    for scrape in (*scrapes.values(), empty):
        assert held_then_blind(state, before.desired, scrape, 0.0) == [False, True]
