"""Which profile each ready replica brings, and what they make together: one workload may run on several kinds of GPU.

A fleet is told by what one of its replicas can do on average, so that C x ready and mu x ready are the sums over those that are ready.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import fsum
from typing import TYPE_CHECKING

from scaler.core.capacity import Profile, within_cap
from scaler.core.model import Kind

if TYPE_CHECKING:
    from scaler.core.decision import Capacity
    from scaler.core.history import History
    from scaler.core.model import ReplicaSet

UNKNOWN = Kind()


@dataclass(frozen=True, slots=True)
class Fleet:
    """``mean`` is what one of the ready replicas can do on average, ``more`` what the next one can. ``ready`` counts awake ones."""

    mean: Profile
    more: Profile
    ready: int


def fleet_of(profile: Profile, history: History, replicas: ReplicaSet) -> Fleet:
    """The fleet that serves now. With one profile it is that one, bit for bit."""
    names = [name for name in replicas.ready if name not in history.last or history.last[name].awake]
    if not profile.alternatives:
        only = within_cap(profile, replicas.engine_cap)
        return Fleet(only, only, len(names))
    kinds = [_kind(replicas, name) for name in names]
    brought = {kind: within_cap(profile_of(profile, kind), replicas.engine_cap) for kind in set(kinds)}
    more = _smallest(profile) if replicas.newest is None else profile_of(profile, replicas.newest)
    more = within_cap(more, replicas.engine_cap)
    return Fleet(_mean([brought[kind] for kind in kinds] or [more]), more, len(names))


def sized(capacity: Capacity, fleet: Fleet, ongoing: float, offered_per_s: float | None) -> Capacity:
    """The capacity whose target is that of a fleet which carries the load: what is offered, or where that is not known what is ongoing.

    What is too much for the ready replicas must be carried by ones of the next one's kind. Were they counted as the mean of those that are
    there, a fleet that grows on smaller GPUs would ask for too few, and find out one start after the other.
    """
    now, more, residence = fleet.mean, fleet.more, capacity.residence_s
    load = ongoing if offered_per_s is None or residence is None else offered_per_s * residence
    filled = load / capacity.target
    if more == now or filled <= fleet.ready:
        return capacity
    if now.safe_rate_per_s is not None and more.safe_rate_per_s is not None:
        ratio = now.safe_rate_per_s / more.safe_rate_per_s
    else:
        ratio = now.safe_concurrency / more.safe_concurrency
    return replace(capacity, target=load / (fleet.ready + (filled - fleet.ready) * ratio))


def profile_of(profile: Profile, kind: Kind) -> Profile:
    """The profile of one replica: the first that is for its kind, else the first that may be, else the smallest."""
    fits = [(one, one.match.fits(kind)) for one in _all(profile)]
    certain, possible = ([one for one, fit in fits if fit is wanted] for wanted in (True, None))
    return next(iter((*certain, *possible)), _smallest(profile))


def in_use(profile: Profile, replicas: ReplicaSet | None) -> tuple[Profile, ...]:
    """The profiles of the ready replicas, each once, in the order in which they are named; the first where nothing is ready."""
    if replicas is None or not replicas.ready or not profile.alternatives:
        return (profile,)
    brought = {profile_of(profile, kind).name for kind in {_kind(replicas, name) for name in replicas.ready}}
    return tuple(one for one in _all(profile) if one.name in brought)


def unmatched(profile: Profile, replicas: ReplicaSet) -> tuple[str, ...]:
    """The ready replicas that no profile is for."""
    return _those(replicas, lambda kind: all(one.match.fits(kind) is False for one in _all(profile)))


def unclear(profile: Profile, replicas: ReplicaSet) -> tuple[str, ...]:
    """The ready replicas of which too little is known to choose between profiles."""
    return _those(replicas, lambda kind: _may_be(profile, kind) > 1)


def _those(replicas: ReplicaSet, such: Callable[[Kind], bool]) -> tuple[str, ...]:
    """The ready replicas of such kinds. There are few kinds and many replicas."""
    kinds = {name: _kind(replicas, name) for name in replicas.ready}
    found = {kind for kind in set(kinds.values()) if such(kind)}
    return tuple(name for name, kind in kinds.items() if kind in found)


def _may_be(profile: Profile, kind: Kind) -> int:
    """How many profiles the kind may turn out to be for, once all is known of it."""
    count = 0
    for one in _all(profile):
        fit = one.match.fits(kind)
        count += fit is not False
        if fit:
            break
    return count


def _all(profile: Profile) -> tuple[Profile, ...]:
    return (profile, *profile.alternatives)


def _smallest(profile: Profile) -> Profile:
    return min(_all(profile), key=lambda one: (one.safe_concurrency, one.safe_rate_per_s or 0.0, one.name))


def _kind(replicas: ReplicaSet, name: str) -> Kind:
    return replicas.kinds.get(name, UNKNOWN)


def _mean(profiles: list[Profile]) -> Profile:
    """The mean of some profiles. The slowest first token counts: it is no sign of a queue on the others."""
    first = profiles[0]
    if all(one == first for one in profiles):
        return first
    return Profile(
        safe_concurrency=fsum(one.safe_concurrency for one in profiles) / len(profiles),
        safe_rate_per_s=_average([one.safe_rate_per_s for one in profiles]),
        unloaded_ttft_s=max((one.unloaded_ttft_s for one in profiles if one.unloaded_ttft_s is not None), default=None),
        input_p50=_average([one.input_p50 for one in profiles]),
        output_p50=_average([one.output_p50 for one in profiles]),
    )


def _average(values: list[float | None]) -> float | None:
    """The mean, None unless all are known."""
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if len(known) == len(values) else None
