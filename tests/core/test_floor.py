"""Break glass: nothing falls below what a person has set, until it is over."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scaler.core.decision import Reason, ShapeInputs
from scaler.core.explain import explain
from scaler.core.model import Floor
from scaler.core.plain import plain, restore
from scaler.core.stabilize import StabilizeSpec, shape
from scaler.core.target import ScalingSpec
from tests.support.law import Engine, Law, workload

SPEC = workload(stabilize=StabilizeSpec(downscale_delay_s=20.0), scaling=ScalingSpec(max_replicas=10))
SIX = Floor(6, 30.0, "18:00Z")


def told(floor: Floor, until_s: float) -> list:
    """What is published on each tick of two lightly loaded replicas."""
    law = Law(SPEC)
    law.steady(until_s + SPEC.tick_s, Engine("a", running=10), Engine("b", running=10), rate_per_s=1.0, floor=floor)
    return law.decisions


def test_a_floor_counts_at_once_and_names_itself_and_its_end():
    decision = told(SIX, 0.0)[-1]
    because = explain(decision, 0.0).binding

    assert (decision.desired, decision.reason, decision.replicas.floor) == (6, Reason.FLOOR, SIX)
    assert because.text == "6 replicas: the load asks for 1, and a person has set a floor until 18:00Z"


def test_it_is_the_reason_for_as_long_as_it_stands_and_the_window_after_it():
    reasons = {decision.decided_at: (decision.desired, decision.reason) for decision in told(SIX, 60.0)}

    assert [reasons[at] for at in (10.0, 28.0, 30.0, 46.0, 60.0)] == [
        (6, Reason.FLOOR),
        (6, Reason.FLOOR),
        (6, Reason.DOWNSCALE_WINDOW),
        (6, Reason.DOWNSCALE_WINDOW),
        (1, Reason.MIN_REPLICAS),
    ]


def test_one_that_is_set_while_nothing_can_be_read_counts_all_the_same():
    law = Law(SPEC)
    engine = Engine("a", running=10)
    law.see(engine)
    engine.silent = True
    law.steady(40.0, engine)
    decision = law.see(engine, floor=Floor(6, 100.0, "18:00Z"))

    assert (decision.blind, decision.desired, decision.reason) == (True, 6, Reason.FLOOR)


def test_the_maximum_bounds_it():
    decision = told(Floor(60, 30.0, "18:00Z"), 0.0)[-1]

    assert (decision.desired, decision.reason) == (10, Reason.MAX_REPLICAS)


def test_one_that_is_over_is_none():
    decision = told(Floor(6, 0.0, "18:00Z"), 0.0)[-1]

    assert (decision.desired, decision.reason) == (2, Reason.START)


INPUTS = st.builds(
    ShapeInputs,
    **{
        name: st.integers(0, 20)
        for name in ("recommended", "current", "min_replicas", "start_floor", "window_max", "window_min")
    },
    published=st.none() | st.integers(0, 20),
    max_replicas=st.integers(1, 20),
    idle=st.booleans(),
    red=st.booleans(),
    pressed=st.booleans(),
    blind=st.booleans(),
    floor=st.integers(0, 20),
)


@given(INPUTS)
def test_nothing_published_is_ever_below_a_floor_within_the_maximum(inputs: ShapeInputs):
    assert shape(inputs).replicas >= min(inputs.floor, inputs.max_replicas)


@given(INPUTS)
def test_a_floor_never_lowers_what_would_be_published_without_it(inputs: ShapeInputs):
    assert shape(inputs).replicas >= shape(replace(inputs, floor=0)).replicas


def test_a_log_line_from_before_there_were_floors_still_gives_its_number():
    written = plain(told(SIX, 0.0)[-1].shaped.inputs)
    assert isinstance(written, dict)
    del written["floor"]

    assert restore(ShapeInputs, written).floor == 0
