"""From levels to one safe concurrency: the highest tested level that passes while every lower one passes too.

Nothing is interpolated and nothing extrapolated. Between a level that passes and one that fails lies a cliff as often as a slope (a real
engine with four places: P95 of the time to the first token 0.28 s at concurrency 4, 1.9 s at 8; a straight line would call 5 safe at
0.5 s), so the answer names the next level to test instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scaler.calibration.judge import Check, Judged, Objectives, Trouble, Verdict, judge, limits
from scaler.calibration.levels import Sweep
from scaler.calibration.runs import LoadKind, Setup
from scaler.errors import ConfigError

FINE_STEP, COARSE_STEP = 1.25, 2.0
"""A step between two levels that is not worth halving, the headroom being of that size; and one that is too wide to be sure."""
UNLOADED_CONCURRENCY = 1.0


class Outcome(StrEnum):
    """What a load test says about the safe concurrency."""

    SAFE = "safe"
    AT_LEAST = "at least"
    INFEASIBLE = "infeasible"
    NOT_ENOUGH = "not enough samples"
    UNUSABLE = "not usable"


class Confidence(StrEnum):
    """How near the safe concurrency is to the highest that is safe. That it is safe is as sure in each case."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Calibration:
    """The answer.

    ``safe`` is the level to go by and ``stopper`` the lowest that does not pass; either may be missing. ``ceiling`` is a limit so near
    above the safe level that no level between is worth testing.
    """

    outcome: Outcome
    objectives: Objectives
    sweep: Sweep
    levels: tuple[Judged, ...]
    safe: Judged | None
    stopper: Judged | None
    ceiling: Trouble | None

    @property
    def binding(self) -> Trouble | Check | None:
        """What stopped at the lowest level that does not pass: an objective, or what else was wrong with the engine there."""
        if self.stopper is None:
            return self.ceiling
        return self.stopper.troubles[0] if self.stopper.troubles else self.stopper.worst

    @property
    def safe_concurrency(self) -> float | None:
        """Requests in flight that one replica serves within its objectives, None when no level showed it."""
        if self.safe is None:
            return None
        level = self.safe.level
        if level.load.kind is LoadKind.CONCURRENCY:
            return level.concurrency
        return math.floor(level.concurrency * 10) / 10

    @property
    def unloaded_ttft_s(self) -> float | None:
        """The median time to the first token with one request at a time, None when that was not tested."""
        alone = [
            median
            for judged in self.levels
            if judged.level.concurrency <= UNLOADED_CONCURRENCY and all(defect.short for defect in judged.defects)
            for run in judged.level.runs
            if (median := run.ttft.at(0.5)) is not None
        ]
        return max(alone, default=None)

    @property
    def confidence(self) -> Confidence:
        """How near the answer is to the truth, from above."""
        if self.safe is None or self.outcome is Outcome.AT_LEAST:
            return Confidence.LOW
        low = self.safe.level
        coarse = unsure = False
        if self.stopper is not None:
            high = self.stopper.level
            alike = low.load.kind is high.load.kind
            step = high.load.value / low.load.value if alike else high.concurrency / low.concurrency
            coarse, unsure = step > COARSE_STEP * (1 + 1e-9), self.stopper.verdict is not Verdict.FAILS
        unchecked = low.little is None or low.failed is None
        return Confidence.MEDIUM if coarse or unsure or unchecked else Confidence.HIGH


def calibrate(sweep: Sweep, objectives: Objectives, *, shared_prefix: bool = False) -> Calibration:
    """The safe concurrency of a sweep. Raises ConfigError when a file lacks a latency that an objective is about."""
    judged = _judged(sweep, objectives, shared_prefix=shared_prefix)
    safe, stopper = (None, None) if sweep.warm is not None else _search(judged)
    ceiling = _ceiling(safe, sweep.setup) if stopper is None else None
    outcome = _outcome(sweep, judged, safe, stopper or ceiling)
    return Calibration(
        outcome=outcome,
        objectives=objectives,
        sweep=sweep,
        levels=judged,
        safe=safe,
        stopper=stopper,
        ceiling=ceiling,
    )


def _judged(sweep: Sweep, objectives: Objectives, *, shared_prefix: bool) -> tuple[Judged, ...]:
    judged, faults = [], list[str]()
    for level in sweep.levels:
        try:
            judged.append(judge(level, objectives, sweep.setup, shared_prefix=shared_prefix))
        except ConfigError as error:
            faults += error.faults
    if faults:
        raise ConfigError(*faults)
    return tuple(judged)


def _search(levels: Sequence[Judged]) -> tuple[Judged | None, Judged | None]:
    """The highest level that passes below the first that stops, and that one."""
    safe: Judged | None = None
    for judged in levels:
        if judged.verdict is Verdict.PASSES:
            safe = judged
        elif judged.stops:
            return safe, judged
    return safe, None


def _ceiling(safe: Judged | None, setup: Setup) -> Trouble | None:
    """The lowest limit that leaves no room for a level worth testing."""
    if safe is None:
        return None
    near = [limit for limit in limits(safe.level, setup) if limit.most < FINE_STEP * safe.level.concurrency]
    return min(near, key=lambda limit: limit.most, default=None)


def _outcome(sweep: Sweep, levels: Sequence[Judged], safe: Judged | None, stopper: Judged | Trouble | None) -> Outcome:
    if sweep.warm is not None:
        return Outcome.UNUSABLE
    if safe is not None:
        return Outcome.AT_LEAST if stopper is None else Outcome.SAFE
    if levels[0] is stopper and levels[0].verdict is Verdict.FAILS:
        return Outcome.INFEASIBLE
    below = levels[: levels.index(stopper) + 1] if isinstance(stopper, Judged) else levels
    if all(
        judged.verdict is not Verdict.UNUSABLE or all(defect.short for defect in judged.defects) for judged in below
    ):
        return Outcome.NOT_ENOUGH
    return Outcome.UNUSABLE
