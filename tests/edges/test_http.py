"""The HTTP edge over real sockets: state, probes, explanation, contract and page."""

import asyncio
import json
import math
import random
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import ClientSession
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.parser import text_string_to_metric_families

from scaler.api.http import Ops, gate_app, ops_app
from scaler.api.openapi import STATE_FIELDS
from scaler.api.render import explain_body, pending_body, state_body
from scaler.api.view import View
from scaler.backpressure import check
from scaler.core.admission import as_of
from scaler.core.explain import explain
from scaler.core.explain_state import state_because
from scaler.core.model import Floor, ReplicaSet, WorkloadKey
from scaler.core.plain import plain
from scaler.core.retry import retry, retry_headers, verdict_for
from tests.support import decisions as made
from tests.support.served import BrokenBoard, Clock, Failures, Workloads, serving, view_of

STATE = "/v1/state/prod/llama"
EXPLAIN = "/v1/explain/prod/llama"
SECRET = "canary-5f1d"


def gate(view: View):
    return gate_app(view, check.routes(check.Check(view.board, view.clock, view.rng, view.failed)))


def ops(view: View, *, ready: bool = True):
    registry = CollectorRegistry()
    Gauge("slo_scaler_probe", "for the test", registry=registry).set(3)
    return ops_app(Ops(view, registry, lambda: ready, check.paths()))


async def told(client: ClientSession, path: str, wanted: tuple[str, ...]) -> tuple[int, dict[str, str]]:
    async with client.get(path) as response:
        return response.status, {name: value for name, value in response.headers.items() if name in wanted}


HEADERS = (
    *("X-Backpressure-State", "X-Backpressure-Admit", "X-Backpressure-Age-Ms", "X-Backpressure-Seq"),
    *("Retry-After", "retry-after-ms", "x-should-retry", "Cache-Control"),
)


async def test_state_holds_all_that_is_known():
    async with serving(gate(view_of(made.yellow()))) as client, client.get(STATE) as response:
        body = await response.json()
    chat = {
        "name": "chat",
        "objective": "latency",
        "gate": "enforce",
        "state": "YELLOW",
        "budget_s": 2.0,
        "remaining_budget_s": 0.875,
        "admit_ratio": 1.0,
        "admit_per_s": None,
        "retry_after_s": 0.0,
        "retry_spread_s": 0.0,
        "red_projected": False,
        "red_budget": True,
        "rule": "pressed",
        "state_age_s": 29.0,
    }
    always_green = {"state": "GREEN", "rule": "calm", "state_age_s": None}
    agent = chat | always_green | {"name": "agent", "budget_s": 5.0, "remaining_budget_s": 3.875}
    nothing_promised = {"budget_s": None, "remaining_budget_s": None, "red_budget": False, "rule": None}
    batch = chat | always_green | nothing_promised | {"name": "batch", "objective": "completion"}
    eta = made.yellow().estimate
    assert body == {name: value for name, value in chat.items() if name not in {"name", "gate"}} | {
        "namespace": "prod",
        "name": "llama",
        "class": "chat",
        "workload_state": "YELLOW",
        "queue": 18.0,
        "queue_wait_s": 1.125,
        "eta_s": eta.eta_s,
        "eta_median_s": eta.eta_median_s,
        "saturation_ratio": 0.99,
        "offered_per_s": 16.0,
        "arrival_per_s": 16.0,
        "throughput_per_s": 16.0,
        "drain_per_s": 16.0,
        "refused_per_s": 0.0,
        "ready": 2,
        "starting": 0,
        "stuck": 0,
        "missing": 0,
        "current": 2,
        "desired": 3,
        "active": True,
        "blind": False,
        "reason": "backlog",
        "runner_up": "flow",
        "because": "3 replicas: backlog 0.02 on top of flow 2.22: 18 requests still wait when the next replica is ready "
        "(142 s), to be drained in 120 s",
        "state_because": state_because(made.yellow(), 39.0),
        "findings": [],
        "gate": "enforce",
        "shed_status": "auto",
        "reaction_s": 4.0,
        "surge_ratio": 1.3,
        "age_s": 1.0,
        "valid_s": 10.0,
        "sequence": 19,
        "classes": [chat, agent, batch],
    }


async def test_a_blind_workload_names_every_silent_replica_as_missing():
    blind = made.blind()
    async with serving(gate(view_of(blind))) as client, client.get(STATE) as response:
        body = await response.json()
    assert (body["blind"], body["missing"], len(blind.missing)) == (True, 2, 2)


async def test_the_list_of_workloads_says_whether_the_configuration_file_is_in_use():
    view = replace(view_of(), faults=lambda: ("profiles.tiny: wrong",))
    async with serving(gate(view)) as client, client.get("/v1/state") as response:
        assert await response.json() == {
            "workloads": [],
            "configuration": {"valid": False, "faults": ["profiles.tiny: wrong"]},
        }


