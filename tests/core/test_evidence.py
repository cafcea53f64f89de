"""Bounds of a quantile and rising curves."""

from __future__ import annotations

import itertools
import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.evidence import Ordered, bound_rank, least_samples, rising

SHARES = st.sampled_from([0.5, 0.9, 0.95, 0.99])
SAMPLES = st.lists(st.floats(0.001, 1e4), min_size=1, max_size=400)


@pytest.mark.parametrize(
    ("share", "ranks"),
    [
        (0.90, {29: 29, 100: 96, 200: 188, 500: 462, 1000: 916}),
        (0.95, {58: None, 59: 59, 100: 99, 200: 196, 500: 484, 1000: 962}),
        (0.99, {298: None, 299: 299, 500: 499, 1000: 996}),
    ],
)
def test_the_rank_that_bounds_a_quantile_is_the_binomial_one(share, ranks):
    assert {n: bound_rank(n, share) for n in ranks} == ranks


@pytest.mark.parametrize(("share", "least"), [(0.9, 29), (0.95, 59), (0.99, 299)])
def test_the_fewest_samples_that_bound_a_quantile(share, least):
    assert least_samples(share) == least


@given(st.integers(1, 3000), SHARES)
def test_there_is_a_bound_exactly_from_the_fewest_samples_on(n, share):
    assert (bound_rank(n, share) is not None) == (n >= least_samples(share))


@given(st.integers(1, 1500), SHARES)
def test_the_rank_agrees_with_the_binomial_sum_in_exact_arithmetic(n, share):
    rank = bound_rank(n, share)
    numerator, denominator = round(share * 100), 100
    below = 0
    for k in range(n + 1):  # P(Bin(n, q) <= r - 1) >= 0.95, in integers
        if 20 * below >= 19 * denominator**n:
            assert rank == k
            return
        below += math.comb(n, k) * numerator**k * (denominator - numerator) ** (n - k)
    assert rank is None


def test_the_bound_holds_in_nineteen_of_twenty_tests():
    random, held, tests = Random(1), 0, 2000
    truth = -math.log(1 - 0.95)
    for _ in range(tests):
        bound = Ordered.of_samples(random.expovariate(1.0) for _ in range(100)).bound(0.95)
        held += bound is not None and bound >= truth
    assert 0.94 < held / tests < 0.98  # 0.963 for 100 samples: ranks are whole numbers


@given(SAMPLES, SHARES)
def test_a_bound_is_never_below_the_estimate(samples, share):
    ordered = Ordered.of_samples(samples)
    bound, estimate = ordered.bound(share), ordered.estimate(share)
    assert bound is None or (estimate is not None and bound >= estimate)


@given(SAMPLES, SHARES, st.lists(st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999, 1.0]), unique=True))
def test_a_summary_never_bounds_lower_than_the_samples_it_sums_up(samples, share, told):
    ascending = sorted(samples)
    summary = Ordered.of_summary(len(samples), {q: _interpolated(ascending, q) for q in told})
    bound, sharpest = summary.bound(share), Ordered.of_samples(samples).bound(share)
    assert bound is None or (sharpest is not None and bound >= sharpest)


@given(SAMPLES, SAMPLES, SHARES)
def test_two_runs_together_know_what_all_their_samples_know(first, second, share):
    together = Ordered.together([Ordered.of_samples(first), Ordered.of_samples(second)])
    assert together.bound(share) == Ordered.of_samples(first + second).bound(share)


def test_summaries_of_several_runs_bound_what_none_of_them_could():
    run = Ordered.of_summary(40, {0.5: 1.0, 0.95: 2.0, 1.0: 3.0})
    assert (run.bound(0.95), Ordered.together([run, run]).bound(0.95)) == (None, 3.0)


def test_the_p99_of_a_hundred_bounds_their_p95_and_their_p95_does_not():
    assert Ordered.of_summary(100, {0.95: 1.0, 0.99: 2.0}).bound(0.95) == 2.0
    assert Ordered.of_summary(100, {0.95: 1.0}).bound(0.95) is None


def test_the_estimate_is_the_reported_quantile_or_the_next_one_above():
    ordered = Ordered.of_summary(1000, {0.5: 1.0, 0.99: 2.0})
    assert [ordered.estimate(share) for share in (0.5, 0.95, 0.999)] == [1.0, 2.0, None]


def test_of_nothing_nothing_is_known():
    assert (Ordered.of_summary(0, {0.5: 1.0}).estimate(0.5), Ordered.of_samples([]).bound(0.5)) == (None, None)


def test_a_curve_that_may_only_rise_pools_what_falls():
    assert rising([1.0, 3.0, 2.0, 4.0], [1.0, 1.0, 3.0, 1.0]) == (1.0, 2.25, 2.25, 4.0)


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(0.1, 10)), max_size=30))
def test_a_rising_curve_never_falls_and_keeps_the_weighted_mean(points):
    values, weights = [value for value, _ in points], [weight for _, weight in points]
    curve = rising(values, weights)
    assert all(low <= high for low, high in itertools.pairwise(curve))
    sums = [math.fsum(v * w for v, w in zip(side, weights, strict=True)) for side in (curve, values)]
    assert sums[0] == pytest.approx(sums[1], abs=1e-6)


@given(st.lists(st.floats(0, 1e3), max_size=30))
def test_a_curve_that_rises_is_left_alone(values):
    ascending = sorted(values)
    assert rising(ascending, [1.0] * len(values)) == tuple(ascending)


def _interpolated(ascending, share):
    place = share * (len(ascending) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (place - below) * (ascending[above] - ascending[below])
