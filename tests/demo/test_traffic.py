"""The clients: how they come back, and what is noted when the demo ends before they have their answers."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest

from scaler.core.model import WorkloadKey
from scaler.demo.cluster import Endpoint
from scaler.demo.gateway import Gateway, Told
from scaler.demo.scenario import Arrival
from scaler.demo.traffic import Ending, Outcome, Traffic
from scaler.sim.clients import OLD

KEY = WorkloadKey("demo", "llm")
QUICK = replace(OLD, honours_s=0.0)
"""Comes back after half a second, whatever it is told."""
TOKENS = b'data: {"text": "a"}\n\ndata: {"finish_reason":"length"}\n\n'


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + TOKENS)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield Endpoint("llm-0", f"127.0.0.1:{server.sockets[0].getsockname()[1]}")


class Reluctant(Gateway):
    """Refuses so many attempts, whatever the dice say, and then lets all in."""

    def __init__(self, endpoint: Endpoint, refusals: int) -> None:
        super().__init__(KEY, lambda: (endpoint,), enforce=True, seed=1)
        self.left = refusals
        self.asked: list[int] = []

    def ask(self, tried: int, now: float):
        self.asked.append(tried)
        self.left -= 1
        self.hear(Told(0.0 if self.left >= 0 else 1.0), now)
        return super().ask(tried, now)


async def played(gateway: Gateway, arrival: Arrival) -> Outcome:
    clock = asyncio.get_running_loop().time
    async with aiohttp.ClientSession() as session:
        traffic = Traffic(gateway, session, clock)
        await traffic.play((arrival,), clock())
    (outcome,) = traffic.outcomes
    return outcome


async def test_a_refused_client_comes_back_as_its_library_does_and_is_served(endpoint) -> None:
    gateway = Reluctant(endpoint, 1)
    outcome = await played(gateway, Arrival(0.0, 1, 2, QUICK))
    assert gateway.asked == [0, 1]
    assert (outcome.ending, outcome.tried) == (Ending.COMPLETED, 1)
    assert outcome.ttft_s is not None
    assert outcome.away_s > 0, "not a part of TTFT, but told"


async def test_a_client_that_has_no_retries_left_is_refused_for_good(endpoint) -> None:
    gateway = Reluctant(endpoint, 9)
    assert await played(gateway, Arrival(0.0, 1, 2, replace(QUICK, retries=1))) == Outcome(0.0, Ending.REFUSED)
    assert gateway.asked == [0, 1]


async def test_a_client_without_a_library_is_refused_once(endpoint) -> None:
    gateway = Reluctant(endpoint, 9)
    assert await played(gateway, Arrival(0.0, 1, 2)) == Outcome(0.0, Ending.REFUSED)
    assert gateway.asked == [0]


async def test_a_client_that_has_yet_to_come_back_when_the_demo_is_cut_short_is_unfinished(endpoint) -> None:
    gateway, clock = Reluctant(endpoint, 9), asyncio.get_running_loop().time
    refused = asyncio.Event()

    def ticking() -> float:
        if gateway.asked:
            refused.set()
        return clock()

    async with aiohttp.ClientSession() as session:
        traffic = Traffic(gateway, session, ticking)
        arrivals = (Arrival(0.0, 1, 1, OLD), Arrival(0.05, 1, 1, OLD), Arrival(1000.0, 1, 1))
        playing = asyncio.create_task(traffic.play(arrivals, clock()))
        await asyncio.wait_for(refused.wait(), 10.0)
        playing.cancel()
        await asyncio.wait({playing})
    assert Outcome(0.0, Ending.UNFINISHED) in traffic.outcomes


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
