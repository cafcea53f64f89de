"""Who sends what, and when: streams of requests at rates that may change, and requests that were written down one by one."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import merge
from itertools import chain, pairwise
from operator import attrgetter
from random import Random
from typing import Protocol

from scaler.errors import ConfigError
from scaler.sim.clients import OLD, Sdk

Rates = tuple[tuple[float, float], ...]
"""From when on how many requests a second, ascending; none before the first."""
MEDIAN_OF_MEAN = 0.8392
"""The median of a Gamma distribution of shape 2, as a share of its mean."""
SHIFT_S = 30.0
"""Copies of a trace are shifted by up to this: less than a replica takes to start, more than one burst of its requests."""

_at = attrgetter("at")


class Draws(Protocol):
    """How long requests are."""

    def draw(self, chance: Random) -> tuple[int, int]:
        """The prompt and the output of one request, in tokens."""
        ...


@dataclass(frozen=True, slots=True)
class Lengths:
    """Gamma-distributed lengths (shape 2) around their means in tokens, at least one. The means are those of the Azure 2023 chat trace."""

    prompt_tokens: int = 1155
    output_tokens: int = 211

    @classmethod
    def of_medians(cls, prompt_tokens: float, output_tokens: float) -> Lengths:
        """The lengths that have these medians."""
        return cls(*(max(1, round(median / MEDIAN_OF_MEAN)) for median in (prompt_tokens, output_tokens)))

    def draw(self, chance: Random) -> tuple[int, int]:
        """The prompt and the output of one request."""
        prompt, output = (chance.gammavariate(2.0, mean / 2.0) for mean in (self.prompt_tokens, self.output_tokens))
        return max(1, round(prompt)), max(1, round(output))


@dataclass(frozen=True, slots=True)
class Measured:
    """The lengths of requests that were really sent, each as likely as the others: prompt and output stay together."""

    pairs: tuple[tuple[int, int], ...]

    def draw(self, chance: Random) -> tuple[int, int]:
        """The prompt and the output of one request."""
        return chance.choice(self.pairs)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request that a client wants to have answered. Lengths in tokens."""

    at: float
    request_class: str
    prompt_tokens: int
    output_tokens: int
    sdk: Sdk = OLD


