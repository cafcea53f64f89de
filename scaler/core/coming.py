"""What is to be expected of starts: the latency to plan with, each start under way with its own, and the usual phases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from scaler.core.model import Phase
from scaler.core.ready_fit import Fit, Weighed, fit
from scaler.core.ready_latency import ReadyLatency, UnderWay
from scaler.core.starts import ASKED, FIRST_TOKEN, Finished, lag_s

if TYPE_CHECKING:
    from scaler.core.model import Starting
    from scaler.core.starts import Begun, Starts

HALVED_AFTER_STARTS, HALVED_AFTER_S = 20, 7 * 86400.0
CLASS_STARTS = 3
"""So many starts on a class of nodes speak for themselves."""
AGED_S = 600.0
"""Weights fall by half in a week: this soon they are not worth another look."""
ALL = ""
_ORDER = (ASKED, "scheduled", "image_and_init", "container", "ready", FIRST_TOKEN)


@dataclass(frozen=True, slots=True)
class Measured:
    """What starts that ended say, by class of nodes; ``ALL`` of all together. It holds until another one ends.

    ``planned`` is the class of the newest start: the next replica is thought to be of that one.
    """

    prior: ReadyLatency
    finished: tuple[Finished, ...]
    at: float
    fits: Mapping[str, Fit]
    planned: str
    phases: tuple[Phase, ...]
    lag_s: float


@dataclass(frozen=True, slots=True)
class Coming:
    """The latency of a replica that is asked for now, the starts under way, and the median of each phase of recent starts."""

    latency: ReadyLatency
    under_way: tuple[UnderWay, ...] = ()
    phases: tuple[Phase, ...] = ()


def measure(before: Measured | None, prior: ReadyLatency, finished: tuple[Finished, ...], now: float) -> Measured:
    """What these starts, newest last, say at a time; ``before`` where that is still true."""
    if before is not None and now - before.at < AGED_S and (before.prior, before.finished) == (prior, finished):
        return before
    kinds: dict[str, list[Finished]] = defaultdict(list, {ALL: list(finished)})
    for start in finished:
        if start.node_class:
            kinds[start.node_class].append(start)
    fits = {
        kind: fit(prior, _weighted(starts, now))
        for kind, starts in kinds.items()
        if kind == ALL or len(starts) >= CLASS_STARTS
    }
    planned = finished[-1].node_class if finished and finished[-1].node_class in fits else ALL
    return Measured(prior, finished, now, fits, planned, _phases(kinds[planned]), lag_s(finished))


def coming(measured: Measured, starts: Starts, now: float) -> Coming:
    """What is to be expected now."""
    listed = starts.replicas.starting if starts.replicas is not None else ()
    aged = [_aged(start, starts.begun.get(start.replica), measured.lag_s, now) for start in listed]
    kinds = [start.node_class if start.node_class in measured.fits else ALL for start in listed]
    latencies = {
        kind: _latency(measured.fits[kind], [one for one in aged if kind in {ALL, one.start.node_class}])
        for kind in {measured.planned, *kinds}
    }
    under_way = tuple(
        UnderWay(one.start.replica, one.age_s, latencies[kind], one.start.stuck)
        for one, kind in zip(aged, kinds, strict=True)
    )
    return Coming(latencies[measured.planned], under_way, measured.phases)


@dataclass(frozen=True, slots=True)
class _Aged:
    """A start under way by its age in seconds: now, when it was found, and when it was last known to move."""

    start: Starting
    age_s: float
    found_s: float = 0.0
    moved_s: float = 0.0


def _aged(start: Starting, one: Begun | None, lag: float, now: float) -> _Aged:
    """A replica that was ready before is no start: it has an age, and tells nothing of how long starts take."""
    if one is None:
        return _Aged(start, now - start.since)
    asked_at = start.since - lag if one.asked_at is None else one.asked_at
    moved_until = now if one.stood_at is None else one.stood_at
    return _Aged(start, now - asked_at, one.found_at - asked_at, moved_until - asked_at)


def _latency(fitted: Fit, aged: list[_Aged]) -> ReadyLatency:
    """One that was stuck already when it was found may be no start at all."""
    limit_s = fitted.latency.limit_s
    return fitted.censored(one.moved_s for one in aged if one.found_s <= limit_s)


def _weighted(finished: list[Finished], now: float) -> list[Weighed]:
    return [
        (start.took_s, 0.5 ** (later / HALVED_AFTER_STARTS + max(0.0, now - start.at) / HALVED_AFTER_S))
        for later, start in enumerate(reversed(finished))
    ]


def _phases(finished: list[Finished]) -> tuple[Phase, ...]:
    """The median of each phase, in the order in which they pass."""
    took: dict[str, list[float]] = defaultdict(list)
    for start in finished:
        for phase in start.phases:
            took[phase.name].append(phase.took_s)
    known = [name for name in _ORDER if name in took]
    return tuple(Phase(name, median(took[name])) for name in (*known, *sorted(took.keys() - {*known})))
