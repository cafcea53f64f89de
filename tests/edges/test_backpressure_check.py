"""The plain RED bit over real sockets."""

import random
from dataclasses import replace

import pytest
from aiohttp import web

from scaler.backpressure.check import Check, routes
from scaler.core.model import GateMode, ShedStatus
from scaler.core.retry import retry, retry_headers
from tests.support import decisions as made
from tests.support.served import BrokenBoard, Clock, Failures, board_of, serving

PATH = "/v1/backpressure/prod/llama"
RED = made.red()
NONE_READY = replace(RED, estimate=replace(RED.estimate, ready=0))
WHEN = retry_headers(retry(RED.classes[0], random.Random(7).random()))
UNKNOWN: tuple[int, str, dict[str, str]] = (200, "UNKNOWN", {})


def app_of(*outcomes, now: float = 39.0):
    app = web.Application()
    app.add_routes(routes(Check(board_of(outcomes), Clock(now), random.Random(7), Failures())))
    return app


async def asked(app, method: str = "GET", query: str = "", path: str = PATH):
    """Status, state and what is said about coming back."""
    async with serving(app) as client, client.request(method, path + query, data=b"body" * 9) as response:
        headers = response.headers
        when = {name: headers[name] for name in ("Retry-After", "retry-after-ms", "x-should-retry") if name in headers}
        return response.status, headers["X-Backpressure-State"], when


@pytest.mark.parametrize(
    ("outcome", "now", "answer"),
    [
        pytest.param(made.green(), 39.0, (200, "GREEN", {}), id="green"),
        pytest.param(made.yellow(), 39.0, (200, "YELLOW", {}), id="yellow"),
        pytest.param(RED, 39.0, (429, "RED", WHEN), id="red"),
        pytest.param(NONE_READY, 39.0, (503, "RED", WHEN), id="red without capacity"),
        pytest.param(replace(RED, shed=ShedStatus.NO_CAPACITY), 39.0, (503, "RED", WHEN), id="503 chosen"),
        pytest.param(replace(NONE_READY, shed=ShedStatus.CONTENDED), 39.0, (429, "RED", WHEN), id="429 chosen"),
        pytest.param(replace(RED, gate=GateMode.OFF), 39.0, (429, "RED", WHEN), id="whatever gate says"),
        pytest.param(RED, 48.1, UNKNOWN, id="no longer valid"),
        pytest.param(RED, 1e6, UNKNOWN, id="a dead loop"),
        pytest.param(made.pending(), 39.0, UNKNOWN, id="pending"),
    ],
)
async def test_only_red_is_refused(outcome, now, answer):
    assert await asked(app_of(outcome, now=now)) == answer


@pytest.mark.parametrize("path", ["/v1/backpressure/prod/nobody", "/v1/backpressure/x/y", "/v1/backpressure/%00/%F0"])
async def test_an_unknown_workload_is_let_through(path):
    assert await asked(app_of(RED), path=path) == UNKNOWN


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        pytest.param("?class=agent", (429, "RED", WHEN), id="a red class"),
        pytest.param("?class=batch", (200, "GREEN", {}), id="a class without a colour"),
        pytest.param("?class=nobody", (429, "RED", WHEN), id="an unknown class is the default class"),
    ],
)
async def test_a_class_has_its_own_bit(query, answer):
    assert await asked(app_of(RED), query=query) == answer


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_any_method_is_answered(method):
    assert await asked(app_of(RED), method) == (429, "RED", WHEN)


async def test_a_bug_of_ours_stops_nobodys_traffic():
    failed = Failures()
    app = web.Application()
    app.add_routes(routes(Check(BrokenBoard(), Clock(), random.Random(7), failed)))
    assert (await asked(app), failed.told) == (UNKNOWN, [("/v1/backpressure/{namespace}/{name}", "LookupError")])


async def test_a_refusal_reads_like_one_of_an_openai_server_and_is_never_stored():
    async with serving(app_of(RED)) as client, client.get(PATH) as response:
        assert (response.headers["Cache-Control"], await response.json()) == (
            "no-store",
            {
                "error": {
                    "message": f"the replicas are overloaded; retry in {WHEN['Retry-After']} s",
                    "type": "overloaded_error",
                    "param": None,
                    "code": "backpressure_red",
                },
                "state": "RED",
                "class": "chat",
            },
        )


async def test_refused_clients_are_told_different_times():
    async with serving(app_of(RED)) as client:
        told = []
        for _ in range(20):
            async with client.get(PATH) as response:
                told.append(int(response.headers["Retry-After"]))
    assert len(set(told)) > 10
    assert min(told) >= 30
    assert max(told) <= 60