class Spread(StrEnum):
    """How a rate becomes requests.

    A rate that is meant has all of its chance still before it. One that was measured has it behind it: that many did come,
    so their number is kept, and only where they stand in the time that the rate is of is thrown.
    """

    POISSON = "poisson"
    COUNTED = "counted"


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests of one class, sent by any of ``sdks``, each as likely as the others."""

    request_class: str
    rates: Rates
    lengths: Draws = Lengths()
    sdks: tuple[Sdk, ...] = (OLD,)
    spread: Spread = Spread.POISSON

    def arrivals(self, until: float, chance: Random) -> Iterator[Arrival]:
        """The requests up to ``until``."""
        times = self._counted if self.spread is Spread.COUNTED else self._poisson
        for at in times(until, chance):
            yield Arrival(at, self.request_class, *self.lengths.draw(chance), chance.choice(self.sdks))

    def _poisson(self, until: float, chance: Random) -> Iterator[float]:
        for (begins_at, rate_per_s), (ends_at, _) in pairwise((*self.rates, (until, 0.0))):
            at = begins_at
            while rate_per_s > 0:
                at += chance.expovariate(rate_per_s)
                if at >= min(ends_at, until):
                    break
                yield at

    def _counted(self, until: float, chance: Random) -> Iterator[float]:
        owed = chance.random()
        for (begins_at, rate_per_s), (ends_at, _) in pairwise((*self.rates, (until, 0.0))):
            lasts_s = max(0.0, min(ends_at, until) - begins_at)
            owed += rate_per_s * lasts_s
            count = math.floor(owed)
            owed -= count
            yield from sorted(begins_at + lasts_s * chance.random() for _ in range(count))


def arrivals(streams: Sequence[Stream], until: float, seed: int) -> Iterator[Arrival]:
    """All streams in order of time. Each has dice of its own, so another one beside it changes none of them."""
    each = [stream.arrivals(until, Random(f"{seed} {index}")) for index, stream in enumerate(streams)]
    return merge(*each, key=_at)


class Traffic(Protocol):
    """Requests from 0 to ``duration_s``. What is changed about it is a new one; chance enters only with ``arrivals``.

    A change that makes no sense raises ConfigError.
    """

    @property
    def duration_s(self) -> float: ...

    def scaled(self, factor: float) -> Traffic:
        """So many times the requests in the same time."""
        ...

    def stretched(self, factor: float) -> Traffic:
        """The same requests in so many times the time."""
        ...

    def clipped(self, begins_at: float, ends_at: float) -> Traffic:
        """A window of it, from 0."""
        ...

    def arrivals(self, seed: int) -> Iterator[Arrival]:
        """The requests in order of time, the same for the same seed."""
        ...


@dataclass(frozen=True, slots=True)
class Rated:
    """Streams at their rates."""

    streams: tuple[Stream, ...]
    duration_s: float

    def scaled(self, factor: float) -> Rated:
        return self._at_rates(_positive("scale", factor), 1.0)

    def stretched(self, factor: float) -> Rated:
        return self._at_rates(1.0 / _positive("stretch", factor), factor)

    def clipped(self, begins_at: float, ends_at: float) -> Rated:
        ends_at = _window(begins_at, ends_at, self.duration_s)
        streams = tuple(
            replace(stream, rates=_rates_within(stream.rates, begins_at, ends_at)) for stream in self.streams
        )
        return Rated(streams, ends_at - begins_at)

    def arrivals(self, seed: int) -> Iterator[Arrival]:
        return arrivals(self.streams, self.duration_s, seed)

    def _at_rates(self, rate_factor: float, time_factor: float) -> Rated:
        streams = tuple(
            replace(stream, rates=tuple((at * time_factor, rate * rate_factor) for at, rate in stream.rates))
            for stream in self.streams
        )
        return Rated(streams, self.duration_s * time_factor)


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests as they were written down, in order of time, and how many times they are sent (``factor``).

    Each copy beside the first is shifted by a part of ``SHIFT_S`` of its own and begins anew where the trace ends: eight
    equal requests at one instant are a burst that nobody ever saw. Of the last one, where the factor is no whole
    number, requests are left out at random. So the number of requests is exact, and the shape of the load stays.
    """

    rows: tuple[Arrival, ...]
    duration_s: float
    factor: float = 1.0

    def scaled(self, factor: float) -> Requests:
        return replace(self, factor=self.factor * _positive("scale", factor))

    def stretched(self, factor: float) -> Requests:
        times = _positive("stretch", factor)
        return replace(
            self, rows=tuple(_moved(row, row.at * times) for row in self.rows), duration_s=self.duration_s * times
        )

    def clipped(self, begins_at: float, ends_at: float) -> Requests:
        ends_at = _window(begins_at, ends_at, self.duration_s)
        first, last = (bisect_left(self.rows, at, key=_at) for at in (begins_at, ends_at))
        rows = tuple(_moved(row, row.at - begins_at) for row in self.rows[first:last])
        return replace(self, rows=rows, duration_s=ends_at - begins_at)

    def arrivals(self, seed: int) -> Iterator[Arrival]:
        chance = Random(f"copies {seed}")
        whole = math.floor(self.factor)
        copies: list[Sequence[Arrival]] = [self.rows] * whole
        some = chance.sample(range(len(self.rows)), round(len(self.rows) * (self.factor - whole)))
        copies.append([self.rows[index] for index in sorted(some)])
        shifts = [chance.uniform(0.0, min(SHIFT_S, self.duration_s)) for _ in copies[1:]]
        shifted = (self._shifted(copy, by_s) for copy, by_s in zip(copies[1:], shifts, strict=True) if copy)
        return merge(copies[0], *shifted, key=_at)

    def _shifted(self, rows: Sequence[Arrival], by_s: float) -> Iterator[Arrival]:
        wraps_at = self.duration_s - by_s
        first = bisect_left(rows, wraps_at, key=_at)
        # rounding must neither change the order nor leave the time of the trace
        wrapped = (_moved(row, min(by_s, row.at - wraps_at)) for row in rows[first:])
        return chain(wrapped, (_moved(row, min(self.duration_s, row.at + by_s)) for row in rows[:first]))


def shared_out(coming: Iterator[Arrival], shares: Mapping[str, float], seed: int) -> Iterator[Arrival]:
    """The same requests, each of one of these classes at random, by its share. Raises ConfigError unless the shares add up to 1."""
    if not all(share >= 0 for share in shares.values()) or not math.isclose(math.fsum(shares.values()), 1.0):
        raise ConfigError("classes: the shares of the request classes must not be negative and must add up to 1")
    chance, names, weights = Random(f"classes {seed}"), tuple(shares), tuple(shares.values())
    for row in coming:
        (name,) = chance.choices(names, weights)
        yield Arrival(row.at, name, row.prompt_tokens, row.output_tokens, row.sdk)


def mixed(each: Sequence[Iterator[Arrival]]) -> Iterator[Arrival]:
    """All of them in order of time."""
    return merge(*each, key=_at)


def surge(usual_per_s: float, high_per_s: float, begins_at: float, ends_at: float) -> Rates:
    """A load that is high between two instants."""
    return ((0.0, usual_per_s), (begins_at, high_per_s), (ends_at, usual_per_s))


def _moved(row: Arrival, at: float) -> Arrival:
    return Arrival(at, row.request_class, row.prompt_tokens, row.output_tokens, row.sdk)


def _rates_within(rates: Rates, begins_at: float, ends_at: float) -> Rates:
    before = [rate for at, rate in rates if at <= begins_at]
    within = tuple((at - begins_at, rate) for at, rate in rates if begins_at < at < ends_at)
    return ((0.0, before[-1]), *within) if before else within


def _positive(key: str, factor: float) -> float:
    if not 0 < factor < math.inf:
        raise ConfigError(f"{key}: a factor above 0 is needed")
    return factor


def _window(begins_at: float, ends_at: float, duration_s: float) -> float:
    """Where a window ends: with the traffic, if that is earlier."""
    if not 0 <= begins_at < min(ends_at, duration_s):
        raise ConfigError(f"clip: a window must begin before it ends, and within the {duration_s:g} s of the traffic")
    return min(ends_at, duration_s)
