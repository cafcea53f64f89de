"""The clients, when the demo ends before they have their answers."""

import asyncio

import aiohttp

from scaler.core.model import WorkloadKey
from scaler.demo.cluster import Endpoint
from scaler.demo.gateway import Gateway
from scaler.demo.scenario import Arrival
from scaler.demo.traffic import Ending, Outcome, Traffic

KEY = WorkloadKey("demo", "llm")


async def test_requests_under_way_when_the_demo_is_cut_short_are_unfinished() -> None:
    asked = asyncio.Event()

    async def mute(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await _reader.read()  # until the client is gone
        writer.close()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    endpoint = Endpoint("llm-0", f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    clock = asyncio.get_running_loop().time
    async with server, aiohttp.ClientSession() as session:
        traffic = Traffic(Gateway(KEY, lambda: (endpoint,), enforce=True, seed=1), session, clock)
        playing = asyncio.create_task(traffic.play((Arrival(0.0, 1, 1), Arrival(1000.0, 1, 1)), clock()))
        await asyncio.wait_for(asked.wait(), 10.0)
        playing.cancel()
        await asyncio.wait({playing})
    assert playing.cancelled()
    assert traffic.outcomes == [Outcome(0.0, Ending.UNFINISHED)]
