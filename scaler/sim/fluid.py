"""Our law on a load of days, as a fluid: rates and counts in stretches of time instead of requests, engines and ticks.

What it keeps of the law: flow, growth, backlog, the scale-down window, warm replicas and bounds; of a replica: that it starts late, ends
so many requests a second (``sim.saturation``) and holds so many. What it leaves out: chance within a stretch, the dice of start times
(every start takes as long as a slow one, P90), KEDA's beat (an average), uneven routing, TPOT. So it ranks choices and finds the hours that
matter; ``play`` says what these are really like.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from scaler.core.growth import (
    GROWTH_DAMPING,
    GROWTH_HORIZON_S,
    GROWTH_LIMIT,
    GROWTH_SHARE,
    GROWTH_SIGMAS,
    GROWTH_VARIANCE,
    GROWTH_WINDOW_S,
)
from scaler.core.target import whole
from scaler.sim.bound import DETECTION_S, Load

SEEN_S = 30.0
"""A rate is that of so many seconds."""


class Sight(StrEnum):
    """What a law knows of the load to come: nothing, or that a significant rise goes on (as ours does)."""

    REACTIVE = "reactive"
    TREND = "trend"


@dataclass(frozen=True, slots=True)
class Pool:
    """What the choices have in common.

    A replica ends at most ``ceiling_per_s`` with ``holds`` requests under way; the law is told ``safe_rate_per_s`` and
    ``safe_concurrency``, and asks for replicas that are used to ``1 - headroom`` of that. ``ready_s``: a slow start. ``sheds``: a gate
    refuses what would come too late; without one it waits, and so does everybody behind it.
    """

    ceiling_per_s: float
    holds: float
    safe_rate_per_s: float
    safe_concurrency: float
    headroom_ratio: float
    budget_s: float
    ready_s: float
    down_s: float
    drain_deadline_s: float
    max_replicas: int
    gpus: int
    sheds: bool
    sight: Sight = Sight.TREND

    @property
    def target_per_s(self) -> float:
        """Requests a second for which the law wants one replica."""
        return self.safe_rate_per_s * (1 - self.headroom_ratio)


@dataclass(frozen=True, slots=True, order=True)
class Choice:
    """What a person chooses."""

    min_replicas: int
    warm_replicas: int = 0


@dataclass(frozen=True, slots=True)
class Flow:
    """What became of a load. Each in so many stretches: requests that came too late or were refused, and replicas that existed."""

    offered: Load
    lost: tuple[float, ...]
    replicas: tuple[int, ...]
    gpus: int

    @property
    def ratio(self) -> float:
        """The share that was served in time."""
        total = self.offered.total
        return 1.0 - math.fsum(self.lost) / total if total else 1.0

    @property
    def gpu_hours(self) -> float:
        """What it cost."""
        return self.within(0, len(self.replicas))

    def within(self, begins: int, ends: int) -> float:
        """GPU-hours in these stretches."""
        return sum(self.replicas[begins:ends]) * self.offered.bin_s * self.gpus / 3600


def flow(offered: Load, pool: Pool, choice: Choice, floor: Sequence[int] | None = None) -> Flow:
    """The law on a load, with at least ``floor`` replicas in each stretch, as a cron trigger asks for them."""
    course = _Course(offered, pool, choice)
    for index in range(len(offered.counts)):
        course.pass_stretch(index, floor[index] if floor is not None else 0)
    return Flow(offered, tuple(course.lost), tuple(course.replicas), pool.gpus)


def without(pool: Pool, sight: Sight) -> Pool:
    """The same with another sight."""
    return replace(pool, sight=sight)


class _Course:
    """Mutable, one owner, who passes the stretches in order."""

    def __init__(self, offered: Load, pool: Pool, choice: Choice) -> None:
        self._counts, self._bin_s = offered.counts, offered.bin_s
        self._pool, self._choice = pool, choice
        self._seen = max(1, round(SEEN_S / self._bin_s))
        self._window = max(1, round(GROWTH_WINDOW_S / self._bin_s))
        self._late = max(1, math.ceil((pool.ready_s + DETECTION_S) / self._bin_s))
        self._down = max(1, math.ceil(pool.down_s / self._bin_s))
        self._ends_per_bin = pool.ceiling_per_s * self._bin_s
        residence = pool.holds / pool.ceiling_per_s / self._bin_s  # by Little's law, in stretches of time
        self._stays = math.exp(-1 / residence) if residence else 0.0
        self._stays_new = residence * (1 - self._stays)
        self._starting: deque[int] = deque()  # when each is ready, ascending
        self._highest: deque[tuple[int, int]] = deque()  # recommendations of the scale-down window, falling
        self._sums = [0]
        self._waiting = self._under_way = 0.0
        self._ready = max(1, self._wanted(self._first_rate(), 1.0, 0.0)) if pool.max_replicas else 0
        self.lost: list[float] = []
        self.replicas: list[int] = []

    def pass_stretch(self, index: int, floor: int) -> None:
        count = self._counts[index]
        self._sums.append(self._sums[-1] + count)
        while self._starting and self._starting[0] <= index:
            self._starting.popleft()
            self._ready += 1
        self.lost.append(self._serve(count))
        self.replicas.append(self._ready + len(self._starting))
        rate = self._rate(index)
        wanted = self._wanted(rate, self._growth(index, rate), self._backlog(rate, index))
        self._resize(max(self._held(wanted, index), min(floor, self._pool.max_replicas)), index)

    def _serve(self, count: float) -> float:
        """One stretch; how many of its requests are lost."""
        pool, ready = self._pool, self._ready
        most, before_under_way = ready * self._ends_per_bin, self._under_way
        waiting = self._waiting + count
        enters = min(waiting, max(0.0, most + ready * pool.holds - before_under_way))
        waiting -= enters
        stays = self._stays * before_under_way + self._stays_new * enters
        self._under_way = max(before_under_way + enters - most, stays)
        in_time = ready * pool.ceiling_per_s * pool.budget_s
        if pool.sheds:
            self._waiting = min(waiting, in_time)
            return max(0.0, waiting - in_time)
        before, self._waiting = self._waiting, waiting
        excess = max(0.0, waiting - in_time)
        if not count or not excess:
            return 0.0
        return count * min(1.0, excess / max(excess, waiting - min(before, in_time)))

    def _first_rate(self) -> float:
        first = self._counts[: max(1, round(GROWTH_WINDOW_S / self._bin_s))]
        return sum(first) / (len(first) * self._bin_s)

    def _rate(self, index: int) -> float:
        since = max(0, index + 1 - self._seen)
        return (self._sums[index + 1] - self._sums[since]) / ((index + 1 - since) * self._bin_s)

    def _growth(self, index: int, rate: float) -> float:
        """As ``core.growth``, from counts."""
        middle, first = index + 1 - self._window, index + 1 - 2 * self._window
        if self._pool.sight is Sight.REACTIVE or first < 0 or rate <= 0:
            return 1.0
        scale = GROWTH_WINDOW_S / (self._window * self._bin_s)
        late = (self._sums[index + 1] - self._sums[middle]) * scale
        early = (self._sums[middle] - self._sums[first]) * scale
        noise = GROWTH_SIGMAS * math.sqrt(GROWTH_VARIANCE * (early + late))
        if late - early <= noise or late <= (1 + GROWTH_SHARE) * early:
            return 1.0
        apart_s = max(GROWTH_WINDOW_S, self._bin_s)
        rise_per_s2 = (late - early) / GROWTH_WINDOW_S / apart_s
        ahead_s = min(self._pool.ready_s, GROWTH_HORIZON_S)
        return min(GROWTH_LIMIT, 1 + GROWTH_DAMPING * rise_per_s2 * ahead_s / rate)

    def _backlog(self, rate: float, index: int) -> float:
        """The replicas that drain what will wait when one that is asked for is ready."""
        pool, ready = self._pool, self._ready
        queue = self._waiting + max(0.0, self._under_way - pool.safe_concurrency * ready)
        if not queue:
            return 0.0
        eta_s = (self._starting[0] - index) * self._bin_s if self._starting else pool.ready_s
        at_ready = max(0.0, queue + (rate - pool.safe_rate_per_s * ready) * eta_s)
        return at_ready / (pool.safe_rate_per_s * pool.drain_deadline_s)

    def _wanted(self, rate: float, growth: float, backlog: float) -> int:
        flow_ = rate / self._pool.target_per_s
        wanted = whole(max(flow_ * growth, flow_ + backlog)) + self._choice.warm_replicas
        return min(max(wanted, self._choice.min_replicas), self._pool.max_replicas)

    def _held(self, wanted: int, index: int) -> int:
        """The largest recommendation of the scale-down window."""
        highest = self._highest
        while highest and highest[-1][1] <= wanted:
            highest.pop()
        highest.append((index, wanted))
        while highest[0][0] <= index - self._down:
            highest.popleft()
        return highest[0][1]

    def _resize(self, wanted: int, index: int) -> None:
        there = self._ready + len(self._starting)
        for _ in range(wanted - there):
            self._starting.append(index + self._late)
        for _ in range(there - wanted):
            if self._starting:
                self._starting.pop()
            elif self._ready:
                self._ready -= 1
