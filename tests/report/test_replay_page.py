"""A replay as it is shown: whole, alone, honest, and readable without seeing it."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from scaler.core.plain import plain
from scaler.report.replay_body import body
from scaler.report.replay_page import page
from scaler.report.replay_table import COLUMNS, scores
from scaler.report.replay_words import facts, losses, physics, sentences
from scaler.sim.laws import LAWS
from scaler.sim.limits import Limits, Warm
from scaler.sim.outcome import Replay, Row, Side
from tests.support.contests import small_replay

BY = "Written by slo-scaler replay 1.2.3"
SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)
LIMITS = Limits(
    dead_s=188.5,
    ceiling_per_s=10.0,
    mean_per_s=20.0,
    busiest_per_s=60.0,
    reactive_ratio=0.9,
    returning_ratio=0.96,
    most_ratio=1.0,
    wanted_ratio=0.95,
    surges=3,
    brief=2,
    warm=Warm(3, 0.97, 12.0),
    static_ratios=(0.5, 1.0),
)
NO_REACTION = (
    "No law that only reacts can keep 95% here: a replica is there 188 s after the load that needs it, and with a gate that refuses "
    "exactly what would come too late at most 90.0% are served in time. "
)
PRICE = "3 replicas kept warm above what the load has shown would lift that to 97.0%, for 12.0 GPU-hours more (warmReplicas: 3)."
TOO_SMALL = "The maximum is too small: with all of it ready all the time it is 93.0%."
COME_BACK = (
    "That is for refused clients who go away. Those who come back when they are told to may lift it to at most 96.0%, with TTFT from the "
    "attempt that is admitted."
)
BRIEF = (
    "2 of 3 surges beyond what can stand ready are over within 188 s: no replica that is started for one is there in time; only spare "
    "replicas or a faster start help."
)
WITHIN_REACH = (
    "Bound: a replica is there 188 s after the load that needs it, and with a gate that refuses exactly what would come too late, a law "
    "that only reacts attains at most 100.0%; with the maximum ready all the time it is 100.0%."
)


class Structure(HTMLParser):
    """The tags of a page, and whether each that was opened was closed in turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def drawings(text):
    return [svg for svg in map(ET.fromstring, SVG.findall(text)) if svg.get("role") == "img"]


def worth(row: Row, **changes) -> Row:
    return replace(row, runs=tuple(replace(run, worth=replace(run.worth, **changes)) for run in row.runs))


def with_scores(kept: dict[str, float], hours: dict[str, float]) -> Replay:
    found = small_replay()
    rows = tuple(worth(row, kept_ratio=kept[row.name], gpu_hours=hours[row.name]) for row in found.rows)
    return replace(found, rows=rows, clairvoyant=rows[2])


def test_it_is_whole_needs_nothing_from_anywhere_and_runs_nothing():
    text = page(small_replay(), BY)
    structure = Structure(text)
    assert structure.open == []
    assert {"script", "link", "img", "iframe", "object"}.isdisjoint(structure.tags)
    assert {"src", "href", "data"}.isdisjoint(name for name, _ in structure.attributes)
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in structure.attributes
    assert ("content", BY) in structure.attributes
    ids = [value for name, value in structure.attributes if name == "id"]
    assert len(set(ids)) == len(ids)


def test_texts_are_no_markup():
    text = page(small_replay(), BY)
    assert "<of>" not in text
    assert "rush &lt;of&gt; chat" in text


def test_the_bill_and_each_run_are_drawn_and_told_in_words():
    found = small_replay()
    charts = drawings(page(found, BY))
    assert [svg.find("title").text for svg in charts] == [
        "What was not served within the objectives, against GPU-hours",
        *(f"{row.name} over time" for row in found.rows),
    ]
    for svg in charts:
        assert svg.get("aria-labelledby").split() == [svg.find("title").get("id"), svg.find("desc").get("id")]
    assert charts[0].find("desc").text.count("GPU-hours") == len(found.rows)


def test_all_that_is_drawn_is_within_its_drawing():
    for svg in drawings(page(small_replay(), BY)):
        width, height = map(float, svg.get("viewBox").split()[2:])
        for part in svg.iter("path"):
            assert "nan" not in part.get("d")
            for move, number in re.findall(r"([A-Zav])([\d.]+ [\d.]+|[\d.]+)", part.get("d")):
                places = [float(value) for value in number.split()]
                if move in "ML":
                    assert 0 <= places[0] <= width
                    assert 0 <= places[1] <= height
                elif move in "HV":
                    assert 0 <= places[0] <= (width if move == "H" else height)


