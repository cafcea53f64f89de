"""Decisions as server-sent events, over real sockets."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

import pytest
from aiohttp import ClientResponse, ClientSession, web
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from yarl import URL

from scaler.api.http import Ops, ops_app
from scaler.api.openapi import EVENT_FIELDS
from scaler.api.render import event_body
from scaler.api.streams import HEARTBEAT, Limits, Streams
from scaler.api.view import View
from scaler.core.decision import QueueWait
from scaler.core.model import WorkloadKey
from tests.support import decisions as made
from tests.support.served import serving, view_of

QUICK = Limits(pause_s=0.02, heartbeat_s=0.05)
ONE = "/v1/events/prod/llama"
OTHER = WorkloadKey("dev", "qwen")


@dataclass
class Served:
    view: View
    streams: Streams
    client: ClientSession


@asynccontextmanager
async def streaming(view: View, limits: Limits = QUICK) -> AsyncIterator[Served]:
    streams, app = Streams(view, limits), web.Application()
    app.router.add_get("/v1/events", streams.of_all)
    app.router.add_get("/v1/events/{namespace}/{name}", streams.of_one)
    app.on_shutdown.append(streams.end)
    async with serving(app) as client:
        yield Served(view, streams, client)


async def told(stream: ClientResponse) -> tuple[str, dict]:
    """The next event."""
    while not (line := await stream.content.readline()).startswith(b"event: "):
        assert line, "the stream ended"
    data = await stream.content.readline()
    return line[7:].decode().strip(), json.loads(data.removeprefix(b"data: "))


async def until(true) -> None:
    while not true():
        with suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                await asyncio.Event().wait()


async def test_a_stream_begins_with_what_is_known_and_goes_on_with_each_decision():
    view = view_of(made.green())
    async with streaming(view) as at, at.client.get(ONE) as stream:
        first = await told(stream)
        view.board.publish(made.red())
        second = await told(stream)
    assert (stream.headers["Content-Type"], stream.headers["X-Accel-Buffering"], first, second) == (
        "text/event-stream; charset=utf-8",
        "no",
        ("decision", event_body(made.green(), 39.0)),
        ("decision", event_body(made.red(), 39.0)),
    )


def test_an_event_is_the_newest_point_of_the_charts_by_the_names_of_the_contract():
    assert (event_body(made.red(), 39.0), [*EVENT_FIELDS]) == (
        {
            "namespace": "prod",
            "name": "llama",
            "state": "RED",
            "sequence": 19,
            "age_s": 1.0,
            "offered_per_s": 24.0,
            "arrival_per_s": 24.0,
            "refused_per_s": 0.0,
            "queue_wait_s": 19.5,
            "budget_s": 2.0,
            "desired": 5,
            "starting": 0,
            "ready": 2,
        },
        [*event_body(made.red(), 39.0)],
    )


async def test_the_stream_of_all_tells_of_every_workload_and_says_when_one_waits_or_is_gone():
    other, view = replace(made.green(), key=OTHER), view_of(made.pending())
    async with streaming(view) as at, at.client.get("/v1/events") as stream:
        events = [await told(stream)]
        view.board.publish(other)
        events.append(await told(stream))
        view.board.drop(OTHER)
        events.append(await told(stream))
    assert [(kind, body["name"], body.get("because")) for kind, body in events] == [
        ("pending", "llama", "no reading from llama-1 (connection refused)"),
        ("decision", "qwen", None),
        ("gone", "qwen", None),
    ]


async def test_the_stream_of_one_workload_tells_of_no_other():
    view = view_of(made.green())
    async with streaming(view) as at, at.client.get(ONE) as stream:
        view.board.publish(replace(made.green(), key=OTHER))
        view.board.publish(made.red())
        names = {(await told(stream))[1]["name"] for _ in range(2)}
    assert names == {"llama"}


async def test_a_reader_that_comes_late_is_told_the_newest_only():
    view = view_of(made.green())
    async with streaming(view, replace(QUICK, pause_s=0.1)) as at, at.client.get(ONE) as stream:
        await told(stream)
        red = made.red()
        for sequence in range(100, 150):
            view.board.publish(replace(red, sequence=sequence))
        assert (await told(stream))[1]["sequence"] == 149


async def test_a_silent_stream_shows_that_it_lives():
    async with streaming(view_of(made.green())) as at, at.client.get(ONE) as stream:
        await told(stream)
        lines = [await stream.content.readline() for _ in range(4)]
    assert lines == [b"\n", HEARTBEAT[:-1], b"\n", HEARTBEAT[:-1]]


async def test_nobody_streams_a_workload_that_is_not_known():
    async with streaming(view_of()) as at, at.client.get(ONE) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (404, "unknown_workload")


async def test_who_asks_for_the_head_only_opens_no_stream():
    async with streaming(view_of(made.green())) as at, at.client.head(ONE) as answer:
        assert (answer.status, answer.content_type, len(at.streams)) == (200, "text/event-stream", 0)


async def test_streams_are_limited_and_one_that_was_left_makes_room():
    view = view_of(made.green())
    async with streaming(view, Limits(streams=1, pause_s=0.0)) as at:
        first = await at.client.get(ONE)
        async with at.client.get(ONE) as refused:
            code, after = (await refused.json())["error"]["code"], refused.headers["Retry-After"]
        first.close()
        statuses = [refused.status]
        while statuses[-1] != 200:
            async with at.client.get(ONE) as second:
                statuses.append(second.status)
    assert (statuses[0], code, after) == (503, "too_many_streams", "5")


async def test_a_reader_that_takes_nothing_is_dropped():
    key = WorkloadKey("prod", "x" * 100_000)
    view = view_of(replace(made.green(), key=key))
    async with streaming(view, Limits(pause_s=0.0, patience_s=0.05)) as at:
        lazy, huge = socket.socket(), replace(made.red(), key=key)
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.setblocking(False)
        loop = asyncio.get_running_loop()
        address = URL(str(at.client._base_url))
        await loop.sock_connect(lazy, (address.host, address.port))
        await loop.sock_sendall(lazy, b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: len(at.streams) == 1)

        def dropped() -> bool:
            view.board.publish(huge)
            return not len(at.streams)

        await until(dropped)
        lazy.close()


async def test_streams_end_when_the_process_goes_and_no_other_is_opened():
    async with streaming(view_of(made.green()), Limits()) as at, at.client.get(ONE) as stream:
        await told(stream)
        await at.streams.end()
        rest = await stream.content.read()
        async with at.client.get(ONE) as late:
            assert (rest, late.status, len(at.streams)) == (b"\n", 503, 0)


async def test_a_server_that_stops_does_not_wait_for_those_who_watch():
    app = ops_app(Ops(view_of(made.green()), CollectorRegistry(), lambda: True))
    async with ClientSession() as watching:
        async with serving(app) as client:
            stream = await watching.get(URL(str(client._base_url)) / "v1/events")
            await told(stream)
        assert await stream.content.read() == b"\n"


@given(
    decision=st.sampled_from([made.green(), made.red(), made.blind()]),
    number=st.floats(0, allow_nan=False),
    late=st.floats(0, 1e6),
)
def test_every_event_is_one_line_of_strict_json(decision, number, late):
    strange = replace(decision.estimate, offered_per_s=number, queue_wait=QueueWait(number))
    body = event_body(
        replace(decision, key=WorkloadKey("a\nb", "\u2028"), estimate=strange), decision.decided_at + late
    )

    def refuse(word: str) -> None:
        pytest.fail(f"{word} is no JSON")

    text = json.dumps(body, allow_nan=False)
    assert (text.splitlines(), json.loads(text, parse_constant=refuse)) == ([text], body)
