"""From starts that were seen to a ``ReadyLatency``.

Method. Logarithms of seconds; those that ended are split into hot and cold at the largest gap above ln 3 with two or more on each side.
One spread is pooled within the groups and shrunk towards the prior's, as if that rested on ``PRIOR_SPREAD_STARTS`` more. The place of
each group is that of the largest right-censored likelihood at that spread (Cohen, "Progressively censored samples in life testing",
Technometrics 5, 1963): a start that is still under way pushes the place up by the normal hazard at its age. The prior's median counts as
``PRIOR_STARTS`` of a start, until hot and cold are told apart. What is published is the quantile of the *next* start, so the spread is
widened by the error of the place (Hahn and Meeker, "Statistical Intervals", 1991).

Kaplan and Meier's estimator, which assumes no form, says nothing beyond the longest start that ended: after one it has no P90 at all.

The spread, the split and the limit of a stuck start rest on starts that ended, alone. So a start under way, or its ageing, can only push:
it never lowers a quantile.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from scaler.core.ready_latency import PLANNING_QUANTILE, STUCK_FACTOR, ReadyLatency

PRIOR_STARTS = 0.2
"""Small, so that a prior of 180 s is left behind within five starts where 60 s or 600 s is true."""
PRIOR_SPREAD_STARTS = 4.0
SPLIT_RATIO, SPLIT_EACH = 3.0, 2
SHORTEST_S, LONGEST_S = 0.5, 3600.0
"""What took less is a clock that is wrong; what took longer was an incident, unless the prior is of that order."""
NEGLIGIBLE_RISE, NEGLIGIBLE_WEIGHT = 1e-9, 1e-9
FAR_OUT = 30.0
"""Beyond so many standard deviations the tail has no digits left, and its hazard is known without."""

_PLANNED = NormalDist().inv_cdf(PLANNING_QUANTILE)
Weighed = tuple[float, float]
"""How long a start took, in seconds or their logarithm, and what it weighs."""


@dataclass(frozen=True, slots=True)
class Fit:
    """What starts that ended say. ``weight`` is how many of them ``latency.p90_s`` rests on, ``hot_weight`` how many were hot."""

    latency: ReadyLatency
    weight: float = PRIOR_STARTS
    hot_weight: float = 0.0

    def censored(self, ages_s: Iterable[float]) -> ReadyLatency:
        """The latency when starts of these ages are under way as well. One that may yet prove hot says nothing."""
        base = self.latency
        ages = [min(age, base.limit_s) for age in ages_s if age > max(SHORTEST_S, base.hot_until_s)]
        rise = base.sigma * _rise(self.weight, [math.log(age / base.p90_s) / base.sigma + _PLANNED for age in ages])
        if rise < NEGLIGIBLE_RISE and not (ages and self.hot_weight):
            return base
        return replace(
            base,
            p90_s=base.p90_s * math.exp(rise),
            origin="measured",
            hot_ratio=self.hot_weight / (self.hot_weight + self.weight + len(ages)),
            stuck_after_s=base.limit_s,
        )


def fit(prior: ReadyLatency, ended: Sequence[Weighed]) -> Fit:
    """What these starts say; of none, and of those that weigh nothing any more, it is the prior itself."""
    ended = [(took_s, weight) for took_s, weight in ended if weight > NEGLIGIBLE_WEIGHT]
    if not ended:
        return Fit(prior)
    longest_s = max(LONGEST_S, prior.limit_s)
    logs = sorted((math.log(min(longest_s, max(SHORTEST_S, took_s))), weight) for took_s, weight in ended)
    cut = _cut([log for log, _ in logs])
    fitted = _fit(prior, [_group(_tamed(prior, kind)) for kind in (logs[:cut], logs[cut:]) if kind])
    return replace(fitted, latency=replace(fitted.latency, samples=len(ended)))


def _cut(logs: list[float]) -> int:
    """How many of these, ascending, are hot starts; 0 where they are of one kind."""
    gaps = [(logs[i] - logs[i - 1], i) for i in range(SPLIT_EACH, len(logs) - SPLIT_EACH + 1)]
    gap, cut = max(gaps, default=(0.0, 0))
    return cut if gap > math.log(SPLIT_RATIO) else 0


def _tamed(prior: ReadyLatency, group: list[Weighed]) -> list[Weighed]:
    """The group, with one start far above all others taken as just far: once may be an accident, twice is how it is."""

    def far(*, beyond: int) -> float:
        others = group[:-beyond]
        latency = _fit(prior, [_group(others)]).latency if others else prior
        return math.log(STUCK_FACTOR * latency.p90_s)

    (longest, weight), limit = group[-1], far(beyond=1)
    if longest <= limit or (len(group) > 1 and group[-2][0] > far(beyond=2)):
        return group
    return [*group[:-1], (limit, weight)]


@dataclass(frozen=True, slots=True)
class _Group:
    """Starts of one kind: the sum of their weights and of the squares of these, the mean logarithm, the sum of squares about it."""

    weight: float
    squares: float
    mean: float
    misfit: float


def _group(logs: list[Weighed]) -> _Group:
    total = sum(weight for _, weight in logs)
    mean = sum(log * weight for log, weight in logs) / total
    misfit = sum(weight * (log - mean) ** 2 for log, weight in logs)
    return _Group(total, sum(weight * weight for _, weight in logs), mean, misfit)


def _fit(prior: ReadyLatency, groups: list[_Group]) -> Fit:
    """What one group says, or a hot and a cold one."""
    cold, hot = groups[-1], groups[0] if len(groups) > 1 else None
    pull = PRIOR_STARTS if hot is None else 0.0
    total = sum(group.weight for group in groups)
    free = total - sum(group.squares / group.weight for group in groups)
    misfit = sum(group.misfit for group in groups)
    variance = (PRIOR_SPREAD_STARTS * prior.sigma**2 + misfit) / (PRIOR_SPREAD_STARTS + free)
    error = sum(group.weight / total * group.squares / (pull + group.weight) ** 2 for group in groups)
    sigma = math.sqrt(variance * (1 + error))
    pulled = pull * (math.log(prior.p90_s) - prior.sigma * _PLANNED) + cold.weight * cold.mean
    p90_s = math.exp(pulled / (pull + cold.weight) + sigma * _PLANNED)
    if hot is None:
        return Fit(ReadyLatency(p90_s, sigma, "measured"), pull + total)
    latency = ReadyLatency(p90_s, sigma, "measured", hot.weight / total, math.exp(hot.mean + sigma * _PLANNED))
    return Fit(latency, cold.weight, hot.weight)


def _rise(weight: float, deviations: list[float]) -> float:
    """By how many standard deviations starts under way, at so many above the median, push a median that rests on ``weight`` starts.

    Newton's steps towards weight x rise = sum of hazards. The right side falls and is convex, so no step goes too far.
    """
    rise, step = 0.0, math.inf
    while step > NEGLIGIBLE_RISE:
        hazards = [(_hazard(deviation - rise), deviation - rise) for deviation in deviations]
        short = sum(hazard for hazard, _ in hazards) - weight * rise
        step = short / (weight + sum(hazard * (hazard - deviation) for hazard, deviation in hazards))
        rise += max(0.0, step)
    return rise


def _hazard(deviation: float) -> float:
    """The hazard of the standard normal."""
    if deviation > FAR_OUT:
        return deviation + 1 / deviation
    return math.sqrt(2 / math.pi) * math.exp(-deviation * deviation / 2) / math.erfc(deviation / math.sqrt(2))
