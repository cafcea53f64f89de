"""One observation into the history: which replicas there are, what each of them added, and what is to be thought of its counters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scaler.core.history import Still, forget, is_blind, uncounted
from scaler.core.increase import Increase, added
from scaler.core.model import Missing, Reading
from scaler.core.tally import extend
from scaler.core.windows import Series

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scaler.core.history import History
    from scaler.core.model import Observation, ReplicaSet

DEPARTED_S, DEPARTED = 60.0, 100
"""For how long, and of how many at most, the counters of replicas that are no longer listed are remembered."""
DOUBTED_S = 60.0
"""For how long a replica whose counter was not believed is believed less than others."""


def ingest(history: History, seen: Observation, stale_s: float) -> History:
    """The history after one observation. A reading older than ``stale_s`` seconds makes its replica missing."""
    replicas = seen.replicas or history.replicas
    if replicas is None:
        return history
    if history.running.times and seen.at - history.running.times[-1] > stale_s:
        # nobody looked for so long that it is as if nothing had been known
        history = replace(forget(history), last={}, departed={})
    ready = frozenset(replicas.ready)
    arrived = {reading.replica: reading for reading in seen.readings if reading.replica in ready and reading.usable}
    more = _added(history, arrived, seen.at)
    kept = {name: reading for name, reading in history.last.items() if name in ready}
    merged = {name: reading for name, reading in (kept | arrived).items() if seen.at - reading.observed_at <= stale_s}
    away = {*history.departed, *(miss.replica for miss in history.missing)}
    history = replace(
        history,
        replicas=replicas,
        last=merged,
        departed=_departed(history, ready, seen.at - max(stale_s, DEPARTED_S)),
        missing=_missing(replicas, merged, seen),
        observed_at=_observed_at(history, replicas, merged),
        first_seen_at=seen.at if history.first_seen_at is None else history.first_seen_at,
        rejoined_at=history.rejoined_at if away.isdisjoint(arrived) else seen.at,
        members_at=history.members_at if _awake(merged) == _awake(history.last) else seen.at,
        queued=_queued(history.queued, seen, stale_s),
    )
    if is_blind(history, seen):
        return forget(history)
    return extend(_judged(history, seen.at, more, stale_s), seen, more, stale_s)


def _added(history: History, arrived: Mapping[str, Reading], at: float) -> Increase:
    """What this tick added. What is not known of the time since the fleet was last counted was as it is now."""
    counted = history.first_tokens.times
    step_s = at - counted[-1] if counted else 0.0
    before = {name: earlier for name in arrived if (earlier := history.last.get(name) or history.departed.get(name))}
    more = added(before, arrived, step_s=step_s, doubted=history.doubted)
    if history.unknown_since is None or not more.first_tokens or step_s <= more.gap_s:
        return more
    return replace(more, first_tokens=more.first_tokens * step_s / more.gap_s)


def _awake(readings: Mapping[str, Reading]) -> set[str]:
    return {name for name, reading in readings.items() if reading.awake}


def _departed(history: History, ready: frozenset[str], oldest: float) -> Mapping[str, Reading]:
    """The last readings of those that are no longer listed, the newest ones."""
    if not history.departed and history.last.keys() <= ready:
        return history.departed
    gone = [
        (name, reading)
        for name, reading in {**history.departed, **history.last}.items()
        if name not in ready and reading.observed_at >= oldest
    ]
    return dict(sorted(gone, key=lambda one: (one[1].observed_at, one[0]))[-DEPARTED:])


def _judged(history: History, at: float, more: Increase, stale_s: float) -> History:
    """What is to be thought of the counters: who does not tell, who is not believed, who stands still, whether the rates are lost."""
    clear = history.unknown_since is None and not (history.lacking or history.doubted or history.still)
    if clear and (more.first_tokens is not None or not more.news) and not (more.lacking or more.doubtful or more.still):
        return history
    if not history.last:  # nothing to read, and that is known
        return replace(history, unknown_since=None, lost=False)
    if not more.news:
        return history
    since = None if more.first_tokens is not None else at if history.unknown_since is None else history.unknown_since
    doubted = {name: when for name, when in history.doubted.items() if at - when < DOUBTED_S}
    still = {
        name: was
        for name, was in history.still.items()
        if name in history.last and (name in more.still or name not in more.compared)
    }
    for name in more.still & history.last.keys():
        was = still.get(name, Still(history.last[name].observed_at - more.gap_s))
        still[name] = Still(was.since, was.readings + 1)
    history = replace(
        history,
        unknown_since=since,
        lost=since is not None and at - since >= stale_s,
        lacking=more.lacking | {name for name in history.lacking - more.compared if name in history.last},
        doubted=doubted | dict.fromkeys(more.doubtful, at),
        still=still,
    )
    return uncounted(history) if history.lost else history


def _observed_at(history: History, replicas: ReplicaSet, merged: Mapping[str, Reading]) -> float | None:
    """When the newest reading was taken; with no replica there is nothing to read, and knowing that is an observation."""
    if not replicas.ready:
        return replicas.observed_at
    return max((reading.observed_at for reading in merged.values()), default=history.observed_at)


def _missing(replicas: ReplicaSet, merged: Mapping[str, Reading], seen: Observation) -> tuple[Missing, ...]:
    why = {miss.replica: miss.why for miss in seen.missing}
    why |= {
        reading.replica: f"metric absent: {', '.join(reading.absent)}"
        for reading in seen.readings
        if not reading.usable
    }
    return tuple(Missing(name, why.get(name, "no reading")) for name in sorted(replicas.ready) if name not in merged)


def _queued(held: Series, seen: Observation, stale_s: float) -> Series:
    """The requests held upstream: a count that fails to come stands for as long as a reading would."""
    if seen.queued is not None:
        return held.add(seen.at, seen.queued)
    return held if held.times and seen.at - held.times[-1] <= stale_s else Series(held.span_s)
