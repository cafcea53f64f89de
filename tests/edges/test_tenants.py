"""Tenants and classes by key, over the real ports of a whole scaler that follows its files."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import grpc.aio
import pytest

from scaler.app import Bound, Wiring, running
from scaler.core.decision import Decision
from scaler.core.model import Pressure, WorkloadKey
from scaler.pb import ext_authz_pb2 as pb
from scaler.pb import ext_authz_pb2_grpc as pb_grpc
from scaler.settings import Ports, WatchedFile
from scaler.sources.targets import ConfiguredReplicas
from tests.support.engines import OVERLOAD, PageEngine, listening

KEY = WorkloadKey("prod", "llama")
TICK_S = 0.1
SMALL, LARGE = "sk-small-0123456789", "sk-large-0123456789"


@dataclass(frozen=True)
class Told:
    """A verdict as a client sees it: 200 or the status of its refusal, the class that it was judged as, why, and the class's gate."""

    status: int
    request_class: str
    reason: str | None
    gate: str


@dataclass
class Asked:
    """A running scaler, its files, and both ways to ask it."""

    bound: Bound
    log: io.StringIO
    key_map: Path
    session: aiohttp.ClientSession
    authz: pb_grpc.AuthorizationAsyncStub

    async def over_http(self, headers: Mapping[str, str]) -> Told:
        async with self.session.post(f"/v1/admit/{KEY}/v1/chat", headers=headers) as answer:
            body, told = await answer.json(), answer.headers
        return Told(
            answer.status, body["class"], told.get("X-Backpressure-Reason"), told.get("X-Backpressure-Gate", "")
        )

    async def over_grpc(self, headers: Mapping[str, str]) -> Told:
        http = pb.AttributeContext.HttpRequest(headers=headers)
        asked = pb.AttributeContext(
            request=pb.AttributeContext.Request(http=http), context_extensions={"workload": str(KEY)}
        )
        answer = await self.authz.Check(pb.CheckRequest(attributes=asked))
        denied = answer.denied_response
        listed = denied.headers or answer.ok_response.response_headers_to_add
        told = {one.header.key: one.header.value for one in listed}
        judged = json.loads(denied.body)["class"] if denied.body else ""
        reason, gate = told.get("x-backpressure-reason"), told.get("x-backpressure-gate", "")
        return Told(denied.status.code or 200, judged, reason, gate)

    async def state(self) -> dict:
        async with self.session.get("/v1/state") as answer:
            return await answer.json()


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def configuration(address: str, key_map: Path) -> str:
    """One workload that only observes, but for the class ``chat``."""
    chat = {"ttft_s": 2, "order": 0, "gate": "enforce"}
    metadata = {"profile": "tiny", "requestClasses": "chat,agent", "maxReplicas": "5"}
    return json.dumps(
        {
            "profiles": {"tiny": {"safe_concurrency": 4, "safe_rate_per_s": 1.0}},
            "classes": {"chat": chat},
            "tenants": {"header": "X-Tenant", "key_map_file": str(key_map)},
            "workloads": {str(KEY): {"targets": [address], "metadata": metadata}},
        }
    )


@asynccontextmanager
async def overloaded(folder: Path, owners: Mapping[str, Mapping[str, str]]) -> AsyncIterator[Asked]:
    """A scaler whose one workload is RED, and the owners of keys that it begins with."""
    key_map, path, log = folder / "tenants.json", folder / "slo-scaler.yaml", io.StringIO()
    key_map.write_text(json.dumps(owners))
    async with AsyncExitStack() as stack:
        path.write_text(configuration(await stack.enter_async_context(listening(PageEngine(OVERLOAD))), key_map))
        file = WatchedFile(path, TICK_S)
        replicas = ConfiguredReplicas((first := file.first()).targets, asyncio.get_running_loop().time)
        wiring = Wiring(first, Ports("127.0.0.1", 0, 0, 0, 0), replicas, None, log, file)
        bound = await stack.enter_async_context(running(wiring))
        session = aiohttp.ClientSession(f"http://127.0.0.1:{bound.gate_port}")
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{bound.authz_port}")
        await stack.enter_async_context(session)
        asked = Asked(bound, log, key_map, session, pb_grpc.AuthorizationStub(await stack.enter_async_context(channel)))
        await until(lambda: _red(bound))
        yield asked


