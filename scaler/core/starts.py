"""Starts as they are seen: who was asked for when, what is under way, and how long it took until ready.

A start counts from the moment desired first exceeded what exists until the replica is ready. So a replica that appears while the platform
owes one was asked for when that debt was made, whoever lists it and however late. One that appears while nothing is owed replaces another
(a rollout, an eviction) and is no scale-up: nobody asked for it, but from created to ready it took as long as any other. It counts with the
usual time from asking to creation in front.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from scaler.core.model import Phase, Reading, ReplicaSet
from scaler.core.ready_fit import LONGEST_S

KEPT = 40
GONE_S = 60.0
"""For how long a replica that is no longer listed is the same one when it returns: lists are cut short and alternate."""
SKEW_S = 5.0
"""Platforms stamp whole seconds, by a clock of their own."""
FIRST_TOKEN_WITHIN_S = 300.0
"""A first token that comes later waited for a request, not for the replica."""
ASKED, FIRST_TOKEN = "asked", "first_token"


@dataclass(frozen=True, slots=True)
class Finished:
    """A start that ended ``at`` that time and took so many seconds, from the moment desired first exceeded what exists to ready.

    ``phases`` are stretches of it; ``first_token``, from ready to the first token, is beside them.
    """

    at: float
    took_s: float
    node_class: str = ""
    phases: tuple[Phase, ...] = ()


@dataclass(frozen=True, slots=True)
class Begun:
    """A replica that was seen to come into being and not to be ready yet.

    ``asked_at`` is None where nobody asked for it, ``created_at`` where nobody says. ``stood_at`` is since when its platform calls it
    stuck. One that was there ``at_first`` is timed by its platform or not at all.
    """

    found_at: float
    asked_at: float | None = None
    created_at: float | None = None
    stood_at: float | None = None
    node_class: str = ""
    at_first: bool = False


@dataclass(frozen=True, slots=True)
class Starts:
    """Starts that ended, newest last, and what must be remembered to time the next ones.

    ``owed`` are numbers that were asked for and do not exist yet, each with when. ``gone`` says when a replica was no longer listed,
    ``counted`` when one was ready whose start was counted. ``tokenless`` are counted starts that wait for their first token.
    """

    finished: tuple[Finished, ...] = ()
    replicas: ReplicaSet | None = None
    owed: tuple[tuple[int, float], ...] = ()
    begun: Mapping[str, Begun] = field(default_factory=dict)
    gone: Mapping[str, float] = field(default_factory=dict)
    counted: Mapping[str, float] = field(default_factory=dict)
    tokenless: Mapping[str, Finished] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one tick saw. ``asks`` are the numbers that the platform owed before it, rising, each with since when."""

    replicas: ReplicaSet | None
    readings: tuple[Reading, ...]
    asks: tuple[tuple[int, float], ...]
    stale_s: float


def follow(before: Starts, seen: Seen) -> Starts:
    """The starts after one tick. After a time in which nobody looked, what came meanwhile is timed by its platform or not at all."""
    last, listed = before.replicas, seen.replicas
    if listed is None:
        return before
    if last is None or listed.observed_at - last.observed_at > seen.stale_s:
        known = _first(Starts(before.finished, counted=before.counted), listed)
    else:
        known = _next(before, last, listed, seen.asks)
    return _first_tokens(replace(known, replicas=listed), listed, seen.readings)


def lag_s(finished: Iterable[Finished]) -> float:
    """The usual seconds from asking for a replica until it is created; 0 while unknown."""
    return median([phase.took_s for start in finished for phase in start.phases if phase.name == ASKED] or [0.0])


def _names(listed: ReplicaSet) -> frozenset[str]:
    return frozenset((*listed.ready, *(start.replica for start in listed.starting)))


def _first(fresh: Starts, listed: ReplicaSet) -> Starts:
    """What exists already was not seen to come. What ended before the newest start that is remembered is remembered too."""
    newest = max((start.at for start in fresh.finished), default=-math.inf)
    old = {one.replica: one.ready_at for one in listed.started if one.ready_at <= newest + SKEW_S}
    begun = {start.replica: Begun(listed.observed_at, at_first=True) for start in listed.starting}
    known = replace(fresh, begun=_marked(begun, listed), counted={**old, **fresh.counted})
    return replace(_ended(known, listed), tokenless={})  # theirs may have come long ago


def _next(before: Starts, last: ReplicaSet, listed: ReplicaSet, asks: tuple[tuple[int, float], ...]) -> Starts:
    """One tick further. A number is owed until so many exist, also when the platform has long taken it for its own."""
    names = _names(listed)
    owed = tuple(sorted({*asks, *(ask for ask in before.owed if ask[0] <= listed.current)}))
    still = tuple(ask for ask in owed if ask[0] > len(names))
    if (last.ready, last.starting, last.started) == (listed.ready, listed.starting, listed.started):
        return replace(before, owed=still)
    now = listed.observed_at
    left = {**dict.fromkeys(_names(last), now), **before.gone}
    gone = {name: at for name, at in left.items() if name not in names and now - at <= GONE_S}
    begun = {name: one for name, one in before.begun.items() if name in names or name in gone}
    begun |= _appeared(_new(before, last, listed), listed, owed)
    return _ended(replace(before, owed=still, gone=gone, begun=_marked(begun, listed)), listed)


