"""How long it takes from asking for a replica until it is ready, and how much of that is left.

Lognormal, as start times are (a product of phases). Until starts are measured the 90th percentile comes from configuration or from the
prior, and the spread is that of a warm node. A prior that is too long costs more than one that is too short: 600 s where 60-180 s is true
cost 34-123 % more GPU-hours in simulation, so the default is 180 s, and ``core.ready_fit`` leaves it behind within five starts.

Starts from a warm image, a snapshot or a sleeping process take seconds where cold ones take minutes. Where both were seen the latency is a
mixture of two lognormals of one spread, and a start is *hot or cold, nobody knows* until it has outlived nearly all hot ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PRIOR_P90_S = 180.0
PRIOR_SIGMA = 0.25
PLANNING_QUANTILE = 0.9
"""Desired and RED plan for a slow start; Retry-After (the median) speaks of a usual one."""
HOT_UNTIL = 0.95
"""A start that is older than this quantile of the hot ones is a cold one."""
STUCK_FACTOR = 3.0
"""A start older than this many times the 90th percentile is stuck: it is reported, and no longer counted on."""
PRECISION = 1e-9
"""Of a logarithm of seconds."""

_NORMAL = NormalDist()
_PLANNED = _NORMAL.inv_cdf(PLANNING_QUANTILE)


@dataclass(frozen=True, slots=True)
class ReadyLatency:
    """A lognormal of seconds, or a mixture of two.

    ``p90_s`` is the 90th percentile, once hot and cold starts are told apart that of the cold ones; a share ``hot_ratio`` is hot, with
    ``hot_p90_s``. ``sigma`` is the spread of the logarithm, of both. ``origin`` says where it comes from: ``prior``, ``configuration``
    or ``measured``, then by ``samples`` starts that ended. ``stuck_after_s`` None: three times ``p90_s``.
    """

    p90_s: float = PRIOR_P90_S
    sigma: float = PRIOR_SIGMA
    origin: str = "prior"
    hot_ratio: float = 0.0
    hot_p90_s: float = 0.0
    samples: int = 0
    stuck_after_s: float | None = None

    @property
    def limit_s(self) -> float:
        """The age in seconds beyond which a start is stuck."""
        return STUCK_FACTOR * self.p90_s if self.stuck_after_s is None else self.stuck_after_s

    @property
    def hot_until_s(self) -> float:
        """The age in seconds beyond which a start is known to be a cold one; 0 where there are no hot ones."""
        return self._at(_NORMAL.inv_cdf(HOT_UNTIL), self.hot_p90_s) if self.hot_ratio else 0.0

    def quantile(self, q: float) -> float:
        """The latency in seconds that a share ``q`` of the starts does not exceed."""
        return self._whole(q, 0.0)

    def remaining(self, q: float, age_s: float) -> float:
        """The ``q`` quantile of the seconds still to wait for a start that is ``age_s`` old and not ready; infinite when stuck."""
        if self.stuck(age_s):
            return math.inf
        age_s = max(0.0, age_s)
        return max(0.0, self._whole(q, age_s) - age_s)

    def stuck(self, age_s: float) -> bool:
        """Whether a start of that age has outlived the distribution."""
        return age_s > self.limit_s

    def _whole(self, q: float, age_s: float) -> float:
        """The ``q`` quantile of the whole latency of a start that was not ready at ``age_s``. That of a mixture lies between its parts'."""
        cold = self._given(q, age_s, self.p90_s)
        if not self.hot_ratio or age_s > self.hot_until_s:
            return cold
        hot = self._given(q, age_s, self.hot_p90_s)
        beyond, _ = self._mixture(math.log(age_s)) if age_s > 0 else (1.0, 0.0)
        return self._outlived((1 - q) * beyond, math.log(hot), math.log(cold))

    def _outlived(self, share: float, low: float, high: float) -> float:
        """The seconds that a share of all starts outlives, between two logarithms: Newton's steps, and halves where one leads astray."""
        at = high
        while high - low > PRECISION:
            beyond, density = self._mixture(at)
            low, high = (at, high) if beyond > share else (low, at)
            step = (beyond - share) / density if density > 0 else math.inf
            if abs(step) < PRECISION:
                break
            at = at + step if low < at + step < high else (low + high) / 2
        return math.exp(at)

    def _mixture(self, at: float) -> tuple[float, float]:
        """The share of all starts beyond a logarithm of seconds, and their density there."""
        hot, cold = at - math.log(self.hot_p90_s), at - math.log(self.p90_s)
        beyond = self.hot_ratio * self._beyond(hot) + (1 - self.hot_ratio) * self._beyond(cold)
        return beyond, self.hot_ratio * self._density(hot) + (1 - self.hot_ratio) * self._density(cold)

    def _given(self, q: float, age_s: float, p90_s: float) -> float:
        """The same of one lognormal."""
        if age_s <= 0:
            return self._at(_NORMAL.inv_cdf(q), p90_s)
        longer = (1 - q) * self._beyond(math.log(age_s) - math.log(p90_s))
        if longer <= 0:  # older than all: the distribution has nothing left to say
            return age_s
        return self._at(-_NORMAL.inv_cdf(longer), p90_s)

    def _at(self, deviations: float, p90_s: float) -> float:
        """The seconds that are so many standard deviations above the median."""
        return p90_s * math.exp(self.sigma * (deviations - _PLANNED))

    def _beyond(self, log_ratio: float) -> float:
        """The share of a lognormal above a time, by the logarithm of that time over the 90th percentile."""
        # unlike 1 - cdf, this keeps its digits far out
        return math.erfc((log_ratio / self.sigma + _PLANNED) / math.sqrt(2)) / 2

    def _density(self, log_ratio: float) -> float:
        deviations = log_ratio / self.sigma + _PLANNED
        return math.exp(-deviations * deviations / 2) / self.sigma / math.sqrt(2 * math.pi)


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A start under way: how old it is, in seconds since it was asked for, and the latency that it is judged by.

    ``why`` is the platform's own reason that it is stuck, if any. A replica that was asked for and does not exist yet has no name.
    """

    replica: str
    age_s: float
    latency: ReadyLatency
    why: str = ""

    @property
    def stuck(self) -> bool:
        """Whether it cannot be counted on any more."""
        return bool(self.why) or self.latency.stuck(self.age_s)


def next_ready_s(whole: ReadyLatency, q: float, under_way: Iterable[UnderWay], *, may_add: bool) -> float:
    """Seconds until the next replica is ready: the soonest of those starting, else a whole start if one may be added, else infinite.

    Stuck ones do not count.
    """
    soonest = min((one.latency.remaining(q, one.age_s) for one in under_way if not one.stuck), default=None)
    if soonest is not None:
        return soonest
    return whole.quantile(q) if may_add else math.inf
