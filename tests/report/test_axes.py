"""Places on an axis, and the round values beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.report.axes import MOST_ROUND, LinearAxis, LogAxis, around

VALUES = st.floats(1e-6, 1e6)


def test_doubling_is_the_same_way_everywhere_on_a_logarithmic_axis():
    axis = LogAxis(1.0, 16.0, 0.0, 400.0)
    assert [axis.at(value) for value in (1, 2, 4, 8, 16)] == pytest.approx([0, 100, 200, 300, 400])


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.04, 6.0, (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)),
        (0.06, 0.9, (0.1, 0.2, 0.5)),
        (0.001, 900.0, (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)),
    ],
)
def test_round_values_of_a_logarithmic_axis(low, high, ticks):
    found = LogAxis(low, high, 0.0, 1.0).ticks
    assert found == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("high", "ticks"),
    [(17.0, (0, 5, 10, 15)), (1.0, (0, 0.2, 0.4, 0.6, 0.8, 1.0)), (0.03, (0, 0.01, 0.02, 0.03))],
)
def test_round_values_of_a_linear_axis(high, ticks):
    assert LinearAxis(high, 0.0, 1.0).ticks == pytest.approx(ticks)


@given(st.lists(VALUES, min_size=1, max_size=9), st.floats(1.1, 2.0))
def test_every_value_has_a_place_within_the_axis(values, room):
    axis = LogAxis(*around(values, room), 10.0, 20.0)
    assert all(10.0 < axis.at(value) < 20.0 for value in values)


@given(st.floats(1e-6, 1e6))
def test_a_linear_axis_always_has_some_ticks_and_never_too_many(high):
    ticks = LinearAxis(high, 0.0, 1.0).ticks
    assert 2 <= len(ticks) <= MOST_ROUND + 1
    assert max(ticks) <= high * (1 + 1e-6)