def test_only_a_law_with_colours_has_a_strip_of_them():
    found = small_replay()
    strips = [
        sum("state" in part.get("class", "") for part in svg.iter("rect")) for svg in drawings(page(found, BY))[1:]
    ]
    assert [count > 0 for count in strips] == [row.side is Side.OURS for row in found.rows]


def test_the_table_has_a_row_a_law_and_less_to_say_where_there_is_no_room():
    found = small_replay()
    told = {}
    for width in (100, 200):
        console = Console(width=width, record=True, file=None, quiet=False, force_terminal=False)
        with console.capture() as captured:
            console.print(scores(found, width))
        told[width] = captured.get()
        assert "…" not in told[width]
        assert [line.split("  ")[0] for line in told[width].splitlines()[2:]] == [row.name for row in found.rows]
    assert "turns" in told[200]
    assert "turns" not in told[100]
    assert len({column.heading for column in COLUMNS}) == len(COLUMNS)


def test_with_a_price_each_law_has_the_cost_of_a_million_tokens():
    found = replace(small_replay(), price=2.0)
    ours = found.ours
    assert ours is not None
    runs = [run.worth for run in ours.runs]
    tokens = sum(each.prompt_tokens + each.generation_tokens for each in runs)
    cost = sum(each.gpu_hours for each in runs) * 2.0 / tokens * 1e6
    told: Any = body(found)
    assert told["laws"][0]["cost"]["cost_per_million_tokens"] == pytest.approx(cost)
    assert told["facts"]["price"] == "2 a GPU-hour"
    assert f"{cost:.3g} per million tokens" in told["sentences"][1]
    assert f"<td>{cost:.3g}</td>" in page(found, BY)


def test_without_a_price_nothing_is_said_of_money():
    told: Any = body(small_replay())
    assert (told["laws"][0]["cost"]["cost_per_million_tokens"], "price" in told["facts"]) == (None, False)
    assert "tokens per GPU-second" in told["sentences"][1]
    assert "a million" not in page(small_replay(), BY)


def test_the_body_is_json_with_all_that_is_told():
    found = small_replay()
    told: Any = body(found)
    assert plain(told) == told
    assert told["sentences"] == list(sentences(found))
    assert told["facts"] == facts(found)
    assert [law["name"] for law in told["laws"]] == [row.name for row in found.rows]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        pytest.param({}, [NO_REACTION + PRICE, COME_BACK, BRIEF], id="out of reach, and its price"),
        pytest.param(
            {"warm": None, "most_ratio": 0.93, "returning_ratio": 0.9, "brief": 0},
            [NO_REACTION + TOO_SMALL],
            id="out of reach at any price",
        ),
        pytest.param(
            {"reactive_ratio": 0.9995, "returning_ratio": 1.0},
            [WITHIN_REACH],
            id="within reach, and surges that cost nothing",
        ),
    ],
)
def test_what_nobody_can_do_is_said_with_what_it_would_take(changed, told):
    assert list(physics(replace(LIMITS, **changed))) == told


@pytest.mark.parametrize(
    ("kept", "hours", "told"),
    [
        pytest.param(
            (0.90, 0.95, 0.90, 0.80),
            (10.0, 40.0, 9.9, 5.0),
            ["gke-waiting serves more than ours here: +5.0 points, +30.0 GPU-hours (+300%)."],
            id="a rival that serves more",
        ),
        pytest.param(
            (0.90, 0.897, 0.90, 0.80),
            (10.0, 9.0, 9.9, 5.0),
            ["gke-waiting serves as much for less than ours here: -0.3 points, -1.0 GPU-hours (-10%)."],
            id="a rival that costs less",
        ),
        pytest.param(
            (0.90, 0.80, 0.90, 0.99),
            (10.0, 9.0, 9.9, 8.0),
            [
                "best static 3 serves more than ours here, knowing what nobody can know beforehand: +9.0 points, -2.0 GPU-hours (-20%).",
                "No rival serves more within the objectives than ours, or as much for less.",
            ],
            id="a reference",
        ),
    ],
)
def test_where_ours_loses_is_said(kept, hours, told):
    names = [row.name for row in small_replay().rows]
    found = with_scores(dict(zip(names, kept, strict=True)), dict(zip(names, hours, strict=True)))
    assert list(losses(found)) == told


def test_the_documentation_names_every_law_and_every_column():
    text = (Path(__file__).resolve().parents[2] / "docs" / "replay.md").read_text(encoding="utf-8")
    told = [name.strip() for cells in re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE) for name in cells.split(",")]
    rivals = {f"`{name}`" for name in LAWS} - {"`ours`", "`static`", "`clairvoyant`"}
    columns = {column.heading.removesuffix(" s") for column in COLUMNS}
    assert (rivals | columns) - set(told) == set()
