"""The status page over real sockets: whole without a script, and harmless whatever it is told."""

import asyncio
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import urljoin

import pytest
from aiohttp import ClientSession
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from prometheus_client import CollectorRegistry
from yarl import URL

from scaler.api import page
from scaler.api.http import Ops, ops_app
from scaler.api.openapi import SCHEMAS
from scaler.api.render import history_body
from scaler.api.status import POLICY
from scaler.api.view import View
from scaler.api.workload_page import Lately, workload_page
from scaler.control.changes import Changes
from scaler.control.history import Point
from scaler.core.decision import Decision, Finding, Pending, QueueWait
from scaler.core.explain import binding
from scaler.core.model import Missing, WorkloadKey
from tests.support import decisions as made
from tests.support.prefix_proxy import behind
from tests.support.served import serving, view_of

ONE = "/workload/prod/llama"
HISTORY = "/v1/history/prod/llama"
HOSTILE = "<script>alert(1)</script>\"'&</title><img src=x onerror=alert(1)>"


def ops(view: View):
    return ops_app(Ops(view, CollectorRegistry(), lambda: True))


class Read(HTMLParser):
    """What a browser finds: the cells of tables by row, all other text, and every tag with its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.text = ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._cell = False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")
            self._cell = True

    def handle_endtag(self, tag):
        self._cell = self._cell and tag not in {"td", "th"}

    def handle_data(self, data):
        self.text += data
        if self._cell:
            self.rows[-1][-1] += data

    @property
    def links(self) -> list[str]:
        names = ("href", "src", "data-events", "data-history")
        return [value for _, attributes in self.tags for name in names if (value := attributes.get(name))]


async def fetched(client: ClientSession, path: str) -> Read:
    async with client.get(path) as response:
        return Read(await response.text())


async def test_the_list_shows_every_workload():
    stuck = replace(made.green(), key=WorkloadKey("dev", "qwen"))
    stuck = replace(stuck, estimate=replace(stuck.estimate, starting=2, stuck=1))
    view = view_of(made.red(), stuck, replace(made.pending(), key=WorkloadKey("prod", "new")))
    async with serving(ops(view)) as client:
        read = await fetched(client, "/")
    assert read.rows == [
        ["workload", "state", "desired", "ready", "starting", "queue wait / budget", "admitted", "age", "why"],
        [
            *("dev/qwen", "GREEN", "2", "2", "2 (1 stuck)", "0 s / 2 s"),
            *("chat 100%, agent 100%, batch 100% (gate enforce)", "1.0 s"),
            "2 replicas: flow 1.39 = offered 10 requests/s × residence 12.5 s / target 90.",
        ],
        [
            *(
                "prod/llama",
                "RED",
                "5",
                "2",
                "0",
                "19.5 s / 2 s",
                "chat 5%, agent 5%, batch 1% (gate enforce)",
                "1.0 s",
            ),
            f"{binding(made.red(), 39.0).text}. {made.red().findings[0].text}.",
        ],
        ["prod/new", "UNKNOWN", "", "", "", "", "", "", "no reading from llama-1 (connection refused)"],
    ]
    assert "3 workloads: 1 RED, 1 UNKNOWN, 1 GREEN" in read.text


async def test_a_list_without_workloads_says_so():
    async with serving(ops(view_of())) as client:
        assert "No workload is known yet." in (await fetched(client, "/")).text


async def test_a_long_list_is_made_whole_though_others_get_their_turn():
    view = view_of(*(replace(made.pending(), key=WorkloadKey("prod", f"w{number:03}")) for number in range(120)))
    async with serving(ops(view)) as client:
        reads = await asyncio.gather(fetched(client, "/"), fetched(client, "/"))
    assert [[row[0] for row in read.rows[1:]] for read in reads] == [
        [f"prod/w{number:03}" for number in range(120)]
    ] * 2


async def test_a_refused_configuration_file_is_told_on_every_page():
    view = replace(view_of(made.green()), faults=lambda: ("profiles.tiny: <wrong>",))
    async with serving(ops(view)) as client:
        texts = [(await fetched(client, path)).text for path in ("/", ONE)]
    assert ["The configuration file was refused" in text and "profiles.tiny: <wrong>" in text for text in texts] == [
        True,
        True,
    ]


async def test_the_page_of_one_workload_explains_its_number():
    async with serving(ops(view_of(made.red()))) as client:
        read = await fetched(client, ONE)
    told = (
        *("prod/llama", "RED", "5 replicas: backlog 1.54 on top of flow 3.33", "Next in line: ", "infeasible_burst"),
        "2 more warm replicas would have met it.",
    )
    assert [words for words in told if words not in read.text] == []
    assert [row for row in read.rows if row[0] in {"published", "chat", "llama-0"}] == [
        ["published", "5", "the recommendation, untouched"],
        ["chat", "RED", "enforce", "5%", "0.4/s", "2 s", "0 s", "60 s"],
        ["llama-0", "100", "172", "25%", "1.0 s", ""],
    ]


async def test_the_page_of_one_workload_tells_the_changes_of_the_last_hour_the_newest_first():
    view = view_of(made.green(), made.red())
    async with serving(ops(view)) as client:
        read = await fetched(client, ONE)
    first, second = view.board.changes.since(made.KEY, 0.0)
    heads = read.rows.index(["ago", "state", "replicas", "why"])
    assert read.rows[heads + 1 : heads + 3] == [
        ["0 min", "RED", f"{first.desired} → 5", second.because],
        ["0 min", "GREEN", f"{first.desired}", first.because],
    ]


async def test_a_floor_and_an_annotated_gate_are_told_on_every_page():
    notes = tuple(Finding(code, f"{code} is said") for code in ("floor", "gate_annotated"))
    async with serving(ops(view_of(replace(made.green(), findings=notes)))) as client:
        texts = [(await fetched(client, path)).text for path in ("/", ONE, "/v1/explain/prod/llama")]
        texts.append(json.dumps(await (await client.get("/v1/explain/prod/llama")).json()))
    assert [[f"{note.code} is said" in text for note in notes] for text in texts] == [[True, True]] * 4


async def test_a_silent_replica_is_shown_with_its_reason():
    blind = replace(made.blind(), readings=(), missing=(Missing("llama-0", "connection refused"),))
    async with serving(ops(view_of(blind, now=57.0))) as client:
        read = await fetched(client, ONE)
    assert ["llama-0", "silent", "", "", "", "connection refused"] in read.rows


@pytest.mark.parametrize(
    ("outcomes", "status", "text"),
    [
        pytest.param([], 404, "No such workload.", id="unknown"),
        pytest.param(
            [made.pending()], 200, "No decision yet: no reading from llama-1 (connection refused).", id="pending"
        ),
    ],
)
async def test_without_a_decision_the_page_says_so(outcomes, status, text):
    async with serving(ops(view_of(*outcomes))) as client, client.get(ONE) as response:
        assert (response.status, text in Read(await response.text()).text) == (status, True)


def test_a_share_that_is_not_all_does_not_look_like_all():
    assert [page.percent(ratio) for ratio in (1.0, 0.99996, 0.29, 0.05, 0.0)] == ["100%", "99.9%", "29%", "5%", "0%"]


# --- without a script, and within bounds ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", ONE])
async def test_without_a_script_the_page_renews_itself(path):
    async with serving(ops(view_of(made.red()))) as client, client.get(path) as response:
        html = await response.text()
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in html


@pytest.mark.parametrize("path", ["/", ONE, "/workload/prod/nobody"])
async def test_a_page_may_run_its_own_files_only(path):
    async with serving(ops(view_of(made.red()))) as client, client.get(path) as response:
        read, headers = Read(await response.text()), {name: response.headers.get(name) for name in POLICY}
    assert headers == POLICY
    assert "unsafe" not in POLICY["Content-Security-Policy"]
    assert [tag for tag, attributes in read.tags if tag == "style" or "style" in attributes] == []
    assert [attributes for tag, attributes in read.tags if tag == "script"] == [
        {"src": read.links[1], "type": "module"}
    ]


@pytest.mark.parametrize("path", ["/", ONE])
async def test_every_address_on_a_page_works_behind_a_prefix(path):
    async with (
        serving(ops(view_of(made.red()))) as client,
        behind("/tools/scaler", client) as address,
        ClientSession() as reader,
    ):
        url = address + path.removeprefix("/")
        async with reader.get(url) as response:
            read = Read(await response.text())
        found = {}
        for link in read.links:
            async with reader.get(urljoin(url, link)) as answer:
                found[link] = (answer.status, str(answer.url).startswith(address))
    assert len(found) >= 6
    assert found == dict.fromkeys(found, (200, True))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("status.js", "text/javascript"), ("chart.js", "text/javascript"), ("status.css", "text/css")],
)
async def test_the_pages_files_are_served_and_name_no_other_server(name, kind):
    async with serving(ops(view_of())) as client, client.get(f"/static/{name}") as response:
        text = await response.text()
    assert (response.content_type, response.headers["X-Content-Type-Options"]) == (kind, "nosniff")
    assert re.findall(r"(?:https?:)?//[\w.]+", text.replace("http://www.w3.org/2000/svg", "")) == []


# --- whatever is told -------------------------------------------------------------------------------------------------


def hostile(text: str) -> Decision:
    """Everything in a decision that comes from outside says this."""
    red = made.red()
    return replace(
        red,
        key=WorkloadKey(text, text),
        classes=tuple(replace(one, name=text) for one in red.classes),
        findings=(Finding(text, text),),
        readings=tuple(replace(one, replica=text, absent=(text,)) for one in red.readings),
        missing=(Missing(text, text),),
    )


def lately(outcome: Decision | Pending) -> Lately:
    changes = Changes()
    if isinstance(outcome, Decision):
        changes.add(outcome)
    return Lately(changes.since(outcome.key, 0.0))


def pages(outcome: Decision | Pending, faults: tuple[str, ...]) -> list[str]:
    return [
        page.listing([page.row(outcome, 39.0)], [page.state_of(outcome)], faults),
        workload_page(outcome.key, outcome, 39.0, faults, lately(outcome)),
        workload_page(outcome.key, None, 39.0, faults, Lately()),
    ]


TAGS = [[(tag, sorted(attributes)) for tag, attributes in Read(html).tags] for html in pages(hostile("x"), ("x",))]
PENDING_TAGS = [
    [(tag, sorted(attributes)) for tag, attributes in Read(html).tags]
    for html in pages(Pending(WorkloadKey("x", "x"), "x"), ("x",))
]


@given(st.just(HOSTILE) | st.text(st.characters(codec="utf-8")) | st.text("<>\"'&/=! -sx"))
def test_nothing_from_outside_becomes_markup(text):
    for outcome, tags in ((hostile(text), TAGS), (Pending(WorkloadKey(text, text), text), PENDING_TAGS)):
        found = [Read(html) for html in pages(outcome, (text,))]
        assert [[(tag, sorted(attributes)) for tag, attributes in read.tags] for read in found] == tags
        links = [link for read in found for link in read.links]
        assert [link for link in links if not link.startswith(("./", "../", "v1/"))] == []


async def test_the_workload_of_a_strange_name_has_its_page_its_charts_and_its_stream():
    view = view_of(hostile("a/b ?#%<é"))
    async with serving(ops(view)) as client:
        listed = await fetched(client, "/")
        [link] = [link for link in listed.links if "workload/" in link]
        async with client.get(URL(urljoin("/", link), encoded=True)) as response:
            read = Read(await response.text())
            answers = [response.status]
        for found in {link for link in read.links if "/v1/" in link and not link.endswith("v1/events")}:
            async with client.get(URL(urljoin(response.url.raw_path, found), encoded=True)) as answer:
                answers.append(answer.status)
    assert answers == [200] * 4


# --- the charts' points -----------------------------------------------------------------------------------------------


async def test_the_history_is_what_the_board_kept():
    view = view_of(made.red())
    async with serving(ops(view)) as client, client.get(HISTORY) as response:
        body = await response.json()
    assert body == history_body(made.KEY, view.board.history.points(made.KEY), 39.0)
    assert body["points"] == [
        {
            "age_s": 1.0,
            "offered_per_s": 24.0,
            "arrival_per_s": 24.0,
            "refused_per_s": 0.0,
            "queue_wait_s": 19.5,
            "budget_s": 2.0,
            "desired": 5,
            "starting": 0,
            "ready": 2,
        }
    ]


@pytest.mark.parametrize(
    ("outcomes", "status"), [pytest.param([], 404, id="unknown"), pytest.param([made.pending()], 200, id="pending")]
)
async def test_without_a_decision_there_is_no_history(outcomes, status):
    async with serving(ops(view_of(*outcomes))) as client, client.get(HISTORY) as response:
        body = await response.json()
    assert (response.status, body.get("points", [])) == (status, [])


unknown = st.just(float("nan"))
finite = st.floats(0, width=32, allow_infinity=False) | unknown
waits = finite | st.just(float("inf"))
counts = st.integers(0, 5000)
points_of_a_chart = st.builds(Point, st.floats(0, 1e6), *(finite,) * 3, waits, finite, *(counts,) * 3)


@given(st.lists(points_of_a_chart, max_size=5), st.floats(0, 1e6))
def test_every_history_is_strict_json_as_documented(points, now):
    body = json.loads(json.dumps(history_body(made.KEY, points, now), allow_nan=False))
    assert [error.message for error in Draft202012Validator(SCHEMAS["History"]).iter_errors(body)] == []


async def test_a_wait_without_end_is_no_unknown_one():
    red = made.red()
    endless = replace(red, estimate=replace(red.estimate, queue_wait=QueueWait(float("inf"))))
    async with serving(ops(view_of(endless))) as client:
        async with client.get(HISTORY) as response:
            [point] = (await response.json())["points"]
        read = await fetched(client, ONE)
    assert (point["queue_wait_s"], "∞" in read.text) == ("inf", True)
