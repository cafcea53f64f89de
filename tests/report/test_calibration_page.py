"""The page of a calibration: whole, alone, honest, and readable without seeing it."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.calibration import Setup
from scaler.calibration.runs import Latency
from scaler.report.calibration_page import page
from scaler.report.level_charts import RIGHT, WIDTH
from tests.calibration.made import calibrated, run

BY = "Written by slo-scaler calibrate 1.2.3"
SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)
ADDRESSING = {"src", "href", "srcset", "data", "action", "poster", "background"}
EVIL = '"><script>alert(1)</script><img src=x onerror=alert(2)>&amp;'


def sweep(**options):
    return calibrated(run(1, 0.1), run(2, 0.12), run(4, 0.2), run(8, 0.9), run(16, 3.4), **options)


class Structure(HTMLParser):
    """The tags of a page, and whether each that was opened was closed in turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def drawings(text):
    """The charts, as XML; the small signs of the legend left out."""
    found = [ET.fromstring(svg) for svg in SVG.findall(text)]
    return [svg for svg in found if svg.get("role") == "img"]


def words(svg):
    return svg.find("desc").text


def test_the_page_says_the_answer_first_and_who_wrote_it():
    structure = Structure(page(sweep(), BY))
    texts = [text for text in structure.texts if "concurrency 8" in text]
    assert (structure.open, structure.texts[-2:], len(texts) > 1) == ([], [BY, "\n"], True)
    assert texts[0].startswith("org/Tiny-7B: safe concurrency 8: ")


def test_it_needs_nothing_from_anywhere_and_runs_nothing():
    structure = Structure(page(sweep(), BY))
    assert {"script", "link", "img", "iframe", "object"}.isdisjoint(structure.tags)
    assert ADDRESSING.isdisjoint(name for name, _ in structure.attributes)
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in structure.attributes
    style = next(text for text in structure.texts if ":root" in text)
    assert "url(" not in style
    assert "@import" not in style


def test_each_latency_and_the_throughput_are_drawn_with_the_same_in_words():
    charts = drawings(page(sweep(), BY))
    assert [svg.find("title").text for svg in charts] == [
        "P95 time to first token against requests in flight",
        "P95 time per output token against requests in flight",
        "Throughput of one replica against requests in flight",
    ]
    assert words(charts[0]) == (
        "The objective is 2 s. Safe: concurrency 8. concurrency 1: 0.1 s, at most 0.12 s; passes. "
        "concurrency 2: 0.12 s, at most 0.144 s; passes. concurrency 4: 0.2 s, at most 0.24 s; passes. "
        "concurrency 8: 0.9 s, at most 1.08 s; passes. "
        "concurrency 16: 3.4 s, at most 4.08 s; fails"
    )
    for svg in charts:
        assert svg.get("aria-labelledby").split() == [svg.find("title").get("id"), svg.find("desc").get("id")]


def test_names_within_the_page_are_its_own():
    names = [value for name, value in Structure(page(sweep(), BY)).attributes if name == "id"]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("found", "kinds"),
    [
        (sweep(), {"passes", "fails"}),
        (calibrated(run(1, 0.1), run(2, requests=30), run(8, 1.9)), {"passes", "unusable", "unshown"}),
        (calibrated(run(16, 2.5)), {"fails"}),
    ],
)
def test_a_verdict_is_told_by_shape_and_the_legend_explains_those_that_are_there(found, kinds):
    text = page(found, BY)
    shapes: dict[str, set[str]] = {}
    for svg in map(ET.fromstring, SVG.findall(text)):
        for part in svg.iter("path"):
            kind, _, verdict = part.get("class", "").partition(" ")
            if kind == "point":
                shapes.setdefault(verdict, set()).add(re.sub(r"[\d. -]+", "", part.get("d", "")))
    assert (set(shapes), len({frozenset(shape) for shape in shapes.values()})) == (kinds, len(kinds))


