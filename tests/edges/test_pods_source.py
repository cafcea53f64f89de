"""Scraping replicas that behave, and replicas that do everything else, over real sockets."""

import asyncio
import gzip
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from scaler.control.ports import Ask, Scrape, Target
from scaler.core.model import Missing, Reading, WorkloadKey
from scaler.engines import ENGINES
from scaler.engines.row import select
from scaler.sources.exposition import Wanted, parse
from scaler.sources.pods import PodSource
from scaler.sources.scrape import scraping

VLLM = ENGINES["vllm"]
PAGES = Path(__file__).parents[1] / "data" / "metrics"
BUSY = (PAGES / "0.32.0-03-overload-40-streams.prom").read_bytes()
NOW = 12.5
# Long enough for a healthy answer on a busy machine; the tests of silence wait for it in full.
PATIENT_S, SILENT_S = 10.0, 0.3

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
RawHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def ask(targets) -> Ask:
    return Ask(WorkloadKey("prod", "llama"), VLLM, tuple(targets))


@asynccontextmanager
async def http(handler: Handler) -> AsyncIterator[str]:
    """An engine with this /metrics; yields its host:port."""
    application = web.Application()
    application.router.add_get("/metrics", handler)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def tcp(handler: RawHandler) -> AsyncIterator[str]:
    """A server that treats its connections as it likes."""
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"


@asynccontextmanager
async def pods(**options: Any) -> AsyncIterator[PodSource]:
    async with scraping() as scraper:
        yield PodSource(scraper, lambda: NOW, **{"timeout_s": PATIENT_S, **options})


async def healthy(_: web.Request) -> web.Response:
    return web.Response(body=BUSY, headers={"Content-Type": "text/plain; version=1.0.0; charset=utf-8"})


def busy(replica: str) -> Reading:
    return select(VLLM, parse(BUSY, Wanted.of(VLLM)), replica, NOW)


class Hole:
    """Takes connections and never says a word; remembers who came and notices who left."""

    def __init__(self) -> None:
        self.came = 0
        self.left = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came += 1
        while await reader.read(1024):
            pass
        self.left.set()
        writer.close()


async def read_one(address: str, scheme: str = "", **options: Any) -> Scrape:
    async with pods(**options) as source:
        return await source.read(ask([Target("pod-0", address, scheme)]))


def missing(why: str) -> Scrape:
    return Scrape((), (Missing("pod-0", why),))


async def test_a_healthy_replica_is_read_and_stamped_with_the_time_of_its_answer():
    async with http(healthy) as address:
        assert await read_one(address) == Scrape((busy("pod-0"),), ())


async def test_a_replica_without_statistics_is_a_reading_that_names_what_is_absent():
    page = (PAGES / "0.32.0-11-disable-log-stats.prom").read_bytes()

    async def no_statistics(_):
        return web.Response(body=page, content_type="text/plain")

    async with http(no_statistics) as address:
        scrape = await read_one(address)

    assert scrape == Scrape((Reading("pod-0", NOW, absent=("running", "waiting", "ttft")),), ())


async def test_no_targets_make_an_empty_scrape():
    async with pods() as source:
        assert await source.read(ask([])) == Scrape((), ())


def answers(**response) -> Handler:
    async def handler(_):
        return web.Response(**response)

    return handler


