"""What nobody could have done better."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.sim.bound import RATE_S, Fluid, Load, fixed, load, reactive, surges, warm_needed

NOISE = 1e-9
FLEETS = st.builds(
    lambda rate, holds, budget, initial, more: Fluid(rate, holds, budget, initial, initial + more),
    st.floats(0.5, 20.0),
    st.floats(0.0, 200.0),
    st.floats(0.0, 10.0),
    st.integers(0, 4),
    st.integers(1, 8),
)
LOADS = st.builds(Load, st.lists(st.integers(0, 120), min_size=1, max_size=60).map(tuple), st.sampled_from([1.0, 2.5]))
STEP = Load((20,) * 100 + (60,) * 300)
FLEET = Fluid(rate_per_s=10.0, holds=0.0, budget_s=2.0, initial=2, most=8)


def test_a_step_loses_what_the_textbook_says_give_or_take_half_the_window_of_its_rate():
    def textbook(dead_s: float) -> float:
        return 1 - ((60 - 20) * dead_s - 2.0 * 20) / STEP.total

    bound = reactive(STEP, FLEET, 50.0)
    assert textbook(50.0) <= bound.ratio <= textbook(50.0 - RATE_S / 2)
    assert (bound.replicas[130], bound.replicas[-1]) == (2, 6)


@given(LOADS, FLEETS, st.floats(0.0, 80.0), st.integers(0, 3))
def test_a_bound_is_never_above_1_and_never_below_a_fleet_that_stays_as_it_is(offered, fleet, dead_s, warm):
    ratio = reactive(offered, fleet, dead_s, warm).ratio
    assert fixed(offered, fleet, fleet.initial).ratio - NOISE <= ratio <= 1.0


@given(LOADS, FLEETS, st.floats(0.0, 80.0), st.floats(0.0, 80.0))
def test_who_reacts_sooner_never_attains_less(offered, fleet, one, other):
    sooner, later = sorted((one, other))
    assert reactive(offered, fleet, sooner).ratio >= reactive(offered, fleet, later).ratio - NOISE


@given(LOADS, FLEETS, st.floats(0.0, 80.0), st.integers(1, 4))
def test_a_larger_maximum_and_warm_replicas_never_attain_less(offered, fleet, dead_s, more):
    ratio = reactive(offered, fleet, dead_s).ratio
    assert reactive(offered, replace(fleet, most=fleet.most + more), dead_s).ratio >= ratio - NOISE
    assert reactive(offered, fleet, dead_s, more).ratio >= ratio - NOISE


@given(LOADS, FLEETS, st.floats(0.0, 80.0), st.floats(0.0, 50.0), st.floats(0.0, 30.0))
def test_who_may_wait_longer_or_finds_more_room_is_never_served_less(offered, fleet, dead_s, room, patience_s):
    ratio = reactive(offered, fleet, dead_s).ratio
    assert reactive(offered, replace(fleet, holds=fleet.holds + room), dead_s).ratio >= ratio - NOISE
    assert reactive(offered, replace(fleet, budget_s=fleet.budget_s + patience_s), dead_s).ratio >= ratio - NOISE


@pytest.mark.parametrize("wanted", [0.95, 0.99])
def test_warm_replicas_are_priced_by_the_fewest_that_do(wanted):
    warm = warm_needed(STEP, FLEET, 50.0, wanted)
    assert warm is not None
    assert reactive(STEP, FLEET, 50.0, warm - 1).ratio < wanted <= reactive(STEP, FLEET, 50.0, warm).ratio


def test_no_warm_replicas_do_where_the_maximum_does_not():
    assert warm_needed(Load((500,) * 20), FLEET, 50.0, 0.99) is None


def test_a_surge_is_a_stretch_beyond_what_could_be_ready():
    (surge,) = surges(STEP, FLEET, reactive(STEP, FLEET, 50.0))
    assert surge.begins_at == pytest.approx(100.0, abs=15.0)
    assert surge.seconds == pytest.approx(50.0, abs=30.0)
    assert surges(Load((10,) * 50), FLEET, reactive(Load((10,) * 50), FLEET, 50.0)) == []


def test_requests_are_counted_by_the_second_and_a_long_trace_more_coarsely():
    assert load([0.0, 0.9, 2.0, 3.0], 3.0) == Load((2, 0, 2))
    assert load([0.0], 100_000.0).bin_s == 5.0
