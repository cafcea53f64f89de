"""What nobody could have done better: a fluid model of the very traffic, with a gate that refuses exactly what would come too late.

A replica ends its ceiling of requests a second (``sim.saturation``) and no more, and has as many under way as it had there; who finds no
place in it may wait for its budget, and whoever cannot have one by then is refused at once. The best law that only reacts has at any
instant what the highest rate until ``D`` seconds ago needs, and never gives it back; ``D`` is how long it takes to see a load and to start
a replica for it. A law with more than that must have had it before there was a reason: headroom, warm replicas, a forecast. For a step
to a rate ``r`` above the capacity ``c`` it is the textbook's ``(r - c) x D - budget x c`` requests lost, less those under way.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

DETECTION_S = 8.5
"""From a load to its replica being asked for, on average: pages read every 2 s and an HPA that looks every 15 s, at any phase."""
RATE_S = 30.0
"""The requests around an instant that are its rate, as for who knows all that comes (``laws.clairvoyant``)."""
MOST_BINS = 20_000


@dataclass(frozen=True, slots=True)
class Load:
    """Requests in each of so many equal stretches of time of ``bin_s`` seconds."""

    counts: tuple[int, ...]
    bin_s: float = 1.0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts)

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.counts) * self.bin_s


@dataclass(frozen=True, slots=True)
class Fluid:
    """A fleet of ``initial`` to ``most`` replicas, each ending ``rate_per_s`` with ``holds`` requests under way.

    ``budget_s``: how long a request may wait for its first token.
    """

    rate_per_s: float
    holds: float
    budget_s: float
    initial: int
    most: int


@dataclass(frozen=True, slots=True)
class Bound:
    """The share of the requests that can have been served in time, and how many replicas there were in each stretch of the load."""

    ratio: float
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Surge:
    """A stretch in which more came than the replicas that the past could have brought serve, in seconds."""

    begins_at: float
    ends_at: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.ends_at - self.begins_at


def load(arrived_at: Iterable[float], duration_s: float) -> Load:
    """The requests of each second; of longer stretches where that would be too many."""
    bin_s = max(1.0, duration_s / MOST_BINS)
    counts = [0] * max(1, math.ceil(duration_s / bin_s))
    for at in arrived_at:
        counts[min(len(counts) - 1, int(at / bin_s))] += 1
    return Load(tuple(counts), bin_s)


def reactive(offered: Load, fleet: Fluid, dead_s: float, warm: int = 0) -> Bound:
    """With the best law that reacts after ``dead_s``, and ``warm`` replicas always kept ready above what it has."""
    late = math.ceil(dead_s / offered.bin_s)
    shown = needed(offered, fleet)
    before = [fleet.initial] * min(late, len(shown)) + shown[: max(0, len(shown) - late)]
    return served(offered, fleet, [min(fleet.most, count + warm) for count in before])


def fixed(offered: Load, fleet: Fluid, replicas: int) -> Bound:
    """With so many from the beginning to the end."""
    return served(offered, fleet, [replicas] * len(offered.counts))


def served(offered: Load, fleet: Fluid, replicas: Sequence[int]) -> Bound:
    """With so many in each stretch. Who waits is served in the order of arrival, and leaves when its budget has passed."""
    patience = math.ceil(fleet.budget_s / offered.bin_s)
    waiting: deque[tuple[int, float]] = deque()
    under_way = entered = 0.0
    for index, (count, there) in enumerate(zip(offered.counts, replicas, strict=True)):
        waiting.append((index, float(count)))
        room = there * (fleet.rate_per_s * offered.bin_s + fleet.holds) - under_way
        while waiting and room > 0:
            since, some = waiting.popleft()
            if index - since > patience:
                continue
            takes = min(some, room)
            room -= takes
            under_way += takes
            entered += takes
            if takes < some:
                waiting.appendleft((since, some - takes))
        under_way = max(0.0, under_way - there * fleet.rate_per_s * offered.bin_s)
    entered += sum(
        some for since, some in waiting if len(offered.counts) - since <= patience
    )  # they may still be served
    total = offered.total
    return Bound(min(1.0, entered / total) if total else 1.0, tuple(replicas))


def rates(offered: Load) -> list[float]:
    """Requests a second around the middle of each stretch."""
    half = max(0, round((RATE_S / offered.bin_s - 1) / 2))
    sums = [0, *accumulate(offered.counts)]
    ends = len(offered.counts)
    found = []
    for index in range(ends):
        first, last = max(0, index - half), min(ends, index + half + 1)
        found.append((sums[last] - sums[first]) / ((last - first) * offered.bin_s))
    return found


def needed(offered: Load, fleet: Fluid) -> list[int]:
    """For each stretch what the highest rate until then needs: at least the initial replicas, at most all."""
    wanted = (math.ceil(rate / fleet.rate_per_s) for rate in accumulate(rates(offered), max))
    return [max(fleet.initial, min(fleet.most, replicas)) for replicas in wanted]


def surges(offered: Load, fleet: Fluid, had: Bound) -> list[Surge]:
    """Where the rate exceeds what the replicas serve."""
    found: list[Surge] = []
    for index, (rate, replicas) in enumerate(zip(rates(offered), had.replicas, strict=True)):
        if rate <= replicas * fleet.rate_per_s:
            continue
        begins_at, ends_at = index * offered.bin_s, (index + 1) * offered.bin_s
        if found and found[-1].ends_at == begins_at:
            found[-1] = Surge(found[-1].begins_at, ends_at)
        else:
            found.append(Surge(begins_at, ends_at))
    return found


def warm_needed(offered: Load, fleet: Fluid, dead_s: float, wanted: float) -> int | None:
    """The fewest warm replicas with which the best law that reacts serves the wanted share; None where the maximum is too small."""
    for warm in range(fleet.most + 1):
        if reactive(offered, fleet, dead_s, warm).ratio >= wanted:
            return warm
    return None
