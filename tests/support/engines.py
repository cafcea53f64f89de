"""Engines on loopback that serve captured pages, or misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

PAGES = Path(__file__).parents[1] / "data" / "metrics"
IDLE = "0.32.0-02-idle-after-one-request.prom"
OVERLOAD = "0.32.0-03-overload-40-streams.prom"


@dataclass
class PageEngine:
    """Serves one page at a time; ``asked`` is set by every scrape."""

    page: str = IDLE
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    scrapes: int = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.scrapes += 1
        self.asked.set()
        return web.Response(body=(PAGES / self.page).read_bytes(), content_type="text/plain")


@asynccontextmanager
async def listening(engine: PageEngine) -> AsyncIterator[str]:
    """The engine's host:port."""
    app = web.Application()
    app.router.add_get("/metrics", engine.answer)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def black_hole() -> AsyncIterator[str]:
    """Accepts connections and never answers."""
    gone = asyncio.Event()

    async def swallow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await gone.wait()
        writer.close()

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"
    finally:
        gone.set()
        server.close()
