"""What is printed when the demo is over."""

from dataclasses import replace

import pytest

from scaler.core.model import GateMode, Pressure
from scaler.demo.closing import summary_text
from scaler.demo.gateway import Counts
from scaler.demo.keda import Failure
from scaler.demo.scenario import Scenario
from scaler.demo.summary import Cpu, Record, Rpcs, Sample, summarize
from scaler.demo.traffic import Ending, Outcome

GOOD, SLOW = Outcome(20.0, Ending.COMPLETED, 0.5, 0.04), Outcome(20.0, Ending.COMPLETED, 5.0, 0.04)
REFUSED, CUT_OFF = Outcome(20.0, Ending.REFUSED), Outcome(20.0, Ending.UNFINISHED)
COLD = Failure(-1.0, "GetMetrics", "UNAVAILABLE", cold=True)
SAMPLES = tuple(
    Sample(float(at), 2.0, 2.0, 0.0, state, "because", 1.0, 0.1, 5, 5, 0, 5, "because")
    for at, state in enumerate([Pressure.GREEN, Pressure.YELLOW, Pressure.RED] * 5)
)
RECORD = Record(
    scenario=Scenario(),
    samples=SAMPLES,
    outcomes=(GOOD, GOOD, SLOW, REFUSED),
    gateway=Counts(polls=1),
    rpcs=Rpcs({"GetMetrics": 211}, (COLD,) * 4, 3),
    cpu=Cpu(0.1, 0.2),
)
OBSERVED = replace(
    RECORD,
    scenario=Scenario(gate=GateMode.OBSERVE),
    outcomes=(GOOD, GOOD, SLOW, SLOW),
    gateway=Counts(polls=1, would_refuse=3),
)


def words(record: Record) -> str:
    return " ".join(summary_text(summarize(record)).split())


def test_it_says_what_was_in_time_of_what_was_admitted_and_of_what_was_offered() -> None:
    text = words(RECORD)
    assert "Requests 4: 3 completed, 1 refused, 0 failed, 0 unfinished" in text
    assert "66.7 % of the admitted requests and 50.0 % of all offered had TTFT within 2 s and TPOT within 75 ms" in text
    assert "95 % had a TTFT up to 5.0 s" in text
    assert text.endswith("Result the loop worked")


def test_it_names_the_command_that_shows_the_same_burst_without_shedding() -> None:
    assert "the same burst without shedding: slo-scaler demo --observe req/s" in words(RECORD)
    other = replace(RECORD, scenario=Scenario(45.0, 7))
    text = summary_text(summarize(other))
    assert "slo-scaler demo --observe --seconds 45 --seed 7\n" in text, "on one line, to be pasted"


def test_a_gate_that_observes_would_have_refused_and_admitted_nobody() -> None:
    text = words(OBSERVED)
    assert "3 would have been refused" in text
    assert "50.0 % of all offered had TTFT" in text
    assert "the same burst with shedding: slo-scaler demo req/s" in text
    assert "admit" not in text


def test_refusals_before_the_first_decision_are_told_from_failures() -> None:
    assert "211 calls answered, 4 refused before the first decision, as they must be, 0 failed" in words(RECORD)
    broken = replace(COLD, code="INTERNAL")
    late = replace(COLD, cold=False)
    text = words(replace(RECORD, rpcs=Rpcs({"GetMetrics": 1}, (COLD, broken, late), 0)))
    assert "1 refused before the first decision, as they must be, 2 failed" in text


def test_a_loop_that_did_not_work_says_why() -> None:
    text = words(replace(RECORD, gateway=Counts()))
    assert text.endswith("the loop did not work: the gateway never got a state")


def test_a_run_that_was_cut_short_tells_what_was_seen_and_judges_nothing() -> None:
    text = words(replace(RECORD, outcomes=(GOOD, REFUSED, CUT_OFF), cut_at_s=21.0))
    assert "1 unfinished" in text
    assert "100.0 % of the admitted requests and 50.0 % of all offered that had ended by then had" in text, (
        "what was under way missed nothing"
    )
    assert "rise 10-21 s" in text
    assert "burst" not in text.partition("phase")[2]
    assert text.endswith("cut short after 21 of 90 s, so the loop was not judged")


@pytest.mark.parametrize("gate", [GateMode.OBSERVE, GateMode.ENFORCE])
def test_no_line_is_wider_than_a_terminal(gate) -> None:
    longest = replace(
        RECORD,
        scenario=Scenario(600.0, 123456, gate),
        outcomes=tuple(replace(GOOD, at_s=float(at)) for at in range(600)),
    )
    rows = summary_text(summarize(longest)).splitlines()
    assert max(map(len, rows)) <= 80
    assert all(row == row.rstrip() for row in rows)


def test_nothing_completed_has_no_latency() -> None:
    assert "no request was completed" in words(replace(RECORD, outcomes=(REFUSED,)))
