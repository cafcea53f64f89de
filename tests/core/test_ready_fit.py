"""From starts that were seen to a latency: the method's rules, and what a start under way may do."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.ready_fit import PRIOR_STARTS, Fit, fit
from scaler.core.ready_latency import ReadyLatency
from tests.support.law import near

PRIOR = ReadyLatency()
Z90 = 1.2815515655446004
SLACK = 1 - 1e-8
QUANTILES = tuple(percent / 100 for percent in range(1, 100))


def of(*took_s: float, prior: ReadyLatency = PRIOR) -> ReadyLatency:
    """What starts of equal weight say."""
    return fit(prior, [(seconds, 1.0) for seconds in took_s]).latency


def quantiles(latency: ReadyLatency) -> list[float]:
    return [latency.quantile(q) for q in QUANTILES]


def nowhere_lower(after: ReadyLatency, before: ReadyLatency) -> bool:
    return all(late >= early * SLACK for late, early in zip(quantiles(after), quantiles(before), strict=True))


# --- Starts under way ----------------------------------------------------------------------------------------------

SECONDS = st.floats(1.0, 2000.0)
HOT_OR_COLD = st.floats(2.0, 6.0) | st.floats(60.0, 120.0)
WEIGHTS = st.floats(0.01, 1.0)
ENDED = st.lists(st.tuples(SECONDS | HOT_OR_COLD, WEIGHTS), max_size=12)
AGES = st.lists(st.floats(0.0, 3000.0) | HOT_OR_COLD | st.just(5e-324), max_size=5)
PRIORS = st.builds(ReadyLatency, st.floats(5.0, 900.0), st.floats(0.05, 0.8))


@given(PRIORS, ENDED, AGES, st.floats(0.0, 3000.0))
def test_one_more_start_under_way_never_lowers_a_quantile(prior, ended, ages, age):
    fitted = fit(prior, ended)
    assert nowhere_lower(fitted.censored([*ages, age]), fitted.censored(ages))


@given(PRIORS, ENDED, AGES, st.floats(0.0, 3000.0), st.floats(0.0, 1000.0))
def test_a_start_under_way_that_ages_never_lowers_a_quantile(prior, ended, ages, age, later):
    fitted = fit(prior, ended)
    assert nowhere_lower(fitted.censored([*ages, age + later]), fitted.censored([*ages, age]))


@given(PRIORS, ENDED, AGES)
def test_starts_under_way_change_neither_the_spread_nor_when_a_start_is_stuck(prior, ended, ages):
    alone, beside = fit(prior, ended).latency, fit(prior, ended).censored(ages)
    assert (beside.sigma, beside.limit_s, beside.hot_p90_s) == (alone.sigma, alone.limit_s, alone.hot_p90_s)


@given(PRIORS, ENDED, st.floats(1.0, 100.0))
def test_a_start_under_way_counts_no_older_than_when_it_is_stuck(prior, ended, times):
    fitted = fit(prior, ended)
    limit = fitted.latency.limit_s
    assert fitted.censored([limit * times]) == fitted.censored([limit])


def test_without_a_start_it_is_the_prior_itself():
    assert fit(PRIOR, []) == Fit(PRIOR)
    assert fit(PRIOR, []).censored([]) is PRIOR


def test_a_start_that_has_only_begun_leaves_the_prior_as_it_is():
    assert fit(PRIOR, []).censored([0.0, 5.0, 20.0]) is PRIOR


def most_likely_rise(base: ReadyLatency, weight: float, ages: list[float]) -> float:
    """How much higher the logarithm of the median has the largest right-censored likelihood, by trying."""
    middle = math.log(base.p90_s) - Z90 * base.sigma

    def likelihood(rise: float) -> float:
        beyond = [math.erfc((math.log(age) - middle - rise) / base.sigma / math.sqrt(2)) / 2 for age in ages]
        return sum(math.log(share) for share in beyond) - weight * (rise / base.sigma) ** 2 / 2

    return max((step / 10000 for step in range(30000)), key=likelihood)


@pytest.mark.parametrize("ages", [[100.0], [200.0], [540.0], [60.0, 120.0, 130.0]], ids=str)
@pytest.mark.parametrize("ended", [[], [60.0], [150.0, 170.0, 140.0]], ids=str)
def test_starts_under_way_move_the_median_to_the_largest_censored_likelihood(ended, ages):
    fitted = fit(PRIOR, [(seconds, 1.0) for seconds in ended])
    base = fitted.latency
    expected = most_likely_rise(base, len(ended) + PRIOR_STARTS, [min(age, base.limit_s) for age in ages])
    assert math.log(fitted.censored(ages).p90_s / base.p90_s) == near(expected, abs=2e-4)


def test_a_narrow_prior_gives_way_to_what_has_outlived_it_by_far():
    assert fit(ReadyLatency(100.0, 0.01), []).censored([300.0]).quantile(0.1) > 240.0


# --- Hot and cold --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("took_s", "hot_ratio"),
    [
        pytest.param((4.0, 4.2, 85.0, 80.0, 90.0, 86.0), 2 / 6, id="hot-and-cold"),
        pytest.param((4.0, 85.0, 80.0, 90.0), 0.0, id="one-alone-is-no-kind"),
        pytest.param((4.0, 4.2, 4.1, 85.0), 0.0, id="nor-is-one-at-the-top"),
        pytest.param((30.0, 31.0, 85.0, 90.0), 0.0, id="a-gap-of-less-than-three-times"),
        pytest.param((28.0, 28.0, 85.0, 90.0), 0.5, id="a-gap-of-more-than-three-times"),
        pytest.param((2.0, 2.0, 8.0, 8.0, 90.0, 90.0), 4 / 6, id="at-the-largest-of-two-gaps"),
        pytest.param((60.0, 60.0, 60.0, 60.0), 0.0, id="all-alike"),
    ],
)
def test_hot_and_cold_starts_are_told_apart_at_the_largest_gap(took_s, hot_ratio):
    assert of(*took_s).hot_ratio == near(hot_ratio)


def test_four_seconds_hot_and_eighty_five_cold_are_two_latencies():
    latency = of(4.0, 85.0, 4.4, 80.0, 3.7, 90.0, 86.0)
    assert (latency.quantile(0.1), latency.quantile(0.9)) == (
        near(3.6, rel=0.15),
        near(100.0, rel=0.15),
    )
    assert (latency.remaining(0.5, 1.0) > 50.0, latency.remaining(0.1, 1.0) < 4.0) == (True, True)
    assert latency.remaining(0.1, 7.0) > 50.0


def test_the_prior_has_no_say_in_the_place_of_what_was_told_apart():
    low, high = (of(4.0, 4.0, 85.0, 85.0, prior=ReadyLatency(p90_s)) for p90_s in (10.0, 1000.0))
    assert low == high


@pytest.mark.parametrize(
    ("age", "hot_ratio"),
    [
        pytest.param(3.0, 0.5, id="may-be-hot-and-says-nothing"),
        pytest.param(8.0, 0.4, id="is-a-cold-one-more"),
    ],
)
def test_a_start_under_way_is_a_cold_one_once_it_has_outlived_the_hot_ones(age, hot_ratio):
    fitted = fit(PRIOR, [(4.0, 1.0), (4.0, 1.0), (85.0, 1.0), (85.0, 1.0)])
    assert fitted.censored([age]).hot_ratio == near(hot_ratio)


# --- Single accidents, old starts, absurd numbers ------------------------------------------------------------------


def far(*took_s: float) -> float:
    """Three times the 90th percentile of these."""
    return 3 * of(*took_s).p90_s


@pytest.mark.parametrize(
    ("took_s", "counts_as"),
    [
        pytest.param((60.0, 60.0, 60.0, 2000.0), (60.0, 60.0, 60.0, far(60.0, 60.0, 60.0)), id="once"),
        pytest.param((60.0, 60.0, 60.0, 150.0), (60.0, 60.0, 60.0, 150.0), id="not-so-far"),
        pytest.param((2000.0,), (540.0,), id="the-first-one-far-above-the-prior"),
        pytest.param((2000.0, 2100.0), (2000.0, 2100.0), id="twice-is-how-it-is"),
        pytest.param((4.0, 4.0, 85.0, 85.0, 3000.0), (4.0, 4.0, 85.0, 85.0, 3 * 85.0 * 1.534), id="of-its-own-kind"),
    ],
)
def test_one_start_far_above_all_others_counts_as_just_far(took_s, counts_as):
    assert of(*took_s).p90_s == near(of(*counts_as).p90_s, rel=0.03)


def test_two_far_above_the_others_are_a_kind_of_their_own():
    latency = of(60.0, 62.0, 58.0, 61.0, 900.0, 950.0)
    assert (latency.p90_s > 900.0, latency.hot_ratio) == (True, near(4 / 6))


@given(ENDED)
def test_the_order_of_starts_is_irrelevant(ended):
    assert fit(PRIOR, ended) == fit(PRIOR, ended[::-1])


ALIKE = st.floats(10.0, 29.0)


@given(
    st.lists(st.tuples(ALIKE | ALIKE.map(lambda took_s: 20 * took_s), WEIGHTS), min_size=1, max_size=12),
    st.floats(1.0, 5.0),
)
def test_a_world_that_is_slower_in_all_gives_a_latency_that_is_slower_by_as_much(ended, times):
    fast = fit(PRIOR, ended).latency
    slow = fit(replace(PRIOR, p90_s=PRIOR.p90_s * times), [(took_s * times, weight) for took_s, weight in ended])
    assert slow.latency.quantile(0.9) == near(fast.quantile(0.9) * times)


def test_starts_that_weigh_less_say_less():
    old_slow = fit(PRIOR, [(60.0, 1.0), (60.0, 1.0), (120.0, 0.1), (120.0, 0.1)]).latency
    old_fast = fit(PRIOR, [(60.0, 0.1), (60.0, 0.1), (120.0, 1.0), (120.0, 1.0)]).latency
    assert old_slow.p90_s < of(60.0, 60.0, 120.0, 120.0).p90_s < old_fast.p90_s


@pytest.mark.parametrize("weight", [1e-6, 1e-3])
def test_starts_that_weigh_next_to_nothing_leave_the_prior_as_good_as_it_was(weight):
    assert fit(PRIOR, [(60.0, weight)] * 5).latency.p90_s == near(PRIOR.p90_s, rel=0.05)


@pytest.mark.parametrize("weight", [0.0, 5e-324, 1e-200, 1e-10])
def test_starts_that_weigh_nothing_any_more_leave_the_prior_itself(weight):
    assert fit(PRIOR, [(60.0, weight)] * 2 + [(600.0, weight)] * 3) == fit(PRIOR, [])


@given(st.lists(st.tuples(st.floats(-1e9, 1e9), WEIGHTS), min_size=1, max_size=6), AGES)
def test_absurd_times_give_no_absurd_latency(ended, ages):
    latency = fit(PRIOR, ended).censored(ages)
    assert 0.1 < latency.quantile(0.5) <= latency.quantile(0.9) < 1e6


@pytest.mark.parametrize(
    ("prior", "p90_s"),
    [
        pytest.param(PRIOR, 3600.0, id="it-was-an-incident"),
        pytest.param(ReadyLatency(7200.0), 9000.0, id="unless-it-is-expected"),
    ],
)
def test_starts_of_more_than_an_hour_count_as_an_hour(prior, p90_s):
    assert of(*[9000.0] * 10, prior=prior).quantile(0.5) == near(p90_s, rel=0.1)


def test_starts_that_are_all_alike_are_never_taken_for_exact():
    assert of(*[60.0] * 40).sigma > 0.05


def test_a_latency_tells_how_many_starts_it_comes_from():
    assert (of(60.0, 70.0).origin, of(60.0, 70.0).samples) == ("measured", 2)
