"""Whether it pays to know beforehand: the law as it only reacts, with its trend, and above a floor by the hour of the day.

All are scored by the fluid model on the same stretch, each with the fewest minimum and warm replicas that attain the wanted share there:
what is left to compare is the bill. The floor is learnt from the first days and scored on the others, so a day that was like no other
before counts against it. How high it is set is chosen on the first days, too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from scaler.sim.bound import DETECTION_S, Load, rates
from scaler.sim.fluid import Choice, Pool, Sight, without
from scaler.sim.idle import DAY_S
from scaler.sim.plan import least

HOUR_S = 3600.0
HOURS = 24
LEAST_DAYS = 3
MOST_BLOCKS = 6
"""More triggers nobody keeps."""
PAYS_RATIO = 0.05
"""A floor that saves less is not worth another thing to look after."""
MOST_OF_HOUR = 0.98
"""A need that is exceeded for a minute of an hour: what begins with the next hour is not of this one."""
LEVELS = (0.5, 0.8, 1.0)
"""Which of the days' needs an hour's floor is, as a quantile of them."""


@dataclass(frozen=True, slots=True)
class Block:
    """From one full hour of the day to another, in UTC, the latter not included; ``replicas`` at least."""

    begins: int
    ends: int
    replicas: int


@dataclass(frozen=True, slots=True)
class Scored:
    """A law, the fewest replicas with which it attains, and what it then costs. None: it attains with no number of them."""

    name: str
    choice: Choice | None
    kept_ratio: float
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class Forecasts:
    """All on the same stretch of ``scored_days``; the floor is learnt from ``learnt_days`` before, 0 where there are too few days."""

    reactive: Scored
    trend: Scored
    seasonal: Scored | None
    learnt_days: float
    scored_days: float
    blocks: tuple[Block, ...] = ()
    lead_s: float = 0.0

    @property
    def saves_ratio(self) -> float:
        """How much less the floor costs than the cheaper of the others; 0 where there is none, or it does not attain."""
        others = [one.gpu_hours for one in (self.reactive, self.trend) if one.choice is not None]
        if self.seasonal is None or self.seasonal.choice is None:
            return 0.0
        return 1 - self.seasonal.gpu_hours / min(others) if others else 1.0

    @property
    def pays(self) -> bool:
        """Whether the floor is worth a cron trigger."""
        return bool(self.blocks) and self.saves_ratio > PAYS_RATIO


@dataclass(frozen=True, slots=True)
class Aim:
    """What is wanted, the most warm replicas that are tried, and which time of the day (UTC, seconds) the history begins at."""

    kept_ratio: float
    most_warm: int
    begins_s: float = 0.0


def forecasts(offered: Load, of: Pool, aim: Aim) -> Forecasts:
    """On the whole history, or with a floor on its second half."""
    days = offered.seconds / DAY_S
    if days < LEAST_DAYS:
        reactive, trend = (_scored(offered, of, aim, sight) for sight in (Sight.REACTIVE, Sight.TREND))
        return Forecasts(reactive, trend, None, 0.0, days)
    middle = round(math.floor(days / 2 + 0.5) * DAY_S / offered.bin_s)
    early, late = Load(offered.counts[:middle], offered.bin_s), Load(offered.counts[middle:], offered.bin_s)
    lead_s = math.ceil((of.ready_s + DETECTION_S) / offered.bin_s) * offered.bin_s  # the fluid starts at its stretches
    level = _best_level(early, of, aim, lead_s)
    late_aim = Aim(aim.kept_ratio, aim.most_warm, aim.begins_s + early.seconds)
    floor = _floor(late, blocks(early, of, aim, level), late_aim.begins_s, lead_s)
    learnt = _scored(late, of, late_aim, Sight.TREND, floor)
    reactive, trend = (_scored(late, of, late_aim, sight) for sight in (Sight.REACTIVE, Sight.TREND))
    return Forecasts(
        reactive,
        trend,
        learnt,
        early.seconds / DAY_S,
        late.seconds / DAY_S,
        _above(blocks(offered, of, aim, level), learnt.choice),
        of.ready_s + DETECTION_S,
    )


def _scored(offered: Load, of: Pool, aim: Aim, sight: Sight, floor: Sequence[int] | None = None) -> Scored:
    name = sight.value if floor is None else "seasonal"
    found = least(offered, without(of, sight), aim.kept_ratio, aim.most_warm, floor)
    if found is None:
        return Scored(name, None, 0.0, math.inf)
    choice, went = found
    return Scored(name, choice, went.ratio, went.gpu_hours)


def _best_level(early: Load, of: Pool, aim: Aim, lead_s: float) -> float:
    def bill(level: float) -> float:
        floor = _floor(early, blocks(early, of, aim, level), aim.begins_s, lead_s)
        return _scored(early, of, aim, Sight.TREND, floor).gpu_hours

    return min(LEVELS, key=bill)


def blocks(offered: Load, of: Pool, aim: Aim, level: float) -> tuple[Block, ...]:
    """The needs of the hours of a day, as that quantile of the days, in so few blocks that they can be looked after."""
    needs: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, rate in enumerate(rates(offered)):
        day, second = divmod(aim.begins_s + (index + 0.5) * offered.bin_s, DAY_S)
        needs[int(second / HOUR_S), int(day)].append(math.ceil(rate / of.target_per_s))
    each: list[list[int]] = [[] for _ in range(HOURS)]
    for (hour, _), wanted in needs.items():
        each[hour].append(_quantile(wanted, MOST_OF_HOUR))
    floors = [_quantile(days, level) for days in each]
    floors = [0 if floor == min(floors) else floor for floor in floors]  # what each hour needs is there without a floor
    found = [Block(hours[0], hours[-1] + 1, replicas) for replicas, hours in _runs(floors)]
    while len(found) > MOST_BLOCKS:
        at = min(range(len(found) - 1), key=lambda index: _extra(found[index], found[index + 1]))
        found[at : at + 2] = [_merged(found[at], found[at + 1])]
    return tuple(found)


def _quantile(values: Sequence[int], level: float) -> int:
    return sorted(values)[min(len(values) - 1, int(level * len(values)))] if values else 0


def _runs(floors: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    for replicas, hours in groupby(range(HOURS), key=floors.__getitem__):
        yield replicas, list(hours)


def _merged(one: Block, other: Block) -> Block:
    return Block(one.begins, other.ends, max(one.replicas, other.replicas))


def _extra(one: Block, other: Block) -> int:
    """The replica-hours that merging costs."""
    whole = _merged(one, other)
    return sum((whole.replicas - part.replicas) * (part.ends - part.begins) for part in (one, other))


def _above(found: Sequence[Block], choice: Choice | None) -> tuple[Block, ...]:
    """Those that ask for more than the minimum."""
    least_replicas = choice.min_replicas if choice is not None else 0
    return tuple(block for block in found if block.replicas > least_replicas)


def _floor(offered: Load, found: Sequence[Block], begins_s: float, lead_s: float) -> list[int]:
    """In each stretch what the block of now asks for, or that which begins within the lead."""
    by_hour = [replicas for block in found for replicas in [block.replicas] * (block.ends - block.begins)]

    def at(second: float) -> int:
        return by_hour[int(second % DAY_S / HOUR_S)]

    times = (begins_s + index * offered.bin_s for index in range(len(offered.counts)))
    return [max(at(time), at(time + lead_s)) for time in times]