async def test_metrics_are_answered_while_all_shared_threads_hang():
    released = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    hanging = loop.run_in_executor(None, released.wait)
    try:
        async with serving(ops(view_of())) as client, client.get("/metrics") as response:
            assert (response.status, hanging.done()) == (200, False)
    finally:
        released.set()
        await hanging


@pytest.mark.parametrize(
    ("outcome", "now", "headers"),
    [
        pytest.param(
            made.green(),
            39.0,
            {"X-Backpressure-State": "GREEN", "X-Backpressure-Admit": "1", "X-Backpressure-Age-Ms": "1000"},
            id="green admits all",
        ),
        pytest.param(
            made.red(),
            39.0,
            {
                "X-Backpressure-State": "RED",
                "X-Backpressure-Admit": "0.05",
                "X-Backpressure-Age-Ms": "1000",
                "x-should-retry": "false",
            },
            id="red says when to come back",
        ),
        pytest.param(
            made.red(),
            63.0,
            {
                "X-Backpressure-State": "UNKNOWN",
                "X-Backpressure-Admit": "0.525",
                "X-Backpressure-Age-Ms": "25000",
                "x-should-retry": "false",
            },
            id="half faded",
        ),
        pytest.param(
            made.red(),
            1e4,
            {"X-Backpressure-State": "UNKNOWN", "X-Backpressure-Admit": "1", "X-Backpressure-Age-Ms": "9962000"},
            id="too old to shed",
        ),
    ],
)
async def test_state_is_told_in_headers_as_it_is_seen_now(outcome, now, headers):
    refused = retry_headers(retry(outcome.classes[0], random.Random(7).random()))
    when = refused if headers["X-Backpressure-Admit"] != "1" else {}
    async with serving(gate(view_of(outcome, now=now))) as client:
        assert await told(client, STATE, HEADERS) == (
            200,
            {"X-Backpressure-Seq": "19", "Cache-Control": "max-age=1"} | when | headers,
        )


@pytest.mark.parametrize(
    ("query", "answered"),
    [
        pytest.param("", ("chat", "RED", None), id="none"),
        pytest.param("?class=batch", ("batch", "GREEN", None), id="named"),
        pytest.param(
            "?class=nobody", ("chat", "RED", "no such class here; this is the default class, chat"), id="unknown"
        ),
    ],
)
async def test_a_class_is_chosen_by_query(query, answered):
    async with serving(gate(view_of(made.red()))) as client, client.get(STATE + query) as response:
        body = await response.json()
    assert (body["class"], body["state"], body.get("note")) == answered


async def test_a_pending_workload_admits_all_and_says_why():
    async with serving(gate(view_of(made.pending()))) as client, client.get(STATE) as response:
        assert (response.status, response.headers["X-Backpressure-State"], await response.json()) == (
            200,
            "UNKNOWN",
            {
                "namespace": "prod",
                "name": "llama",
                "state": "UNKNOWN",
                "workload_state": "UNKNOWN",
                "admit_ratio": 1.0,
                "admit_per_s": None,
                "gate": "off",
                "retry_after_s": 0.0,
                "reason": "pending",
                "because": "no reading from llama-1 (connection refused)",
                "classes": [],
            },
        )


async def test_a_workload_is_known_before_its_first_tick():
    view = replace(view_of(), workloads=Workloads([made.KEY]))
    async with serving(gate(view)) as client, client.get(STATE) as response:
        assert (response.status, (await response.json())["because"]) == (
            200,
            "its first look at the engines has not ended",
        )


async def test_all_workloads_are_listed_in_the_order_of_their_keys():
    other = replace(made.green(), key=WorkloadKey("dev", "qwen"))
    async with serving(gate(view_of(made.red(), other))) as client, client.get("/v1/state") as response:
        body = await response.json()
    assert [(each["namespace"], each["name"], each["state"]) for each in body["workloads"]] == [
        ("dev", "qwen", "GREEN"),
        ("prod", "llama", "RED"),
    ]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        pytest.param("GET", "/v1/state/prod/nobody", 404, "unknown_workload", id="unknown workload"),
        pytest.param("GET", "/v1/nothing", 404, "not_served", id="unknown path"),
        pytest.param("POST", STATE, 405, "not_served", id="wrong method"),
    ],
)
async def test_refusals_are_json(method, path, status, code):
    async with serving(gate(view_of(made.green()))) as client, client.request(method, path) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (status, code)


async def test_a_bug_is_told_to_telemetry_and_not_to_a_stranger():
    failed = Failures()
    view = View(BrokenBoard(), Workloads(), Clock(), random.Random(7), failed)
    async with serving(gate(view)) as client, client.get(STATE) as response:
        body = await response.text()
    assert (response.status, "a bug" in body, failed.told) == (
        500,
        False,
        [("/v1/state/{namespace}/{name}", "LookupError")],
    )


