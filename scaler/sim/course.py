"""How a run went over time, in few enough points to be drawn."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

from scaler.core.decision import Decision
from scaler.core.model import Pressure
from scaler.sim.play import Call, Run
from scaler.sim.score import quantile

POINTS = 240
SHORTEST_S = 5.0
Told = TypeVar("Told")


@dataclass(frozen=True, slots=True)
class Point:
    """One stretch of time. Requests a second that were ``offered`` (first attempts) and ``refused`` (any); replicas at its end.

    ``asked`` is what the law had asked for by then, None where it asks for nothing. ``waited_s``: what 95 % of the requests that were
    admitted in it did not exceed until their first token; None where none was.
    """

    begins_at: float
    offered_per_s: float
    refused_per_s: float
    asked: int | None
    ready: int
    starting: int
    waited_s: float | None


@dataclass(frozen=True, slots=True)
class Spell:
    """A stretch of one colour."""

    begins_at: float
    ends_at: float
    state: Pressure


@dataclass(frozen=True, slots=True)
class Course:
    """One run in points of ``step_s`` seconds each; no spells for a law without colours."""

    step_s: float
    points: tuple[Point, ...]
    spells: tuple[Spell, ...]


def course(run: Run, ends_at: float) -> Course:
    """A run whose traffic ended then."""
    step_s = max(SHORTEST_S, ends_at / POINTS)
    return Course(
        step_s, tuple(_points(run, step_s, math.ceil(ends_at / step_s))), tuple(spells(run.decisions, ends_at))
    )


def spells(decisions: Sequence[Decision], ends_at: float) -> Iterator[Spell]:
    """The colours, each from when it was decided until the next, or until the end."""
    begun: Decision | None = None
    for one in decisions:
        if one.decided_at >= ends_at:
            break
        if begun is None or one.state is not begun.state:
            if begun is not None:
                yield Spell(begun.decided_at, one.decided_at, begun.state)
            begun = one
    if begun is not None:
        yield Spell(begun.decided_at, ends_at, begun.state)


def _points(run: Run, step_s: float, count: int) -> Iterator[Point]:
    offered, refused = [0] * count, [0] * count
    for attempt in run.attempts:
        if (index := int(attempt.at / step_s)) < count:
            offered[index] += not attempt.tried
            refused[index] += not attempt.admitted
    waits = _waits(run, step_s, count)
    there = _at_ends(run.seconds, "at", step_s, count)
    decided = [one.desired if one else None for one in _at_ends(run.decisions, "decided_at", step_s, count)]
    asked = [one.replicas if one else None for one in _at_ends(run.asked, "at", step_s, count)]
    for index, second in enumerate(there):
        ready = second.ready if second else 0
        yield Point(
            begins_at=index * step_s,
            offered_per_s=offered[index] / step_s,
            refused_per_s=refused[index] / step_s,
            asked=decided[index] if run.decisions else asked[index],
            ready=ready,
            starting=second.existing - ready if second else 0,
            waited_s=quantile(waits[index], 0.95) if waits[index] else None,
        )


def _waits(run: Run, step_s: float, count: int) -> list[list[float]]:
    """How long the requests that were admitted in each stretch waited; who has no first token waited until the end of the run."""
    over_at = run.seconds[-1].at
    found: list[list[float]] = [[] for _ in range(count)]
    for call in run.calls:
        if call.admitted_at is not None and (index := int(call.admitted_at / step_s)) < count:
            found[index].append(_waited_s(call, call.admitted_at, over_at))
    return found


def _waited_s(call: Call, admitted_at: float, over_at: float) -> float:
    return over_at - admitted_at if call.ttft_s is None else call.ttft_s


def _at_ends(told: Sequence[Told], when: str, step_s: float, count: int) -> list[Told | None]:
    """The last of them at the end of each stretch."""
    times: list[Any] = list(map(attrgetter(when), told))
    places = (bisect_right(times, (index + 1) * step_s) for index in range(count))
    return [told[place - 1] if place else None for place in places]