BOMB = gzip.compress(bytes(50_000_000))
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@pytest.mark.fault("HTML, JSON or a redirect for a page", "gzip bomb or endless page", "half a page")
@pytest.mark.parametrize(
    ("handler", "why"),
    [
        pytest.param(answers(status=500, body=BUSY), "HTTP 500", id="500"),
        pytest.param(answers(status=404, text="no"), "HTTP 404", id="404"),
        pytest.param(answers(status=204), "HTTP 204", id="204"),
        pytest.param(
            answers(status=302, headers={"Location": "/elsewhere"}), "HTTP 302 redirect refused", id="redirect"
        ),
        pytest.param(answers(text="<html>", content_type="text/html"), "HTML instead of metrics", id="html-type"),
        pytest.param(answers(text="\n <!doctype html>\n"), "HTML instead of metrics", id="html-as-text"),
        pytest.param(answers(text="{}", content_type="application/json"), "JSON instead of metrics", id="json"),
        pytest.param(answers(body=b""), "empty page", id="empty"),
        pytest.param(answers(body=b" \n\n"), "empty page", id="blank"),
        pytest.param(answers(body=BUSY[:20_000]), "page cut short", id="cut-in-a-line"),
        pytest.param(
            answers(body=BUSY, headers={"Content-Type": OPENMETRICS}),
            "page cut short",
            id="openmetrics-without-its-end",
        ),
        pytest.param(answers(body=b"x" * 5_000_000), "page over 2097152 bytes", id="5-megabytes"),
        pytest.param(
            answers(body=BOMB, headers={"Content-Encoding": "gzip"}), "compressed page refused", id="gzip-bomb"
        ),
        pytest.param(
            answers(body=BUSY, headers={"Content-Encoding": "zz"}), "compressed page refused", id="odd-encoding"
        ),
    ],
)
async def test_an_answer_that_is_no_page_is_missing_with_the_reason(handler, why):
    async with http(handler) as address:
        assert await read_one(address) == missing(why)


@pytest.mark.fault("HTML, JSON or a redirect for a page")
async def test_a_redirect_is_not_followed():
    visits = []

    async def elsewhere(_):
        visits.append("elsewhere")
        return web.Response(body=BUSY)

    async with (
        http(elsewhere) as other,
        http(answers(status=307, headers={"Location": f"http://{other}/metrics"})) as address,
    ):
        scrape = await read_one(address)

    assert (scrape, visits) == (missing("HTTP 307 redirect refused"), [])


async def test_an_openmetrics_page_with_its_end_is_read():
    body = BUSY + b"# EOF\n"
    async with http(answers(body=body, headers={"Content-Type": OPENMETRICS})) as address:
        assert await read_one(address) == Scrape((busy("pod-0"),), ())


async def test_nothing_but_the_plain_page_is_asked_for():
    asked = []

    async def remember(request):
        asked.append((request.headers["Accept-Encoding"], request.headers.get("Cookie")))
        response = web.Response(body=BUSY)
        response.set_cookie("sticky", "yes")
        return response

    async with http(remember) as address, pods() as source:
        await source.read(ask([Target("pod-0", address)]))
        await source.read(ask([Target("pod-0", address)]))

    assert asked == [("identity", None)] * 2


