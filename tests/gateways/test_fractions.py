"""Each gateway, with the configuration that is shipped, does what it is told. The scaler's answers are chosen, its doors are real."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from math import ceil, sqrt

import aiohttp
import pytest

from scaler.core.model import GateMode, Pressure
from tests.support.gateway_doors import Doors, admitting, doors, echo, nothing_ready
from tests.support.gateways import (
    ENVOY_GRPC,
    ENVOY_GRPC_ASKS,
    ENVOY_HTTP,
    ENVOY_HTTP_ASKS,
    GATEWAYS,
    HAPROXY,
    Gateway,
    Sides,
    envoy,
    fronted,
)

pytestmark = pytest.mark.e2e
every = pytest.mark.parametrize("gateway", GATEWAYS, ids=str)
telling = pytest.mark.parametrize("gateway", [one for one in GATEWAYS if one is not HAPROXY], ids=str)
asking = pytest.mark.parametrize("gateway", [one for one in GATEWAYS if one.asks], ids=str)
PATH = "/v1/chat/completions"
MANY = 400
CHECKS = 12
"""HAProxy's questions in one round of its checks, and one more."""
NONE_READY = "backpressure_no_capacity"
NO_CAPACITY = {
    ENVOY_HTTP_ASKS: (429, True, NONE_READY),  # over HTTP no 5xx is ever a verdict
    HAPROXY: (429, True, "backpressure_contended"),  # its checks bring the fraction only
}
SECRETS = {"Authorization": "Bearer sk-canary", "Cookie": "canary=1"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: str


@dataclass
class Front:
    """A gateway between a client, the scaler's doors and an engine."""

    gateway: Gateway
    scaler: Doors
    session: aiohttp.ClientSession

    async def ask(self, **headers: str) -> Answer:
        async with self.session.post(PATH, data=b'{"model": "llama"}', headers=headers) as response:
            found = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, found, await response.text())

    async def many(self) -> list[Answer]:
        return [await self.ask() for _ in range(MANY)]

    async def informed(self, rounds: int = 3) -> None:
        """Until it acts by what the scaler says now. HAProxy needs two rounds of checks, and one may be under way."""
        if self.gateway is HAPROXY:
            await self.scaler.asked(rounds * CHECKS)
        elif not self.gateway.asks:
            told = self.scaler.told
            while self.scaler.told == told:
                await self.ask()

    async def first_refusal(self) -> Answer:
        while (answer := await self.ask()).status == 200:
            pass
        return answer


@asynccontextmanager
async def front(gateway: Gateway, decision) -> AsyncIterator[Front]:
    async with AsyncExitStack() as stack:
        scaler = await stack.enter_async_context(doors(decision))
        sides = Sides(scaler.gate, scaler.authz, await stack.enter_async_context(echo()))
        url = await stack.enter_async_context(fronted(gateway, sides))
        session = await stack.enter_async_context(aiohttp.ClientSession(url))
        at = Front(gateway, scaler, session)
        await at.informed(rounds=1)
        yield at
        assert scaler.failures.told == []


def refusals(answers: list[Answer]) -> list[Answer]:
    return [answer for answer in answers if answer.status != 200]


@every
async def test_green_is_let_through_whole(gateway):
    async with front(gateway, admitting(1.0, Pressure.GREEN)) as at:
        answers = await at.many()
    assert refusals(answers) == []


@every
@pytest.mark.parametrize("share", [0.05, 0.65])
async def test_a_fraction_is_let_through_and_the_others_are_told_when_to_come_back(gateway, share):
    async with front(gateway, admitting(share)) as at:
        answers = await at.many()
    refused = refusals(answers)
    waits = [int(answer.headers["retry-after"]) for answer in refused]
    errors = [json.loads(answer.body)["error"] for answer in refused]
    assert abs((MANY - len(refused)) / MANY - share) < 5 * sqrt(share * (1 - share) / MANY)
    assert {answer.status for answer in refused} == {429}
    assert 1 <= min(waits) < max(waits) <= 60
    assert {(e["type"], e["param"], e["code"]) for e in errors} == {
        ("overloaded_error", None, "backpressure_contended")
    }
    assert all(e["message"].startswith("the replicas are overloaded; retry ") for e in errors)
    assert {answer.headers["content-type"].partition(";")[0] for answer in refused} == {"application/json"}


