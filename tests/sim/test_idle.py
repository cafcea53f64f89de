"""Scale to zero on a history: how often, whom it would keep waiting, and what it would save."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scaler.sim.bound import Load
from scaler.sim.idle import Zero, zero
from tests.sim.test_fluid import POOL


def test_a_gap_longer_than_the_idle_time_saves_the_rest_of_it_and_those_who_come_during_the_start_meet_none():
    offered = Load((1,) + (0,) * 1000 + (2, 1) + (0,) * 57 + (5,) + (0,) * 100)
    assert zero(offered, POOL, 600.0) == Zero(
        idle_s=600.0,
        ready_s=60.0,
        budget_s=2.0,
        times=1,
        met=8,
        offered=9,
        gpu_hours=400 * 4 / 3600,
        days=1161 / 86400,
    )


def test_it_contradicts_the_objective_unless_a_start_is_quicker_than_a_request_may_wait():
    assert zero(Load((1,)), POOL, 600.0).contradicts
    assert not zero(Load((1,)), replace(POOL, ready_s=1.5), 600.0).contradicts


@given(st.lists(st.integers(0, 3), min_size=1, max_size=200), st.floats(1.0, 50.0))
def test_never_more_meet_none_than_come_and_never_more_is_saved_than_there_was(counts, idle_s):
    offered = Load(tuple(counts), 5.0)
    found = zero(offered, replace(POOL, ready_s=5.0), idle_s)
    assert 0 <= found.met <= found.offered == sum(counts)
    assert 0 <= found.gpu_hours <= offered.seconds * POOL.gpus / 3600