def landmarks(found):
    """The classes of what is drawn in the first chart, each counted."""
    kinds = [part.get("class") for part in drawings(page(found, BY))[0].iter()]
    hatched = sum(part.get("fill") == "url(#between)" for part in drawings(page(found, BY))[0].iter())
    return (kinds.count("limit"), kinds.count("safe"), hatched, kinds.count("band"))


@pytest.mark.parametrize(
    ("found", "drawn"),
    [
        pytest.param(sweep(), (1, 1, 1, 4), id="safe, with a cliff above"),
        pytest.param(calibrated(run(1), run(8)), (1, 1, 0, 1), id="at least: no cliff was seen"),
        pytest.param(calibrated(run(16, 2.5), run(32, 3)), (1, 0, 0, 1), id="infeasible: nothing is safe"),
        pytest.param(
            calibrated(run(1), run(2, requests=30), run(4)), (1, 1, 0, 0), id="no band where a bound is not known"
        ),
    ],
)
def test_the_objective_the_safe_level_the_cliff_and_the_bands_are_drawn_where_they_are(found, drawn):
    assert landmarks(found) == drawn


def test_the_chart_puts_what_passes_below_the_objective_and_what_fails_above():
    svg = drawings(page(sweep(), BY))[0]
    limit = next(part for part in svg.iter("path") if part.get("class") == "limit")
    line = float(re.split("[ H]", limit.get("d", ""))[1])
    measured = next(part for part in svg.iter("path") if part.get("class") == "line").get("d", "")
    places = [float(place.split()[1]) for place in measured[1:].split("L")]
    assert [place > line for place in places] == [True, True, True, True, False]


def test_without_an_objective_for_it_tpot_is_not_drawn():
    found = calibrated(run(1), run(8), objectives=replace(sweep().objectives, tpot_s=None))
    assert [svg.find("title").text.partition(" against")[0] for svg in drawings(page(found, BY))] == [
        "P95 time to first token",
        "Throughput of one replica",
    ]


def test_a_level_without_any_success_is_in_no_chart_but_the_cliff_before_it_is():
    dead = run(8, completed=0, failed=240, rate_per_s=0.0, e2e_mean_s=None, ttft=Latency(0), tpot=Latency(0))
    text = page(calibrated(run(1), run(4), dead), BY)
    charts = drawings(text)
    assert all("concurrency 8:" not in words(svg) for svg in charts)
    hatched = [part for svg in charts for part in svg.iter("rect")]
    assert len(hatched) == len(charts)
    assert all(float(part.get("x", "")) + float(part.get("width", "")) <= WIDTH - RIGHT for part in hatched)
    assert '<th scope="row">8</th>' in text


def test_what_files_call_themselves_never_becomes_markup():
    plain = sweep()
    evil = sweep(setup=Setup("", gpu=EVIL, engine_version=EVIL))
    named = calibrated(
        *(run(c, t, file=f"{EVIL}{c}", tested_on=EVIL) for c, t in ((1, 0.1), (2, 0.12), (4, 0.2), (8, 0.9), (16, 3.4)))
    )
    tags = [
        [tag for tag in Structure(page(found, EVIL)).tags if tag not in {"dt", "dd"}] for found in (plain, evil, named)
    ]
    assert tags[0] == tags[1] == tags[2]


@given(
    st.lists(
        st.tuples(st.integers(1, 3000), st.floats(1e-4, 100.0), st.floats(1e-4, 5.0), st.integers(1, 900)),
        min_size=1,
        max_size=8,
    )
)
def test_any_calibration_makes_a_sound_page_with_everything_within_its_drawings(levels):
    runs = [run(c, ttft, tpot, requests=n, file=f"{i}.json") for i, (c, ttft, tpot, n) in enumerate(levels)]
    text = page(calibrated(*runs), BY)
    assert Structure(text).open == []
    for svg in drawings(text):
        _, _, width, height = map(float, svg.get("viewBox").split())
        for part in (*svg.iter("text"), *svg.iter("rect")):
            assert 0 <= float(part.get("x")) <= width
            assert 0 <= float(part.get("y")) <= height
