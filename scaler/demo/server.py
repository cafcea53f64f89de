"""One emulated replica: vLLM's HTTP surface in front of a simulated engine, on a port of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from aiohttp import web

from scaler.control.ports import Clock
from scaler.demo import openai
from scaler.demo.engine import Engine, Job
from scaler.demo.page import CONTENT_TYPE, page
from scaler.demo.scenario import COEFFICIENTS, LIMITS, MODEL
from scaler.sim import Replica

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Served:
    """A replica that answers. ``address`` is host:port."""

    address: str
    engine: Engine


@asynccontextmanager
async def serving(name: str, clock: Clock) -> AsyncIterator[Served]:
    """A replica that answers while the context lasts; whatever is under way at its end is cut off."""
    engine = Engine(Replica(COEFFICIENTS, LIMITS, clock()), clock)
    # A client that hangs up must cancel its handler: that is how a request is aborted.
    runner = web.AppRunner(_app(name, engine), handler_cancellation=True, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    driver = asyncio.create_task(engine.run(), name=f"engine {name}")
    try:
        site = web.TCPSite(runner, HOST, 0)
        await site.start()
        port = runner.addresses[0][1]
        yield Served(f"{HOST}:{port}", engine)
    finally:
        driver.cancel()
        with suppress(asyncio.CancelledError):
            await driver
        await runner.cleanup()


def _app(name: str, engine: Engine) -> web.Application:
    created_at = time.time()

    async def metrics(_: web.Request) -> web.Response:
        text = page(MODEL, engine.contents(name, created_at))
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    async def health(_: web.Request) -> web.Response:
        return web.Response()

    async def models(_: web.Request) -> web.Response:
        return web.json_response(openai.models(MODEL))

    async def completions(request: web.Request) -> web.StreamResponse:
        return await _generate(engine, request, chat=False)

    async def chat(request: web.Request) -> web.StreamResponse:
        return await _generate(engine, request, chat=True)

    app = web.Application()
    app.add_routes(
        [
            web.get("/metrics", metrics),
            web.get("/health", health),
            web.get("/v1/models", models),
            web.post("/v1/completions", completions),
            web.post("/v1/chat/completions", chat),
        ]
    )
    return app


async def _generate(engine: Engine, request: web.Request, *, chat: bool) -> web.StreamResponse:
    try:
        ask = openai.parse(await request.read(), MODEL, chat=chat)
        job = engine.submit(ask.prompt_tokens, ask.output_tokens)
    except (openai.BadRequest, ValueError) as error:
        return web.json_response(openai.error(str(error), 400), status=400)
    try:
        return await (_stream(request, ask, job) if ask.stream else _whole(ask, job))
    finally:
        engine.cancel(job)


async def _whole(ask: openai.Ask, job: Job) -> web.Response:
    while not (await job.progress.get()).finished:
        pass
    return web.json_response(openai.answer(ask, str(job.request.id), MODEL))


async def _stream(request: web.Request, ask: openai.Ask, job: Job) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    request_id, written, finished = str(job.request.id), 0, False
    while not finished:
        progress = await job.progress.get()
        finished = progress.finished
        await response.write(openai.chunk(ask, request_id, MODEL, progress.tokens - written, finished=finished))
        written = progress.tokens
    last = openai.usage_chunk(ask, request_id, MODEL) if ask.usage else b""
    await response.write(last + openai.DONE)
    await response.write_eof()
    return response
