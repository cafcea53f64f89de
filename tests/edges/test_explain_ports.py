"""``slo-scaler explain`` at real ports: TLS and mTLS to KEDA's, the wrong port, and nobody there."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from scaler.api.certificates import Certificates
from scaler.api.http import Ops, ops_app
from scaler.api.keda import KedaParts, KedaServicer, Pace
from scaler.api.keda_client import RpcFailed
from scaler.api.keda_server import KedaServer, Listen
from scaler.cli.commands import app
from scaler.cli.reach import Secured, silence
from scaler.control.board import Board
from scaler.control.loop import Parts
from scaler.control.supervisor import Supervisor
from tests.support import decisions
from tests.support.builders import decision, observation, reading, spec
from tests.support.keda_edge import HandClock, Parser, RpcLog, Silent
from tests.support.served import serving, view_of
from tests.support.tls import Authority, certificates

NEVER_S = 3600.0
NOBODY = "127.0.0.1:1"


@asynccontextmanager
async def keda_port(held: Certificates | None = None) -> AsyncIterator[str]:
    board, shutdown, silent, clock = Board(), asyncio.Event(), Silent(), HandClock()
    board.publish(decision(spec(), observation(0.0, reading())))
    supervisor = Supervisor(Parts(silent, silent, board, silent, clock))
    supervisor.ensure(spec())
    servicer = KedaServicer(KedaParts(board, supervisor, Parser(), clock, RpcLog(), shutdown), Pace(NEVER_S, NEVER_S))
    server = KedaServer(servicer, shutdown, Listen(0, "127.0.0.1", 5.0, held, NEVER_S))
    try:
        yield f"127.0.0.1:{await server.start()}"
    finally:
        await server.stop()
        await supervisor.stop()


@asynccontextmanager
async def ops_port() -> AsyncIterator[str]:
    async with serving(ops_app(Ops(view_of(decisions.red()), CollectorRegistry(), lambda: True))) as client:
        yield str(client._base_url).removeprefix("http://").rstrip("/")


async def explained(keda: str, *options: str, ops: str = NOBODY) -> tuple[int, dict]:
    """The exit code, and what ``--json`` printed."""
    arguments = ["explain", "prod/llama", "--keda", keda, "--ops", ops, "--json", *options]
    done = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    return done.exit_code, json.loads(done.stdout)


@pytest.fixture
def authority(tmp_path) -> Authority:
    return Authority(tmp_path / "ca")


async def test_a_port_with_mtls_answers_who_shows_a_certificate(authority):
    shown = authority.issue()
    held = certificates(authority.issue(), authority.ca)
    async with keda_port(held) as address:
        options = ("--ca", str(authority.ca), "--cert", str(shown.cert), "--key", str(shown.key))
        code, answer = await explained(address, *options)
    assert (code, answer["keda"]) == (0, {"value": 1.0, "active": True})


async def test_through_a_port_forward_the_certificates_name_is_given(authority):
    held = certificates(authority.issue(names="DNS:slo-scaler.slo-scaler.svc"))
    async with keda_port(held) as address:
        named = await explained(address, "--ca", str(authority.ca), "--server-name", "slo-scaler.slo-scaler.svc")
        _, unnamed = await explained(address, "--ca", str(authority.ca))
    assert (named[0], "--server-name" in unnamed["keda"]["details"]) == (0, True)


async def test_who_shows_no_certificate_is_told_to(authority):
    async with keda_port(certificates(authority.issue(), authority.ca)) as address:
        _, answer = await explained(address, "--ca", str(authority.ca))
    assert answer["keda"]["details"].endswith("--cert, --key")


async def test_who_asks_a_tls_port_in_plain_text_is_told_of_ca(authority):
    async with keda_port(certificates(authority.issue())) as address:
        _, answer = await explained(address)
    assert "it may want TLS: --ca" in answer["keda"]["details"]


async def test_who_asks_a_plain_port_with_tls_is_told_to_leave_it(authority):
    async with keda_port() as address:
        _, answer = await explained(address, "--ca", str(authority.ca))
    assert "leave --ca out" in answer["keda"]["details"]


async def test_another_authority_is_not_trusted(authority, tmp_path):
    async with keda_port(certificates(authority.issue())) as address:
        _, answer = await explained(address, "--ca", str(Authority(tmp_path / "other").ca))
    assert "its certificate is not trusted" in answer["keda"]["details"]


async def test_the_two_ports_the_wrong_way_round_are_both_named():
    async with keda_port() as keda, ops_port() as ops:
        code, answer = await explained(ops, ops=keda)
    assert (code, "which is 6000" in answer["keda"]["details"], "is 8081" in answer["explanation"]["error"]) == (
        *(1, True, True),
    )


async def test_nobody_there_says_how_to_bring_a_scaler_here():
    _, answer = await explained(NOBODY)
    forward = "kubectl -n slo-scaler port-forward deploy/slo-scaler 6000 8081"
    assert (forward in answer["keda"]["details"], forward in answer["explanation"]["error"]) == (True, True)


@pytest.mark.parametrize(
    "why", ["connection refused", "socket closed", "certificate_verify_failed", "failed to connect"]
)
def test_what_the_scaler_says_of_an_engine_is_not_taken_for_a_port_that_is_silent(why):
    said = f"prod/llama: no reading from 127.0.0.1:8000 ({why})"
    failure = RpcFailed(grpc.StatusCode.UNAVAILABLE, said)
    assert silence(failure, "127.0.0.1:6000", Secured()) == said