@pytest.mark.parametrize(
    ("path", "ready", "answer"),
    [
        pytest.param("/livez", False, (200, "alive\n"), id="alive though not ready"),
        pytest.param("/readyz", True, (200, "ready\n"), id="ready"),
        pytest.param("/readyz", False, (503, "not ready\n"), id="not ready"),
    ],
)
async def test_probes_speak_of_this_process_only(path, ready, answer):
    view = View(BrokenBoard(), Workloads(), Clock(), random.Random(7), Failures())
    async with serving(ops(view, ready=ready)) as client, client.get(path) as response:
        assert (response.status, await response.text()) == answer


async def test_metrics_are_those_of_the_registry():
    async with serving(ops(view_of())) as client, client.get("/metrics") as response:
        families = list(text_string_to_metric_families(await response.text()))
    assert [(family.name, family.samples[0].value) for family in families] == [("slo_scaler_probe", 3.0)]


async def test_an_explanation_is_served_whole():
    async with serving(ops(view_of(made.red()))) as client, client.get(EXPLAIN) as response:
        told = await response.json()
        changes = [(one["before"], one["desired"]) for one in told.pop("changes")]
        spec = told.pop("spec")
    assert (response.status, told, changes, spec) == (
        *(200, plain(explain(made.red(), 39.0)), [(None, 5)], plain(made.SPEC)),
    )


@pytest.mark.parametrize(
    ("outcomes", "answer"),
    [
        pytest.param([], (404, None), id="unknown"),
        pytest.param([made.pending()], (200, "no reading from llama-1 (connection refused)"), id="pending"),
    ],
)
async def test_without_a_decision_the_explanation_says_so(outcomes, answer):
    async with serving(ops(view_of(*outcomes))) as client, client.get(EXPLAIN) as response:
        assert (response.status, (await response.json()).get("because")) == answer


@pytest.fixture
async def both() -> AsyncIterator[dict[str, ClientSession]]:
    view = view_of(made.red())
    async with serving(gate(view)) as at_gate, serving(ops(view)) as at_ops:
        yield {"http://localhost:8080": at_gate, "http://localhost:8081": at_ops}


async def test_every_documented_path_is_served_with_a_documented_answer(both):
    async with both["http://localhost:8081"].get("/openapi.json") as response:
        document = await response.json()
    served = {}
    for path, item in document["paths"].items():
        client = both[item["servers"][0]["url"]]
        async with client.get(path.format(namespace="prod", name="llama")) as response:
            served[path] = str(response.status) in item["get"]["responses"]
    assert served == dict.fromkeys(
        (
            *("/v1/state", "/v1/state/{namespace}/{name}", "/livez", "/readyz", "/metrics"),
            *("/v1/explain/{namespace}/{name}", "/openapi.json", "/", "/v1/backpressure/{namespace}/{name}"),
            *("/workload/{namespace}/{name}", "/v1/history/{namespace}/{name}"),
            *("/v1/events", "/v1/events/{namespace}/{name}"),
        ),
        True,
    )


def test_every_field_of_a_state_is_documented():
    replicas = ReplicaSet((), (), 2, 38.0, floor=Floor(6, 99.0, "18:00Z"))
    body = state_body(replace(made.red(), replicas=replicas), made.red().classes[0], 39.0, "a note")
    rules: Any = STATE_FIELDS["rule"]
    assert (body.keys(), body["rule"] in rules["enum"]) == (STATE_FIELDS.keys(), True)


async def test_nothing_that_a_stranger_sends_is_sent_back(both):
    paths = (
        "/v1/state",
        STATE,
        "/v1/backpressure/prod/llama",
        "/livez",
        "/metrics",
        EXPLAIN,
        "/openapi.json",
        "/",
        "/workload/prod/llama",
        "/v1/history/prod/llama",
        "/x",
    )
    leaks = []
    for client in both.values():
        for path in paths:
            query, headers = {"class": SECRET, "key": SECRET}, {"Authorization": SECRET, "Cookie": f"a={SECRET}"}
            async with client.get(path, params=query, headers=headers, data=SECRET) as response:
                if SECRET in await response.text() or SECRET in str(response.headers):
                    leaks.append(path)
    assert leaks == []


amounts = st.floats(0, allow_nan=False) | st.just(math.inf)


@given(
    decision=st.sampled_from([made.green(), made.yellow(), made.red(), made.blind()]),
    numbers=st.fixed_dictionaries(dict.fromkeys(("eta_s", "eta_median_s", "drain_per_s", "queue"), amounts)),
    late=st.floats(0, 1e6),
)
def test_every_body_is_strict_json_and_every_fraction_a_share(decision, numbers, late):
    def refuse(word: str) -> None:
        pytest.fail(f"{word} is no JSON")

    seen = as_of(replace(decision, estimate=replace(decision.estimate, **numbers)), decision.observed_at + late)
    now = decision.observed_at + late
    bodies = [state_body(seen, verdict_for(seen, None)[0], now), explain_body(seen, now), pending_body(made.pending())]
    read = json.loads(json.dumps(bodies, allow_nan=False), parse_constant=refuse)
    shares = [verdict["admit_ratio"] for verdict in read[0]["classes"]]
    assert [share for share in shares if not 0 <= share <= 1] == []
