"""The summary of a run, from what was recorded."""

from dataclasses import replace

import pytest

from scaler.core.model import Pressure
from scaler.demo.gateway import Counts
from scaler.demo.keda import Failure
from scaler.demo.scenario import TPOT_BUDGET_S, TTFT_BUDGET_S, Scenario
from scaler.demo.summary import (
    Cpu,
    Entered,
    Record,
    Rpcs,
    Sample,
    Score,
    attains,
    entered,
    problems,
    quantile,
    score,
    summarize,
)
from scaler.demo.traffic import Ending, Outcome

GOOD = Outcome(1.0, Ending.COMPLETED, 0.5, 0.04)
SLOW = Outcome(2.0, Ending.COMPLETED, 5.0, 0.04)
REFUSED = Outcome(3.0, Ending.REFUSED)


def sample(at_s: float, state: Pressure = Pressure.GREEN, desired: int = 2, ready: int = 2) -> Sample:
    starting = max(0, desired - ready)
    return Sample(at_s, 2.0, 2.0, 0.0, state, "because", 1.0, 0.1, desired, desired, starting, ready, "because")


def record(*samples: Sample, outcomes: tuple[Outcome, ...] = (GOOD, SLOW, REFUSED)) -> Record:
    return Record(
        scenario=Scenario(seconds=90.0),
        samples=samples,
        outcomes=outcomes,
        gateway=Counts(offered=3, admitted=2, refused=1, polls=10),
        rpcs=Rpcs(
            {"GetMetricSpec": 3, "GetMetrics": 3, "IsActive": 3},
            (Failure(0.1, "GetMetrics", "UNAVAILABLE", cold=True),),
            2,
        ),
        cpu=Cpu(0.1, 0.2),
    )


WORKED = record(
    sample(0.0),
    sample(1.0),
    sample(15.0, Pressure.YELLOW),
    sample(17.0, Pressure.RED, desired=5),
    sample(30.0, Pressure.RED, desired=5, ready=5),
    sample(40.0, Pressure.GREEN, desired=5, ready=5),
)


def test_states_are_told_in_the_order_in_which_they_were_entered() -> None:
    assert entered(WORKED.samples) == (
        Entered("GREEN", 0.0),
        Entered("YELLOW", 15.0),
        Entered("RED", 17.0),
        Entered("GREEN", 40.0),
    )
    assert entered(()) == ()


def test_a_loop_that_worked_has_no_problem_and_says_when_it_was_red_and_green_again() -> None:
    summary = summarize(WORKED)
    assert (summary.ok, summary.problems) == (True, ())
    assert (summary.first_red_at_s, summary.green_again_at_s) == (17.0, 40.0)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        pytest.param(replace(WORKED, samples=WORKED.samples[:3]), "desired never rose above 2", id="no rise"),
        pytest.param(
            replace(WORKED, samples=WORKED.samples[:4]),
            "desired rose to 5, but never more than 2 replicas were ready",
            id="nothing became ready",
        ),
        pytest.param(replace(WORKED, gateway=Counts()), "the gateway never got a state", id="deaf gateway"),
        pytest.param(replace(WORKED, rpcs=Rpcs({}, (), 0)), "GetMetrics was never answered", id="mute scaler"),
        pytest.param(
            replace(WORKED, rpcs=Rpcs({"GetMetrics": 1}, (Failure(9.0, "IsActive", "INTERNAL", cold=False),), 0)),
            "1 RPCs failed after the first value, first IsActive with INTERNAL",
            id="failed call",
        ),
    ],
)
def test_a_loop_that_did_not_work_says_why(changed, problem) -> None:
    assert problems(changed) == (problem,)
    assert not summarize(changed).ok


@pytest.mark.parametrize(
    ("outcome", "attained"),
    [
        pytest.param(Outcome(0.0, Ending.COMPLETED, TTFT_BUDGET_S, TPOT_BUDGET_S), True, id="on both edges"),
        pytest.param(Outcome(0.0, Ending.COMPLETED, TTFT_BUDGET_S + 0.01, 0.01), False, id="late first token"),
        pytest.param(Outcome(0.0, Ending.COMPLETED, 0.1, TPOT_BUDGET_S + 0.001), False, id="slow tokens"),
        pytest.param(REFUSED, False, id="refused"),
        pytest.param(Outcome(0.0, Ending.FAILED), False, id="failed"),
        pytest.param(Outcome(0.0, Ending.UNFINISHED), False, id="unfinished"),
    ],
)
def test_a_request_attains_only_what_it_got_in_time(outcome, attained) -> None:
    assert attains(outcome) is attained


def test_refusals_count_against_offered_and_not_against_admitted() -> None:
    assert score((GOOD, SLOW, REFUSED)) == Score(
        requests=3,
        completed=2,
        refused=1,
        failed=0,
        unfinished=0,
        attained_ratio=0.3333,
        attained_of_admitted_ratio=0.5,
        ttft_p95_s=5.0,
        tpot_p95_s=0.04,
    )


def test_a_run_that_was_cut_short_is_not_judged_and_has_only_the_phases_that_were_played() -> None:
    summary = summarize(replace(record(sample(0.0), sample(12.0)), cut_at_s=12.5))
    assert (summary.ok, summary.problems) == (False, ("cut short after 12.5 s",))
    assert [(phase.name, phase.end_s) for phase in summary.phases] == [("calm", 10.0), ("rise", 12.5)]


def test_what_was_under_way_when_a_run_was_cut_short_counts_for_nothing() -> None:
    under_way = Outcome(4.0, Ending.UNFINISHED)
    cut, whole = score((GOOD, REFUSED, under_way), cut=True), score((GOOD, REFUSED, under_way))
    assert (cut.unfinished, cut.attained_ratio, cut.attained_of_admitted_ratio) == (1, 0.5, 1.0)
    assert (whole.unfinished, whole.attained_ratio, whole.attained_of_admitted_ratio) == (1, 0.3333, 0.5)
    assert score((under_way,), cut=True).attained_ratio is None


def test_no_requests_have_no_score() -> None:
    assert score(()) == Score(0, 0, 0, 0, 0, None, None, None, None)


def test_a_quantile_is_a_value_that_was_seen() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([3.0, 1.0, 2.0], 0.95) == 3.0
    assert quantile([], 0.95) is None


def test_requests_are_scored_in_the_phase_in_which_they_arrived() -> None:
    late = replace(GOOD, at_s=25.0)
    summary = summarize(replace(WORKED, outcomes=(GOOD, late, replace(late, at_s=80.0))))
    assert [phase.score.requests for phase in summary.phases] == [1, 0, 1, 1]
    assert [phase.desired_max for phase in summary.phases] == [2, 5, 5, 0]


def test_the_series_has_a_sample_a_second() -> None:
    often = tuple(sample(index / 4) for index in range(41))
    assert [s.at_s for s in summarize(record(*often)).series] == [float(second) for second in range(11)]


def test_the_summary_is_plain_json() -> None:
    told = summarize(WORKED).as_json()
    assert told["states"][2] == {"state": "RED", "at_s": 17.0}
    assert told["compression"][0]["factor"] == 15.0
    assert told["seed"] == 1
