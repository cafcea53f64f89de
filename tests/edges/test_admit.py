"""Verdicts over HTTP, on real sockets."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import replace
from types import MappingProxyType

import pytest
from aiohttp import web

from scaler.backpressure.admit import Admit, paths, routes
from scaler.backpressure.asked import Owner, Trust
from scaler.core.counted import ClassCounted
from scaler.core.model import GateMode, ShedStatus
from tests.support import decisions as made
from tests.support.gated import Gated
from tests.support.served import BrokenBoard, Failures, serving

PATH = "/v1/admit/prod/llama"
RED, NONE_READY = made.red(), made.nothing_ready()


def app_of(gate: Gated, failed: Failures | None = None, trust=Trust) -> web.Application:
    app = web.Application()
    app.add_routes(routes(Admit(gate.gates, failed or Failures(), trust)))
    return app


async def asked(
    gate: Gated, target: str = PATH, method: str = "GET", failed: Failures | None = None, headers=MappingProxyType({})
):
    """Status, state, reason and whether there is something said about coming back."""
    async with (
        serving(app_of(gate, failed)) as client,
        client.request(method, target, data=b"body" * 9, headers=headers) as response,
    ):
        told = response.headers
        return (
            response.status,
            told["X-Backpressure-State"],
            told.get("X-Backpressure-Reason"),
            "Retry-After" in told,
        )


def with_gate(decision, gate: GateMode):
    return replace(decision, classes=tuple(replace(verdict, gate=gate) for verdict in decision.classes))


@pytest.mark.parametrize(
    ("outcome", "now", "answer"),
    [
        pytest.param(made.green(), 39.0, (200, "GREEN", None, False), id="green"),
        pytest.param(RED, 39.0, (429, "RED", "contended", True), id="red"),
        pytest.param(NONE_READY, 39.0, (429, "GREEN", "no-capacity", True), id="no capacity is never a 503"),
        pytest.param(replace(RED, shed=ShedStatus.NO_CAPACITY), 39.0, (429, "RED", "contended", True), id="503 chosen"),
        pytest.param(with_gate(RED, GateMode.OBSERVE), 39.0, (200, "RED", "contended", False), id="observe"),
        pytest.param(with_gate(NONE_READY, GateMode.OBSERVE), 39.0, (200, "GREEN", "no-capacity", False), id="at zero"),
        pytest.param(with_gate(RED, GateMode.OFF), 39.0, (200, "RED", None, False), id="off"),
        pytest.param(RED, 1e6, (200, "UNKNOWN", None, False), id="a dead loop"),
        pytest.param(made.pending(), 39.0, (200, "UNKNOWN", "pending", False), id="pending"),
    ],
)
async def test_a_request_is_admitted_or_refused(outcome, now, answer):
    gate = Gated([outcome])
    gate.clock.now = now
    assert await asked(gate) == answer


@pytest.mark.parametrize("path", ["/v1/admit/prod/nobody", "/v1/admit/x/y", "/v1/admit/%00/%F0"])
async def test_an_unknown_workload_is_let_through(path):
    assert await asked(Gated([RED]), path) == (200, "UNKNOWN", "unknown-workload", False)


@pytest.mark.parametrize(
    ("target", "status"),
    [
        pytest.param(f"{PATH}?deny=403", 403, id="403"),
        pytest.param(f"{PATH}?deny=429", 429, id="429"),
        pytest.param(f"{PATH}?deny=500", 429, id="never a server's error"),
        pytest.param(f"{PATH}?deny=204", 429, id="never 204"),
        pytest.param(f"{PATH}/v1/chat/completions", 429, id="the request's own path follows"),
        pytest.param(f"{PATH}/", 429, id="or only its slash"),
        pytest.param(f"{PATH}/v1/chat?deny=403", 429, id="and its own query, which the client wrote"),
    ],
)
async def test_who_wrote_the_address_chooses_the_deny_status(target, status):
    assert (await asked(Gated([RED]), target))[0] == status


@pytest.mark.parametrize(
    ("target", "decided"),
    [
        pytest.param(f"{PATH}?class=agent", "agent", id="the route says"),
        pytest.param(f"{PATH}?class=nobody", "chat", id="unknown: the default"),
        pytest.param(f"{PATH}?class=", "chat", id="empty: the default"),
        pytest.param(PATH, "chat", id="none: the default"),
        pytest.param(f"{PATH}/v1/chat?class=agent", "chat", id="the client says"),
    ],
)
async def test_the_class_is_that_of_the_route(target, decided):
    async with serving(app_of(Gated([RED]))) as client, client.get(target) as response:
        assert (await response.json())["class"] == decided


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        pytest.param(f"{PATH}/{'p' * 61_000}", {}, id="a path"),
        pytest.param(f"{PATH}/v1/chat?{'q' * 61_000}", {}, id="a query"),
        pytest.param(PATH, {"cookie": "c" * 61_000}, id="a header"),
    ],
)
async def test_what_envoy_takes_from_a_client_gets_a_verdict_however_long_it_is(target, headers):
    gate = Gated([made.green()])
    assert await asked(gate, target, headers=headers) == (200, "GREEN", None, False)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_any_method_is_answered(method):
    assert (await asked(Gated([RED]), method=method))[0] == 429


async def test_a_request_says_how_long_it_waits_and_how_often_it_was_tried():
    gate = Gated([RED])
    refused = await asked(gate, headers={"X-Stainless-Read-Timeout": "0.5", "X-Stainless-Retry-Count": "1"})
    counted = gate.gates.drain(made.KEY).classes[0]
    assert (refused, counted) == ((429, "RED", "deadline", True), ClassCounted("chat", refused=1, refused_retries=1))


async def test_at_a_half_the_tenant_above_its_share_is_refused_and_the_other_is_served_whole():
    trust = Trust(owners={hashlib.sha256(name.encode()).hexdigest(): Owner(name) for name in ("small", "large")})
    halved = replace(RED, classes=tuple(replace(verdict, admit_ratio=0.5, budget_s=None) for verdict in RED.classes))
    gate, answers = Gated([halved]), []
    async with serving(app_of(gate, trust=lambda: trust)) as client:
        for name in ["small", *["large"] * 9] * 2:
            gate.clock.now += 0.11
            async with client.get(PATH, headers={"Authorization": f"Bearer {name}"}) as response:
                answers.append((name, response.status, response.headers.get("X-Backpressure-Reason")))
    assert set(answers[10:]) == {("small", 200, None), ("large", 429, "tenant")}


async def test_the_time_out_that_envoy_gives_the_check_is_not_that_of_the_request():
    gate = Gated([RED])
    gate.coins.coin = 0.0
    assert await asked(gate, headers={"x-envoy-expected-rq-timeout-ms": "1"}) == (200, "RED", None, False)


async def test_a_bug_of_ours_stops_nobodys_traffic_and_is_counted():
    gate, failed = Gated([], board=BrokenBoard()), Failures()
    answer = await asked(gate, failed=failed)
    assert (answer, failed.told, dict(gate.gates.let_in_unknown)) == (
        (200, "UNKNOWN", "internal-error", False),
        [("/v1/admit/{namespace}/{name}", "LookupError")],
        {"internal-error": 1},
    )


async def test_refused_clients_are_told_different_times_and_nothing_is_stored():
    gate, told = Gated([RED]), set()
    async with serving(app_of(gate)) as client:
        for coin in range(20):
            gate.coins.coin = 0.1 + coin / 25
            async with client.get(PATH) as response:
                told.add(int(response.headers["retry-after-ms"]))
                assert response.headers["Cache-Control"] == "no-store"
    assert len(told) == 20
    assert all(30_000 <= each <= 60_000 for each in told)


async def test_a_credential_is_in_no_answer():
    secret = "sk-canary-0123456789"
    async with (
        serving(app_of(Gated([RED]))) as client,
        client.post(PATH, headers={"Authorization": f"Bearer {secret}", "Cookie": f"session={secret}"}) as response,
    ):
        assert secret not in await response.text() + str(response.headers)


def test_the_contract_names_every_answer():
    assert [item["get"]["responses"].keys() for item in json.loads(json.dumps(paths())).values()] == [
        {"200", "429", "403"}
    ]


@pytest.mark.parametrize(
    ("path", "header"),
    [
        pytest.param("", b"Authorization: Bearer \xff\xfe", id="a key that is no text"),
        pytest.param("", b"X-Tenant: \xff", id="a tenant that is no text"),
        pytest.param("/v1/a%0Ab", b"Accept: *", id="a path of two lines"),
        pytest.param("/%ff%00?class=%ff", b"Accept: *", id="a path that is no text"),
    ],
)
async def test_no_byte_that_a_client_sends_gets_it_past_the_gate(path, header):
    trust = Trust("x-tenant", {hashlib.sha256(b"sk").hexdigest(): Owner("acme")})
    async with serving(app_of(Gated([RED]), trust=lambda: trust)) as client:
        async with client.get("/") as answer:
            host, port = answer.url.host, answer.url.port
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET %b%b HTTP/1.1\r\nHost: gate\r\n%b\r\n\r\n" % (PATH.encode(), path.encode(), header))
        status = await reader.readline()
        writer.close()
    assert status == b"HTTP/1.1 429 Too Many Requests\r\n"
