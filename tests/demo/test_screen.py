"""What a person reads of the demo."""

import io

from rich.console import Console

from scaler.core.model import GateMode, Pressure
from scaler.demo.gateway import Counts
from scaler.demo.scenario import Scenario
from scaler.demo.screen import Lines, picture, summary_text, title
from scaler.demo.summary import Cpu, Record, Rpcs, Sample, summarize
from scaler.demo.traffic import Ending, Outcome

OBSERVE = Scenario(gate=GateMode.OBSERVE, seed=5)
RED = Sample(20.0, 7.5, 3.0, Pressure.RED, 0.4, 1.5, 5, 4, 2, 2, "5 replicas: flow 4.2")


def printed(*renderables) -> str:
    paper = io.StringIO()
    Console(file=paper, width=150).print(*renderables)
    return paper.getvalue()


def test_the_title_says_that_times_are_compressed_and_by_how_much() -> None:
    text = title(OBSERVE)
    assert "Times are compressed: replica start 12 s for 180 s (15x), HPA sync 2 s for 15 s (7.5x)" in text
    assert "set to observe; clients do not retry. Seed 5." in text


def test_the_picture_shows_state_wait_replicas_and_reason() -> None:
    text = printed(picture(RED, OBSERVE))
    for part in ("RED", "1.50 of 2 s", "2 ready, 2 starting, 5 desired", "offered 7.5/s, admitted 3.0/s", RED.reason):
        assert part in text


def test_lines_come_no_more_often_than_every_two_seconds() -> None:
    paper = io.StringIO()
    lines = Lines(Console(file=paper, width=80), OBSERVE)
    for quarter in range(41):
        lines.show(Sample(quarter / 4, 1.0, 1.0, Pressure.GREEN, 1.0, 0.0, 2, 2, 0, 2, "calm"))
    text = paper.getvalue()
    assert text.startswith(title(OBSERVE))
    assert text.count("GREEN") == 6


def test_the_summary_says_whether_the_loop_worked_and_why_not() -> None:
    record = Record(
        scenario=OBSERVE,
        samples=(RED,),
        outcomes=(Outcome(20.0, Ending.COMPLETED, 0.5, 0.04),),
        gateway=Counts(polls=1, would_refuse=3),
        rpcs=Rpcs({"GetMetrics": 1}, (), 0),
        cpu=Cpu(0.1, 0.2),
    )
    text = summary_text(summarize(record))
    assert "The loop did not work: desired rose to 5, but never more than 2 replicas were ready." in text
    assert "3 would have been refused" in text
    assert "100.0% of offered" in text
