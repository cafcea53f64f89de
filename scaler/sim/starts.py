"""How long replicas take from being created to being ready, as distributions. Seconds; infinite is a replica that never gets ready."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from statistics import NormalDist

from scaler.errors import ConfigError

StartTimes = Callable[[Random], float]
"""Draws how long one start takes."""

_P95_SIGMA = NormalDist().inv_cdf(0.95)
_SAMPLES = 999


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same."""

    takes_s: float

    def __call__(self, chance: Random) -> float:  # noqa: ARG002 - nothing is left to chance
        """One start."""
        return self.takes_s


NEVER = Fixed(math.inf)
"""Pending for ever, as when there is no GPU left."""


@dataclass(frozen=True, slots=True)
class Lognormal:
    """By the median and the 95th percentile: what measured starts look like, with a long tail on the slow side."""

    median_s: float
    p95_s: float

    def __post_init__(self) -> None:
        """A tail on the slow side."""
        if not 0 < self.median_s <= self.p95_s:
            raise ConfigError("start times: 0 < median <= p95 is required")

    def __call__(self, chance: Random) -> float:
        """One start."""
        return self.median_s * math.exp(chance.gauss(0.0, math.log(self.p95_s / self.median_s) / _P95_SIGMA))


@dataclass(frozen=True, slots=True)
class Normal:
    """By mean and standard deviation, as papers report them; never shorter than a quarter of the mean."""

    mean_s: float
    sd_s: float

    def __call__(self, chance: Random) -> float:
        """One start."""
        return max(self.mean_s / 4, chance.gauss(self.mean_s, self.sd_s))


@dataclass(frozen=True, slots=True)
class Measured:
    """Any of the starts that were measured."""

    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        """At least one."""
        if not self.seconds or min(self.seconds) < 0:
            raise ConfigError("start times: at least one measured start is required, and none below zero")

    def __call__(self, chance: Random) -> float:
        """One start."""
        return chance.choice(self.seconds)


@dataclass(frozen=True, slots=True)
class Mixture:
    """One kind of start or another, by weight: with and without a warm node, say, and ``NEVER`` for those that hang."""

    parts: tuple[tuple[float, StartTimes], ...]

    def __call__(self, chance: Random) -> float:
        """One start."""
        kinds, weights = [kind for _, kind in self.parts], [weight for weight, _ in self.parts]
        return chance.choices(kinds, weights)[0](chance)


def quantile_s(starts: StartTimes, q: float) -> float:
    """What a share ``q`` of the starts does not exceed, of those that end; NaN if none does."""
    chance = Random("quantile")
    ended = sorted(took for _ in range(_SAMPLES) if math.isfinite(took := starts(chance)))
    return ended[min(len(ended) - 1, int(q * len(ended)))] if ended else math.nan
