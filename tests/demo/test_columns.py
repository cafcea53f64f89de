"""What a person reads of two fleets side by side."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from scaler.core.model import Pressure
from scaler.demo.addresses import COLUMNS, Addresses
from scaler.demo.columns import Both, Column, closing, line, picture, title
from scaler.demo.contrast import Contrast, Side
from scaler.demo.scenario import Scenario
from scaler.demo.summary import Sample

SCENARIO = Scenario(60.0)
RED = Sample(20.0, 7.5, 3.0, 0.0, Pressure.RED, "because", 0.06, 1.5, 5, 4, 2, 2, "because")
BOTH = Both(
    Column(RED, 40, 2),
    Column(replace(RED, at_s=20.2, admitted_per_s=7.5, queue_wait_s=12.34, state=Pressure.YELLOW), 30, 19),
)
WITH = Side(299, 260, 0.8696, 4.33, 168, 120, 98, 10.66, 22, 1, 2, 0.08, 3.37, 3.36, 6, 274)
WITHOUT = Side(299, 150, 0.5017, 2.5, 150, 0, 0, None, 0, 0, 0, 1.96, 22.18, 22.35, 5, 279)
FOUND = Contrast(True, (), 1, 60.0, None, {}, WITH, WITHOUT, "The gate won: " + "and so on " * 20)
AT = Addresses("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")


def rows(text: str) -> list[str]:
    return [" ".join(row.strip("│ ").split()) for row in text.splitlines()]


def test_the_picture_shows_both_fleets_beside_each_other() -> None:
    paper = io.StringIO()
    Console(file=paper, width=COLUMNS).print(picture(BOTH, SCENARIO))
    found = rows(paper.getvalue())
    assert "demo/llm: 20 of 60 s, burst" in found[0]
    assert found[1:4] == [
        "with the gate without it",
        "state RED YELLOW",
        "queue wait ██████████░░░░ 1.50 of 2 s ██████████████ 12.34 of 2 s",
    ]
    assert "replicas ■■□□ 2 ready, 5 desired ■■□□ 2 ready, 5 desired" in found
    assert "last 2 s let in 3.0/s of 7.5/s let in 7.5/s of 7.5/s" in found
    assert "served so far 40 in objective, 2 late 30 in objective, 19 late" in found


def test_a_line_has_both() -> None:
    gated, ungated = line(BOTH, SCENARIO).split("  | ")[1:]
    assert gated.startswith("with the gate: RED ")
    assert gated.endswith("so far 40 in objective, 2 late")
    assert ungated.startswith("without it: YELLOW ")


def test_the_title_says_where_both_answer_and_that_clients_come_back() -> None:
    text = title(SCENARIO, AT, replace(AT, ops="127.0.0.1:4"))
    assert "with the gate http://127.0.0.1:3/" in text
    assert "without it http://127.0.0.1:4/" in text
    assert "come back" in " ".join(text.split())
    assert all(len(row) <= COLUMNS for row in text.splitlines())


@pytest.mark.parametrize(
    "row",
    [
        "requests offered 299 299",
        "served in objective (goodput) 260 150",
        "of those offered 87.0 % 50.2 %",
        "per second 4.33 2.50",
        "of them never refused 168 150",
        "refused at first 120 0",
        "of them came back and were served 98 0",
        "away for, P50 10.66 s -",
        "gave up 22 0",
        "failed or unfinished 3 0",
        "TTFT of the admitted, P50 0.08 s 1.96 s",
        "TTFT of the admitted, P99 3.37 s 22.18 s",
        "longest queue wait, as the scaler saw it 3.36 s 22.35 s",
        "most replicas ready 6 5",
        "GPU-seconds 274 279",
    ],
)
def test_the_table_has_a_column_for_each(row) -> None:
    assert row in rows(closing(FOUND).text)


def test_the_table_is_followed_by_what_it_says_and_fits_a_terminal() -> None:
    text = closing(FOUND).text
    assert all(len(row) <= COLUMNS for row in text.splitlines())
    assert "Says The gate won: and so on" in " ".join(text.split())
    assert text.endswith("Result    both loops worked")


def test_loops_that_did_not_work_are_no_success() -> None:
    broken = closing(replace(FOUND, ok=False, problems=("without it: the gateway never got a state",)))
    assert not broken.ok
    assert broken.text.endswith("Result    without it: the gateway never got a state")
    assert broken.json["ok"] is False
