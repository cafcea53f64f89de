"""Everything that can be wrong with an answer, over real sockets: a reason each time, never a zero and never an exception."""

import asyncio
import gzip
import json
import socket
from contextlib import asynccontextmanager
from time import perf_counter

import pytest
from aiohttp import web

from scaler.control.ports import Ask, Scrape, Target
from scaler.core.model import Missing, WorkloadKey
from scaler.engines import ENGINES
from scaler.sources.prometheus import PrometheusApi, PrometheusSettings, PrometheusSource
from tests.support.engines import black_hole
from tests.support.prometheus_fake import FakePrometheus, faking, vector

ASK = Ask(WorkloadKey("prod", "llama"), ENGINES["vllm"], (Target("a", ""),))
SILENT_S = 0.3


def missing(why: str) -> Scrape:
    return Scrape((), (Missing("a", f"Prometheus: {why}"),))


async def read_one(url: str, timeout_s: float = 10.0, **settings) -> Scrape:
    api = PrometheusApi(PrometheusSettings(url, timeout_s=timeout_s, **settings), perf_counter)
    source = PrometheusSource(api, perf_counter)
    try:
        return await source.read(ASK)
    finally:
        await source.close()
        await api.close()


def said(code: int, /, **body: str) -> dict:
    return {"status": code, "body": json.dumps(body).encode(), "content_type": "application/json"}


OK = {"status": 200, "content_type": "application/json"}
BAD = {"status": "error", "errorType": "bad_data", "error": "parse error"}


@pytest.mark.fault("Prometheus is slow or gone")
@pytest.mark.parametrize(
    ("response", "why"),
    [
        pytest.param({"status": 401, "body": b"Unauthorized"}, "HTTP 401", id="401"),
        pytest.param({"status": 403, "body": b"no"}, "HTTP 403", id="403"),
        pytest.param({"status": 404, "body": b"404 page not found"}, "HTTP 404", id="404"),
        pytest.param({"status": 429, "body": b""}, "HTTP 429", id="429"),
        pytest.param({"status": 500, "body": b"oops"}, "HTTP 500", id="500"),
        pytest.param(
            said(503, status="error", errorType="timeout", error="query\n timed out"),
            "HTTP 503: timeout: query timed out",
            id="503",
        ),
        pytest.param(said(400, **BAD), "HTTP 400: bad_data: parse error", id="400"),
        pytest.param(
            said(422, status="error", errorType="execution", error="x" * 1000),
            f"HTTP 422: execution: {'x' * 148}…",
            id="a long story",
        ),
        pytest.param(
            {"status": 302, "headers": {"Location": "http://127.0.0.1:9/"}}, "HTTP 302 redirect refused", id="redirect"
        ),
        pytest.param({"status": 200, "body": b"<html>sign in</html>"}, "HTML instead of JSON", id="HTML"),
        pytest.param({"status": 200, "body": b""}, "no JSON", id="empty"),
        pytest.param({**OK, "body": b'{"status": "succ'}, "no JSON", id="cut"),
        pytest.param({**OK, "body": b"null"}, "no JSON", id="null"),
        pytest.param({**OK, "body": b"[]"}, "no result in the answer", id="a list"),
        pytest.param({**OK, "body": b"\xff\xfe\x00"}, "no JSON", id="bytes"),
        pytest.param(said(200, **BAD), "bad_data: parse error", id="an error of status 200"),
        pytest.param(said(200, status="success"), "no result in the answer", id="no data"),
        pytest.param(said(200, status="success", data=""), "no result in the answer", id="data is no object"),
        pytest.param(
            {**OK, "body": json.dumps(vector([({}, 1.0)])).replace('"1.0"', '"many"').encode()},
            "result is no vector of numbers",
            id="a word for a value",
        ),
        pytest.param(
            {**OK, "body": json.dumps(vector([({}, 1.0)])).replace('"value"', '"values"').encode()},
            "result is no vector of numbers",
            id="a matrix",
        ),
        pytest.param(
            {**OK, "body": json.dumps(vector([({}, 1.0)], 5.0)).replace("5.0", '"soon"').encode()},
            "result is no vector of numbers",
            id="a word for a time",
        ),
        pytest.param(
            {**OK, "body": json.dumps(vector([({}, 1.0)])).replace("{}", '"pod"').encode()},
            "result is no vector of numbers",
            id="a word for labels",
        ),
        pytest.param(
            {**OK, "body": json.dumps({**vector([]), "status": "error"}).encode()},
            "status is not success",
            id="a result that is none",
        ),
        pytest.param(
            {**OK, "body": gzip.compress(b"{}"), "headers": {"Content-Encoding": "gzip"}},
            "compressed answer refused",
            id="compressed",
        ),
        pytest.param({**OK, "body": b" " * 2_000_001}, "answer over 2000000 bytes", id="long"),
    ],
)
async def test_an_answer_that_is_none_is_a_reason(response, why):
    async def misbehave(_):
        return web.Response(**response)

    async with faking(FakePrometheus(misbehave=misbehave)) as fake:
        assert await read_one(fake.url) == missing(why)


