"""What is learnt from the history of a workload whose load test does not say it: the residence time, and the safe concurrency itself."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scaler.core.capacity import LoadWindow, learn
from scaler.core.shown import LEAST_STEP, MOST_LEVELS, WINDOW_S, Counts, Level, Objectives, Shown, watch

if TYPE_CHECKING:
    from scaler.core.capacity import Learned, Profile
    from scaler.core.history import History

MOST_STEP, MOST_REQUESTS, LONGEST_S = 130, 1e7, 1e7
"""What is beyond was not written by us: a million requests at once, more of them than are kept, an objective of months."""


def with_shown(profile: Profile, learned: Learned, objectives: Objectives, history: History) -> tuple[Profile, Learned]:
    """The profile with the safe concurrency that traffic has shown, where that is to be learnt; else as it is."""
    if not profile.learnt:
        return profile, learned
    shown = watch(learned.shown, objectives, history)
    return replace(profile, safe_concurrency=shown.value), replace(learned, shown=shown)


def with_residence(
    profile: Profile, learned: Learned, history: History, throughput_per_s: float | None, tick_s: float
) -> Learned:
    """What was learnt, with the residence time of the last window, if that is to be learnt and the window tells it."""
    if profile.safe_rate_per_s is not None:  # a load test knows better
        return learned
    mean, slope = history.running.mean(WINDOW_S), history.running.slope(WINDOW_S)
    times, awake = history.running.times, history.awake.values[-1]
    if not mean or slope is None or not awake or not throughput_per_s:
        return learned
    length = min(WINDOW_S, times[-1] - times[0])
    same = history.members_at is not None and history.members_at <= times[-1] - length
    if length < WINDOW_S - tick_s or not same:
        return learned
    window = LoadWindow(
        at=times[-1],
        length_s=length,
        running_per_replica=mean / awake,
        running_change_ratio=abs(slope.per_s) * length / mean,
        waiting=history.waiting.values[-1],
        throughput_per_replica_s=throughput_per_s / awake,
    )
    return learn(learned, profile, window)


def told_of(shown: Shown) -> tuple[list[Any], list[list[int]]]:
    """What is to be kept of it, for JSON: the objectives and the level to go by, and the levels, those nearest to it first.

    Rounded so that it never shows more than it did.
    """
    told, here = shown.objectives, shown.step or 0
    nearest = sorted([(one.step, one.seen) for one in shown.levels], key=lambda level: abs(level[0] - here))
    counts = [
        [step, int(n.requests), math.ceil(min(n.late, int(n.requests))), int(n.surely_late)] for step, n in nearest
    ]
    return [[told.ttft_s, told.tpot_s, told.quantile], here], counts


def shown_of(kept: Any) -> Shown:
    """What was kept, its levels in their order. Raises ValueError or TypeError where it makes no sense."""
    (ttft, tpot, quantile), value, counts = kept
    levels = [
        Level(_step(step), Counts(*[_sane(number, MOST_REQUESTS) for number in (requests, late, surely)]))
        for step, requests, late, surely in counts
    ]
    steps = [one.step for one in levels]
    if steps != sorted(set(steps)) or len(steps) > MOST_LEVELS or not 0 < _sane(quantile, 1.0) < 1:
        raise ValueError("levels ascend")
    ttft_s, tpot_s = (None if one is None else _sane(one, LONGEST_S) for one in (ttft, tpot))
    return Shown(Objectives(ttft_s, tpot_s, float(quantile)), _step(value), levels=tuple(levels))


def _step(number: Any) -> int:
    if type(number) is not int or not LEAST_STEP <= number <= MOST_STEP:
        raise ValueError("no such level")
    return number


def _sane(number: Any, most: float) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= most:
        raise ValueError("no such number")
    return float(number)
