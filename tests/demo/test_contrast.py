"""Two runs side by side, in figures and in a sentence."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.model import GateMode, Pressure
from scaler.demo.contrast import NOTHING, Side, contrast, gpu_s, says, side
from scaler.demo.gateway import Counts
from scaler.demo.scenario import Scenario
from scaler.demo.summary import Cpu, Record, Rpcs, Sample
from scaler.demo.traffic import Ending, Outcome

GOOD, SLOW = Outcome(1.0, Ending.COMPLETED, 0.5, 0.04), Outcome(2.0, Ending.COMPLETED, 5.0, 0.04)
BACK = replace(GOOD, tried=1, away_s=9.0)
BACK_LATE = replace(SLOW, tried=2, away_s=20.0)
GAVE_UP, UNDER_WAY = Outcome(3.0, Ending.REFUSED), Outcome(4.0, Ending.UNFINISHED)


def sample(at_s: float, ready: int = 2, starting: int = 0, wait_s: float = 0.1) -> Sample:
    state, desired = Pressure.GREEN, ready + starting
    return Sample(at_s, 2.0, 2.0, 0.0, state, "because", 1.0, wait_s, desired, desired, starting, ready, "because")


SAMPLES = (sample(0.0), sample(4.0, starting=3, wait_s=1.5), sample(6.0, ready=5), sample(10.0, ready=5), sample(12.0))
UNGATED = Record(
    scenario=Scenario(seconds=10.0, gate=GateMode.OBSERVE, retries=True),
    samples=SAMPLES,
    outcomes=(GOOD, GOOD, SLOW, SLOW, SLOW),
    gateway=Counts(polls=1),
    rpcs=Rpcs({"GetMetrics": 3}, (), 1),
    cpu=Cpu(0.1, 0.1),
)
GATED = replace(
    UNGATED,
    scenario=replace(UNGATED.scenario, gate=GateMode.ENFORCE),
    outcomes=(GOOD, GOOD, BACK, BACK_LATE, GAVE_UP),
    gateway=Counts(polls=1, refused=4, refused_first=3),
)


def test_a_run_in_figures() -> None:
    assert side(GATED) == Side(
        offered=5,
        in_objective=3,
        in_objective_ratio=0.6,
        in_objective_per_s=0.3,
        in_objective_at_once=2,
        refused=3,
        came_back=2,
        away_p50_s=9.0,
        gave_up=1,
        failed=0,
        unfinished=0,
        ttft_p50_s=0.5,
        ttft_p99_s=5.0,
        longest_wait_s=1.5,
        ready_max=5,
        gpu_s=38,
    )


def test_gpu_seconds_are_those_of_starting_and_ready_replicas_while_traffic_lasts() -> None:
    assert gpu_s(SAMPLES, 10.0) == 4 * 2 + 2 * 5 + 4 * 5
    assert gpu_s(SAMPLES[:1], 10.0) == 0.0


def test_the_sentence_says_who_won_and_at_which_price() -> None:
    assert contrast(GATED, UNGATED).says == (
        "The gate won: 60 % of all requests in objective with it (40 % without those who came back), 40 % without it; "
        "it refused 3 at first, of whom 2 were served when they came back, half of them after 9 s or more, and 1 gave up."
    )


@given(gated=st.integers(0, 9), ungated=st.integers(0, 9))
def test_the_gate_is_never_said_to_have_won_by_less_goodput_or_lost_by_more(gated, ungated) -> None:
    one, other = (replace(side(GATED), in_objective=count) for count in (gated, ungated))
    expected = "won" if gated > ungated else "lost" if gated < ungated else "made no difference"
    assert says(one, other).startswith(f"The gate {expected}: ")


def test_a_gate_that_refused_nobody_takes_no_credit() -> None:
    assert contrast(replace(GATED, gateway=Counts(polls=1)), UNGATED).says == (
        "The gate refused nobody, so that any difference is chance: 60 % of all requests in objective with it "
        "(40 % without those who came back), 40 % without it."
    )


def test_none_who_came_back_have_no_time_away() -> None:
    found = side(replace(GATED, outcomes=(GOOD, GAVE_UP)))
    assert (found.came_back, found.away_p50_s) == (0, None)
    assert "of whom 0 were served when they came back, and 1 gave up" in says(found, found)


@pytest.mark.parametrize("cut", [(12.0, 12.1), (None, 12.1), (12.0, None)])
def test_runs_that_were_cut_short_say_nothing_about_the_gate(cut) -> None:
    found = contrast(*(replace(run, cut_at_s=at_s) for run, at_s in zip((GATED, UNGATED), cut, strict=True)))
    assert not found.ok
    assert found.cut_at_s is not None
    assert found.says == NOTHING


def test_a_loop_that_did_not_work_is_named_by_its_side_and_a_gate_that_lost_is_no_fault() -> None:
    lost = contrast(replace(GATED, outcomes=(GAVE_UP,)), UNGATED)
    assert (lost.ok, lost.problems) == (True, ())
    deaf = replace(UNGATED, gateway=Counts())
    assert contrast(GATED, deaf).problems == ("without it: the gateway never got a state",)
    assert contrast(GATED, deaf).says == NOTHING
    assert contrast(replace(GATED, rpcs=Rpcs({}, (), 0)), UNGATED).problems == (
        "with the gate: GetMetrics was never answered",
    )


def test_what_was_under_way_at_the_end_of_a_whole_run_was_not_served() -> None:
    found = side(replace(UNGATED, outcomes=(GOOD, UNDER_WAY)))
    assert (found.in_objective_ratio, found.unfinished) == (0.5, 1)


def test_the_contrast_is_plain_json() -> None:
    told = json.loads(json.dumps(contrast(GATED, UNGATED).as_json()))
    assert (told["with_gate"]["came_back"], told["without_gate"]["refused"]) == (2, 0)
    assert told["objectives"] == {"ttft_s": 2.0, "tpot_s": 0.075}
