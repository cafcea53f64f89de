"""A whole replay: what was played, what limits everybody, and what became of each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from scaler.core.cost import HOUR_S, Bill, Spent, bill
from scaler.core.model import GpuPhase, GpuUse
from scaler.sim.contest import Agreement, Played
from scaler.sim.course import Course
from scaler.sim.limits import Limits
from scaler.sim.saturation import Saturation
from scaler.sim.stage import Setting

AS_GOOD_RATIO = 0.005
"""Within so much two attainments are the same: the dice alone move them by as much."""
CHEAPER_RATIO = 0.03
"""By less than this two bills are the same, likewise."""


SIMULATED = "simulated"


class Side(StrEnum):
    """Whose law it is. A reference knows what nobody can know beforehand."""

    OURS = "ours"
    RIVAL = "rival"
    REFERENCE = "reference"


@dataclass(frozen=True, slots=True)
class Figure:
    """The mean of the runs, and half the distance between the largest and the smallest."""

    mean: float
    spread: float


@dataclass(frozen=True, slots=True)
class Row:
    """One contender over all seeds, in their order."""

    name: str
    side: Side
    runs: tuple[Played, ...]

    def figure(self, name: str) -> Figure | None:
        """One of ``Worth``'s numbers; None where the law has no such thing."""
        values = [value for run in self.runs if (value := getattr(run.worth, name)) is not None]
        return figure(values) if values else None

    @property
    def kept(self) -> float:
        """The share that was served within the objectives."""
        return fmean(run.worth.kept_ratio for run in self.runs)

    @property
    def gpu_hours(self) -> float:
        """What it cost."""
        return fmean(run.worth.gpu_hours for run in self.runs)

    def bill(self, price: float | None) -> Bill:
        """The mean of its runs. ``price`` is of a GPU-hour, None: unknown."""
        worths = [run.worth for run in self.runs]
        starting = fmean(each.starting_gpu_hours for each in worths)
        hours = {GpuPhase.STARTING: starting, GpuPhase.SERVING: self.gpu_hours - starting}
        spent = Spent(
            {GpuUse(SIMULATED, phase): each * HOUR_S for phase, each in hours.items()},
            fmean(each.prompt_tokens for each in worths),
            fmean(each.generation_tokens for each in worths),
        )
        return bill(spent, {} if price is None else {SIMULATED: price})

    @property
    def course(self) -> Course | None:
        """Of the run that was drawn."""
        return next((run.course for run in self.runs if run.course is not None), None)

    @property
    def agreement(self) -> Agreement | None:
        """With what was recorded, in the first run."""
        return self.runs[0].agreement


@dataclass(frozen=True, slots=True)
class Subject:
    """What was replayed, in words: the traffic, the kind of replica, its start times; and what else must be known."""

    traffic: str
    replica: str
    starts: str
    duration_s: float
    offered: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Replay:
    """All of it. ``clairvoyant`` is the row of who knew all, against which each is measured. ``price`` is of a GPU-hour, None: unknown."""

    subject: Subject
    setting: Setting
    bears: Saturation
    limits: Limits
    rows: tuple[Row, ...]
    clairvoyant: Row
    price: float | None = None

    @property
    def ours(self) -> Row | None:
        """Our best: the first of its side."""
        return next((row for row in self.rows if row.side is Side.OURS), None)

    def hours_ratio(self, row: Row) -> float:
        """Its GPU-hours over the clairvoyant's; NaN where that needed none."""
        return row.gpu_hours / self.clairvoyant.gpu_hours if self.clairvoyant.gpu_hours else math.nan

    def better(self) -> Iterator[Row]:
        """Those that beat ours: more served within, or as much for less."""
        ours = self.ours
        for row in self.rows:
            if ours is None or row.side is Side.OURS:
                continue
            more = row.kept - ours.kept
            cheaper = row.gpu_hours < ours.gpu_hours * (1 - CHEAPER_RATIO)
            if more > AS_GOOD_RATIO or (more > -AS_GOOD_RATIO and cheaper):
                yield row


def figure(values: list[float]) -> Figure:
    """Of some runs."""
    return Figure(fmean(values), (max(values) - min(values)) / 2)
