"""Whether a floor by the hour of the day pays, and what it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.sim.bound import Load
from scaler.sim.fluid import Choice
from scaler.sim.forecast import HOUR_S, LEAST_DAYS, MOST_BLOCKS, Aim, Block, blocks, forecasts
from tests.sim.test_fluid import POOL

BIN_S = 120.0
SLOW = replace(POOL, ready_s=300.0)
AIM = Aim(0.999, 2)


def days(*each):
    """Days of which each hour has these rates."""
    return Load(tuple(round(rate * BIN_S) for day in each for rate in day for _ in range(int(HOUR_S / BIN_S))), BIN_S)


OFFICE = [5.0] * 9 + [50.0] * 9 + [5.0] * 6
QUIET = [5.0] * 24


def test_a_day_that_is_like_those_before_is_worth_a_floor_which_begins_at_the_right_hour():
    found = forecasts(days(*[OFFICE] * 4), SLOW, AIM)
    assert found.pays
    assert 0.05 < found.saves_ratio < 1
    assert found.blocks == (Block(9, 18, 7),)
    assert (found.learnt_days, found.scored_days) == (2.0, 2.0)


def test_a_floor_that_was_learnt_from_other_days_than_it_is_scored_on_does_not_pay():
    found = forecasts(days(OFFICE, OFFICE, QUIET, QUIET), SLOW, AIM)
    assert not found.pays
    assert found.saves_ratio < 0


def test_an_even_load_is_worth_none():
    assert not forecasts(days(*[QUIET] * 4), SLOW, AIM).pays


def test_too_few_days_are_not_judged():
    found = forecasts(days(*[OFFICE] * (LEAST_DAYS - 1)), SLOW, AIM)
    assert (found.seasonal, found.pays, found.learnt_days) == (None, False, 0.0)
    assert found.reactive.choice is not None


def test_where_nothing_attains_nothing_is_claimed():
    found = forecasts(days(*[OFFICE] * 3), replace(SLOW, max_replicas=2), AIM)
    assert found.reactive.choice is found.trend.choice is None
    assert (found.saves_ratio, found.pays) == (0.0, False)


def test_the_hours_are_those_of_the_clock_at_which_the_history_begins():
    office = days(*[OFFICE] * 3)
    assert blocks(office, SLOW, Aim(0.99, 0, 2 * HOUR_S), 1.0) == (Block(0, 11, 0), Block(11, 20, 7), Block(20, 24, 0))


def test_a_day_has_few_blocks_which_cover_it_and_never_ask_for_less_than_was_needed():
    ragged = [float(5 + 11 * (hour * 7 % 5)) for hour in range(24)]
    found, quietest = blocks(days(ragged), SLOW, AIM, 1.0), min(ragged)
    hourly = [block.replicas for block in found for _ in range(block.ends - block.begins)]
    assert len(found) <= MOST_BLOCKS
    assert len(hourly) == 24
    assert all(
        rate == quietest or replicas >= rate / SLOW.target_per_s for replicas, rate in zip(hourly, ragged, strict=True)
    )


def test_each_law_is_scored_with_what_it_needs():
    found = forecasts(days(*[OFFICE] * 4), SLOW, AIM)
    assert found.seasonal is not None
    assert found.seasonal.choice == Choice(1, 0)
    assert all(one.kept_ratio >= AIM.kept_ratio for one in (found.reactive, found.trend, found.seasonal))
    assert found.reactive.gpu_hours == pytest.approx(min(found.reactive.gpu_hours, found.trend.gpu_hours), rel=0.1)
