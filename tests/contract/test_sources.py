"""Both sources, the same engines: what a page says must not depend on who read it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import pytest

from scaler.control.ports import Ask, MetricSource, Scrape, Target
from scaler.core.model import Histogram, Reading, WorkloadKey
from scaler.engines import ENGINES
from scaler.sources.pods import PodSource
from scaler.sources.prometheus import PrometheusApi, PrometheusSettings, PrometheusSource
from scaler.sources.scrape import scraping
from tests.support.engines import PAGES, PageEngine, listening
from tests.support.prometheus import prometheus
from tests.support.prometheus_fake import FakePrometheus, faking, page_series

KEY = WorkloadKey("prod", "llama")
NAMES = sorted(str(page.relative_to(PAGES)) for page in PAGES.rglob("*.prom"))
PODS = {f"llama-{number}": name for number, name in enumerate(NAMES)}


def ask(addresses: Mapping[str, str]) -> Ask:
    return Ask(KEY, ENGINES["vllm"], tuple(Target(pod, at) for pod, at in addresses.items()))


@asynccontextmanager
async def fleet() -> AsyncIterator[dict[str, tuple[PageEngine, str]]]:
    """An engine for every captured page, each with its address."""
    async with AsyncExitStack() as stack:
        engines = {pod: PageEngine(name) for pod, name in PODS.items()}
        yield {pod: (engine, await stack.enter_async_context(listening(engine))) for pod, engine in engines.items()}


async def scraped(engine: PageEngine) -> None:
    """Its first page is stored when its second is asked for."""
    while engine.scrapes < 2:
        engine.asked.clear()
        await engine.asked.wait()


@asynccontextmanager
async def fake_one(addresses: Mapping[str, str], directory: Path) -> AsyncIterator[str]:
    pages = [page_series((PAGES / name).read_bytes(), pod) for pod, name in PODS.items()]
    async with faking(FakePrometheus([series for page in pages for series in page])) as fake:
        yield fake.url


@asynccontextmanager
async def real_one(addresses: Mapping[str, str], directory: Path) -> AsyncIterator[str]:
    async with prometheus(directory, {f"prod/{pod}": address for pod, address in addresses.items()}) as running:
        yield running.url


@asynccontextmanager
async def asking(url: str, objectives_s: tuple[float, ...] = ()) -> AsyncIterator[PrometheusSource]:
    api = PrometheusApi(PrometheusSettings(url, interval_s=1.0, timeout_s=10.0), perf_counter)
    source = PrometheusSource(api, perf_counter, lambda: objectives_s)
    try:
        yield source
    finally:
        await source.close()
        await api.close()


def undated(scrape: Scrape) -> dict[str, Reading]:
    """Without what a source may leave out: nothing is decided by durations, and Prometheus is not asked for them."""
    assert not scrape.missing
    return {reading.replica: replace(reading, observed_at=0.0, duration=None) for reading in scrape.readings}


def on_edges_of(few: Mapping[str, Reading], many: Mapping[str, Reading]) -> dict[str, Reading]:
    """The readings of ``many``, with the edges that ``few`` have."""

    def cut(whole: Histogram | None, part: Histogram | None) -> Histogram | None:
        return whole if whole is None or part is None else whole.on(part.edges)

    return {
        pod: replace(
            reading,
            ttft=cut(reading.ttft, few[pod].ttft),
            tpot=cut(reading.tpot, few[pod].tpot),
            queue_time=cut(reading.queue_time, few[pod].queue_time),
            prompt_tokens=cut(reading.prompt_tokens, few[pod].prompt_tokens),
            output_tokens=cut(reading.output_tokens, few[pod].output_tokens),
        )
        for pod, reading in many.items()
    }


def first_token_edges(found: Reading) -> tuple[float, ...]:
    return () if found.ttft is None else found.ttft.edges


async def read(source: MetricSource, addresses: Mapping[str, str]) -> dict[str, Reading]:
    return undated(await source.read(ask(addresses)))


@pytest.mark.parametrize("serving", [fake_one, pytest.param(real_one, id="real_one")])
async def test_every_captured_page_reads_the_same_through_prometheus(serving, tmp_path):
    async with fleet() as engines, scraping() as scraper:
        addresses = {pod: address for pod, (_, address) in engines.items()}
        direct = await read(PodSource(scraper, perf_counter, timeout_s=10.0), addresses)
        for engine, _ in engines.values():
            engine.scrapes = 0
        async with serving(addresses, tmp_path) as url:
            if serving is real_one:
                for engine, _ in engines.values():
                    await scraped(engine)
            async with asking(url) as source:
                whole = await read(source, addresses)
            async with asking(url, (2.0, 0.1)) as source:
                thinned = await read(source, addresses)

    assert whole == direct
    assert thinned == on_edges_of(thinned, direct)
    assert 0 < len(first_token_edges(thinned["llama-2"])) < len(first_token_edges(direct["llama-2"]))