@telling
async def test_who_had_better_not_come_back_within_a_minute_is_told_so(gateway):
    async with front(gateway, admitting(0.05)) as at:
        refused = await at.first_refusal()
    wait_s, wait_ms = (int(refused.headers[name]) for name in ("retry-after", "retry-after-ms"))
    assert (refused.headers["x-should-retry"], wait_s, 30 <= wait_s <= 60) == ("false", ceil(wait_ms / 1000), True)


@every
async def test_a_fraction_that_changes_is_followed(gateway):
    async with front(gateway, admitting(0.55)) as at:
        at.scaler.say(admitting(0.15))
        await at.informed()
        before = await at.many()
        at.scaler.say(admitting(1.0, Pressure.GREEN))
        await at.informed()
        after = await at.many()
    assert abs(len(refusals(before)) / MANY - 0.85) < 0.1
    assert refusals(after) == []


@every
async def test_a_gate_that_only_observes_refuses_nobody(gateway):
    async with front(gateway, admitting(0.05, gate=GateMode.OBSERVE)) as at:
        answers = await at.many()
    assert refusals(answers) == []


@every
async def test_a_workload_that_nobody_knows_is_let_through(gateway):
    async with front(gateway, admitting(0.05)) as at:
        at.scaler.board.drop(admitting(0.05).key)
        await at.informed()
        answers = await at.many()
    assert refusals(answers) == []


@every
async def test_no_capacity_is_said_where_the_gateway_can(gateway):
    async with front(gateway, nothing_ready()) as at:
        refused = await at.first_refusal()
    wait_s, error = int(refused.headers["retry-after"]), json.loads(refused.body)["error"]
    assert (refused.status, 1 <= wait_s <= 60, error["code"]) == NO_CAPACITY.get(gateway, (503, True, NONE_READY))


@every
async def test_credentials_stay_at_the_gateway_and_reach_the_engine(gateway):
    async with front(gateway, admitting(1.0, Pressure.GREEN)) as at:
        answer = await at.ask(**SECRETS)
        asked = dict(at.scaler.seen)
    reached = json.loads(answer.body)
    assert {name: reached.get(name) for name in SECRETS} == SECRETS
    assert [name for name, value in asked.items() if "canary" in value] == []


@asking
async def test_a_client_that_says_it_tries_again_is_heard(gateway):
    async with front(gateway, admitting(0.0)) as at:
        await at.ask(**{"x-stainless-retry-count": "1"})
        counted = at.scaler.counted()
    assert (counted.refused, counted.refused_retries) == (1, 1)


@every
async def test_what_is_long_in_a_request_is_no_reason_to_refuse_it(gateway):
    async with front(gateway, admitting(1.0, Pressure.GREEN)) as at:
        headers = await at.ask(**{"x-long": "x" * 7000, "x-longer": "y" * 7000})
        async with at.session.post(f"{PATH}?long={'z' * 7000}") as response:
            path = response.status
    assert (headers.status, path) == (200, 200)


@pytest.mark.parametrize("gateway", [ENVOY_HTTP_ASKS, ENVOY_GRPC_ASKS], ids=str)
async def test_a_path_as_long_as_envoy_takes_it_gets_a_verdict(gateway):
    async with front(gateway, admitting(1.0, Pressure.GREEN)) as at:
        async with at.session.post(f"{PATH}?long={'z' * 55_000}") as response:
            status = response.status
        counted = at.scaler.counted()
    assert (status, counted.admitted) == (200, 1)


def retrying(text: str) -> str:
    """An Envoy that repeats what is refused."""
    policy = "retry_policy: {retry_on: retriable-status-codes, retriable_status_codes: [429, 503], num_retries: 3}"
    assert "timeout: 600s}" in text
    return text.replace("timeout: 600s}", f"timeout: 600s, {policy}}}")


@pytest.mark.parametrize("configuration", [ENVOY_HTTP, ENVOY_GRPC], ids=lambda one: one[0])
async def test_a_refusal_is_not_among_what_envoy_retries(configuration: tuple[str, int]):
    async with front(Gateway("envoy retries", envoy(*configuration, retrying), asks=True), nothing_ready()) as at:
        answers = [await at.ask() for _ in range(20)]
        counted = at.scaler.counted()
    assert (len(refusals(answers)), counted.refused) == (20, 20)
