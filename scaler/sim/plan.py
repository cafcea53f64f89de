"""The cheapest ``minReplicas`` and ``warmReplicas`` with which our law attains a wanted share of a history, and their neighbours.

A history may be of days. The fluid model (``sim.fluid``) goes through all of it for any choice in a fifth of a second; the stretch in
which it loses most is played request by request (``sim.play``), and that decides. The figures of a choice are put together: the
stretch as played, the rest as the fluid has it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from statistics import fmean

from scaler.core.ready_latency import PLANNING_QUANTILE, ReadyLatency
from scaler.sim.bound import MOST_BINS, Load, load
from scaler.sim.contest import Contender, Contest, Gating, played
from scaler.sim.fluid import Choice, Flow, Pool, flow
from scaler.sim.laws import LAWS
from scaler.sim.saturation import Saturation
from scaler.sim.stage import Setting
from scaler.sim.starts import quantile_s
from scaler.sim.traffic import Rated, Traffic
from scaler.sim.worth import Worth

LONGEST_S, SHORTEST_S = 3600.0, 900.0
MOST_PLAYED = 20_000
"""Requests of a stretch that is played, as long as it is not shorter than the shortest."""
UNPLAYABLE = 150_000
"""A stretch with more is not played: one run of it takes a minute."""
MOST_DRAWN = 200_000
"""Of more requests only the rates count: their chance is nothing beside them."""
SEED = 1
WINDOWS = 4
"""A stretch begins at a multiple of a quarter of its length."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The part of a history that is played, in seconds, and its first and last stretch of the load."""

    begins_at: float
    ends_at: float
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Judged:
    """A choice: what it attains and costs over the whole history.

    ``played_ratio``: of the stretch alone, with half the distance between the seeds' extremes, and what the fluid has for it; None where
    nothing was played.
    """

    choice: Choice
    kept_ratio: float
    gpu_hours: float
    played_ratio: float | None = None
    spread: float = 0.0
    fluid_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The cheapest choice that attains, None where the maximum does not do; ``tried`` are all that were judged, in order."""

    best: Judged | None
    tried: tuple[Judged, ...]

    def at(self, choice: Choice) -> Judged | None:
        """What was found of a choice."""
        return next((one for one in self.tried if one.choice == choice), None)


Judge = Callable[[Sequence[Choice]], Sequence[Judged]]


def history(traffic: Traffic) -> Load:
    """The requests in each stretch of time."""
    if isinstance(traffic, Rated) and (expected := _expected(traffic))[-1] > MOST_DRAWN:
        counts = [round(after) - round(before) for before, after in pairwise(expected)]
        return Load(tuple(counts), traffic.duration_s / len(counts))
    return load((one.at for one in traffic.arrivals(SEED)), traffic.duration_s)


def _expected(traffic: Rated) -> list[float]:
    """How many requests are expected until the end of each stretch of time, from 0."""
    count = min(MOST_BINS, math.ceil(traffic.duration_s))
    bin_s = traffic.duration_s / count
    totals = [0.0] * (count + 1)
    for stream in traffic.streams:
        times = [at for at, _ in stream.rates]
        ends = [*times[1:], math.inf]
        before = [
            0.0,
            *accumulate(
                rate * (min(end, traffic.duration_s) - at) for (at, rate), end in zip(stream.rates, ends, strict=True)
            ),
        ]
        for index in range(count + 1):
            at = index * bin_s
            place = bisect_left(times, at) - 1
            if place >= 0:
                totals[index] += before[place] + stream.rates[place][1] * (at - times[place])
    return totals


def pool(setting: Setting, bears: Saturation, *, sheds: bool) -> Pool:
    """What the fluid must know of a place. A workload that promises completion only has its deadline as budget."""
    spec, platform = setting.spec, setting.platform
    ready_s = quantile_s(platform.starts, PLANNING_QUANTILE)
    return Pool(
        ceiling_per_s=bears.ceiling_per_s,
        holds=bears.ceiling_concurrency,
        safe_rate_per_s=spec.profile.safe_rate_per_s or bears.safe_rate_per_s,
        safe_concurrency=spec.profile.safe_concurrency,
        headroom_ratio=spec.headroom_ratio,
        budget_s=spec.budget_s or spec.deadline_s or math.inf,
        ready_s=ready_s,
        down_s=spec.stabilize.down_s(ready_s),
        drain_deadline_s=spec.scaling.drain_deadline_s,
        max_replicas=spec.scaling.max_replicas,
        gpus=platform.preset.gpus,
        sheds=sheds,
    )


def busiest(offered: Load) -> Stretch:
    """The stretch with the most requests."""
    return worst(offered, [float(count) for count in offered.counts])


def worst(offered: Load, lost: Sequence[float]) -> Stretch:
    """The stretch in which most are lost; of equals that with the most requests, and of these the first."""
    losses, counts = ([0, *accumulate(each)] for each in (lost, offered.counts))

    def weight(stretch: Stretch) -> tuple[float, float]:
        return losses[stretch.last] - losses[stretch.first], counts[stretch.last] - counts[stretch.first]

    lasts_s = min(LONGEST_S, offered.seconds)
    while True:
        found = max(_stretches(offered, lasts_s), key=weight)
        if weight(found)[1] <= MOST_PLAYED or lasts_s <= SHORTEST_S:
            return found
        lasts_s = max(SHORTEST_S, lasts_s / 2)


def _stretches(offered: Load, lasts_s: float) -> Iterator[Stretch]:
    width = max(1, round(lasts_s / offered.bin_s))
    last = max(0, len(offered.counts) - width)
    for first in sorted({*range(0, last, max(1, width // WINDOWS)), last}):
        ends = min(len(offered.counts), first + width)
        yield Stretch(first * offered.bin_s, ends * offered.bin_s, first, ends)


def least(
    offered: Load, of: Pool, wanted: float, most_warm: int, floor: Sequence[int] | None = None
) -> tuple[Choice, Flow] | None:
    """The cheapest choice that attains in the fluid, and what it does; None where none does."""
    best: tuple[Choice, Flow] | None = None
    for warm in range(most_warm + 1):
        column = _Column(offered, of, warm, floor)
        if best is not None and column.at(1).gpu_hours >= best[1].gpu_hours:
            break  # more warm replicas cost more
        count = column.least(wanted)
        if count is not None and (best is None or column.at(count).gpu_hours < best[1].gpu_hours):
            best = Choice(count, warm), column.at(count)
    return best


class _Column:
    """All minima beside one number of warm replicas, each gone through once. Mutable, one owner."""

    def __init__(self, offered: Load, of: Pool, warm: int, floor: Sequence[int] | None = None) -> None:
        self._offered, self._pool, self._warm, self._floor = offered, of, warm, floor
        self._flows: dict[int, Flow] = {}

    def at(self, count: int) -> Flow:
        if count not in self._flows:
            self._flows[count] = flow(self._offered, self._pool, Choice(count, self._warm), self._floor)
        return self._flows[count]

    def least(self, wanted: float) -> int | None:
        """The fewest that attain."""
        low, high = 0, self._pool.max_replicas
        if self.at(1).ratio >= wanted:
            return 1
        if self.at(high).ratio < wanted:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.at(middle).ratio >= wanted else (middle, high)
        return high


def cheapest(offered: Load, of: Pool, judge: Judge, wanted: float, most_warm: int) -> Found:
    """Judge what the fluid finds cheapest for each number of warm replicas, and go on from there as far as the judgement says."""
    tried: dict[Choice, Judged] = {}

    def judged(*choices: Choice) -> list[Judged]:
        new = [choice for choice in dict.fromkeys(choices) if choice not in tried]
        tried.update(zip(new, judge(new), strict=True))
        return [tried[choice] for choice in choices]

    best: Judged | None = None
    guesses = [
        (column.at(count).gpu_hours, Choice(count, warm))
        for warm in range(most_warm + 1)
        if (count := (column := _Column(offered, of, warm)).least(wanted) or of.max_replicas)
    ]
    for gpu_hours, guess in sorted(guesses):
        if best is None or gpu_hours < best.gpu_hours:
            found = _edge(guess, of.max_replicas, wanted, judged)
            best = min((one for one in (best, found) if one is not None), key=lambda one: one.gpu_hours, default=None)
    if best is not None:
        judged(*around(best.choice, of.max_replicas))
        best = min(
            (one for one in tried.values() if one.kept_ratio >= wanted), key=lambda one: (one.gpu_hours, one.choice)
        )
    return Found(best, tuple(tried.values()))


def _edge(guess: Choice, most: int, wanted: float, judged: Callable[[Choice], list[Judged]]) -> Judged | None:
    """The least minimum that attains with as many warm replicas as the guess has; looked for from there in growing steps."""

    def at(count: int) -> Judged:
        return judged(replace(guess, min_replicas=count))[0]

    low, high, step = 0, guess.min_replicas, 1
    if at(high).kept_ratio >= wanted:
        while high - step > low and at(high - step).kept_ratio >= wanted:
            high, step = high - step, 2 * step
        low = max(low, high - step)
    else:
        while at(high).kept_ratio < wanted:
            if high >= most:
                return None
            low, high, step = high, min(most, high + step), 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if at(middle).kept_ratio >= wanted else (middle, high)
    return at(high)


def around(choice: Choice, most: int) -> list[Choice]:
    """One step less and one more of each."""
    count, warm = choice.min_replicas, choice.warm_replicas
    near = ((count - 1, warm), (count, warm - 1), (count + 1, warm), (count, warm + 1))
    return [Choice(*one) for one in near if 1 <= one[0] <= most and one[1] >= 0]


def put_together(whole: Flow, stretch: Stretch, runs: Sequence[Worth], choice: Choice) -> Judged:
    """The stretch as it was played, the rest as the fluid has it."""
    offered = sum(whole.offered.counts[stretch.first : stretch.last])
    there = math.fsum(whole.lost[stretch.first : stretch.last])
    kept = [run.kept_ratio for run in runs]
    lost = math.fsum(whole.lost) - there + (1 - fmean(kept)) * offered
    hours = whole.gpu_hours - whole.within(stretch.first, stretch.last) + fmean(run.gpu_hours for run in runs)
    return Judged(
        choice,
        kept_ratio=1 - lost / max(1, whole.offered.total),
        gpu_hours=hours,
        played_ratio=fmean(kept),
        spread=(max(kept) - min(kept)) / 2,
        fluid_ratio=1 - there / max(1, offered),
    )


def as_fluid(whole: Flow, choice: Choice) -> Judged:
    """Where nothing can be played."""
    return Judged(choice, whole.ratio, whole.gpu_hours)


def play(contest: Contest, gating: Gating, choice: Choice, initial: int, seed: int) -> Worth:
    """The stretch, with so many replicas at first. The law knows how long a start takes, as it does after some of them."""
    setting = contest.setting
    scaling = replace(setting.spec.scaling, min_replicas=choice.min_replicas, warm_replicas=choice.warm_replicas)
    known = ReadyLatency(quantile_s(setting.platform.starts, PLANNING_QUANTILE), origin="configuration")
    chosen = replace(
        setting,
        spec=replace(setting.spec, scaling=scaling, latency=known),
        platform=replace(setting.platform, replicas=initial),
    )
    return played(replace(contest, setting=chosen), Contender("ours", LAWS["ours"], gating), seed).worth
