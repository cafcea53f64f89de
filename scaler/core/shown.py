"""The safe concurrency of ``safeConcurrency: auto``: what live traffic has shown one replica to hold within its objectives.

Steady half minutes are evidence, each for the concurrency that it ran at. More load never makes an engine faster, so what passes at some
load passes at every lower one, and what breaks breaks at every higher one: that is the monotone fit here, and evidence of neighbouring
levels is taken together for it. The value rises to the highest level that passes with confidence while no lower one breaks; it falls a
step for each half minute that contradicts it; and it never rises above what ran. To learn more a fleet must run more: until the levels a
little above the value have been tried they are aimed at.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from scaler.core.evidence import bound_rank, least_samples
from scaler.core.model import Absent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scaler.core.history import History
    from scaler.core.windows import HistogramSeries

FIRST_CONCURRENCY = 4.0
"""Where it begins: a quarter of the lowest knee of the simulated engines (docs/calibration.md), and what a CPU with four slots holds."""
STEP_RATIO, LEAST_STEP, TRY_STEPS = 1.1, -14, 3
"""How far levels are apart, the lowest (one request at a time), and how many above the value are tried: the count of replicas follows the
peaks of minutes, so that on average they run a quarter less than is aimed at, and aiming at the next level would never reach it."""
FOUND_LASTS_S = 300.0
"""For how long what a replica ran when it was first seen stands without proof: growing a fleet that serves well would be a guess, too."""
WINDOW_S, STEADY_RATIO = 30.0, 0.2
PASS_CONFIDENCE = 0.99
"""More than for a load test's levels: this test is made again every half minute."""
LEAST_REQUESTS, REQUESTS_A_SLOT, LEAST_WINDOWS = 240.0, 20.0, 3.0
"""A level is shown by as many requests as a load test needs, and by three windows: requests that share a batch are not independent."""
FEW_REQUESTS = 20.0
FADING = 4.0
"""How many times what is needed a level keeps; what comes later than that counts in place of what was."""
MOST_LEVELS = 12


class Basis(StrEnum):
    """What a learnt value rests on."""

    FIRST = "first"
    """Nothing yet: it is where all begin."""
    FOUND = "found"
    """What a replica ran when it was first seen, for a while."""
    SHOWN = "shown"
    """Levels that passed, and those that broke."""


