"""Which changes of a decision are an Event, and what it says."""

from dataclasses import replace

import pytest

from scaler.cluster.happenings import Happening, before_of, happenings
from scaler.core.decision import Decision, Finding, Reason
from scaler.core.model import Pressure
from tests.support.decisions import blind, green, red

GREEN = green()
STUCK = Finding("stuck", "1 of 2 starting replicas may never be ready")
CAPPED = Finding("demand_above_max", "the offered load needs 12 replicas")


def between(before: Decision, after: Decision) -> list[tuple[str, bool]]:
    return [(one.reason, one.warning) for one in happenings(before_of(before), after)]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param(GREEN, [], id="nothing"),
        pytest.param(replace(GREEN, desired=GREEN.desired + 1), [("Scaled", False)], id="another number"),
        pytest.param(replace(GREEN, state=Pressure.RED), [("PressureRed", True)], id="red"),
        pytest.param(replace(GREEN, state=Pressure.YELLOW), [], id="yellow is no event"),
        pytest.param(replace(GREEN, reason=Reason.MAX_REPLICAS), [("Capped", True)], id="the maximum binds"),
        pytest.param(replace(GREEN, findings=(CAPPED,)), [("Capped", True)], id="the load needs more than the maximum"),
        pytest.param(replace(GREEN, blind=True), [("Blind", True)], id="blind"),
        pytest.param(replace(GREEN, findings=(STUCK,)), [("ReplicaStuck", True)], id="stuck"),
        pytest.param(
            replace(GREEN, findings=(Finding("infeasible_burst", "too fast"),)), [("Infeasible", True)], id="infeasible"
        ),
        pytest.param(
            replace(GREEN, findings=(Finding("mix_drift", "longer"),)), [("ProfileMismatch", True)], id="another mix"
        ),
        pytest.param(replace(GREEN, findings=(Finding("configuration", "a warning"),)), [], id="no other finding"),
    ],
)
def test_what_has_begun(after, expected):
    assert between(GREEN, after) == expected


def test_what_goes_on_is_said_once():
    going_on = replace(red(), findings=(STUCK, CAPPED), blind=True)
    assert between(going_on, going_on) == []


def test_leaving_red_is_said_and_is_no_warning():
    assert between(replace(GREEN, state=Pressure.RED), GREEN) == [("PressureEased", False)]


def test_the_first_decision_scales_nothing_and_says_what_it_found():
    first = replace(GREEN, desired=7, findings=(STUCK,))
    assert list(happenings(None, first)) == [Happening("ReplicaStuck", STUCK.text)]


def test_a_change_says_from_where_to_where_and_why():
    after = replace(GREEN, desired=9)
    [one] = happenings(before_of(GREEN), after)
    assert one.text.startswith(f"from {GREEN.desired} to 9 replicas: ")


def test_blindness_says_since_when():
    [one] = [one for one in happenings(before_of(GREEN), blind()) if one.reason == "Blind"]
    assert "no fresh reading for" in one.text
