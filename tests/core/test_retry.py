"""Which class is answered for, which status refuses, and when those who were refused come back."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.admission import as_of
from scaler.core.model import Objective, Pressure, ShedStatus
from scaler.core.retry import Retry, age_s, retry, retry_headers, shed_status, state_headers, verdict_for
from tests.support import decisions as made

RED = made.red()
CHAT, AGENT, BATCH = RED.classes
DECISIONS = (made.green(), made.yellow(), RED, made.blind(), made.nothing_ready())
NONE_READY = replace(RED, estimate=replace(RED.estimate, ready=0))

waits = st.floats(0, 1e6) | st.sampled_from([0.0, 1.0, 59.999, 60.0, float("inf")])
verdicts = st.builds(
    replace,
    st.sampled_from([CHAT, BATCH]),
    retry_after_s=waits,
    retry_spread_s=waits,
    admit_ratio=st.floats(0, 1),
)
draws = st.floats(0, 1)


@given(verdict=verdicts, draw=draws)
def test_retry_after_is_always_a_whole_number_of_seconds_within_a_minute(verdict, draw):
    when = retry(verdict, draw)
    assert type(when.seconds) is int
    assert 1 <= when.seconds <= 60
    assert (when.seconds - 1) * 1000 < when.ms <= when.seconds * 1000


@given(verdict=verdicts, earlier=draws, later=draws)
def test_a_larger_draw_never_returns_earlier(verdict, earlier, later):
    low, high = sorted((earlier, later))
    assert retry(verdict, low).ms <= retry(verdict, high).ms


@given(verdict=verdicts, draw=draws, now=st.floats(0, 200))
def test_the_admit_header_is_a_share_and_says_one_only_for_all(verdict, draw, now):
    share = float(state_headers(RED, verdict, now)["X-Backpressure-Admit"])
    assert 0 <= share <= verdict.admit_ratio
    assert (share == 1) == (verdict.admit_ratio == 1)


@pytest.mark.parametrize(
    ("after_s", "spread_s", "draw", "expected"),
    [
        pytest.param(7.0, 0.0, 0.5, Retry(7, 7000, futile=False), id="no spread"),
        pytest.param(7.0, 10.0, 0.5, Retry(12, 12000, futile=False), id="middle of the spread"),
        pytest.param(7.2, 0.0, 0.0, Retry(8, 7200, futile=False), id="rounded up"),
        pytest.param(7.001, 0.0, 0.0, Retry(8, 7001, futile=False), id="a millisecond more is a second more"),
        pytest.param(0.0, 0.0, 0.0, Retry(1, 1000, futile=False), id="never zero"),
        pytest.param(50.0, 20.0, 1.0, Retry(60, 60000, futile=False), id="never over a minute"),
        pytest.param(60.0, 60.0, 0.0, Retry(30, 30000, futile=True), id="spread before the cap"),
        pytest.param(60.0, 10.0, 0.5, Retry(55, 55000, futile=True), id="small spread before the cap"),
    ],
)
def test_returns_are_spread(after_s, spread_s, draw, expected):
    assert retry(replace(CHAT, retry_after_s=after_s, retry_spread_s=spread_s), draw) == expected


def test_a_class_with_a_deadline_is_never_told_to_give_up():
    assert not retry(replace(BATCH, objective=Objective.COMPLETION, retry_after_s=60.0), 0.5).futile


@pytest.mark.parametrize(
    ("when", "headers"),
    [
        (Retry(8, 7200, futile=False), {"Retry-After": "8", "retry-after-ms": "7200"}),
        (Retry(60, 60000, futile=True), {"Retry-After": "60", "retry-after-ms": "60000", "x-should-retry": "false"}),
    ],
)
def test_headers_say_when_and_whether(when, headers):
    assert retry_headers(when) == headers


@pytest.mark.parametrize(
    ("decision", "choice", "status"),
    [
        pytest.param(RED, ShedStatus.AUTO, 429, id="contended"),
        pytest.param(NONE_READY, ShedStatus.AUTO, 503, id="no capacity"),
        pytest.param(RED, ShedStatus.NO_CAPACITY, 503, id="503 chosen"),
        pytest.param(NONE_READY, ShedStatus.CONTENDED, 429, id="429 chosen"),
    ],
)
def test_a_refusal_says_contended_or_no_capacity_unless_one_was_chosen(decision, choice, status):
    assert shed_status(decision, choice) == status


@pytest.mark.parametrize(
    ("asked", "answered", "note"),
    [
        pytest.param("agent", "agent", "", id="named"),
        pytest.param("nobody", "chat", "no such class here; this is the default class, chat", id="unknown"),
        pytest.param("", "chat", "no such class here; this is the default class, chat", id="empty"),
    ],
)
def test_a_class_is_answered_for_or_its_default(asked, answered, note):
    verdict, said = verdict_for(RED, asked)
    assert (verdict.name, said) == (answered, note)


def test_without_a_class_the_worst_is_answered_for():
    worst_last = replace(RED, classes=(BATCH, AGENT, CHAT))
    assert verdict_for(worst_last, None) == (AGENT, "")


def test_without_a_class_the_default_is_answered_for_where_the_state_is_that_of_none():
    assert verdict_for(replace(RED, state=Pressure.UNKNOWN), None) == (CHAT, "")


@pytest.mark.parametrize(("later_s", "age"), [(-1.0, 0.0), (0.0, 0.0), (0.25, 0.25), (9.0, 9.0)])
def test_a_decision_is_as_old_as_its_newest_reading_and_never_of_the_future(later_s, age):
    assert age_s(RED, RED.observed_at + later_s) == age


@given(decision=st.sampled_from(DECISIONS), late=st.floats(0, 1e4))
def test_the_answered_state_is_the_workloads_own_when_no_class_is_asked_for(decision, late):
    seen = as_of(decision, decision.observed_at + late)
    assert verdict_for(seen, None)[0].state is seen.state


def test_a_second_of_age_is_a_thousand_milliseconds():
    assert state_headers(RED, CHAT, RED.observed_at + 1.5) == {
        "X-Backpressure-State": Pressure.RED.value,
        "X-Backpressure-Admit": "0.05",
        "X-Backpressure-Gate": "enforce",
        "X-Backpressure-Age-Ms": "1500",
        "X-Backpressure-Seq": "19",
    }
