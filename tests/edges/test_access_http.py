"""Ports 8080, 6001 and 8081: who may read what, and that what one may not read looks like what does not exist."""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import grpc.aio
import pytest
from aiohttp import ClientSession, web
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from scaler.api.access import LONGEST_TOKEN, TOKEN_HEADER, Keeper, Reach, Readers
from scaler.api.http import GATE_ROUTES, OPS_ROUTES, Ops, gate_app, ops_app
from scaler.api.reviewed import FRESH_S, MOST_ASKED, MOST_KNOWN, REFUSED_S, STALE_S, ReviewedTokens
from scaler.backpressure import admit, check, ext_authz
from scaler.errors import NotReady, ScalerError
from scaler.pb import ext_authz_pb2 as pb
from scaler.pb import ext_authz_pb2_grpc as pb_grpc
from tests.support import decisions as made
from tests.support.gated import Gated
from tests.support.served import Clock, serving, view_of

NS = made.KEY.namespace
MINE, THEIRS, ALL = "token-of-mine", "token-of-theirs", "token-of-all"
BY_FILE = Readers(
    tokens={
        hashlib.sha256(token.encode()).hexdigest(): frozenset(namespaces)
        for token, namespaces in {MINE: {NS}, THEIRS: {"elsewhere"}, ALL: {"*"}}.items()
    }
)
STATE = f"/v1/state/{NS}/{made.KEY.name}"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@dataclass
class Turned:
    """Who was turned away, by port."""

    ports: list[str] = field(default_factory=list)


def gate(readers: Readers, turned: Turned | None = None, reviewed: ReviewedTokens | None = None) -> web.Application:
    told = (turned or Turned()).ports.append
    return gate_app(view_of(made.green()), keeper=Keeper(lambda: readers, reviewed, told))


async def got(client: ClientSession, path: str, headers: Mapping[str, str] = {}) -> tuple[int, str]:
    async with client.get(path, headers=headers) as answer:
        return answer.status, await answer.text()


# --- State, on the gateways' port ---


async def test_without_any_access_configured_state_is_read_as_ever():
    async with serving(gate(Readers())) as client:
        assert (await got(client, STATE))[0] == 200


@pytest.mark.parametrize("path", ["/v1/state", STATE, "/v1/state/elsewhere/secret"])
@pytest.mark.parametrize(
    "headers",
    [{}, bearer("unknown"), {"Authorization": f"Basic {MINE}"}, bearer(""), bearer("x" * (LONGEST_TOKEN + 1)), bearer("é")],
    ids=["none", "unknown", "basic", "empty", "long", "not ascii"],
)  # fmt: skip
async def test_who_shows_no_token_that_counts_is_told_so_whatever_was_asked_for(path, headers):
    turned = Turned()
    async with serving(gate(BY_FILE, turned)) as client:
        status, body = await got(client, path, headers)
    assert (status, "not_allowed" in body, turned.ports) == (401, True, ["gate"])


async def test_another_namespaces_state_is_exactly_what_a_workload_that_does_not_exist_is():
    async with serving(gate(BY_FILE)) as client:
        own = await got(client, STATE, bearer(MINE))
        foreign = await got(client, STATE, bearer(THEIRS))
        absent = await got(client, f"/v1/state/{NS}/absent", bearer(THEIRS))
        absent_of_own = await got(client, "/v1/state/elsewhere/absent", bearer(THEIRS))
    assert (own[0], foreign) == (200, (404, absent[1]))
    assert foreign == absent == absent_of_own


async def test_the_list_holds_what_the_caller_may_read_and_no_fault_of_a_file_that_names_others():
    async with serving(gate(BY_FILE)) as client:
        texts = {token: (await got(client, "/v1/state", bearer(token)))[1] for token in (MINE, THEIRS, ALL)}
    assert [made.KEY.name in texts[token] for token in (MINE, THEIRS, ALL)] == [True, False, True]


@pytest.mark.parametrize("path", ["/v1//state", "/v1/%73tate", f"/v1/state/{NS}%2F..%2F{made.KEY.name}", "/V1/STATE"])
async def test_however_a_path_is_written_no_state_is_read_without_a_token(path):
    async with serving(gate(BY_FILE)) as client:
        status, _ = await got(client, path)
    assert status in (401, 404)


@given(st.frozensets(st.sampled_from(["a", "b", "*"])), st.sampled_from(["a", "b", "c"]))
def test_a_reach_covers_what_it_names_and_nothing_else(namespaces, namespace):
    assert (namespace in Reach(namespaces)) == (namespace in namespaces or "*" in namespaces)


