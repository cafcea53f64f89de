"""A reverse proxy that serves another server below a path of its own, and passes on what it answers as it comes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import ClientSession, web

NOT_PASSED_ON = {"transfer-encoding", "content-length", "date", "server", "content-encoding"}


@asynccontextmanager
async def behind(prefix: str, upstream: ClientSession) -> AsyncIterator[str]:
    """The address, with a slash at its end, at which all that ``upstream`` reaches is served below the prefix."""

    async def forward(request: web.Request) -> web.StreamResponse:
        async with upstream.get(request.rel_url.raw_path_qs.removeprefix(prefix)) as answer:
            headers = {name: value for name, value in answer.headers.items() if name.lower() not in NOT_PASSED_ON}
            response = web.StreamResponse(status=answer.status, headers=headers)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response

    app = web.Application()
    app.router.add_get(prefix + "{tail:/.*}", forward)
    running = web.AppRunner(app, access_log=None, handler_cancellation=True)  # who leaves here leaves there, too
    await running.setup()
    try:
        await web.TCPSite(running, "127.0.0.1", 0).start()
        yield "http://{}:{}{}/".format(*running.addresses[0][:2], prefix)
    finally:
        await running.cleanup()
