"""How much of a start is left, against distributions that are integrated by brute force."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.ready_latency import ReadyLatency, UnderWay, next_ready_s
from tests.support.law import near

FEW = settings(max_examples=settings().max_examples // 4)
LATENCIES = st.builds(ReadyLatency, st.floats(5.0, 900.0), st.floats(0.1, 1.0))
MIXTURES = st.builds(
    lambda cold_s, times, sigma, ratio: ReadyLatency(cold_s, sigma, "measured", ratio, cold_s / times),
    st.floats(5.0, 900.0),
    st.floats(1.0, 100.0),
    st.floats(0.005, 0.6),
    st.floats(0.01, 0.99),
)
QUANTILES = st.sampled_from([0.1, 0.5, 0.9, 0.99])


Z90 = 1.2815515655446004
"""The 90th percentile of the standard normal."""


def parts(latency: ReadyLatency) -> list[tuple[float, float]]:
    """Share and logarithm of the median of each lognormal in it."""
    both = [(latency.hot_ratio, latency.hot_p90_s), (1 - latency.hot_ratio, latency.p90_s)]
    return [(ratio, math.log(p90_s) - Z90 * latency.sigma) for ratio, p90_s in both if ratio]


def share_within(latency: ReadyLatency, seconds: float) -> float:
    """The share of the starts that takes no longer, by the error function alone."""
    scale = latency.sigma * math.sqrt(2)
    return sum(ratio * (1 + math.erf((math.log(seconds) - middle) / scale)) / 2 for ratio, middle in parts(latency))


def numeric_remaining(latency: ReadyLatency, q: float, age_s: float) -> float:
    """The quantile of what is left, from a density summed over a fine grid of the logarithm."""
    lowest, steps = math.log(max(age_s, 0.1)), 10000
    width = (max(lowest, math.log(latency.p90_s)) + 6 * latency.sigma - lowest) / steps
    at = [lowest + (step + 0.5) * width for step in range(steps)]
    masses = [
        sum(ratio * math.exp(-(((log - middle) / latency.sigma) ** 2) / 2) for ratio, middle in parts(latency))
        for log in at
    ]
    wanted = q * sum(masses)
    seen = itertools.accumulate(masses)
    return next(math.exp(log + width / 2) for log, mass in zip(at, seen, strict=True) if mass >= wanted) - age_s


HOT_AND_COLD = ReadyLatency(110.0, 0.25, "measured", 0.4, 5.5)


@pytest.mark.parametrize("q", [0.5, 0.9])
@pytest.mark.parametrize("age_s", [0.0, 10.0, 90.0, 180.0, 400.0])
@pytest.mark.parametrize("latency", [ReadyLatency(), ReadyLatency(60.0, 0.6), ReadyLatency(200.0, 0.1)], ids=str)
def test_what_is_left_of_a_start_is_a_lognormal_given_its_age(latency, q, age_s):
    if latency.stuck(age_s):
        assert latency.remaining(q, age_s) == math.inf
    else:
        assert latency.remaining(q, age_s) == near(numeric_remaining(latency, q, age_s), rel=0.01, abs=0.05)


@pytest.mark.parametrize("q", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("age_s", [0.0, 2.0, 4.0, 5.5])
def test_what_is_left_of_a_start_that_may_be_hot_or_cold_is_a_mixture_given_its_age(q, age_s):
    expected = numeric_remaining(HOT_AND_COLD, q, age_s)
    assert HOT_AND_COLD.remaining(q, age_s) == near(expected, rel=0.01, abs=0.01)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_a_start_that_has_outlived_nearly_all_hot_ones_is_a_cold_one(q):
    age_s = HOT_AND_COLD.hot_until_s + 0.1
    assert HOT_AND_COLD.remaining(q, age_s) == ReadyLatency(110.0, 0.25).remaining(q, age_s)


def test_nearly_all_hot_ones_are_nineteen_of_twenty():
    hot = ReadyLatency(5.5, 0.25)
    assert (HOT_AND_COLD.hot_until_s, ReadyLatency().hot_until_s) == (near(hot.quantile(0.95)), 0.0)


@given(MIXTURES, st.floats(0.01, 0.99))
def test_the_quantile_of_a_mixture_is_exact(latency, q):
    found = latency.quantile(q)
    assert share_within(latency, found * (1 - 1e-6)) - 1e-12 <= q <= share_within(latency, found * (1 + 1e-6)) + 1e-12


@given(MIXTURES, st.floats(0.01, 0.99))
def test_a_mixture_lies_between_its_parts(latency, q):
    hot, cold = ReadyLatency(latency.hot_p90_s, latency.sigma), ReadyLatency(latency.p90_s, latency.sigma)
    assert hot.quantile(q) * (1 - 1e-8) <= latency.quantile(q) <= cold.quantile(q) * (1 + 1e-8)


@FEW
@given(LATENCIES | MIXTURES, QUANTILES)
def test_a_start_that_has_just_begun_takes_the_whole_latency(latency, q):
    assert latency.remaining(q, 0.0) == latency.remaining(q, -1.0) == latency.quantile(q)


@FEW
@given(LATENCIES | MIXTURES, QUANTILES, st.floats(0.0, 3000.0))
def test_what_is_left_is_never_negative_and_infinite_only_when_stuck(latency, q, age_s):
    left = latency.remaining(q, age_s)
    assert (left >= 0, math.isinf(left)) == (True, latency.stuck(age_s))


@FEW
@given(st.floats(5.0, 900.0))
def test_a_start_that_has_outlived_a_narrow_distribution_may_be_ready_at_any_moment(p90_s):
    assert 0 <= ReadyLatency(p90_s, 0.01).remaining(0.9, 2 * p90_s) < 0.05 * p90_s


def test_the_ninetieth_percentile_is_the_configured_one():
    assert ReadyLatency(120.0, 0.4).quantile(0.9) == near(120.0)


@pytest.mark.parametrize(
    ("latency", "limit_s"),
    [
        pytest.param(ReadyLatency(100.0), 300.0, id="three-times-the-ninetieth-percentile"),
        pytest.param(HOT_AND_COLD, 330.0, id="of-the-cold-ones"),
        pytest.param(ReadyLatency(200.0, stuck_after_s=300.0), 300.0, id="or-what-it-was-before-others-were-late"),
    ],
)
def test_when_a_start_is_stuck(latency, limit_s):
    assert (latency.limit_s, latency.stuck(limit_s), latency.stuck(limit_s + 0.1)) == (limit_s, False, True)


def test_the_defaults_of_the_ready_latency():
    assert ReadyLatency() == ReadyLatency(180.0, 0.25, "prior", 0.0, 0.0, 0, None)


PLAIN, SLOW = ReadyLatency(100.0, 0.25), ReadyLatency(900.0, 0.25)


@pytest.mark.parametrize(
    ("under_way", "may_add", "expected"),
    [
        pytest.param([], True, PLAIN.quantile(0.9), id="none-starting-but-one-may-be-added"),
        pytest.param([], False, math.inf, id="none-starting-and-none-may-be-added"),
        pytest.param([(50.0, PLAIN), (20.0, PLAIN)], True, PLAIN.remaining(0.9, 50.0), id="the-soonest-of-those"),
        pytest.param([(50.0, SLOW), (20.0, PLAIN)], True, PLAIN.remaining(0.9, 20.0), id="each-by-its-own-latency"),
        pytest.param([(301.0, PLAIN), (20.0, PLAIN)], False, PLAIN.remaining(0.9, 20.0), id="not-the-stuck-one"),
        pytest.param([(301.0, PLAIN)], True, PLAIN.quantile(0.9), id="only-a-stuck-one-but-one-may-be-added"),
        pytest.param([(301.0, PLAIN)], False, math.inf, id="only-a-stuck-one-and-none-may-be-added"),
    ],
)
def test_the_next_replica_is_the_soonest_that_is_starting_else_one_that_may_be_added_else_none(
    under_way, may_add, expected
):
    starts = [UnderWay("a", age_s, latency) for age_s, latency in under_way]
    assert next_ready_s(PLAIN, 0.9, starts, may_add=may_add) == expected


@pytest.mark.parametrize(
    ("start", "stuck"),
    [
        pytest.param(UnderWay("a", 20.0, PLAIN), False, id="young"),
        pytest.param(UnderWay("a", 301.0, PLAIN), True, id="old"),
        pytest.param(UnderWay("a", 20.0, PLAIN, "ImagePullBackOff"), True, id="by-the-word-of-its-platform"),
    ],
)
def test_a_start_is_stuck_by_its_age_or_by_the_word_of_its_platform(start, stuck):
    assert (start.stuck, math.isinf(next_ready_s(PLAIN, 0.9, [start], may_add=False))) == (stuck, stuck)