# --- Verdicts: never a refusal of traffic, never a word ---


async def verdicts(token: str | None) -> tuple[list[tuple[int, str]], int]:
    """What the three ways to ask say of a workload that is RED, and how many requests were counted for it."""
    gated = Gated([made.red()])
    keeper = Keeper(lambda: BY_FILE)
    view = view_of(made.red())
    routes = [
        *check.routes(check.Check(view.board, view.clock, view.rng, view.failed, keeper.may_ask)),
        *admit.routes(admit.Admit(gated.gates, view.failed, may=keeper.may_ask)),
    ]
    headers = {} if token is None else {TOKEN_HEADER: token}
    answers = []
    async with serving(gate_app(view, routes, keeper)) as client:
        for path in ("admit", "backpressure"):
            # the clients' own Authorization is no token for us
            async with client.get(f"/v1/{path}/{NS}/{made.KEY.name}", headers=headers | bearer(ALL)) as answer:
                answers.append((answer.status, answer.headers["X-Backpressure-State"]))
    server = grpc.aio.server()
    parts = ext_authz.CheckParts(gated.gates, lambda *_: None, view.failed, may=keeper.may_ask)
    await ext_authz.mount(server, ext_authz.Authorization(parts))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    asked = pb.CheckRequest()
    asked.attributes.context_extensions["workload"] = str(made.KEY)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        said = await pb_grpc.AuthorizationStub(channel).Check(asked, metadata=tuple(headers.items()))
    await server.stop(None)
    told = said.ok_response.response_headers_to_add if said.HasField("ok_response") else said.denied_response.headers
    states = {one.header.key: one.header.value for one in told}
    answers.append((said.denied_response.status.code or 200, states["x-backpressure-state"]))
    return answers, sum(counted.wanted for _, counted in gated.gates.counted())


@pytest.mark.parametrize("token", [None, "unknown", THEIRS])
async def test_a_gateway_without_a_token_for_the_namespace_is_told_nothing_counts_nothing_and_stops_no_traffic(token):
    answers, counted = await verdicts(token)
    assert (answers, counted) == ([(200, "UNKNOWN")] * 3, 0)


@pytest.mark.parametrize("token", [MINE, ALL])
async def test_a_gateway_with_a_token_for_the_namespace_is_answered(token):
    answers, _ = await verdicts(token)
    assert {state for _, state in answers} == {"RED"}


# --- ServiceAccounts' tokens ---


@dataclass
class Judge:
    """``accounts`` by token; ``gone``: nobody can say; ``closed``: no answer comes."""

    accounts: dict[str, str] = field(default_factory=lambda: {"good": "prod/gateway"})
    gone: bool = False
    closed: bool = False
    asked: list[str] = field(default_factory=list)

    async def __call__(self, token: str) -> str | None:
        self.asked.append(token)
        if self.closed:
            await asyncio.Event().wait()
        if self.gone:
            raise ScalerError("out of order")
        return self.accounts.get(token)


@dataclass
class Review:
    judge: Judge = field(default_factory=Judge)
    clock: Clock = field(default_factory=Clock)
    troubles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = ReviewedTokens(self.judge, self.clock, self.troubles.append)


async def test_a_token_is_reviewed_once_a_minute_and_a_bad_one_every_ten_seconds():
    review = Review()
    found = [await review.tokens.account(token) for token in ("good", "bad", "good", "bad")]
    review.clock.now = REFUSED_S + 1
    found += [await review.tokens.account(token) for token in ("good", "bad")]
    review.clock.now = FRESH_S + 1
    found.append(await review.tokens.account("good"))
    assert found == ["prod/gateway", None, "prod/gateway", None, "prod/gateway", None, "prod/gateway"]
    assert review.judge.asked == ["good", "bad", "bad", "good"]


async def test_while_the_api_server_is_away_known_tokens_stand_for_ten_minutes_and_no_other_is_let_in():
    review = Review()
    await review.tokens.account("good")
    review.judge.gone = True
    review.clock.now = STALE_S - 1
    assert await review.tokens.account("good") == "prod/gateway"
    with pytest.raises(NotReady):
        await review.tokens.account("new")
    review.clock.now = STALE_S + 1
    with pytest.raises(NotReady):
        await review.tokens.account("good")
    assert set(review.troubles) == {"out of order"}