async def test_a_proxy_in_the_environment_is_not_used(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    async with http(healthy) as address:
        assert await read_one(address) == Scrape((busy("pod-0"),), ())


def raw(answer: bytes) -> RawHandler:
    async def handler(reader, writer):
        await reader.read(1024)
        writer.write(answer)
        await writer.drain()
        writer.close()

    return handler


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1024)
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@pytest.mark.fault("engine dies", "half a page")
@pytest.mark.parametrize(
    ("handler", "why"),
    [
        pytest.param(
            raw(HEAD + b"Content-Length: 999\r\n\r\nvllm:a 1\n"), "page cut short", id="shorter-than-announced"
        ),
        pytest.param(raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\nvllm"), "page cut short", id="cut-in-a-chunk"),
        pytest.param(raw(b""), "connection closed without an answer", id="closed"),
        pytest.param(raw(b"SSH-2.0-OpenSSH_9.6\r\n"), "malformed HTTP answer", id="not-http"),
        pytest.param(reset, "connection reset", id="reset"),
    ],
)
async def test_a_broken_connection_is_missing_with_the_reason(handler, why):
    async with tcp(handler) as address:
        assert await read_one(address) == missing(why)


@pytest.mark.fault("engine dies")
async def test_a_port_that_nobody_listens_on_is_connection_refused():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    assert await read_one(f"127.0.0.1:{port}") == missing("connection refused")


@pytest.mark.parametrize(
    "address",
    ["", "not an address", "ftp://127.0.0.1/", "[::", "me@127.0.0.1:80", "127.0.0.1:80/a", f"{'a' * 70}.test:80"],
)
async def test_an_address_that_is_none_is_missing_with_the_reason(address):
    assert await read_one(address) == missing("invalid address")


async def test_a_port_without_tls_where_the_platform_says_https_is_missing_with_the_reason():
    async with http(healthy) as address:
        assert await read_one(address, "https") == missing("no TLS there; set scrape.default.scheme to http")


@pytest.mark.fault("engine hangs")
async def test_a_black_hole_costs_its_own_reading_only_and_leaves_nothing_behind():
    hole = Hole()
    async with tcp(hole) as dark, http(healthy) as address, pods(timeout_s=1.0) as source:
        before = asyncio.all_tasks()
        targets = [Target("pod-0", dark), Target("pod-1", address)]

        scrape = await source.read(ask(targets))

        await hole.left.wait()
        ours = [task for task in asyncio.all_tasks() - before if "_ask" in repr(task)]
    assert (scrape, ours) == (Scrape((busy("pod-1"),), (Missing("pod-0", "timeout after 1 s"),)), [])


@pytest.mark.fault("half a page")
async def test_a_page_that_stops_half_way_is_a_timeout():
    async def half(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(BUSY[:20_000])
        await asyncio.Event().wait()
        return response

    async with http(half) as address:
        assert await read_one(address, timeout_s=SILENT_S) == missing("timeout after 0.3 s")


@pytest.mark.fault("engine hangs")
async def test_a_black_hole_is_tried_once_a_pass_and_holds_one_connection():
    hole = Hole()
    async with tcp(hole) as dark, pods(timeout_s=SILENT_S) as source:
        first = await source.read(ask([Target("pod-0", dark)]))
        await hole.left.wait()
        second = await source.read(ask([Target("pod-0", dark)]))

    assert (first, second, hole.came) == (missing("timeout after 0.3 s"), missing("timeout after 0.3 s"), 2)


@pytest.mark.fault("engine hangs")
async def test_replicas_that_were_late_are_asked_after_the_others():
    hole = Hole()
    async with tcp(hole) as dark, http(healthy) as address, pods(timeout_s=1.0, lanes=1) as source:
        silent, healthy_one = Target("pod-0", dark), Target("pod-1", address)
        await source.read(ask([silent]))

        scrape = await source.read(ask([silent, healthy_one]))

    assert scrape == Scrape((busy("pod-1"),), (Missing("pod-0", "timeout after 1 s"),))


async def test_readings_come_in_the_order_of_the_targets_whoever_answers_first():
    released = asyncio.Event()

    async def slow(request):
        await released.wait()
        return await healthy(request)

    async def quick(request):
        released.set()
        return await healthy(request)

    async with http(slow) as last, http(quick) as first, pods() as source:
        scrape = await source.read(ask([Target("pod-0", last), Target("pod-1", first)]))

    assert scrape == Scrape((busy("pod-0"), busy("pod-1")), ())


async def test_one_connection_serves_pass_after_pass():
    ports = []

    async def remember(request):
        ports.append(request.transport.get_extra_info("peername"))
        return await healthy(request)

    async with http(remember) as address, pods() as source:
        await source.read(ask([Target("pod-0", address)]))
        await source.read(ask([Target("pod-0", address)]))

    assert (len(ports), len(set(ports))) == (2, 1)


async def test_no_more_replicas_are_asked_at_once_than_there_are_lanes():
    now, most, full = 0, 0, asyncio.Event()

    async def crowded(request):
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 2:
            full.set()
        await full.wait()
        now -= 1
        return await healthy(request)

    async with http(crowded) as address, pods(lanes=2) as source:
        scrape = await source.read(ask([Target(f"pod-{i}", address) for i in range(6)]))

    assert (len(scrape.readings), most) == (6, 2)


async def test_a_cancelled_pass_hangs_up():
    hole = Hole()
    came = asyncio.Event()

    async def dark(reader, writer):
        came.set()
        await hole(reader, writer)

    async with tcp(dark) as address, pods() as source:
        task = asyncio.create_task(source.read(ask([Target("pod-0", address)])))
        await came.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await hole.left.wait()
