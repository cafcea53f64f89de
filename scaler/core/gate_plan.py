"""What a gate in the path takes from a decision, and how it reckons from then on what is under way.

The queue is one number: above zero the requests that queue, below zero the places that are free in the batches, by the law's own reading
that what runs above the safe concurrency is queued. Without an admission

    queue' = -drain                              while anything queues
    queue' = -drain x (1 + queue / places)       while places are free: what finishes is a share of what runs

so at a steady load below the drain rate it stays below zero for ever, however rare the observations are.

A free place is no first token yet: prompts are computed one after the other, and a burst into free places waits for that. Where the load
test says how long one takes alone, ``starting`` is how many were admitted and not begun; no scrape shows it, but our own admissions do.

    starting' = -starts, at least the drain rate

Where a class is promised a pace of tokens, what runs beyond the safe concurrency is too much however short the wait is: that is the third
thing which is kept, the same queue less what waits though places are free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaler.core.admission import SET_POINT_RATIO, keeps_tpot, precedence, towards
from scaler.core.decision import ClassDecision, Decision
from scaler.core.model import Pressure, RequestClass
from scaler.core.pressure import ENTER_RATIO

if TYPE_CHECKING:
    from scaler.core.step import WorkloadSpec

REACTION_S = 1.5
"""In the path an admission is known at once; what is left to wait for are the rates of what is asked."""
BUCKETS, SHORTEST_BUCKET_S = 100, 0.1
CHANCE = 2.5
"""Standard deviations of how many requests end until the next look: beyond them in one look of a hundred."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """How many there were, by stretches of time that begin at ``times``, ascending."""

    times: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()

    def add(self, now: float, width_s: float, keep_s: float) -> Buckets:
        """The same with one more, without the stretches that began longer than ``keep_s`` ago."""
        if self.times and now - self.times[-1] < width_s:
            return Buckets(self.times, (*self.counts[:-1], self.counts[-1] + 1))
        cut = sum(at < now - keep_s for at in self.times)
        return Buckets((*self.times[cut:], now), (*self.counts[cut:], 1))

    def within(self, seconds: float, now: float) -> int:
        """How many there were in stretches that began within the last seconds."""
        return sum(count for at, count in zip(self.times, self.counts, strict=True) if at >= now - seconds)


@dataclass(frozen=True, slots=True)
class Level:
    """What is reckoned to be under way: requests that queue, negative for free places, and requests admitted and not begun."""

    queue: float = 0.0
    starting: float = 0.0

    def admitted(self) -> Level:
        """The level after one admission."""
        return Level(self.queue + 1, self.starting + 1)


@dataclass(frozen=True, slots=True)
class Tank:
    """How one of the two is kept: requests a second that leave it, and the requests at which it is watched and at which it is kept."""

    leaves_per_s: float
    edge: float
    set_point: float

    def limit(self, room: float = 1.0) -> float:
        """What no admission takes it above: the set point, but always one request beyond the edge. ``room``: the share that is used."""
        return self.edge + max(1.0, room * (self.set_point - self.edge))

    def want_per_s(self, held: float, room: float) -> float:
        """How many requests a second may enter; none when the next one would not fit, any number while nothing tells a rate."""
        if self.leaves_per_s <= 0 and held <= 0:
            return math.inf
        return 0.0 if held + 1 > self.limit(room) else towards(self.set_point, held, self.leaves_per_s, REACTION_S)


@dataclass(frozen=True, slots=True)
class GatePlan:
    """One decision as a gate needs it: made once, used for every request until the next.

    ``starved``: no replica is ready. ``seen`` is the queue at ``observed_at``, ``waiting_free`` how much of it waits though places are
    free; free places count only while ``places`` is above 0. ``queue`` None: without a budget, or without a replica that reports, there is
    nothing to reckon with. ``starts`` None: nobody knows how long a prompt takes. ``batch`` is what is ongoing beyond the safe concurrency;
    None: no class is promised a pace of tokens. ``rooms`` are how much of what lies between edge and set point each class may use: what the
    last ones leave free is for bursts of the first. ``bucket_s`` is how finely admissions have to be remembered.
    """

    decision: Decision
    classes: tuple[RequestClass, ...]
    rooms: tuple[float, ...]
    starved: bool
    observed_at: float
    bucket_s: float
    seen: float
    places: float
    waiting_free: float
    queue: Tank | None
    starts: Tank | None
    batch: Tank | None

    def index(self, request_class: str | None) -> int:
        """Which class a request belongs to: the one that is named, or the default, the first."""
        for index, one in enumerate(self.classes):
            if one.name == request_class:
                return index
        return 0

    def passed(self, level: Level, seconds: float) -> Level:
        """The level after as many seconds without an admission."""
        return Level(self._queue_after(level.queue, seconds), self._starting_after(level.starting, seconds))

    def caught_up(self, before: Level, at: float, admitted: Buckets, now: float) -> Level:
        """The level now, of that of ``at`` under another decision: what was admitted after the observation is not in this one."""
        queue, counted_at = self.seen, self.observed_at
        for began, count in zip(admitted.times, admitted.counts, strict=True):
            ended = min(now, began + self.bucket_s)
            if ended > self.observed_at:
                queue, counted_at = self._queue_after(queue, ended - counted_at) + count, ended
        since = max(0.0, now - counted_at)
        return Level(self._queue_after(queue, since), self._starting_after(before.starting, now - at))

    def past_edge(self, level: Level) -> bool:
        """Whether more is under way than the published fraction can be left alone with."""
        return any(held >= tank.edge for tank, held in self._kept(level))

    def want_per_s(self, level: Level, index: int) -> float:
        """How many requests a second may enter, by what is under way, as far as a class is concerned."""
        room = self.rooms[index]
        return min((tank.want_per_s(held, room) for tank, held in self._kept(level)), default=math.inf)

    def wait_s(self, level: Level) -> float:
        """How long a request that arrives now waits: as published, and as much longer as the queue has become since."""
        believed = self.decision.estimate
        more = max(0.0, level.queue) - max(0.0, self.seen)
        wait = believed.queue_wait.s + (more / believed.drain_per_s if self.queue and believed.drain_per_s > 0 else 0.0)
        return max(0.0, wait, level.starting / self.starts.leaves_per_s if self.starts else 0.0)

    def _kept(self, level: Level) -> list[tuple[Tank, float]]:
        levels = (level.queue, level.starting, level.queue - self.waiting_free)
        tanks = (self.queue, self.starts, self.batch)
        return [(tank, held) for tank, held in zip(tanks, levels, strict=True) if tank is not None]

    def _starting_after(self, starting: float, seconds: float) -> float:
        return max(0.0, starting - self.starts.leaves_per_s * seconds) if self.starts and starting > 0 else 0.0

    def _queue_after(self, queue: float, seconds: float) -> float:
        drain, places = self.decision.estimate.drain_per_s, self.places
        if queue > 0:
            left = queue - drain * seconds
            if left >= 0 or not places:
                return max(0.0, left)
            queue, seconds = 0.0, -left / drain
        return (queue + places) * math.exp(-drain * seconds / places) - places if places else queue


def gate_plan(decision: Decision, spec: WorkloadSpec) -> GatePlan:
    """What a gate needs of a decision. The spec may be newer: the classes are those of the decision, as the spec describes them."""
    promised = {one.name: one for one in spec.classes}
    classes = tuple(promised.get(verdict.name) or _bare(verdict) for verdict in decision.classes)
    believed = decision.estimate
    budget_s = min((verdict.budget_s for verdict in decision.classes if verdict.budget_s is not None), default=None)
    reporting = believed.ready - believed.missing
    held = reporting * believed.capacity.safe_concurrency
    drain, alone_s = believed.drain_per_s, spec.profile.unloaded_ttft_s
    starts = max(drain, reporting / alone_s) if alone_s else None
    wait, batch = _tank(drain, budget_s or 0.0), believed.ongoing - held
    queue = max(believed.queue, batch)  # the law averages what runs, which is too slow here
    # as many as one a replica may have come in just before the page was made
    calm = believed.queue_wait.s < ENTER_RATIO * (budget_s or 0.0)
    trusted = calm and queue <= wait.edge + reporting
    seen = queue - max(0.0, -batch) if trusted else queue
    read_at = [reading.observed_at for reading in decision.readings]
    reckons = budget_s is not None and held > 0
    return GatePlan(
        decision=decision,
        classes=classes,
        rooms=_rooms(classes),
        starved=not believed.ready,
        observed_at=sum(read_at) / len(read_at) if read_at else decision.observed_at,
        bucket_s=max(SHORTEST_BUCKET_S, decision.valid_s / BUCKETS),
        seen=seen,
        places=max(0.0, held) if trusted else 0.0,
        waiting_free=seen - batch,
        queue=wait if reckons else None,
        starts=_tank(starts, budget_s or 0.0) if reckons and starts else None,
        batch=_batch(decision, held, spec) if reckons and keeps_tpot(classes) else None,
    )


def _tank(rate_per_s: float, budget_s: float) -> Tank:
    return Tank(rate_per_s, ENTER_RATIO * budget_s * rate_per_s, SET_POINT_RATIO * budget_s * rate_per_s)


def _batch(decision: Decision, held: float, spec: WorkloadSpec) -> Tank:
    """What is ongoing is kept at the safe concurrency; under pressure below it, by as much as chance may be wrong until the next look."""
    drain, pressed = decision.estimate.drain_per_s, decision.state is not Pressure.GREEN
    margin = min(spec.headroom_ratio * held, CHANCE * math.sqrt(drain * spec.tick_s)) if pressed else 0.0
    return Tank(drain, -margin, -margin)


def _rooms(classes: tuple[RequestClass, ...]) -> tuple[float, ...]:
    rank = {one.name: index for index, one in enumerate(sorted(classes, key=precedence))}
    return tuple(1 - rank[one.name] / len(rank) for one in classes)


def _bare(verdict: ClassDecision) -> RequestClass:
    return RequestClass(verdict.name, verdict.budget_s, objective=verdict.objective)
