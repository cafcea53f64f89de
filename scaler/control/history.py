"""The last quarter of an hour of each workload, thinned to one decision every five seconds, for people who look at charts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scaler.core.decision import Decision
    from scaler.core.model import WorkloadKey

SPAN_S, SLOT_S = 900.0, 5.0
LARGEST = 1e38
"""What is larger, from an engine that tells nonsense, does not fit and is kept as infinite."""
_PACKED = Struct("=d5f3i")
_MOST = round(SPAN_S / SLOT_S)


@dataclass(frozen=True, slots=True)
class Point:
    """What a chart shows of one decision, ``at`` monotonic seconds. NaN: not known; what was measured is not known while blind.

    ``arrival_per_s`` is what was admitted: it enters the engines. ``budget_s`` is the strictest of the classes.
    """

    at: float
    offered_per_s: float
    arrival_per_s: float
    refused_per_s: float
    queue_wait_s: float
    budget_s: float
    desired: int
    starting: int
    ready: int


_values = attrgetter(*Point.__slots__)


def point(decision: Decision) -> Point:
    """A decision as a point."""
    seen, budget = decision.estimate, strictest_budget_s(decision)
    measured = (seen.offered_per_s, seen.arrival_per_s, seen.refused_per_s, seen.queue_wait.s)
    offered, arrival, refused, wait = (math.nan if decision.blind else _kept(value) for value in measured)
    return Point(
        at=decision.decided_at,
        offered_per_s=offered,
        arrival_per_s=arrival,
        refused_per_s=refused,
        queue_wait_s=wait,
        budget_s=math.nan if budget is None else budget,
        desired=decision.desired,
        starting=seen.starting,
        ready=seen.ready,
    )


def _kept(value: float) -> float:
    return value if value < LARGEST else math.inf


def strictest_budget_s(decision: Decision) -> float | None:
    """The strictest TTFT budget of the classes that have one, in seconds."""
    budget = min((v.budget_s for v in decision.classes if v.budget_s is not None), default=math.inf)
    return budget if math.isfinite(budget) else None


class History:
    """Points by workload: 7.2 kB each, packed into bytes, so a thousand workloads need 7 MB and the garbage collector sees none of it.

    Of the decisions of one slot that with the longest queue wait is kept: a spike is never thinned out.
    """

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._rings: dict[WorkloadKey, _Ring] = {}

    def add(self, key: WorkloadKey, new: Point) -> None:
        """Keep the newest point, or not, if its slot has one with a longer wait."""
        ring = self._rings.get(key)
        if ring is None:
            ring = self._rings[key] = _Ring()
        ring.add(new)

    def points(self, key: WorkloadKey) -> list[Point]:
        """Those of the last quarter of an hour before the newest one, the oldest first; none for a workload without a decision."""
        ring = self._rings.get(key)
        return [] if ring is None else ring.points()

    def drop(self, key: WorkloadKey) -> None:
        """Forget a workload."""
        self._rings.pop(key, None)


class _Ring:
    __slots__ = ("_next", "_packed", "_slot")

    def __init__(self) -> None:
        self._packed = bytearray()
        self._next, self._slot = 0, -math.inf

    def add(self, new: Point) -> None:
        slot = new.at // SLOT_S
        if slot == self._slot:
            index = (self._next - 1) % _MOST
            if self._at(index).queue_wait_s > new.queue_wait_s:
                return
        else:
            index, self._slot = self._next, slot
            self._next = (self._next + 1) % _MOST
        start = index * _PACKED.size
        self._packed[start : start + _PACKED.size] = _PACKED.pack(*_values(new))

    def points(self) -> list[Point]:
        count = len(self._packed) // _PACKED.size
        oldest = self._next if count == _MOST else 0
        found = [self._at((oldest + number) % _MOST) for number in range(count)]
        return [one for one in found if one.at > found[-1].at - SPAN_S]

    def _at(self, index: int) -> Point:
        return Point(*_PACKED.unpack_from(self._packed, index * _PACKED.size))