async def _red(bound: Bound) -> bool:
    outcome = bound.board.latest(KEY)
    return isinstance(outcome, Decision) and outcome.classes[0].state is Pressure.RED


async def until(condition) -> None:
    """Until it holds; asked each time a tick could have changed it."""
    async with asyncio.timeout(20):
        while not await condition():
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=TICK_S / 2)


@pytest.mark.parametrize("way", [Asked.over_http, Asked.over_grpc])
@pytest.mark.parametrize(
    ("small", "large"),
    [
        pytest.param(bearer(SMALL), bearer(LARGE), id="by their keys"),
        pytest.param({"x-tenant": "small"}, {"x-tenant": "large"}, id="by the proxy's header"),
    ],
)
async def test_the_tenant_above_its_share_is_refused_as_such_and_the_other_is_not(tmp_path, way, small, large):
    owners = {digest(SMALL): {"tenant": "small"}, digest(LARGE): {"tenant": "large"}}
    of_small: list[Told] = []
    async with overloaded(tmp_path, owners) as scaler:

        async def refused_as_tenant() -> bool:
            of_small.append(await way(scaler, small))
            of_large = [await way(scaler, large) for _ in range(20)]
            return Told(429, "chat", "tenant", "enforce") in of_large

        await until(refused_as_tenant)
    assert "tenant" not in {told.reason for told in of_small}


@pytest.mark.parametrize("way", [Asked.over_http, Asked.over_grpc])
async def test_a_header_that_is_not_configured_and_a_key_that_is_not_known_are_nobodys(tmp_path, way):
    async with overloaded(tmp_path, {}) as scaler:
        asked = [await way(scaler, {"x-team": "a", "x-request-class": "agent", **bearer(SMALL)}) for _ in range(50)]
    assert {told.reason for told in asked if told.status != 200} == {"contended"}


async def test_the_key_chooses_the_class_and_a_changed_map_another_one(tmp_path):
    async with overloaded(tmp_path, {digest(SMALL): {"class": "agent"}}) as scaler:
        before = await scaler.over_http(bearer(SMALL))
        scaler.key_map.write_text(json.dumps({digest(SMALL): {"class": "chat"}}))

        async def judged_as_chat() -> bool:
            return (await scaler.over_http(bearer(SMALL))).request_class == "chat"

        await until(judged_as_chat)

        async def refused_over_grpc() -> bool:
            return (await scaler.over_grpc(bearer(SMALL))).request_class == "chat"

        await until(refused_over_grpc)
    assert (before.status, before.request_class, before.gate) == (200, "agent", "observe")


async def test_a_bad_key_map_is_shown_and_the_one_before_it_stays_in_use(tmp_path):
    secret = "sk-canary-0123456789"
    async with overloaded(tmp_path, {digest(SMALL): {"class": "agent"}}) as scaler:
        scaler.key_map.write_text(json.dumps({secret: {"class": "chat"}}))

        async def told_of() -> bool:
            return not (await scaler.state())["configuration"]["valid"]

        await until(told_of)
        [fault] = (await scaler.state())["configuration"]["faults"]
        during = await scaler.over_http(bearer(SMALL))
        scaler.key_map.write_text("{}")

        async def mended() -> bool:
            return (await scaler.state())["configuration"]["valid"]

        await until(mended)
        after = await scaler.over_http(bearer(SMALL))
    assert fault.startswith(f"tenants.key_map_file: {scaler.key_map}: entry 1: its name is not the SHA-256 of a key")
    assert (during.request_class, after.request_class) == ("agent", "chat")
    events = [json.loads(line)["event"] for line in scaler.log.getvalue().splitlines()]
    assert [event for event in events if event.startswith("configuration")] == [
        "configuration",
        "configuration_refused",
        "configuration",
    ]
    assert (secret in scaler.log.getvalue(), SMALL in scaler.log.getvalue()) == (False, False)
