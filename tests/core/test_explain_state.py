"""Why the state is what it is: one sentence with the numbers, for each row of the pressure table and for none."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from scaler.core.admission import as_of
from scaler.core.explain_state import state_because
from scaler.core.model import Pressure
from scaler.core.pressure import Condition
from tests.support import decisions as made

NOW = 39.0


def with_rule(decision, rule, **changes):
    classes = tuple(replace(v, rule=rule, **changes) if v.state is decision.state else v for v in decision.classes)
    return replace(decision, classes=classes)


def test_green_says_how_much_of_the_budget_a_request_waits():
    assert state_because(made.green(), NOW) == "GREEN: a request waits 0 s of its 2 s"


def test_a_state_says_since_when():
    red = with_rule(made.red(), "breaching", since=29.0)
    assert state_because(red, NOW).startswith("RED for 10 s: a request waits ")


@pytest.mark.parametrize("rule", [condition.name.lower() for condition in Condition])
def test_every_row_of_the_table_has_its_sentence(rule):
    text = state_because(with_rule(made.red(), rule), NOW)
    assert text.startswith("RED")
    assert len(text) > len("RED for 10 s: ")


def test_a_state_that_just_stays_says_when_it_will_end():
    text = state_because(with_rule(made.yellow(), None), NOW)
    assert text.endswith("; GREEN once that is below 0.4 s, with all that is offered admitted, for 10 s")


def test_a_stall_is_called_one():
    red = with_rule(made.red(), None)
    wait = replace(red.estimate.queue_wait, by_stall_s=32.0)
    stuck = replace(red, estimate=replace(red.estimate, queue_wait=wait, waiting=5.0))
    assert state_because(stuck, NOW).endswith(
        "5 are there and no first token has come for 32 s: the engines look stuck"
    )


def test_a_decision_that_is_too_old_says_how_old():
    late = as_of(made.red(), made.red().observed_at + 100.0)
    assert (late.state, state_because(late, made.red().observed_at + 100.0)) == (
        Pressure.UNKNOWN,
        "UNKNOWN: the newest reading is 100 s old",
    )


def test_an_infinite_wait_for_the_next_replica_is_a_sentence_too():
    red = with_rule(made.red(), "breaching")
    assert "inf" in state_because(replace(red, estimate=replace(red.estimate, eta_s=math.inf)), NOW)
