"""How much of a start is left, against a lognormal that is integrated by brute force."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.ready_latency import ReadyLatency, next_ready_s

FEW = settings(max_examples=settings().max_examples // 4)
LATENCIES = st.builds(ReadyLatency, st.floats(5.0, 900.0), st.floats(0.1, 1.0))
QUANTILES = st.sampled_from([0.1, 0.5, 0.9, 0.99])


def numeric_remaining(latency: ReadyLatency, q: float, age_s: float) -> float:
    """The quantile of what is left, from a density summed over a fine grid."""
    median, steps = latency.quantile(0.5), 40000
    lowest = math.log(age_s / median) / latency.sigma if age_s > 0 else -9.0
    lowest = max(lowest, -9.0)
    width = (lowest + 12.0 - lowest) / steps
    masses = [math.exp(-((lowest + (i + 0.5) * width) ** 2) / 2) for i in range(steps)]
    wanted, seen = q * sum(masses), 0.0
    for i, mass in enumerate(masses):
        seen += mass
        if seen >= wanted:
            return median * math.exp(latency.sigma * (lowest + (i + 1) * width)) - age_s
    raise AssertionError


@pytest.mark.parametrize("q", [0.5, 0.9])
@pytest.mark.parametrize("age_s", [0.0, 10.0, 90.0, 180.0, 400.0])
@pytest.mark.parametrize("latency", [ReadyLatency(), ReadyLatency(60.0, 0.6), ReadyLatency(200.0, 0.1)], ids=str)
def test_what_is_left_of_a_start_is_a_lognormal_given_its_age(latency, q, age_s):
    if latency.stuck(age_s):
        assert latency.remaining(q, age_s) == math.inf
    else:
        assert latency.remaining(q, age_s) == pytest.approx(numeric_remaining(latency, q, age_s), rel=0.01, abs=0.05)


@FEW
@given(LATENCIES, QUANTILES)
def test_a_start_that_has_just_begun_takes_the_whole_latency(latency, q):
    assert latency.remaining(q, 0.0) == latency.remaining(q, -1.0) == latency.quantile(q)


@FEW
@given(LATENCIES, QUANTILES, st.floats(0.0, 3000.0))
def test_what_is_left_is_never_negative_and_infinite_only_when_stuck(latency, q, age_s):
    left = latency.remaining(q, age_s)
    assert (left >= 0, math.isinf(left)) == (True, latency.stuck(age_s))


@FEW
@given(st.floats(5.0, 900.0))
def test_a_start_that_has_outlived_a_narrow_distribution_may_be_ready_at_any_moment(p90_s):
    assert 0 <= ReadyLatency(p90_s, 0.01).remaining(0.9, 2 * p90_s) < 0.05 * p90_s


def test_the_ninetieth_percentile_is_the_configured_one():
    assert ReadyLatency(120.0, 0.4).quantile(0.9) == pytest.approx(120.0)


def test_a_start_three_times_as_old_as_the_ninetieth_percentile_is_stuck():
    assert [ReadyLatency(100.0).stuck(age) for age in (300.0, 300.1)] == [False, True]


def test_the_defaults_of_the_ready_latency():
    assert ReadyLatency() == ReadyLatency(180.0, 0.25, "prior")


PLAIN = ReadyLatency(100.0, 0.25)


@pytest.mark.parametrize(
    ("ages", "may_add", "expected"),
    [
        pytest.param((), True, PLAIN.quantile(0.9), id="none-starting-but-one-may-be-added"),
        pytest.param((), False, math.inf, id="none-starting-and-none-may-be-added"),
        pytest.param((50.0, 20.0), True, PLAIN.remaining(0.9, 50.0), id="the-soonest-of-those-starting"),
        pytest.param((301.0, 20.0), False, PLAIN.remaining(0.9, 20.0), id="the-stuck-one-does-not-count"),
        pytest.param((301.0,), True, PLAIN.quantile(0.9), id="only-a-stuck-one-but-one-may-be-added"),
        pytest.param((301.0,), False, math.inf, id="only-a-stuck-one-and-none-may-be-added"),
    ],
)
def test_the_next_replica_is_the_soonest_that_is_starting_else_one_that_may_be_added_else_none(ages, may_add, expected):
    assert next_ready_s(PLAIN, 0.9, ages, may_add=may_add) == expected
