"""Verdicts over Envoy's ext_authz, on a real gRPC connection."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from scaler.backpressure.asked import Trust
from scaler.backpressure.ext_authz import OPTIONS, Authorization, CheckParts, mount
from scaler.core.counted import ClassCounted
from scaler.core.model import GateMode, ShedStatus
from scaler.pb import ext_authz_pb2 as pb
from scaler.pb import ext_authz_pb2_grpc as pb_grpc
from tests.support import decisions as made
from tests.support.gated import Gated
from tests.support.served import BrokenBoard, Failures

RED, NONE_READY = made.red(), made.nothing_ready()
LLAMA = {"workload": "prod/llama"}
DATA = Path(__file__).parents[1] / "data" / "ext_authz"


@dataclass
class Rpcs:
    told: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, method: str, code: str, took_s: float) -> None:
        self.told.append((method, code))


@asynccontextmanager
async def checking(gate: Gated, failed: Failures | None = None, rpcs: Rpcs | None = None, trust=Trust):
    server = grpc.aio.server(options=OPTIONS)
    parts = CheckParts(gate.gates, rpcs or Rpcs(), failed or Failures(), trust)
    await mount(server, Authorization(parts))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(None)


def request_of(extensions: Mapping[str, str] = LLAMA, **headers: str) -> pb.CheckRequest:
    http = pb.AttributeContext.HttpRequest(headers={name.replace("_", "-"): text for name, text in headers.items()})
    return pb.CheckRequest(
        attributes=pb.AttributeContext(request=pb.AttributeContext.Request(http=http), context_extensions=extensions)
    )


async def checked(gate: Gated, request: pb.CheckRequest | None = None, **parts) -> pb.CheckResponse:
    async with checking(gate, **parts) as channel:
        return await pb_grpc.AuthorizationStub(channel).Check(request or request_of())


def told(response: pb.CheckResponse) -> tuple[int, str, str | None]:
    """The HTTP status, 200 for one that is let in, with state and reason."""
    denied = response.HasField("denied_response")
    assert denied == (response.status.code != 0)
    listed = response.denied_response.headers if denied else response.ok_response.response_headers_to_add
    headers = {one.header.key: one.header.value for one in listed}
    status = response.denied_response.status.code if denied else 200
    return status, headers["x-backpressure-state"], headers.get("x-backpressure-reason")


def with_gate(decision, gate: GateMode):
    return replace(decision, classes=tuple(replace(verdict, gate=gate) for verdict in decision.classes))


@pytest.mark.parametrize(
    ("outcome", "now", "answer"),
    [
        pytest.param(made.green(), 39.0, (200, "GREEN", None), id="green"),
        pytest.param(RED, 39.0, (429, "RED", "contended"), id="red"),
        pytest.param(NONE_READY, 39.0, (503, "GREEN", "no-capacity"), id="no capacity"),
        pytest.param(
            replace(NONE_READY, shed=ShedStatus.CONTENDED), 39.0, (429, "GREEN", "no-capacity"), id="429 chosen"
        ),
        pytest.param(replace(RED, shed=ShedStatus.NO_CAPACITY), 39.0, (503, "RED", "contended"), id="503 chosen"),
        pytest.param(with_gate(RED, GateMode.OBSERVE), 39.0, (200, "RED", "contended"), id="observe"),
        pytest.param(with_gate(NONE_READY, GateMode.OBSERVE), 39.0, (200, "GREEN", "no-capacity"), id="at zero"),
        pytest.param(with_gate(RED, GateMode.OFF), 39.0, (200, "RED", None), id="off"),
        pytest.param(RED, 1e6, (200, "UNKNOWN", None), id="a dead loop"),
        pytest.param(made.pending(), 39.0, (200, "UNKNOWN", "pending"), id="pending"),
    ],
)
async def test_a_request_is_admitted_or_refused(outcome, now, answer):
    gate = Gated([outcome])
    gate.clock.now = now
    assert told(await checked(gate)) == answer


@pytest.mark.parametrize("named", [None, "", "llama", "/", "prod/", "prod/nobody", "prod/llama/more", "x" * 999])
async def test_a_route_that_names_no_workload_of_ours_lets_everything_through(named):
    request = request_of({} if named is None else {"workload": named})
    assert told(await checked(Gated([RED]), request)) == (200, "UNKNOWN", "unknown-workload")


@pytest.mark.parametrize(
    ("extensions", "counted"),
    [
        pytest.param(LLAMA | {"class": "agent"}, "agent", id="the route says"),
        pytest.param(LLAMA | {"class": "nobody"}, "chat", id="unknown: the default"),
        pytest.param(LLAMA, "chat", id="none: the default, whatever the client says"),
    ],
)
async def test_the_class_is_that_of_the_route(extensions, counted):
    gate = Gated([RED])
    await checked(gate, request_of(extensions, x_request_class="batch", **{"class": "batch"}))
    assert [one.name for one in gate.gates.drain(made.KEY).classes if one.attempts] == [counted]


@pytest.mark.parametrize("raw", [False, True])
async def test_a_request_says_how_long_it_waits_and_how_often_it_was_tried(raw):
    said = {"x-envoy-expected-rq-timeout-ms": "500", "x-stainless-retry-count": "2"}
    http = pb.AttributeContext.HttpRequest(headers=said)
    if raw:
        values = [pb.HeaderValue(key=name, raw_value=text.encode()) for name, text in said.items()]
        http = pb.AttributeContext.HttpRequest(header_map=pb.HeaderMap(headers=values))
    request = pb.CheckRequest(
        attributes=pb.AttributeContext(request=pb.AttributeContext.Request(http=http), context_extensions=LLAMA)
    )
    gate = Gated([RED])
    answer = told(await checked(gate, request))
    counted = gate.gates.drain(made.KEY).classes[0]
    assert (answer, counted) == ((429, "RED", "deadline"), ClassCounted("chat", refused=1, refused_retries=1))


async def test_a_refusal_reads_like_one_of_an_openai_server_and_says_when_to_come_back():
    response = await checked(Gated([RED]))
    headers = {one.header.key: one.header.value for one in response.denied_response.headers}
    assert headers["content-type"] == "application/json"
    assert 1 <= int(headers["retry-after"]) <= 60
    assert headers["grpc-retry-pushback-ms"] in {headers["retry-after-ms"], "-1"}
    assert '"type": "overloaded_error"' in response.denied_response.body


async def test_a_tenant_above_its_share_is_refused_with_429_whatever_status_is_chosen():
    chosen = replace(RED, shed=ShedStatus.NO_CAPACITY)
    gate = Gated([replace(chosen, classes=tuple(replace(v, admit_ratio=0.5) for v in chosen.classes))])
    answers = []
    async with checking(gate, trust=lambda: Trust("x-tenant")) as channel:
        stub = pb_grpc.AuthorizationStub(channel)
        for tenant in ["small", *["large"] * 9]:
            gate.clock.now += 0.2
            answers.append(told(await stub.Check(request_of(x_tenant=tenant))))
    assert answers[-1] == (429, "RED", "tenant")


async def test_a_bug_of_ours_stops_nobodys_traffic_and_is_counted():
    gate, failed, rpcs = Gated([], board=BrokenBoard()), Failures(), Rpcs()
    answer = told(await checked(gate, failed=failed, rpcs=rpcs))
    assert (answer, failed.told, rpcs.told, dict(gate.gates.let_in_unknown)) == (
        (200, "UNKNOWN", "internal-error"),
        [("/envoy.service.auth.v3.Authorization/Check", "LookupError")],
        [("/envoy.service.auth.v3.Authorization/Check", "OK")],
        {"internal-error": 1},
    )


async def test_a_credential_is_in_no_answer():
    secret = "sk-canary-0123456789"
    response = await checked(Gated([RED]), request_of(authorization=f"Bearer {secret}", cookie=secret))
    assert secret not in str(response)


async def test_the_port_says_that_it_serves():
    async with checking(Gated()) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        answer = await health.Check(health_pb2.HealthCheckRequest())
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("sent", ["headers", "raw-headers"])
async def test_what_a_real_envoy_sends_is_understood(sent):
    request = pb.CheckRequest.FromString((DATA / f"envoy-1.40.0-{sent}.bin").read_bytes())
    gate = Gated([RED])
    assert told(await checked(gate, request)) == (429, "RED", "contended")
    assert gate.gates.drain(made.KEY).classes[0] == ClassCounted("chat", refused=1, refused_retries=1)
