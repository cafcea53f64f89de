"""Our law as a fluid: bounds, late starts, and what a gate changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.sim.bound import Load
from scaler.sim.fluid import Choice, Pool, Sight, flow, without

POOL = Pool(
    ceiling_per_s=10.0,
    holds=20.0,
    safe_rate_per_s=9.0,
    safe_concurrency=15.0,
    headroom_ratio=0.1,
    budget_s=2.0,
    ready_s=60.0,
    down_s=300.0,
    drain_deadline_s=120.0,
    max_replicas=8,
    gpus=4,
    sheds=True,
)
NOISE = 1e-6
LOADS = st.builds(Load, st.lists(st.integers(0, 150), min_size=1, max_size=80).map(tuple), st.sampled_from([1.0, 5.0]))
POOLS = st.builds(lambda sheds, sight, most: replace(POOL, sheds=sheds, sight=sight, max_replicas=most),
                  st.booleans(), st.sampled_from(Sight), st.integers(1, 8))  # fmt: skip
CHOICES = st.builds(Choice, st.integers(1, 8), st.integers(0, 3))
STEP = Load((8,) * 600 + (56,) * 900)


@given(LOADS, POOLS, CHOICES)
def test_no_more_is_lost_than_comes_and_the_replicas_stay_within_the_bounds(offered, of, choice):
    went = flow(offered, of, choice)
    assert all(
        -NOISE <= lost <= count + NOISE or not of.sheds for lost, count in zip(went.lost, offered.counts, strict=True)
    )
    assert -NOISE <= went.ratio <= 1
    assert min(choice.min_replicas, of.max_replicas) <= min(went.replicas) <= max(went.replicas) <= of.max_replicas


@given(LOADS, POOLS, CHOICES)
def test_the_maximum_ready_all_the_time_never_attains_less(offered, of, choice):
    assert flow(offered, of, Choice(of.max_replicas)).ratio >= flow(offered, of, choice).ratio - NOISE


@given(LOADS, POOLS, st.integers(0, 80))
def test_the_bill_is_that_of_its_parts(offered, of, cut):
    went = flow(offered, of, Choice(1))
    ends = len(went.replicas)
    cut = min(cut, ends)
    assert went.within(0, cut) + went.within(cut, ends) == pytest.approx(went.gpu_hours)


def test_a_step_is_lost_until_the_replicas_for_it_are_ready():
    went = flow(STEP, POOL, Choice(1))
    late = [index for index, lost in enumerate(went.lost) if lost > 1]
    assert (late[0], went.replicas[-1]) == (600, 7)
    assert (
        660 < late[-1] < 600 + 60 + 8.5 + 30
    )  # a start, how long it takes to see the load, and until a rate has risen
    assert (56 - 10) * 60 < sum(went.lost) < (56 - 10) * 90


def test_without_a_gate_those_behind_the_queue_are_late_too():
    assert flow(STEP, replace(POOL, sheds=False), Choice(1)).ratio < flow(STEP, POOL, Choice(1)).ratio - 0.01


def test_a_floor_is_there_before_the_load_is():
    floor = [0] * 500 + [7] * 1000
    went = flow(STEP, POOL, Choice(1), floor)
    assert (went.ratio, went.replicas[499], went.replicas[501]) == (1.0, 1, 7)


def test_only_the_trend_sees_a_rise_coming():
    ramp = Load(tuple(8 + index // 10 for index in range(480)))
    slow = replace(POOL, ready_s=120.0)
    assert flow(ramp, slow, Choice(1)).ratio > flow(ramp, without(slow, Sight.REACTIVE), Choice(1)).ratio


def test_an_idle_fleet_is_its_minimum_and_its_warm_replicas_are_above_what_is_needed():
    assert flow(Load((0,) * 10), POOL, Choice(2)).replicas == (2,) * 10
    assert flow(Load((8,) * 10), POOL, Choice(1, 2)).replicas == (3,) * 10
