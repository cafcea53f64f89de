"""Bounded history as immutable values: rates of counters, means, extremes and slopes over a stretch of time.

Rates are computed here and nowhere else, so that every source delivers raw counters and two users cannot get two arithmetics. Instants
are floats of one monotonic clock and must be added in order.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import reduce
from operator import add, sub

from scaler.core.model import Absent, Histogram, Signal

SHORTEST_RATE_SHARE = 1 / 3
"""A rate over less than this share of its window is divided by the share instead: two scrapes two seconds apart must not turn one burst
into a tripled arrival rate, which the scale-down window would then keep for minutes."""
ROW_SHARE = 0.1
"""A histogram over time keeps one row for this share of its span: four of them would else be most of a workload's memory."""

KEPT_ROWS = 3
"""Two windows have three ends, also at a beat that is slower than the span."""


@dataclass(frozen=True, slots=True)
class Slope:
    """A least-squares line: its slope a second, and the standard error of that slope; 0 within rounding is exactly 0."""

    per_s: float
    error_per_s: float

    @property
    def rises(self) -> bool:
        """Whether the slope is above zero by more than its own standard error."""
        return self.per_s > 0 and self.per_s > self.error_per_s


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one number, oldest first, as far back as ``span_s`` seconds (and one sample beyond, to start a rate from)."""

    span_s: float
    times: tuple[float, ...] = ()
    values: tuple[float, ...] = ()

    def add(self, at: float, value: float) -> Series:
        """The series with one more sample; a sample not later than the newest is ignored."""
        if self.times and at <= self.times[-1]:
            return self
        cut = max(0, bisect_right(self.times, at - self.span_s) - 1)
        return Series(self.span_s, (*self.times[cut:], at), (*self.values[cut:], value))

    def since(self, at: float) -> tuple[float, ...]:
        """The values of the samples at or after ``at``."""
        return self.values[bisect_left(self.times, at) :]

    def rate_between(self, earlier: float, later: float) -> float | None:
        """The mean slope of a cumulative series between the newest samples at two instants, None without two such samples."""
        start, end = self._index_at(earlier), self._index_at(later)
        if start is None or end is None or start >= end:
            return None
        return (self.values[end] - self.values[start]) / (self.times[end] - self.times[start])

    def rate_per_s(self, window_s: float) -> float | None:
        """The mean slope of a cumulative series over its last ``window_s`` seconds; None before the second sample."""
        if len(self.times) < 2:  # noqa: PLR2004 - a rate needs two ends
            return None
        end = self.times[-1]
        start = self._index_at(end - window_s) or 0
        span = end - self.times[start]
        return (self.values[-1] - self.values[start]) / max(span, window_s * SHORTEST_RATE_SHARE)

    def mean(self, window_s: float, since: float = -math.inf) -> float | None:
        """The mean of the samples of the last ``window_s`` seconds and not before ``since``, None when there are none."""
        recent = self.since(max(since, self.times[-1] - window_s)) if self.times else ()
        return sum(recent) / len(recent) if recent else None

    def lowest(self, window_s: float) -> float | None:
        """The smallest sample of the last ``window_s`` seconds, None when there are none."""
        return min(self.since(self.times[-1] - window_s), default=None) if self.times else None

    def slope(self, window_s: float) -> Slope | None:
        """The least-squares line through the last ``window_s`` seconds; None before the third sample."""
        first = bisect_left(self.times, self.times[-1] - window_s) if self.times else 0
        values = self.values[first:]
        count = len(values)
        if count < 3:  # noqa: PLR2004 - two points fit any line without an error to speak of
            return None
        if min(values) == max(values):  # rounding must not give a level line a slope
            return Slope(0.0, 0.0)
        ages = [at - self.times[-1] for at in self.times[first:]]
        middle, level = sum(ages) / count, sum(values) / count
        spread = sum([(age - middle) ** 2 for age in ages])
        pairs = [(age - middle, value - level) for age, value in zip(ages, values, strict=True)]
        slope = sum([age * value for age, value in pairs]) / spread
        misfits = [value - slope * age for age, value in pairs]
        misfit = sum([error * error for error in misfits])  # a power would raise on absurd numbers
        return Slope(slope, math.sqrt(misfit / (count - 2) / spread))

    def _index_at(self, at: float) -> int | None:
        """Index of the newest sample at or before ``at``."""
        index = bisect_right(self.times, at) - 1
        return index if index >= 0 else None


@dataclass(frozen=True, slots=True)
class Extremes:
    """The largest (or, with ``sign`` -1, smallest) sample of a sliding window.

    Samples that can never win again are dropped, so the memory is that of a staircase, not of the whole window.
    """

    sign: int = 1
    stairs: tuple[tuple[float, float], ...] = ()

    def add(self, at: float, value: float, window_s: float) -> Extremes:
        """The window with one more sample, and without those older than ``window_s`` before it."""
        kept = [stair for stair in self.stairs if stair[0] > at - window_s and self.sign * stair[1] > self.sign * value]
        return Extremes(self.sign, (*kept, (at, value)))

    def extreme(self) -> float | None:
        """The extreme of the window, None when it is empty."""
        return self.stairs[0][1] if self.stairs else None


@dataclass(frozen=True, slots=True)
class Quantile:
    """One quantile read from a histogram: the interpolated value in its bucket ``[low, high]``, of ``samples`` observations."""

    value: float
    low: float
    high: float
    samples: float


@dataclass(frozen=True, slots=True)
class HistogramSeries:
    """A cumulative histogram over time; edges are those that all contributors share.

    Counts are kept as arrays of doubles (a third of a tuple's memory) and are never changed after they were stored. Beside the newest
    row one is kept for every tenth of the span, so an instant is known to a tenth of the span. However rare the rows are, three stay.
    """

    span_s: float
    edges: tuple[float, ...] = ()
    times: tuple[float, ...] = ()
    counts: tuple[array[float], ...] = ()

    def add(self, at: float, increase: Histogram | None) -> HistogramSeries:
        """The series with the observations of one tick added; None adds nothing but the passing of time."""
        if increase is None:
            return self._append(at, self.counts[-1]) if self.counts else self
        if not self.counts:
            none_yet = array("d", [0.0] * len(increase.counts))
            return HistogramSeries(self.span_s, increase.edges, (-math.inf,), (none_yet,)).add(at, increase)
        same = self.edges == increase.edges
        shared = self if same else self._on(tuple(edge for edge in self.edges if edge in increase.edges))
        grown = array("d", map(add, shared.counts[-1], increase.on(shared.edges).counts))
        return shared._append(at, grown)  # noqa: SLF001 - of the same class

    def quantile(self, q: float, earlier: float, later: float) -> Quantile | Absent:
        """The ``q`` quantile of what was observed between two instants; IDLE without observations, UNKNOWN without a histogram."""
        between = self.between(earlier, later)
        return between if isinstance(between, Absent) else read_quantile(self.edges, between, q)

    def between(self, earlier: float, later: float) -> list[float] | Absent:
        """The cumulative counts of what was observed between two instants, for any number of quantiles; IDLE, UNKNOWN likewise."""
        if not self.counts:
            return Absent.UNKNOWN
        start = max(0, bisect_right(self.times, earlier) - 1)
        end = max(0, bisect_right(self.times, later) - 1)
        between = list(map(sub, self.counts[end], self.counts[start]))
        return between if between[-1] > 0 else Absent.IDLE

    def _append(self, at: float, counts: array[float]) -> HistogramSeries:
        last = len(self.times)
        cut = max(0, min(bisect_right(self.times, at - self.span_s) - 1, last - KEPT_ROWS + 1))
        if last - cut > 1 and self.times[-1] - self.times[-2] < self.span_s * ROW_SHARE:
            last -= 1
        return HistogramSeries(self.span_s, self.edges, (*self.times[cut:last], at), (*self.counts[cut:last], counts))

    def _on(self, edges: tuple[float, ...]) -> HistogramSeries:
        if edges == self.edges:
            return self
        keep = [*(self.edges.index(edge) for edge in edges), len(self.edges)]
        counts = tuple(array("d", (row[i] for i in keep)) for row in self.counts)
        return HistogramSeries(self.span_s, edges, self.times, counts)


def read_quantile(edges: tuple[float, ...], counts: list[float], q: float) -> Quantile:
    """The ``q`` quantile of cumulative ``counts`` (one more than ``edges``), linear in its bucket.

    Beyond the last finite edge nothing is known but the edge itself: it is low, and high is infinite.
    """
    rank = q * counts[-1]
    bucket = bisect_left(counts, rank)
    low = edges[bucket - 1] if bucket > 0 else 0.0
    if bucket >= len(edges):
        return Quantile(low, low, math.inf, counts[-1])
    below = counts[bucket - 1] if bucket > 0 else 0.0
    share = (rank - below) / (counts[bucket] - below) if counts[bucket] > below else 1.0
    return Quantile(low + share * (edges[bucket] - low), low, edges[bucket], counts[-1])


def summed(histograms: tuple[Histogram, ...]) -> Histogram | None:
    """The sum of histograms on the edges that all have, None of none."""
    if not histograms:
        return None
    first, *others = histograms
    if not others:
        return first
    if all(histogram.edges == first.edges for histogram in others):
        columns = zip(*[histogram.counts for histogram in histograms], strict=True)
        return Histogram(first.edges, tuple(map(sum, columns)), sum([histogram.sum for histogram in histograms]))
    return reduce(Histogram.plus, others, first)


def quantile_value(quantile: Quantile | Absent) -> Signal:
    """A quantile as a plain signal."""
    return quantile if isinstance(quantile, Absent) else quantile.value