async def test_a_token_that_was_taken_back_is_refused_at_its_next_review():
    review = Review()
    await review.tokens.account("good")
    review.judge.accounts.clear()
    review.clock.now = FRESH_S + 1
    assert await review.tokens.account("good") is None


async def test_for_a_verdict_nobody_waits_for_a_review():
    review = Review()
    first = review.tokens.at_once("good")
    await asyncio.gather(*review.tokens._asked.values())
    assert (first, review.tokens.at_once("good")) == (None, "prod/gateway")


async def test_what_waits_for_a_review_is_bounded_and_so_is_what_is_remembered():
    review = Review(Judge(closed=True))
    for number in range(3 * MOST_ASKED):
        review.tokens.at_once(f"t{number}")
    await asyncio.wait([asyncio.create_task(asyncio.Event().wait())], timeout=0)
    assert len(review.judge.asked) == MOST_ASKED
    with pytest.raises(NotReady):
        await review.tokens.account("one more")
    await review.tokens.close()
    many = Review()
    await many.tokens.account("good")
    for number in range(2 * MOST_KNOWN):
        await many.tokens.account(f"t{number}")
        many.tokens.at_once("good")  # a gateway asks every few seconds
    assert (len(many.tokens._known), many.judge.asked.count("good")) == (MOST_KNOWN, 1)


async def test_a_service_account_reads_its_own_namespace_and_those_that_are_named():
    review = Review(Judge({"own": f"{NS}/any", "other": "elsewhere/any", "gateway": "gateways/envoy"}))
    readers = Readers(accounts={"gateways/envoy": frozenset({"*"})})
    async with serving(gate(readers, reviewed=review.tokens)) as client:
        found = [(await got(client, STATE, bearer(token)))[0] for token in ("own", "other", "gateway", "unknown")]
    assert found == [200, 404, 200, 401]


async def test_a_token_that_cannot_be_reviewed_gets_503_and_when_to_come_back():
    review = Review(Judge(gone=True))
    async with (
        serving(gate(Readers(accounts={}), reviewed=review.tokens)) as client,
        client.get(STATE, headers=bearer("good")) as answer,
    ):
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")


# --- The operator's pages ---


def ops(readers: Readers, turned: Turned | None = None) -> web.Application:
    keeper = Keeper(lambda: readers, None, (turned or Turned()).ports.append)
    return ops_app(Ops(view_of(made.green()), CollectorRegistry(), lambda: True, keeper=keeper))


ELSEWHERE = {"Host": "scaler.example:8081"}
"""A browser that was led here: it comes from loopback, and says under which name."""
PAGES = [one.path.format(namespace=NS, name=made.KEY.name) for one in OPS_ROUTES if one.guarded]


@pytest.mark.parametrize("path", PAGES)
async def test_no_page_is_shown_but_on_this_machine_or_to_a_token(path):
    turned = Turned()
    async with serving(ops(BY_FILE, turned)) as client:
        statuses = [
            (await got(client, path, ELSEWHERE))[0],
            (await got(client, path, ELSEWHERE | bearer("unknown")))[0],
        ]
        for headers in ({}, {"Host": "localhost:8081"}, ELSEWHERE | bearer(ALL)):
            async with client.get(path, headers=headers) as answer:
                statuses.append(answer.status)
    assert (statuses, turned.ports) == ([401, 401, 200, 200, 200], ["ops", "ops"])


async def test_a_token_for_one_namespace_shows_its_pages_and_no_list():
    async with serving(ops(BY_FILE)) as client:
        paths = (f"/v1/explain/{NS}/{made.KEY.name}", "/v1/explain/elsewhere/x", "/")
        found = [(await got(client, path, ELSEWHERE | bearer(MINE)))[0] for path in paths]
    assert found == [200, 404, 401]


def test_all_but_probes_metrics_and_the_contract_is_guarded():
    assert {one.path for one in OPS_ROUTES if not one.guarded} == {"/livez", "/readyz", "/metrics", "/openapi.json"}
    assert all(one.guarded for one in GATE_ROUTES)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/openapi.json"])
async def test_probes_and_metrics_are_answered_wherever_one_asks_from(path):
    async with serving(ops(BY_FILE)) as client:
        assert (await got(client, path, ELSEWHERE))[0] == 200


async def test_pages_may_be_opened_by_configuration():
    async with serving(ops(Readers(pages="open"))) as client:
        assert (await got(client, "/", ELSEWHERE))[0] == 200
