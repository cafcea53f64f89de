"""Loads made up for a purpose: rates over time, to be sent as ``Stream``s.

As text, say on a command line: ``step:low_per_s=15,high_per_s=60,begins_at_s=600,duration_s=3000``. A shape whose load is a matter of
chance has the same mean, and another course, with every seed.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from random import Random
from typing import Any, ClassVar, Protocol

from scaler.errors import ConfigError
from scaler.sim.traces.values import NOTHING_SAID, Assumed
from scaler.sim.traffic import Rated, Rates, Stream, surge

DAY_S = 86400.0
MOST = 1e9
MOST_PIECES = 200_000
PIECES = 100
"""How many steps a slope has."""
PEAK_S, FALL_S = 60.0, 60.0
"""How long a surge stays, and how long it takes to go."""


class Shape(Protocol):
    """A load. Its fields are its parameters by name, each zero or more; what cannot be raises ConfigError."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def duration_s(self) -> float:
        """How long it goes on."""
        ...

    def rates(self, seed: int) -> Rates:
        """Its rates, from 0."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A load that changes once, for good."""

    low_per_s: float
    high_per_s: float
    begins_at_s: float
    duration_s: float

    def __post_init__(self) -> None:
        _check(self)

    def rates(self, seed: int) -> Rates:  # noqa: ARG002 - the protocol's; nothing here is chance
        return ((0.0, self.low_per_s), (self.begins_at_s, self.high_per_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """A load that is high for a while."""

    low_per_s: float
    high_per_s: float
    begins_at_s: float
    lasts_s: float
    duration_s: float

    def __post_init__(self) -> None:
        _check(self)

    def rates(self, seed: int) -> Rates:  # noqa: ARG002 - likewise
        return surge(self.low_per_s, self.high_per_s, self.begins_at_s, self.begins_at_s + self.lasts_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """A load that rises, or falls, evenly for a while and then stays."""

    low_per_s: float
    high_per_s: float
    begins_at_s: float
    lasts_s: float
    duration_s: float

    def __post_init__(self) -> None:
        _check(self)

    def rates(self, seed: int) -> Rates:  # noqa: ARG002 - likewise
        ends_at = self.begins_at_s + self.lasts_s
        slope = (self.high_per_s - self.low_per_s) / self.lasts_s if self.lasts_s else 0.0
        pieces = _pieces(lambda at: self.low_per_s + slope * at, self.lasts_s, self.lasts_s / PIECES)
        rising = ((self.begins_at_s + at, rate) for at, rate in pieces)
        return ((0.0, self.low_per_s), *rising, (ends_at, self.high_per_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bursty:
    """A load whose rate is thrown anew every ``burst_s``, Gamma-distributed with the coefficient of variation ``cv``."""

    mean_per_s: float
    cv: float
    burst_s: float = 60.0
    duration_s: float

    def __post_init__(self) -> None:
        _check(self)
        _check_pieces(self, "burst_s", self.burst_s)

    def rates(self, seed: int) -> Rates:
        chance, variance = Random(f"bursty {seed}"), self.cv**2
        pieces = _pieces(
            lambda _: chance.gammavariate(1 / variance, variance) if variance else 1.0, self.duration_s, self.burst_s
        )
        return _with_mean(self.mean_per_s, self.duration_s, pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surges:
    """A quiet load that, at random after ``every_s`` on average, becomes ``factor`` times as high within ``rise_s``, again and again.

    The parameters' own values are like the Azure 2023 code trace: ten times
    within three minutes, and a minute's peak of four times the mean.
    """

    mean_per_s: float
    factor: float = 10.0
    rise_s: float = 180.0
    every_s: float = 600.0
    duration_s: float

    def __post_init__(self) -> None:
        _check(self)
        _check_pieces(self, "every_s", (self.every_s + self.rise_s + PEAK_S + FALL_S) / (3 * PIECES))
        if self.factor < 1:
            raise _fault(self, "factor", "1 or more is needed")

    def rates(self, seed: int) -> Rates:
        return _with_mean(self.mean_per_s, self.duration_s, self._course(Random(f"surges {seed}")))

    def _course(self, chance: Random) -> Iterator[tuple[float, float]]:
        at = 0.0
        while at < self.duration_s:
            yield at, 1.0
            at += self.every_s * chance.expovariate(1.0)
            for lasts_s, begins, ends in ((self.rise_s, 0.0, 1.0), (PEAK_S, 1.0, 1.0), (FALL_S, 1.0, 0.0)):
                for index in range(PIECES if lasts_s else 0):
                    share = (index + 0.5) / PIECES
                    yield at + lasts_s * index / PIECES, self.factor ** (begins + (ends - begins) * share)
                at += lasts_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Daily:
    """A load that goes smoothly from low to high and back each day, beginning at its lowest; ``day_s`` makes a shorter day of it."""

    low_per_s: float
    high_per_s: float
    duration_s: float = DAY_S
    day_s: float = DAY_S

    def __post_init__(self) -> None:
        _check(self)
        _check_pieces(self, "day_s", self.day_s / PIECES)

    def rates(self, seed: int) -> Rates:  # noqa: ARG002 - likewise
        middle, half = (self.high_per_s + self.low_per_s) / 2, (self.high_per_s - self.low_per_s) / 2
        course = _pieces(
            lambda at: middle - half * math.cos(math.tau * at / self.day_s), self.duration_s, self.day_s / PIECES
        )
        return tuple(course)


SHAPES: Mapping[str, type[Shape]] = {
    "step": Step,
    "pulse": Pulse,
    "ramp": Ramp,
    "bursty": Bursty,
    "surges": Surges,
    "daily": Daily,
}


def shape(text: str) -> Shape:
    """The shape of ``name:key=number,…``. Raises ConfigError that names what is wrong and what is allowed."""
    name, _, written = text.partition(":")
    kind = SHAPES.get(name.strip())
    if kind is None:
        raise ConfigError(f"{name}: no shape of load; there are {', '.join(SHAPES)}")
    known = [field.name for field in fields(kind)]
    given: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in written.split(","))):
        key, _, number = (side.strip() for side in part.partition("="))
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise ConfigError(f"{name}: {key}: unknown, {hint}")
        try:
            given[key] = float(number)
        except ValueError:
            raise ConfigError(f"{name}: {key}: a number is needed") from None
    missing = [field.name for field in fields(kind) if field.default is MISSING and field.name not in given]
    if missing:
        example = ",".join(f"{key}=…" for key in known)
        raise ConfigError(f"{name}: {', '.join(missing)}: missing; write {name}:{example}")
    return kind(**given)


def rated(of: Shape, seed: int, assumed: Assumed = NOTHING_SAID) -> Rated:
    """The load as traffic of one class."""
    return Rated((Stream(assumed.request_class, of.rates(seed), assumed.lengths),), of.duration_s)


def _pieces(rate: Callable[[float], float], lasts_s: float, piece_s: float) -> Iterator[tuple[float, float]]:
    """A course in even steps, each at the rate of its middle."""
    count = math.ceil(lasts_s / piece_s) if piece_s else 0
    return ((index * piece_s, max(0.0, rate((index + 0.5) * piece_s))) for index in range(count))


def _with_mean(mean_per_s: float, duration_s: float, course: Iterator[tuple[float, float]]) -> Rates:
    """The course, cut where it ends and scaled to its mean; flat where it is nothing but silence."""
    cut = [(at, rate) for at, rate in course if at < duration_s]
    ends = [at for at, _ in cut[1:]] + [duration_s]
    total = math.fsum(rate * (end - at) for (at, rate), end in zip(cut, ends, strict=True))
    if not total:
        return ((0.0, mean_per_s),)
    return tuple((at, rate * mean_per_s * duration_s / total) for at, rate in cut)


def _check(of: Shape) -> None:
    for field in fields(of):
        if not 0 <= getattr(of, field.name) <= MOST:
            raise _fault(of, field.name, f"a number from 0 to {MOST:,.0f} is needed")
    if not of.duration_s:
        raise _fault(of, "duration_s", "more than 0 is needed")
    if getattr(of, "begins_at_s", 0.0) >= of.duration_s:
        raise _fault(of, "begins_at_s", f"less than the {of.duration_s:g} s of duration_s is needed")


def _check_pieces(of: Shape, key: str, piece_s: float) -> None:
    if piece_s * MOST_PIECES < of.duration_s:
        raise _fault(
            of, key, f"too short for {of.duration_s:g} s; at most {MOST_PIECES:,} changes of the load are drawn"
        )


def _fault(of: Shape, key: str, text: str) -> ConfigError:
    return ConfigError(f"{type(of).__name__.lower()}: {key}: {text}")
