"""A fleet of simulated replicas behind a router, as its platform and its pages show it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from random import Random

from scaler.core.model import Reading, ReplicaSet, Started, Starting
from scaler.sim.presets import Preset
from scaler.sim.replica import Replica
from scaler.sim.routing import LeastLoaded, Router
from scaler.sim.starts import Fixed, StartTimes
from scaler.sim.values import Coefficients, Event, Request, RequestId

LISTED_S = 300.0
"""For how long the platform lists a start that has ended."""


@dataclass(frozen=True, slots=True)
class Warming:
    """A replica that is ready and still cold: each step takes ``times`` as long for its first ``seconds`` and its first ``requests``."""

    times: float
    seconds: float = 0.0
    requests: int = 0


@dataclass(frozen=True, slots=True)
class Platform:
    """What replicas there are: ``replicas`` at first, ready and warm, and never more than ``max_replicas``.

    ``starts`` tells how long a start takes. ``limit``: a replica that has so many requests under way is sent no more, None: no limit.
    """

    preset: Preset
    replicas: int
    max_replicas: int
    starts: StartTimes = Fixed(60.0)
    warming: Warming | None = None
    router: Callable[[], Router] = LeastLoaded
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Life:
    """One replica from its creation to the end of its last request: for so long it has its GPUs. Infinite: not in this run.

    ``ready_at`` may be later than ``removed_at``, from when on it is sent nothing: then it never served.
    """

    name: str
    created_at: float
    ready_at: float
    removed_at: float
    gone_at: float

    def seconds(self, end: float) -> float:
        """How long it had its GPUs, in a run that ended then."""
        return min(self.gone_at, end) - self.created_at


class _Member:
    """One replica. ``due_at`` is the earliest that its engine may have something to tell, ``load`` as of when it last did."""

    __slots__ = (
        "cold_requests", "created_at", "due_at", "engine", "gone_at", "load", "name", "ready_at", "removed_at", "warm_at",
    )  # fmt: skip

    def __init__(self, name: str, created_at: float, ready_at: float, engine: Replica) -> None:
        """A warm one."""
        self.name = name
        self.created_at = created_at
        self.ready_at = ready_at
        self.engine = engine
        self.load = 0
        self.due_at = math.inf
        self.removed_at = self.gone_at = math.inf
        self.warm_at = math.inf
        self.cold_requests = 0


class Fleet:
    """Mutable, one owner, who passes times that never go back.

    A replica that is removed takes no more and ends what it has; those that are not ready go first, then the newest. Engines are
    advanced only when they may have something to tell: how often anybody looks changes nothing.
    """

    def __init__(self, platform: Platform, seed: int = 1) -> None:
        """The replicas that are there at first. The dice of the starts are by the seed."""
        self._platform = platform
        self._router = platform.router()
        self._starts = platform.starts
        self._limit = math.inf if platform.limit is None else platform.limit
        self._chance = Random(f"starts {seed}")
        self._named: dict[str, _Member] = {}
        self._members: list[_Member] = []
        self._ready: list[_Member] = []
        self._leaving: list[_Member] = []
        self._turns_at = math.inf  # when the next one gets ready, or warm
        self._due: list[tuple[float, int, _Member]] = []
        self._pushed = 0
        self._events: list[Event] = []
        self.stand(platform.replicas)

    def stand(self, count: int) -> None:
        """Before time passes: let there be so many at first, ready and warm."""
        self._members.clear()
        self._named.clear()
        for _ in range(count):
            self._create(0.0, 0.0)
        self._turn(0.0)

    def resize(self, desired: int, now: float) -> None:
        """Create or remove replicas until there are so many."""
        self._catch_up(now)
        wanted = min(desired, self._platform.max_replicas)
        for _ in range(wanted - len(self._members)):
            self._create(now, self._starts(self._chance))
        last_first = sorted(self._members, key=lambda one: (one.ready_at <= now, -one.created_at))
        for member in last_first[: max(0, len(self._members) - wanted)]:
            self._remove(member, now)
        self._turn(now)

    def send(self, request: Request, now: float) -> bool:
        """Route one request; False when no replica is ready, or the chosen one is full."""
        due = self._due
        if now >= self._turns_at or (due and due[0][0] <= now):
            self._catch_up(now)
        ready = self._ready
        if not ready:
            return False
        chosen = self._router.choose(ready, request)
        if chosen.load >= self._limit:
            return False
        chosen.load += 1
        engine = chosen.engine
        engine.submit(request, now)
        if chosen.cold_requests:
            chosen.cold_requests -= 1
            self._warm(chosen, now)
        at = engine.next_event_at()
        if at is not None and at < chosen.due_at:
            self._expect(chosen, at)
        return True

    def cancel(self, request_id: RequestId, now: float) -> bool:
        """The client went away; False if the request is not here any more."""
        self._catch_up(now)
        for member in (*self._ready, *self._leaving):
            if member.engine.cancel(request_id, now):
                self._told(member, now)
                if (at := member.engine.next_event_at()) is not None:
                    self._expect(member, at)
                return True
        return False

    def advance(self, now: float) -> list[Event]:
        """What happened since the last call, in order of time for each replica."""
        self._catch_up(now)
        events, self._events = self._events, []
        return events

    def in_engines(self, now: float) -> tuple[int, int]:
        """Requests running in batches, and requests sent and in none; also in those replicas that were removed."""
        self._catch_up(now)
        running = waiting = 0
        for member in (*self._ready, *self._leaving):
            self._events += member.engine.advance(now)
            running += member.engine.running
            waiting += member.load - member.engine.running
        return running, waiting

    def ready(self, now: float) -> int:
        """How many can be sent something."""
        self._catch_up(now)
        return len(self._ready)

    @property
    def existing(self) -> int:
        """Replicas that were created and not removed."""
        return len(self._members)

    def lives(self) -> list[Life]:
        """All replicas that ever were, in order of their creation."""
        return [
            Life(one.name, one.created_at, one.ready_at, one.removed_at, one.gone_at) for one in self._named.values()
        ]

    def replica_set(self, now: float) -> ReplicaSet:
        """What the platform says."""
        self._catch_up(now)
        listed = now - LISTED_S
        started = [one for one in self._ready if one.ready_at > one.created_at and one.ready_at > listed]
        return ReplicaSet(
            ready=tuple([member.name for member in self._ready]),
            starting=tuple([Starting(one.name, one.created_at) for one in self._members if one.ready_at > now]),
            current=len(self._members),
            observed_at=now,
            max_replicas=self._platform.max_replicas,
            started=tuple([Started(one.name, one.created_at, one.ready_at) for one in started]),
        )

    def page(self, name: str, now: float) -> Reading | None:
        """What a scrape of one replica says, None when it is gone."""
        self._catch_up(now)
        member = self._named.get(name)
        return member.engine.reading(name, now) if member is not None and member.gone_at > now else None

    def _create(self, now: float, takes_s: float) -> None:
        ready_at, preset, warming = now + takes_s, self._platform.preset, self._platform.warming
        cost = preset.coefficients
        if warming is not None and takes_s > 0:
            cost = slowed(cost, warming.times)
        member = _Member(f"replica-{len(self._named)}", now, ready_at, Replica(cost, preset.limits, ready_at))
        self._members.append(member)
        self._named[member.name] = member
        if cost is not preset.coefficients and warming is not None:
            member.warm_at = ready_at + warming.seconds
            member.cold_requests = warming.requests + 1 if warming.requests else 0  # the one after those is quick

    def _remove(self, member: _Member, now: float) -> None:
        self._members.remove(member)
        member.removed_at = now
        if member.load:
            self._leaving.append(member)
        else:
            member.gone_at = now

    def _catch_up(self, now: float) -> None:
        """Let all engines tell that may have something to."""
        if now >= self._turns_at:
            self._turn(now)
        heap, happened = self._due, self._events
        while heap and heap[0][0] <= now:
            at, _, member = heap[0]
            if at != member.due_at:  # it was due earlier than that
                heappop(heap)
                continue
            engine = member.engine
            if events := engine.advance(now):
                happened += events
                self._told(member, events[-1].at)
            due_at = engine.next_event_at()
            if due_at is None:
                member.due_at = math.inf
                heappop(heap)
            else:
                member.due_at = due_at
                self._pushed += 1
                heapreplace(heap, (due_at, self._pushed, member))

    def _told(self, member: _Member, at: float) -> None:
        """Something happened in it: perhaps a request left, and perhaps that was what it still stood for."""
        member.load = member.engine.ongoing
        if not member.load and member.removed_at < math.inf:
            member.gone_at = at
            self._leaving.remove(member)

    def _expect(self, member: _Member, at: float) -> None:
        """It may have something to tell then."""
        member.due_at = at
        self._pushed += 1
        heappush(self._due, (at, self._pushed, member))

    def _turn(self, now: float) -> None:
        """Who is ready and who is warm, and when that changes next."""
        for member in (*self._members, *self._leaving):
            if member.warm_at <= now:
                at, member.warm_at = member.warm_at, math.inf
                self._warm(member, at)
        self._ready = [member for member in self._members if member.ready_at <= now]
        changes = [one.ready_at if one.ready_at > now else one.warm_at for one in (*self._members, *self._leaving)]
        self._turns_at = min(changes, default=math.inf)

    def _warm(self, member: _Member, now: float) -> None:
        """The time or a request that it was cold for has passed; perhaps that was the last."""
        if member.warm_at == math.inf and not member.cold_requests:
            engine = member.engine
            engine.retime(self._platform.preset.coefficients, now)
            if (at := engine.next_event_at()) is not None:
                self._expect(member, at)


def slowed(coefficients: Coefficients, times: float) -> Coefficients:
    """Steps that take so many times as long."""
    cost = coefficients
    return Coefficients(cost.a_s * times, cost.b_s * times, cost.c_s * times, cost.d_s * times, cost.overhead_s)
