"""What a load tester found, in one vocabulary whatever the tool. Times are seconds, ratios 0..1, lengths tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from scaler.core.evidence import Ordered

STEADY_RATIO = 0.95
"""A server that serves less than this share of what is sent falls behind: its latencies say how long the test was, not how it serves."""
LEAST_IN_FLIGHT, MOST_IN_FLIGHT = 0.1, 1e6
"""What the configuration takes for a safe concurrency."""
KEPT = (0.0, 0.5, 0.9, 0.95, 0.99, 1.0)


class LoadKind(StrEnum):
    """What the load tester held constant."""

    CONCURRENCY = "concurrency"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class Load:
    """One load: requests in flight, or requests a second."""

    kind: LoadKind
    value: float

    def __str__(self) -> str:
        """As a person says it."""
        return f"concurrency {self.value:g}" if self.kind is LoadKind.CONCURRENCY else f"{self.value:g} requests/s"


@dataclass(frozen=True, slots=True)
class Options:
    """How a load tester is told what a usable test needs, in its own words.

    ``concurrency`` and ``rate`` are the options of one level, with ``{load}``, ``{requests}`` and ``{seconds}`` for their values.
    ``prompts`` makes prompts that no earlier run sent, ``percentiles`` and ``tpot`` get what is missing into the file, ``samples`` the
    latency of every request, where it can. ``ttft_field`` and ``tpot_field`` are a percentile's place in the file, with ``{}`` for it.
    """

    tool: str
    concurrency: str
    rate: str
    prompts: str
    percentiles: str
    tpot: str
    samples: str | None
    ttft_field: str
    tpot_field: str

    @property
    def cold(self) -> str:
        """What to do about a warm prefix cache."""
        return f"Repeat it with {self.prompts}; if production's prompts are found in the cache as well, say --shared-prefix"

    def level(self, load: Load, requests: int) -> str:
        """The options that test this load with so many requests."""
        option = self.concurrency if load.kind is LoadKind.CONCURRENCY else self.rate
        return option.format(load=f"{load.value:g}", requests=requests, seconds=math.ceil(requests / load.value))


@dataclass(frozen=True, slots=True)
class Setup:
    """What must be the same at every load. None: the file does not say."""

    tool: str
    tool_version: str | None = None
    model: str | None = None
    engine_version: str | None = None
    gpu: str | None = None
    max_num_seqs: float | None = None
    kv_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Latency:
    """A latency of the successful requests of one run. ``quantiles`` ascend by their share: 0 is the smallest, 1 the largest."""

    count: int
    mean_s: float | None = None
    quantiles: tuple[tuple[float, float], ...] = ()
    samples: tuple[float, ...] = ()

    @classmethod
    def of_samples(cls, samples: Iterable[float]) -> Latency:
        """All of them are known."""
        ascending = tuple(sorted(samples))
        if not ascending:
            return cls(0)
        quantiles = tuple((share, interpolated(ascending, share)) for share in KEPT)
        return cls(len(ascending), math.fsum(ascending) / len(ascending), quantiles, ascending)

    def at(self, share: float) -> float | None:
        """The quantile as the load tester reports it, None when it does not."""
        return dict(self.quantiles).get(share)

    def ordered(self) -> Ordered:
        """What is known of the order of the values."""
        return (
            Ordered.of_samples(self.samples) if self.samples else Ordered.of_summary(self.count, dict(self.quantiles))
        )


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of the prompts, or of the outputs. None: the file does not say."""

    mean: float | None = None
    std: float | None = None
    p50: float | None = None
    p95: float | None = None

    @classmethod
    def of_samples(cls, lengths: Iterable[float]) -> Lengths:
        """All of them are known."""
        ascending = sorted(lengths)
        if not ascending:
            return cls()
        mean = math.fsum(ascending) / len(ascending)
        std = math.sqrt(math.fsum((length - mean) ** 2 for length in ascending) / len(ascending))
        return cls(mean, std, interpolated(ascending, 0.5), interpolated(ascending, 0.95))


@dataclass(frozen=True, slots=True)
class Defect:
    """Why a load says nothing about the safe concurrency, and what to do about it.

    ``short``: more requests are all that it takes. ``about``: the objective that alone is touched, ``ttft`` or ``tpot``; empty for all.
    """

    text: str
    short: bool = False
    about: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One load, held for a while.

    ``from_empty``: the first requests, which found an empty engine, are among those measured. ``cut_off`` requests were under way when
    the run ended, and are in no latency. ``cached_ratio`` is the share of prompt tokens that the engine found in its prefix cache. None
    always means that the file does not say.
    """

    file: str
    setup: Setup
    options: Options
    load: Load
    completed: int
    failed: int | None
    rate_per_s: float
    e2e_mean_s: float | None
    ttft: Latency
    tpot: Latency
    prompts: Lengths = Lengths()
    outputs: Lengths = Lengths()
    from_empty: bool = True
    cut_off: int = 0
    preemptions: float | None = None
    cached_ratio: float | None = None
    tested_on: str | None = None
    defects: tuple[Defect, ...] = ()

    @property
    def concurrency(self) -> float:
        """Requests in flight: as declared, or for a rate by Little's law from the successful requests."""
        if self.load.kind is LoadKind.CONCURRENCY:
            return self.load.value
        return self.little or 0.0

    @property
    def little(self) -> float | None:
        """Requests in flight by Little's law, None without a latency of whole requests."""
        return None if self.e2e_mean_s is None else self.rate_per_s * self.e2e_mean_s

    @property
    def saturated(self) -> bool:
        """Whether it served clearly less than was sent. A test ends with its last answer, which is no sign of that."""
        if self.load.kind is LoadKind.CONCURRENCY or not self.completed:
            return False
        sending_s = self.completed / self.load.value
        return self.rate_per_s < STEADY_RATIO * self.completed / (sending_s + (self.e2e_mean_s or 0.0))

    @property
    def likeness(self) -> tuple[object, ...]:
        """Equal for the same run told twice, in a file of its own and in the summary of a sweep, but hardly for another one."""
        told = (self.rate_per_s, self.ttft.mean_s, self.ttft.at(0.95))
        return (self.load, self.completed, *(value and float(f"{value:.6g}") for value in told))


def seconds(quantiles: Mapping[float, float | None], unit_s: float) -> tuple[tuple[float, float], ...]:
    """Quantiles in ``unit_s`` as a latency holds them, without those that are not known."""
    return tuple((share, value * unit_s) for share, value in sorted(quantiles.items()) if value is not None)


def interpolated(ascending: tuple[float, ...] | list[float], share: float) -> float:
    """The quantile of sorted values, between neighbours, as numpy and the load testers give it."""
    place = share * (len(ascending) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (place - below) * (ascending[above] - ascending[below])
