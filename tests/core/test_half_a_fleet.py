"""Half a fleet that cannot be reached, and comes back: the number never falls, no colour changes and no gate moves by a step."""

import pytest

from scaler.core.model import Pressure
from tests.support.law import Engine, Law, workload

STEP_RATIO = 0.2


def told(running: float, waiting: float, silent_s: float):
    """What is decided before half of the fleet falls silent, and from then on until it is back for two minutes."""
    law, fleet = Law(workload()), [Engine(f"r{n}", running=running, waiting=waiting) for n in range(6)]
    before = law.steady(200.0, *fleet, rate_per_s=6.0)
    asked = len(law.decisions)
    for engine in fleet[3:]:
        engine.silent = True
    law.steady(silent_s, *fleet, rate_per_s=6.0)
    for engine in fleet[3:]:
        engine.silent = False
    law.steady(120.0, *fleet, rate_per_s=6.0)
    return before, law.decisions[asked:]


LOADS = pytest.mark.parametrize(
    ("running", "waiting", "state"),
    [(70.0, 0.0, Pressure.GREEN), (5.0, 0.0, Pressure.GREEN), (100.0, 60.0, Pressure.RED)],
    ids=["busy", "calm", "overloaded"],
)
SILENCES = pytest.mark.parametrize("silent_s", [4.0, 12.0, 300.0])


@pytest.mark.fault("half the fleet is unreachable")
@LOADS
@SILENCES
def test_half_a_fleet_that_is_silent_for_a_while_lowers_no_number_and_changes_no_colour(
    running, waiting, state, silent_s
):
    before, seen = told(running, waiting, silent_s)
    assert {decision.desired for decision in seen} == {before.desired}
    assert {(decision.state, decision.blind) for decision in seen} == {(state, False)}


@pytest.mark.fault("half the fleet is unreachable")
@SILENCES
def test_half_a_fleet_that_falls_silent_in_an_overload_opens_the_gate_by_no_step(silent_s):
    before, seen = told(100.0, 60.0, silent_s)
    shares = [decision.classes[0].admit_ratio for decision in seen]
    assert max(shares) - before.classes[0].admit_ratio < STEP_RATIO
