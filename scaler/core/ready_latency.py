"""How long it takes from asking for a replica until it is ready, and how much of that is left.

Lognormal, as start times are (a product of phases). Until starts are measured the 90th percentile comes from configuration or from the
prior, and the spread is that of a warm node. A prior that is too long costs more than one that is too short: 600 s where 60-180 s is true
cost 34-123 % more GPU-hours in simulation, so the default is 180 s.
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
STUCK_FACTOR = 3.0
"""A start older than this many times the 90th percentile is stuck: it is reported, and no longer counted on."""

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class ReadyLatency:
    """A lognormal of seconds. ``origin`` says where it comes from: ``prior``, ``configuration`` or ``measured``."""

    p90_s: float = PRIOR_P90_S
    sigma: float = PRIOR_SIGMA
    origin: str = "prior"

    def quantile(self, q: float) -> float:
        """The latency in seconds that a share ``q`` of the starts does not exceed."""
        return self.p90_s * math.exp(self.sigma * (_NORMAL.inv_cdf(q) - _NORMAL.inv_cdf(PLANNING_QUANTILE)))

    def remaining(self, q: float, age_s: float) -> float:
        """The ``q`` quantile of the seconds still to wait for a start that is ``age_s`` old and not ready; infinite when stuck."""
        if self.stuck(age_s):
            return math.inf
        if age_s <= 0:
            return self.quantile(q)
        middle = math.log(self.quantile(0.5))
        # unlike 1 - cdf, this keeps its digits far out
        older = math.erfc((math.log(age_s) - middle) / self.sigma / math.sqrt(2)) / 2
        if (1 - q) * older <= 0:  # older than all: the distribution has nothing left to say
            return 0.0
        return max(0.0, math.exp(middle - self.sigma * _NORMAL.inv_cdf((1 - q) * older)) - age_s)

    def stuck(self, age_s: float) -> bool:
        """Whether a start of that age has outlived the distribution."""
        return age_s > STUCK_FACTOR * self.p90_s


def next_ready_s(latency: ReadyLatency, q: float, ages_s: Iterable[float], *, may_add: bool) -> float:
    """Seconds until the next replica is ready: the soonest of those starting, else a whole start if one may be added, else infinite.

    ``ages_s`` are the ages of the starts under way; stuck ones do not count.
    """
    soonest = min((latency.remaining(q, age) for age in ages_s if not latency.stuck(age)), default=None)
    if soonest is not None:
        return soonest
    return latency.quantile(q) if may_add else math.inf
