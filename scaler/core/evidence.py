"""What a number of samples proves: one-sided bounds of a quantile, and curves that may only rise.

Nothing is assumed of the distribution. Of ``n`` independent samples the r-th smallest lies at or above the true q quantile with the
probability ``P(Bin(n, q) <= r - 1)``, so the smallest r for which that reaches the confidence gives the bound. A load tester's summary
serves as well as the samples themselves: its P99 is known to lie at or above so many of them.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

CONFIDENCE = 0.95
"""How sure a bound is, one-sided."""


@lru_cache(maxsize=1024)
def bound_rank(n: int, q: float, confidence: float = CONFIDENCE) -> int | None:
    """Which of ``n`` sorted samples, counted from 1, bounds the ``q`` quantile from above; None when ``n`` is too small for any."""
    log_q, log_p, log_all = math.log(q), math.log1p(-q), math.lgamma(n + 1)
    above, rank = 0.0, n + 1
    while rank > 1:
        fewer = rank - 1  # the chance that exactly so many samples lie below the quantile
        ways = log_all - math.lgamma(fewer + 1) - math.lgamma(n - fewer + 1)
        above += math.exp(ways + fewer * log_q + (n - fewer) * log_p)
        if above > 1 - confidence:
            break
        rank = fewer
    return rank if rank <= n else None


def least_samples(q: float, confidence: float = CONFIDENCE) -> int:
    """The fewest samples that can bound the ``q`` quantile at all: 59 for P95, 299 for P99."""
    return math.ceil(math.log1p(-confidence) / math.log(q) - 1e-9)


@dataclass(frozen=True, slots=True)
class Ordered:
    """What is known of ``n`` values in their order: at least ``counts[i]`` of them are at most ``values[i]``. Both ascend."""

    n: int
    values: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()

    @classmethod
    def of_samples(cls, samples: Iterable[float]) -> Ordered:
        """All of the values are known."""
        ascending = tuple(sorted(samples))
        return cls(len(ascending), ascending, tuple(range(1, len(ascending) + 1)))

    @classmethod
    def of_summary(cls, n: int, quantiles: Mapping[float, float]) -> Ordered:
        """Of ``n`` values some quantiles (0..1) are known; 0 is the smallest value and 1 the largest.

        Load testers interpolate between neighbours or take the next value up. Either way a reported quantile is not below the
        value of this rank.
        """
        if n < 1:
            return cls(0)
        known = sorted(quantiles.items())
        return cls(n, tuple(accumulate((value for _, value in known), max)), tuple(_rank(n, q) for q, _ in known))

    @classmethod
    def together(cls, parts: Sequence[Ordered]) -> Ordered:
        """What is known of all the values of several runs."""
        if len(parts) == 1:
            return parts[0]
        values = tuple(sorted({value for part in parts for value in part.values}))
        counts = tuple(sum(part.at_most(value) for part in parts) for value in values)
        return cls(sum(part.n for part in parts), values, counts)

    def at_most(self, value: float) -> int:
        """How many of the values are known to be at most ``value``."""
        index = bisect_right(self.values, value)
        return self.counts[index - 1] if index else 0

    def estimate(self, q: float) -> float | None:
        """The ``q`` quantile of the values, or the next larger one that is known; None when none is."""
        return self._first_with(_rank(self.n, q)) if self.n else None

    def bound(self, q: float, confidence: float = CONFIDENCE) -> float | None:
        """The one-sided upper bound of the true ``q`` quantile; None when the samples are too few, or too little is known of them."""
        rank = bound_rank(self.n, q, confidence) if self.n else None
        return None if rank is None else self._first_with(rank)

    def _first_with(self, count: int) -> float | None:
        index = bisect_left(self.counts, count)
        return self.values[index] if index < len(self.values) else None


def _rank(n: int, q: float) -> int:
    """The rank, from 1, of the sample that a reported ``q`` quantile is not below."""
    return math.floor(q * (n - 1) + 1e-9) + 1


def rising(values: Sequence[float], weights: Sequence[float]) -> tuple[float, ...]:
    """The closest curve to ``values`` that never falls, in weighted least squares (pool adjacent violators)."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] > pool[0]:
            before, heavy, many = pools.pop()
            total = heavy + pool[1]
            pool = ((before * heavy + pool[0] * pool[1]) / total, total, many + pool[2])
        pools.append(pool)
    return tuple(level for level, _, many in pools for _ in range(many))
