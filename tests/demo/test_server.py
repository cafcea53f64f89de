"""One emulated replica, over real sockets and in real time."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from scaler.control.ports import Ask, Target
from scaler.core.model import WorkloadKey
from scaler.demo.scenario import MODEL
from scaler.demo.server import Served, serving
from scaler.engines import ENGINES
from scaler.sources.pods import PodSource
from scaler.sources.scrape import scraping

VLLM = ENGINES["vllm"]


@asynccontextmanager
async def replica() -> AsyncIterator[tuple[Served, aiohttp.ClientSession]]:
    async with (
        serving("llm-0", asyncio.get_running_loop().time) as served,
        aiohttp.ClientSession(f"http://{served.address}") as client,
    ):
        yield served, client


async def scraped(served: Served):
    async with scraping() as scraper:
        source = PodSource(scraper, asyncio.get_running_loop().time, timeout_s=10.0)
        target = Target("llm-0", served.address)
        scrape = await source.read(Ask(WorkloadKey("demo", "llm"), VLLM, (target,)))
        return scrape.readings[0]


def ask(tokens: int, **more) -> dict[str, object]:
    return {"model": MODEL, "prompt": "hello", "max_tokens": tokens, **more}


async def test_a_stream_brings_the_tokens_that_were_asked_for_and_says_done() -> None:
    async with replica() as (_, client):
        options = {"stream": True, "stream_options": {"include_usage": True}}
        async with client.post("/v1/completions", json=ask(12, **options)) as response:
            assert response.headers["Content-Type"].startswith("text/event-stream")
            events = [line.removeprefix(b"data: ").strip() async for line in response.content if line.strip()]
    *chunks, usage = [json.loads(event) for event in events[:-1]]
    assert events[-1] == b"[DONE]"
    assert usage["usage"]["completion_tokens"] == 12
    assert chunks[0]["choices"][0]["text"] == " token", "the first token is told at once"
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == " token" * 12
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * (len(chunks) - 1) + ["length"]


async def test_a_long_stream_is_told_in_pieces_before_it_is_finished() -> None:
    async with replica() as (_, client), client.post("/v1/completions", json=ask(40, stream=True)) as response:
        chunks = [line async for line in response.content if line.startswith(b"data: {")]
    assert len(chunks) > 3


async def test_without_streaming_the_answer_comes_whole() -> None:
    async with replica() as (_, client):
        message = {"role": "user", "content": "hello"}
        async with client.post("/v1/chat/completions", json={"messages": [message], "max_tokens": 3}) as response:
            told = await response.json()
    assert told["choices"][0]["message"] == {"role": "assistant", "content": " token token token"}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"model": "other", "prompt": "x"}, id="another model"),
        pytest.param({"prompt": "x", "max_tokens": 10_000_000}, id="more than the cache holds"),
    ],
)
async def test_what_cannot_be_served_is_a_client_error(given) -> None:
    async with replica() as (served, client):
        async with client.post("/v1/completions", json=given) as response:
            assert response.status == 400
            assert (await response.json())["error"]["code"] == 400
        assert (await scraped(served)).running == 0.0


async def test_health_and_models_answer() -> None:
    async with replica() as (_, client):
        async with client.get("/health") as response:
            assert response.status == 200
        async with client.get("/v1/models") as response:
            assert (await response.json())["data"][0]["id"] == MODEL


async def test_a_client_that_hangs_up_takes_its_request_out_of_the_engine() -> None:
    async with replica() as (served, client):
        async with client.post("/v1/completions", json=ask(5000, stream=True)) as response:
            await response.content.readline()
            busy = await scraped(served)
        async with asyncio.timeout(10.0):
            await served.engine.idle()
        left = await scraped(served)
    assert (busy.running, busy.waiting) == (1.0, 0.0)
    assert (left.running, left.waiting) == (0.0, 0.0)
    assert left.ttft is not None
    assert left.ttft.count == 1.0
    assert left.queue_time is not None
    assert left.queue_time.count == 0.0, "as in vLLM, an aborted request is observed nowhere at its end"


async def test_requests_beyond_the_cap_wait() -> None:
    async with replica() as (served, client):
        streams = [client.post("/v1/completions", json=ask(5000, stream=True)) for _ in range(10)]
        responses = await asyncio.gather(*streams)
        unserved = {asyncio.create_task(response.content.readline()) for response in responses}
        while len(unserved) > 2:
            _, unserved = await asyncio.wait(unserved, return_when=asyncio.FIRST_COMPLETED)
        full = await scraped(served)
        for first in unserved:
            first.cancel()
        for response in responses:
            response.close()
    assert (full.running, full.waiting) == (8.0, 2.0)
