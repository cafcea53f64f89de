"""When pods were created, became ready and ceased to be, on the monotonic clock: each is put there once, when it is first seen.

The cluster's stamps are wall times of other machines. They are compared with ours by one offset, taken when the process starts, so that
no later step of our clock counts; and what a live watch shows can only have happened since it showed the state before, whatever the
stamps say. So no clock but the monotonic one decides about what happens while we look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType

from scaler.cluster.pods import Pod
from scaler.core.model import Phase, Started

KEPT_S = 600.0
"""For how long a start that ended is told of."""


@dataclass(frozen=True, slots=True)
class Times:
    """``now`` and ``known_at`` on the monotonic clock: the pods are those of ``known_at``. ``offset_s``: wall time minus monotonic time."""

    now: float
    known_at: float
    offset_s: float


@dataclass(frozen=True, slots=True)
class Life:
    """One pod's. ``since``: while not ready, since when. ``fresh``: it was never ready, and its first time will be seen."""

    created_at: float
    since: float
    ready: bool
    fresh: bool


@dataclass(frozen=True, slots=True)
class Memory:
    """The lives of a workload's pods by their uid, the starts that ended lately with when that was seen, and of when the pods are."""

    lives: Mapping[str, Life] = field(default_factory=lambda: MappingProxyType({}))
    ended: tuple[tuple[float, Started], ...] = ()
    known_at: float = -inf

    @property
    def started(self) -> tuple[Started, ...]:
        """The starts that ended lately."""
        return tuple(started for _, started in self.ended)


def remember(memory: Memory, pods: Iterable[Pod], times: Times, class_of: Callable[[Pod], str]) -> Memory:
    """The memory after a look at the pods. Looking twice at the same changes nothing but ages.

    A pod that is ready when it is first seen has no start that could be told, unless it did not exist at the look before.
    """
    lives: dict[str, Life] = {}
    ended = [(at, started) for at, started in memory.ended if times.now - at < KEPT_S]
    for pod in pods:
        if not pod.alive:
            continue
        before = memory.lives.get(pod.uid)
        life = _first_seen(pod, memory.known_at, times) if before is None else before
        if pod.ready and life.fresh:
            ended.append((times.now, _started(pod, life, (memory.known_at, times.now), class_of(pod))))
        lives[pod.uid] = _now(pod, life, memory.known_at, times.now)
    return Memory(lives, tuple(ended), max(memory.known_at, min(times.known_at, times.now)))


def phases_of(pod: Pod) -> tuple[Phase, ...]:
    """The stretches of a start that has ended. One whose end nobody stamped belongs to the next."""
    ends = {
        "scheduled": pod.scheduled_at,
        "image_and_init": pod.initialized_at,
        "container": pod.started_at,
        "ready": pod.ready_at,
    }
    phases, at = [], pod.created_at
    for name, end in ends.items():
        if end is not None:
            phases.append(Phase(name, max(0.0, end - at)))
            at = max(at, end)
    return tuple(phases)


def _first_seen(pod: Pod, known_at: float, times: Times) -> Life:
    created_at = _within(pod.created_at - times.offset_s, known_at, times.now)
    since = created_at if pod.lost_ready_at is None else _since(pod, created_at, pod.lost_ready_at, times.now)
    watched = known_at > -inf
    return Life(created_at, since, ready=False, fresh=pod.lost_ready_at is None and (watched or not pod.ready))


def _now(pod: Pod, life: Life, known_at: float, now: float) -> Life:
    """The life goes on. A replica that is no longer ready waits anew, and that is no start."""
    if pod.ready:
        return Life(life.created_at, life.created_at, ready=True, fresh=False)
    if not life.ready:
        return life
    lost_at = now if pod.lost_ready_at is None else _since(pod, life.created_at, pod.lost_ready_at, now)
    return Life(life.created_at, _within(lost_at, known_at, now), ready=False, fresh=False)


def _started(pod: Pod, life: Life, between: tuple[float, float], node_class: str) -> Started:
    """The cluster's stamps say how long it took; our clock, between which looks it became ready."""
    earliest, latest = between
    stamped = latest if pod.ready_at is None else _since(pod, life.created_at, pod.ready_at, latest)
    ready_at = _within(stamped, max(earliest, life.created_at), latest)
    return Started(pod.name, life.created_at, ready_at, node_class, phases_of(pod))


def _since(pod: Pod, created_at: float, stamp: float, now: float) -> float:
    return _within(created_at + (stamp - pod.created_at), created_at, now)


def _within(at: float, earliest: float, latest: float) -> float:
    return min(max(at, earliest), latest)