def _new(before: Starts, last: ReplicaSet, listed: ReplicaSet) -> dict[str, float | None]:
    """The replicas that were not there before, in the order of their creation, with when that was where it is known."""
    created = {start.replica: start.since for start in listed.starting}
    for one in listed.started:
        created[one.replica] = max(one.created_at, created.get(one.replica, -math.inf))
    new = []
    for name in _names(listed) - _names(last):
        known_at = _known_at(before, listed, name)
        if known_at is None or created.get(name, -math.inf) > known_at:
            new.append((created.get(name, math.inf), name))
    return {name: created.get(name) for _, name in sorted(new)}


def _known_at(before: Starts, listed: ReplicaSet, name: str) -> float | None:
    """When a replica that was not listed last existed already, None if never; StatefulSets give its name to one created later."""
    counted_at = before.counted.get(name) if any(told.replica == name for told in listed.started) else None
    left_at = before.gone.get(name)
    if left_at is None or listed.observed_at - left_at > GONE_S:
        return counted_at
    one = before.begun.get(name)
    if one is not None and one.created_at is not None:
        return one.created_at + SKEW_S
    return before.counted.get(name, left_at - SKEW_S)


def _appeared(
    new: Mapping[str, float | None], listed: ReplicaSet, owed: tuple[tuple[int, float], ...]
) -> dict[str, Begun]:
    """Each new replica with when it was asked for: by the first number that exceeds what existed before it, unless it is older."""
    begun, older, now = {}, len(_names(listed)) - len(new), listed.observed_at
    for existing, (name, created_at) in enumerate(new.items(), older):
        came_at = now if created_at is None else created_at
        asks = (since for number, since in owed if number > existing and -SKEW_S <= came_at - since <= LONGEST_S)
        begun[name] = Begun(now, next(asks, None), created_at)
    return begun


def _marked(begun: dict[str, Begun], listed: ReplicaSet) -> dict[str, Begun]:
    """The same with what is said of those that are starting. One that was stuck when it was found has never moved."""
    for start in listed.starting:
        one = begun.get(start.replica)
        if one is None:  # it was ready before
            continue
        stands_at = start.since if one.found_at == listed.observed_at else listed.observed_at
        begun[start.replica] = replace(
            one,
            created_at=start.since,
            stood_at=None if not start.stuck else stands_at if one.stood_at is None else one.stood_at,
            node_class=start.node_class or one.node_class,
        )
    return begun


def _ended(known: Starts, listed: ReplicaSet) -> Starts:
    """The same with the starts counted that ended. A platform tells each for minutes; what it does not tell is timed by this look."""
    begun, counted, lag = dict(known.begun), dict(known.counted), lag_s(known.finished)
    ends: list[tuple[str, Finished | None]] = []
    for told in sorted(listed.started, key=lambda one: (one.ready_at, one.replica)):
        if told.created_at > counted.get(told.replica, -math.inf):
            one = begun.pop(told.replica, Begun(told.created_at))
            one = replace(one, created_at=told.created_at, node_class=told.node_class or one.node_class)
            ends.append((told.replica, _finished(one, told.ready_at, told.phases, lag)))
            counted[told.replica] = told.ready_at
    for name in sorted(begun.keys() & set(listed.ready)):
        one = begun.pop(name)
        if not one.at_first:
            ends.append((name, _finished(one, listed.observed_at, (), lag)))
            counted[name] = listed.observed_at
    near = _names(listed) | known.gone.keys() | {told.replica for told in listed.started}
    new = [(name, start) for name, start in ends if start is not None]
    return replace(
        known,
        finished=tuple(sorted((*known.finished, *(start for _, start in new)), key=lambda start: start.at)[-KEPT:]),
        begun=begun,
        counted={name: at for name, at in counted.items() if name in near},
        tokenless={**known.tokenless, **dict(new)},
    )


def _finished(one: Begun, at: float, phases: tuple[Phase, ...], lag: float) -> Finished | None:
    """The start that ended at that time, None where nobody knows when it began."""
    if one.asked_at is not None:
        asked = () if one.created_at is None else (Phase(ASKED, max(0.0, one.created_at - one.asked_at)),)
        return Finished(at, max(0.0, at - one.asked_at), one.node_class, (*asked, *phases))
    if one.created_at is not None:
        return Finished(at, max(0.0, at - one.created_at) + lag, one.node_class, phases)
    return None


def _first_tokens(known: Starts, listed: ReplicaSet, readings: tuple[Reading, ...]) -> Starts:
    if not known.tokenless:
        return known
    oldest = listed.observed_at - FIRST_TOKEN_WITHIN_S
    waiting = {name: start for name, start in known.tokenless.items() if start.at >= oldest and name in listed.ready}
    finished = list(known.finished)
    for reading in readings:
        start = waiting.get(reading.replica)
        if start is not None and reading.ttft is not None and reading.ttft.count > 0:
            del waiting[reading.replica]
            first = Phase(FIRST_TOKEN, max(0.0, reading.observed_at - start.at))
            if start in finished:
                finished[finished.index(start)] = replace(start, phases=(*start.phases, first))
    return replace(known, finished=tuple(finished), tokenless=waiting)