@dataclass(frozen=True, slots=True)
class Objectives:
    """What is shown or not: the strictest budgets of the classes in seconds, None where there is none, and the share to be within."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    quantile: float = 0.95


@dataclass(frozen=True, slots=True)
class Counts:
    """Requests, how many of them may have been late, and how many surely were. Histograms tell no more than their edges do."""

    requests: float = 0.0
    late: float = 0.0
    surely_late: float = 0.0

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(self.requests + other.requests, self.late + other.late, self.surely_late + other.surely_late)

    def at_most(self, requests: float) -> Counts:
        """The same shares of no more requests."""
        if self.requests <= requests:
            return self
        share = requests / self.requests
        return Counts(requests, self.late * share, self.surely_late * share)


@dataclass(frozen=True, slots=True)
class Level:
    """What was seen where ``concurrency_of(step)`` requests or a little more ran at once."""

    step: int
    seen: Counts


@dataclass(frozen=True, slots=True)
class Window:
    """Half a minute: ``running`` is the mean of one replica, None where members, pages or load changed too much to tell."""

    at: float
    running: float | None
    seen: Counts = Counts()


@dataclass(frozen=True, slots=True)
class Shown:
    """What was learnt: ``step`` is the level to go by, None before anything was seen.

    ``found_at`` is set while it is what ran at first, without proof. ``before`` is what ran in the window before. ``levels`` ascend.
    """

    objectives: Objectives = Objectives()
    step: int | None = None
    found_at: float | None = None
    looked_at: float = -math.inf
    before: float | None = None
    levels: tuple[Level, ...] = ()

    @property
    def value(self) -> float:
        """The concurrency to go by."""
        return concurrency_of(self.step or 0)

    @property
    def lasts(self) -> bool:
        """Whether there is something that another process should know."""
        return self.step is not None and self.found_at is None

    @property
    def basis(self) -> Basis:
        """What the value rests on."""
        if self.found_at is not None:
            return Basis.FOUND
        return Basis.SHOWN if self.step else Basis.FIRST

    @property
    def tries(self) -> bool:
        """Whether more is to be tried: what is a little above the value has served too few requests to tell, and broke nothing."""
        if self.step is None or not self.lasts:
            return False
        near = [one for one in self.levels if self.step < one.step <= self.step + TRY_STEPS]
        broken = any(one.step <= self.step + TRY_STEPS for one in _broken(self.levels, self.objectives.quantile))
        served = sum(one.seen.requests for one in near)
        return not broken and served < needed(self.step + 1, self.objectives.quantile)

    def target(self, headroom_ratio: float) -> float:
        """How many requests a replica should hold: headroom is for a limit that is known to be near."""
        if self.tries:
            return self.value * STEP_RATIO**TRY_STEPS
        return self.value if self.found_at is not None else self.value * (1 - headroom_ratio)


def concurrency_of(step: int) -> float:
    """The lower end of a level."""
    return FIRST_CONCURRENCY * STEP_RATIO**step


def watch(shown: Shown, objectives: Objectives, history: History) -> Shown:
    """What is shown after the newest observation. With other objectives everything begins anew."""
    now, awake = history.running.times[-1], history.awake.values[-1]
    if shown.step is None or shown.objectives != objectives:
        return _begun(objectives, history.running.values[-1] / awake, now) if awake else shown
    if now - shown.looked_at < WINDOW_S:
        return shown
    return heed(shown, _window(objectives, history, now))


def heed(shown: Shown, window: Window) -> Shown:
    """What is shown after one more window."""
    running, quantile, levels = _steady(shown.before, window.running), shown.objectives.quantile, shown.levels
    ran_at = None if running is None else _step_of(running)
    here = shown.step or 0
    if ran_at is not None and window.seen.requests:
        levels = _with(levels, ran_at, window.seen, shown)
    after = replace(shown, looked_at=window.at, before=window.running, levels=levels)
    passed = highest_shown(levels, quantile)
    if passed is not None and passed >= here:
        return replace(after, step=passed, found_at=None)
    if shown.found_at is not None:
        over = window.at - shown.found_at >= FOUND_LASTS_S or _breaks([window.seen], quantile)
        return replace(after, step=max(0, passed or 0), found_at=None) if over else after
    fresh = ran_at is not None and ran_at <= here + 1
    if fresh and any(one.step <= here for one in _broken(levels, quantile)):
        return replace(after, step=max(LEAST_STEP, here - 1))
    return after


def highest_shown(levels: Sequence[Level], quantile: float) -> int | None:
    """The highest level that passes while none up to it breaks; None when none does."""
    broken = {one.step for one in _broken(levels, quantile)}
    best = None
    for index, level in enumerate(levels):
        if level.step in broken:
            break
        if _passes(levels[index:], needed(level.step, quantile), quantile):
            best = level.step
    return best


def needed(step: int, quantile: float) -> float:
    """How many requests show a level."""
    slots = REQUESTS_A_SLOT * concurrency_of(step)
    return max(LEAST_REQUESTS, slots, 2.0 * least_samples(quantile, PASS_CONFIDENCE))


def _begun(objectives: Objectives, running: float, now: float) -> Shown:
    step = max(0, _step_of(max(FIRST_CONCURRENCY, running)))
    return Shown(objectives, step, now if step else None, now)


def _with(levels: tuple[Level, ...], step: int, seen: Counts, shown: Shown) -> tuple[Level, ...]:
    """The levels with a window at its own; those nearest to the value are kept."""
    enough = needed(step, shown.objectives.quantile)
    known = {one.step: one.seen for one in levels}
    more = known.get(step, Counts()).plus(seen.at_most(enough / LEAST_WINDOWS))
    known[step] = more.at_most(FADING * enough)
    nearest = sorted(known, key=lambda one: (abs(one - (shown.step or 0)), one))[:MOST_LEVELS]
    return tuple(Level(one, known[one]) for one in sorted(nearest))


def _step_of(concurrency: float) -> int:
    return math.floor(math.log(concurrency / FIRST_CONCURRENCY) / math.log(STEP_RATIO) + 1e-9)


def _steady(before: float | None, running: float | None) -> float | None:
    """The load that the requests of a window met all their life, as far as two windows tell; None when it changed, or nothing ran."""
    if before is None or running is None or min(before, running) < max(1.0, (1 - STEADY_RATIO) * max(before, running)):
        return None
    return min(before, running)


def _passes(levels: Iterable[Level], enough: float, quantile: float) -> bool:
    """Whether enough requests at these loads, the lowest first, were within the objectives."""
    seen = Counts()
    for level in levels:
        seen = seen.plus(level.seen)
        rank = bound_rank(math.floor(seen.requests), quantile, PASS_CONFIDENCE) if seen.requests >= enough else None
        if rank is not None and math.floor(seen.requests) - math.ceil(seen.late) >= rank:
            return True
    return False


def _broken(levels: Sequence[Level], quantile: float) -> tuple[Level, ...]:
    """The levels at which the objectives broke: by what was seen there and just below it."""
    return tuple(
        level for index, level in enumerate(levels) if _breaks([one.seen for one in levels[index::-1]], quantile)
    )


def _breaks(parts: Iterable[Counts], quantile: float) -> bool:
    """Whether more were late than chance explains where as many are as may be."""
    seen = Counts()
    for part in parts:
        seen = seen.plus(part)
        if seen.requests >= FEW_REQUESTS:
            rank = bound_rank(math.ceil(seen.requests), 1 - quantile)
            if rank is not None and seen.surely_late >= rank:
                return True
    return False


def _window(objectives: Objectives, history: History, now: float) -> Window:
    """The last half minute, if the same replicas served it and all of them told."""
    awake, times = history.awake.values[-1], history.running.times
    same = history.members_at is not None and history.members_at <= now - WINDOW_S
    mean = history.running.mean(WINDOW_S)
    whole = len(times) > 1 and times[0] <= now - WINDOW_S
    if not (awake and same and whole and mean) or history.missing or history.lost:
        return Window(now, None)
    sides = [
        _late(series, objective, now)
        for series, objective in ((history.ttft, objectives.ttft_s), (history.tpot, objectives.tpot_s))
        if objective is not None
    ]
    if not sides or None in sides:
        return Window(now, None)
    told = [side for side in sides if side is not None]
    requests = min(side.requests for side in told)
    late = max(side.at_most(requests).late for side in told)
    if (
        history.preemptions.rate_per_s(WINDOW_S) or 0.0
    ) > 0:  # a cache that is full once is full more often at the next test
        late = requests
    late = min(requests, late + history.waiting.values[-1])
    surely = max(side.at_most(requests).surely_late for side in told)
    return Window(now, mean / awake, Counts(requests, late, surely))


def _late(series: HistogramSeries, objective_s: float, now: float) -> Counts | None:
    """How many were late in the last half minute; None without a histogram."""
    counts = series.between(now - WINDOW_S, now)
    if isinstance(counts, Absent):
        return Counts() if counts is Absent.IDLE else None
    below = bisect_right(series.edges, objective_s) - 1
    above = bisect_left(series.edges, objective_s)
    within = counts[below] if below >= 0 else 0.0
    return Counts(counts[-1], counts[-1] - within, counts[-1] - counts[above])