async def test_an_endless_answer_is_left_at_the_limit():
    async def endless(request):
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while True:
            await response.write(b" " * 65536)

    async with faking(FakePrometheus(misbehave=endless)) as fake:
        assert await read_one(fake.url) == missing("answer over 2000000 bytes")


@pytest.mark.fault("Prometheus is slow or gone")
async def test_an_answer_without_end_in_time_is_a_timeout():
    async with black_hole() as address:
        assert await read_one(f"http://{address}", SILENT_S) == missing("timeout after 0.3 s")


async def test_an_answer_that_stops_half_way_is_a_reason():
    async def stops(request):
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"status":')
        await asyncio.Event().wait()

    async with faking(FakePrometheus(misbehave=stops)) as fake:
        assert await read_one(fake.url, SILENT_S) == missing("answer stopped half-way")


async def test_an_answer_that_is_cut_is_a_reason():
    async def cut(request):
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"status":')
        request.transport.close()
        return response

    async with faking(FakePrometheus(misbehave=cut)) as fake:
        assert await read_one(fake.url) == missing("answer cut short")


@pytest.mark.fault("Prometheus is slow or gone")
async def test_a_port_without_listener_is_a_reason():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert await read_one(f"http://127.0.0.1:{taken.getsockname()[1]}") == missing("connection refused")


async def test_a_name_that_does_not_resolve_is_a_reason():
    assert await read_one("http://prometheus.invalid:9090") == missing("name does not resolve")


async def test_a_server_without_tls_is_a_reason():
    async with faking(FakePrometheus()) as fake:
        assert await read_one(fake.url.replace("http:", "https:")) == missing("TLS failed")


async def test_a_token_that_is_no_text_is_a_reason(tmp_path):
    token = tmp_path / "token"
    token.write_bytes(b"\xff\xfe")

    async with faking(FakePrometheus()) as fake:
        found = await read_one(fake.url, bearer_token_file=str(token))

    assert found == missing("token file is no text")


async def test_a_token_of_several_lines_is_a_reason(tmp_path):
    token = tmp_path / "token"
    token.write_text("one\ntwo")

    async with faking(FakePrometheus()) as fake:
        found = await read_one(fake.url, bearer_token_file=str(token))

    assert found == missing("header or token is malformed")


@pytest.mark.fault("Prometheus is slow or gone")
async def test_a_slow_prometheus_does_not_keep_the_readers_beyond_the_limit():
    async with black_hole() as address:
        api = PrometheusApi(PrometheusSettings(f"http://{address}", timeout_s=SILENT_S), perf_counter)
        source = PrometheusSource(api, perf_counter)
        async with asyncio.timeout(5):
            scrapes = await asyncio.gather(*(source.read(ASK) for _ in range(50)))
        await source.close()
        await api.close()

    assert scrapes == [missing("timeout after 0.3 s")] * 50


@asynccontextmanager
async def failing(responses: list[web.Response]):
    async def misbehave(_):
        return responses.pop(0) if responses else None

    async with faking(FakePrometheus(misbehave=misbehave)) as fake:
        yield fake


async def test_nothing_is_tried_again_within_a_poll():
    async with failing([web.Response(status=503)]) as fake:
        assert await read_one(fake.url) == missing("HTTP 503")
        assert len(fake.queries) == 1
