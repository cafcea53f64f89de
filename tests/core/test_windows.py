"""Windows against naive models that keep every sample in a list."""

import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.model import Absent, Histogram
from scaler.core.windows import (
    Extremes,
    HistogramSeries,
    Quantile,
    Series,
    Slope,
    quantile_value,
    read_quantile,
    summed,
)
from tests.support.law import histogram, near

FEW = settings(max_examples=settings().max_examples // 4)
GAPS = st.integers(1, 40).map(lambda quarters: quarters / 4)
VALUES = st.integers(-1000, 1000).map(float)
SAMPLES = st.lists(st.tuples(GAPS, VALUES), min_size=1, max_size=40)
SPANS = st.integers(1, 60).map(float)


def timed(samples):
    """(instant, value) pairs from (gap, value) pairs."""
    at, pairs = 0.0, []
    for gap, value in samples:
        at += gap
        pairs.append((at, value))
    return pairs


def series_of(span_s, pairs):
    series = Series(span_s)
    for at, value in pairs:
        series = series.add(at, value)
    return series


@FEW
@given(SAMPLES, SPANS, SPANS)
def test_mean_and_lowest_are_those_of_the_samples_within_the_window(samples, span_s, window_s):
    pairs = timed(samples)
    window_s = min(window_s, span_s)
    series = series_of(span_s, pairs)
    recent = [value for at, value in pairs if at >= pairs[-1][0] - window_s]
    assert (series.mean(window_s), series.lowest(window_s)) == (near(sum(recent) / len(recent)), min(recent))
    assert series.mean(window_s, pairs[-1][0]) == pairs[-1][1]


@FEW
@given(SAMPLES, SPANS, SPANS)
def test_a_rate_is_the_rise_since_the_newest_sample_before_the_window_over_its_time(samples, span_s, window_s):
    pairs = timed(samples)
    window_s = min(window_s, span_s)
    ends = [pair for pair in pairs if pair[0] <= pairs[-1][0] - window_s] or pairs[:1]
    span = max(pairs[-1][0] - ends[-1][0], window_s / 3)
    expected = None if len(pairs) < 2 else near((pairs[-1][1] - ends[-1][1]) / span)
    assert series_of(span_s, pairs).rate_per_s(window_s) == expected


@FEW
@given(SAMPLES, SPANS, GAPS, GAPS)
def test_a_rate_between_two_instants_is_that_between_the_newest_samples_there(samples, span_s, back, more):
    pairs = timed(samples)
    later = pairs[-1][0] - min(back, span_s / 2)
    earlier = later - min(more, span_s / 2)

    def at(instant):
        return next((pair for pair in reversed(pairs) if pair[0] <= instant), None)

    start, end = at(earlier), at(later)
    expected = None if start is None or start == end else near((end[1] - start[1]) / (end[0] - start[0]))
    assert series_of(span_s, pairs).rate_between(earlier, later) == expected


@FEW
@given(SAMPLES, SPANS)
def test_a_series_keeps_its_span_and_one_sample_beyond(samples, span_s):
    pairs = timed(samples)
    within = [pair for pair in pairs if pair[0] > pairs[-1][0] - span_s]
    beyond = [pair for pair in pairs if pair[0] <= pairs[-1][0] - span_s][-1:]
    series = series_of(span_s, pairs)
    assert list(zip(series.times, series.values, strict=True)) == beyond + within


def test_a_sample_that_is_not_later_than_the_newest_is_ignored():
    series = series_of(10.0, [(1.0, 5.0), (2.0, 6.0)])
    assert (series.add(2.0, 9.0) is series, series.add(1.5, 9.0) is series) == (True, True)


def test_an_empty_series_says_nothing():
    empty = Series(10.0)
    answers = (
        empty.mean(5.0),
        empty.lowest(5.0),
        empty.slope(5.0),
        empty.rate_per_s(5.0),
        empty.rate_between(0.0, 1.0),
    )
    assert answers == (None, None, None, None, None)


@FEW
@given(st.lists(st.tuples(GAPS, VALUES), min_size=3, max_size=30))
def test_a_slope_is_that_of_the_least_squares_line(samples):
    pairs = timed(samples)
    times, values = zip(*pairs, strict=True)
    line = statistics.linear_regression(times, values)
    misfit = sum((value - line.slope * at - line.intercept) ** 2 for at, value in pairs)
    spread = sum((at - statistics.fmean(times)) ** 2 for at in times)
    slope = series_of(1e9, pairs).slope(1e9)
    assert (slope.per_s, slope.error_per_s) == (
        near(line.slope, abs=1e-6),
        near(math.sqrt(misfit / (len(pairs) - 2) / spread), rel=1e-6, abs=1e-4),
    )


@FEW
@given(st.lists(GAPS, min_size=3, max_size=30), st.floats(-1e9, 1e9), st.sampled_from([0.0, 1e5, 1e9]))
def test_a_level_line_never_rises(gaps, level, begin):
    pairs = [(begin + at, level) for at, _ in timed([(gap, 0.0) for gap in gaps])]
    assert series_of(1e9, pairs).slope(1e9) == Slope(0.0, 0.0)


@FEW
@given(st.lists(st.tuples(GAPS, VALUES), min_size=3, max_size=30))
def test_a_slope_does_not_depend_on_when_the_clock_began(samples):
    pairs = timed(samples)
    shifted = [(at + 2.0**20, value) for at, value in pairs]
    assert series_of(1e9, shifted).slope(1e9) == series_of(1e9, pairs).slope(1e9)


@pytest.mark.parametrize(
    ("slope", "rises"),
    [
        pytest.param(Slope(2.0, 1.0), True, id="beyond-its-error"),
        pytest.param(Slope(1.0, 1.0), False, id="within-its-error"),
        pytest.param(Slope(0.0, 0.0), False, id="level"),
        pytest.param(Slope(-2.0, 1.0), False, id="falling"),
    ],
)
def test_a_slope_rises_when_it_exceeds_its_standard_error(slope, rises):
    assert slope.rises is rises


def test_two_samples_make_no_slope():
    assert series_of(10.0, [(0.0, 1.0), (1.0, 2.0)]).slope(10.0) is None


@FEW
@given(SAMPLES, SPANS, st.sampled_from([1, -1]))
def test_an_extreme_is_that_of_the_samples_within_the_window(samples, window_s, sign):
    pairs = timed(samples)
    extremes = Extremes(sign)
    for at, value in pairs:
        extremes = extremes.add(at, value, window_s)
    recent = [value for at, value in pairs if at > pairs[-1][0] - window_s]
    assert extremes.extreme() == (max(recent) if sign == 1 else min(recent))


@FEW
@given(SAMPLES, st.sampled_from([1, -1]))
def test_stairs_only_ever_lead_one_way(samples, sign):
    extremes = Extremes(sign)
    for at, value in timed(samples):
        extremes = extremes.add(at, value, 60.0)
    heights = [sign * value for _, value in extremes.stairs]
    assert heights == sorted(set(heights), reverse=True)


def test_an_empty_window_has_no_extreme():
    assert Extremes().extreme() is None


# --- Histograms ----------------------------------------------------------------------------------------------------

TICKS = st.lists(st.tuples(GAPS, st.lists(st.integers(0, 5), min_size=7, max_size=7)), min_size=1, max_size=40)


def bucketed(counts) -> Histogram:
    """A histogram of so many observations in each bucket."""
    edges = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
    return Histogram(edges, tuple(float(sum(counts[: i + 1])) for i in range(7)), float(sum(counts)))


@FEW
@given(TICKS)
def test_every_observation_is_counted_once_over_the_whole_life_of_a_short_series(ticks):
    series = HistogramSeries(1e6)
    for at, counts in timed(ticks):
        series = series.add(at, bucketed(counts))
    total = list(map(float, map(sum, zip(*(bucketed(counts).counts for _, counts in ticks), strict=True))))
    assert series.between(-math.inf, math.inf) == (total if total[-1] else Absent.IDLE)


@FEW
@given(TICKS, st.integers(5, 60).map(float))
def test_a_window_of_a_histogram_is_exact_to_a_tenth_of_its_span_and_a_tick(ticks, span_s):
    pairs, series = timed(ticks), HistogramSeries(span_s)
    for at, counts in pairs:
        series = series.add(at, bucketed(counts))
    now = pairs[-1][0]
    slack = span_s / 10 + max(gap for gap, _ in ticks)

    def within(earlier):
        return sum(sum(counts) for at, counts in pairs if at > earlier)

    between = series.between(now - span_s, now)
    seen = 0.0 if isinstance(between, Absent) else between[-1]
    assert within(now - span_s) <= seen <= within(now - span_s - slack)


@FEW
@given(TICKS)
def test_a_histogram_over_time_keeps_a_bounded_number_of_rows(ticks):
    series = HistogramSeries(20.0)
    for at, counts in timed(ticks):
        series = series.add(at, bucketed(counts))
    assert len(series.counts) == len(series.times) <= 2 * 10 + 3


@pytest.mark.parametrize("beat_s", [20.0, 60.0, 300.0])
def test_however_slow_the_beat_the_last_two_intervals_are_known(beat_s):
    series = HistogramSeries(20.0)
    for beat in range(6):
        series = series.add(beat * beat_s, histogram((0.3, 10.0 ** (beat % 2))))
    now = 5 * beat_s
    recent, before = series.between(now - beat_s, now), series.between(now - 2 * beat_s, now - beat_s)
    assert (recent, before) == ([0.0, *[10.0] * 6], [0.0, *[1.0] * 6])


def test_absurd_numbers_have_a_slope_that_is_no_rise():
    series = series_of(100.0, [(0.0, 1e200), (1.0, 1.0), (2.0, 1e308), (3.0, 5.0)])
    assert series.slope(100.0).rises is False


def test_nothing_known_nothing_seen_and_something_seen_are_three_answers():
    unknown = HistogramSeries(30.0)
    idle = unknown.add(0.0, histogram())
    seen = idle.add(2.0, histogram((0.3, 10)))
    answers = [
        series.quantile(0.5, -10.0, 10.0)
        for series in (unknown, unknown.add(0.0, None), idle, idle.add(1.0, None), seen)
    ]
    assert answers == [
        Absent.UNKNOWN,
        Absent.UNKNOWN,
        Absent.IDLE,
        Absent.IDLE,
        Quantile(near(0.3), 0.1, 0.5, 10),
    ]


def test_edges_are_those_that_all_contributors_share():
    series = HistogramSeries(30.0).add(0.0, histogram((0.3, 2), edges=(0.1, 0.5, 1.0)))
    series = series.add(2.0, histogram((0.7, 2), edges=(0.1, 1.0, 5.0)))
    assert (series.edges, series.between(-1.0, 2.0)) == ((0.1, 1.0), [0.0, 4.0, 4.0])


def test_edges_that_only_one_contributor_has_are_left_out():
    series = HistogramSeries(30.0).add(0.0, histogram((0.3, 2), edges=(0.1, 1.0)))
    assert series.add(2.0, histogram((0.3, 2))).between(-1.0, 2.0) == [0.0, 4.0, 4.0]


@pytest.mark.parametrize(
    ("counts", "q", "expected"),
    [
        pytest.param([10.0, 10.0, 10.0], 0.5, Quantile(0.5, 0.0, 1.0, 10.0), id="first-bucket"),
        pytest.param([0.0, 10.0, 10.0], 0.5, Quantile(1.5, 1.0, 2.0, 10.0), id="second-bucket"),
        pytest.param([0.0, 0.0, 10.0], 0.5, Quantile(2.0, 2.0, math.inf, 10.0), id="beyond-the-last-edge"),
        pytest.param([0.0, 10.0, 10.0], 0.0, Quantile(1.0, 0.0, 1.0, 10.0), id="the-lowest-of-an-empty-bucket"),
        pytest.param([2.0, 6.0, 10.0], 0.4, Quantile(1.5, 1.0, 2.0, 10.0), id="what-lies-below-is-not-in-the-bucket"),
        pytest.param([2.0, 10.0, 10.0], 1.0, Quantile(2.0, 1.0, 2.0, 10.0), id="the-highest"),
    ],
)
def test_a_quantile_is_linear_in_its_bucket(counts, q, expected):
    assert read_quantile((1.0, 2.0), counts, q) == expected


def test_without_edges_a_quantile_knows_nothing_but_the_number_of_samples():
    assert read_quantile((), [7.0], 0.9) == Quantile(0.0, 0.0, math.inf, 7.0)


def test_a_quantile_is_a_signal_or_the_reason_why_there_is_none():
    assert (quantile_value(Quantile(1.0, 0.0, 2.0, 9.0)), quantile_value(Absent.IDLE)) == (1.0, Absent.IDLE)


@FEW
@given(st.lists(st.lists(st.integers(0, 5), min_size=7, max_size=7), max_size=4))
def test_a_sum_of_histograms_counts_what_each_of_them_counts(parts):
    total = summed(tuple(map(bucketed, parts)))
    expected = bucketed(list(map(sum, zip(*parts, strict=True)))) if parts else None
    assert total == expected


def test_a_sum_of_histograms_with_other_edges_is_on_the_edges_that_both_have():
    total = summed((histogram((0.3, 2), edges=(0.1, 0.5, 1.0)), histogram((0.7, 2), edges=(0.1, 1.0, 5.0))))
    assert total == Histogram((0.1, 1.0), (0.0, 4, 4), near(2.0))
