"""What a person reads of the running demo."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from scaler.core.model import GateMode, Pressure
from scaler.demo.addresses import COLUMNS, Addresses
from scaler.demo.scenario import Scenario
from scaler.demo.screen import Lines, line, picture, title
from scaler.demo.summary import Sample

OBSERVE, ENFORCE = Scenario(gate=GateMode.OBSERVE, seed=5), Scenario(gate=GateMode.ENFORCE)
AT = Addresses("127.0.0.1:6000", "127.0.0.1:8080", "127.0.0.1:8081")
WHY = "RED for 9 s: a request waits 1.5 s of its 2 s"
RED = Sample(20.0, 7.5, 3.0, 0.0, Pressure.RED, WHY, 0.06, 1.5, 5, 4, 2, 2, "5 replicas: flow 4.2")
RED_OBSERVED = replace(RED, admitted_per_s=7.5, would_refuse_per_s=4.5)
CALM = replace(RED, state=Pressure.GREEN, state_because="GREEN: a request waits 0 s of its 2 s", admit_ratio=1.0)


def printed(renderable, width: int = COLUMNS) -> str:
    paper = io.StringIO()
    Console(file=paper, width=width).print(renderable)
    return paper.getvalue()


def test_the_title_says_where_it_answers_and_by_how_much_times_are_compressed() -> None:
    text = title(OBSERVE, AT)
    assert "Page http://127.0.0.1:8081/\nGate http://127.0.0.1:8080/v1/state/demo/llm\nKEDA 127.0.0.1:6000" in text
    words = " ".join(text.split())
    assert "Times are compressed: replica start 12 s for 180 s (15x), HPA sync 2 s for 15 s (7.5x)" in words
    assert "set to observe: it only counts what it would refuse; clients do not retry. Seed 5." in words
    assert all(len(row) <= COLUMNS for row in text.splitlines())


def test_the_picture_shows_wait_rates_fraction_replicas_and_reason() -> None:
    rows = [" ".join(row.strip("│ \n").split()) for row in printed(picture(RED, ENFORCE)).splitlines()]
    for row in ("time 20 of 90 s, rise", "last 2 s offered 7.5/s, admitted 3.0/s", "fraction told 6 %"):
        assert row in rows
    assert any(row.endswith("1.50 of 2 s") for row in rows)
    assert any(row.endswith("2 ready, 2 starting, 5 desired") for row in rows)
    assert f"because {RED.reason}" in rows


def test_the_state_comes_with_how_long_it_has_lasted_and_why() -> None:
    assert f"state          {WHY}" in printed(picture(RED, ENFORCE))
    assert WHY in line(RED, ENFORCE)


def test_the_fraction_stands_apart_from_the_rates() -> None:
    assert "last 2 s: offered  7.5/s, admitted  3.0/s  fraction told   6 %" in line(RED, ENFORCE)


@pytest.mark.parametrize(
    "text", [line(RED_OBSERVED, OBSERVE), printed(picture(RED_OBSERVED, OBSERVE), 150)], ids=["line", "picture"]
)
def test_a_gate_that_observes_never_admits_but_would(text) -> None:
    words = " ".join(text.split())
    assert "would admit 6 %" in words
    assert "offered 7.5/s, would refuse 4.5/s" in words
    assert "admit" not in words.replace("would admit", "")


def test_the_time_never_goes_beyond_the_end() -> None:
    late = replace(CALM, at_s=92.4)
    assert "90 of 90 s, finishing what is under way" in printed(picture(late, ENFORCE))
    assert "finishing" in line(late, ENFORCE)
    assert "89 of 90 s, calm again" in printed(picture(replace(CALM, at_s=89.9), ENFORCE))


def test_below_the_picture_is_a_line_for_what_the_terminal_echoes() -> None:
    assert printed(picture(RED, ENFORCE)).endswith("╯\n\n")


def test_lines_come_no_more_often_than_every_two_seconds() -> None:
    paper = io.StringIO()
    lines: Lines[Any] = Lines(Console(file=paper, width=80), lambda sample: line(sample, OBSERVE))
    for quarter in range(41):
        lines.show(replace(CALM, at_s=quarter / 4))
    assert paper.getvalue().count("\n") == 6
