"""Who leads, of several pods: a Lease (coordination.k8s.io/v1), by the rules of client-go's election.

An observer tells by its own monotonic clock for how long a record has not changed. The times inside a record are for people and are
never read, so a wall clock that steps changes nothing. A holder counts from when it *sent* the write that was granted, an observer
from when it saw that write, and a holder gives up sooner than an observer takes over: two never believe to lead, unless one's clock
runs at two thirds of the other's speed, or somebody deletes the Lease just when a new pod starts.

Without an API server nobody can know who leads. A holder then stops believing that it does, and nobody else begins to.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum, auto

from scaler.cluster.api import Api, ApiError, Conflict, Json, NotFound
from scaler.cluster.waiting import happened
from scaler.control.ports import Clock

LEASE = "slo-scaler"
RELEASED_S = 1
"""The duration that a released record states: the smallest that Kubernetes accepts."""
LONGEST_S = 60.0
"""A record that states more was not written by a scaler, and must not keep all of them from leading."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds. ``give_up_s`` and ``renew_s`` together are at most ``duration_s``.

    ``duration_s``, at most ``LONGEST_S``: a record counts this long after its last change. ``give_up_s``: a holder whose last granted
    write is older does not lead. ``renew_s``: how often a holder writes, and the most that one try may take. ``retry_s``: how often
    everybody else looks.
    ``recheck_s``: how often the holder looks whether the label is where it belongs. ``hand_over_s``: how long a pod that stops waits for
    the next one to take the label. ``settle_s``: how long the last node may take to lead new connections where the label has moved to.
    """

    duration_s: float = 15.0
    give_up_s: float = 10.0
    renew_s: float = 5.0
    retry_s: float = 2.0
    recheck_s: float = 30.0
    hand_over_s: float = 6.0
    settle_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Member:
    """One pod of ours."""

    namespace: str
    pod: str
    uid: str

    @property
    def identity(self) -> str:
        """The holder's name. A container restarted in its pod is the same holder; a new pod of the same name is another."""
        return f"{self.pod}_{self.uid}"


@dataclass(frozen=True, slots=True)
class Record:
    """What a Lease says. ``holder`` is empty when it was released, ``version`` when the Lease has been deleted."""

    holder: str
    duration_s: float
    version: str


@dataclass(frozen=True, slots=True)
class Seen:
    """The record as last seen, None before there ever was one, and when by the observer's clock it was first seen so."""

    record: Record | None
    since: float


class Step(Enum):
    """What to do about the Lease."""

    CREATE = auto()
    TAKE = auto()
    RENEW = auto()
    WAIT = auto()


def observe(seen: Seen | None, record: Record | None, now: float) -> Seen:
    """Look again. A Lease that is gone says what it last said, as something new: its holder may not have noticed yet."""
    if record is None and seen is not None and seen.record is not None:
        record = replace(seen.record, version="")
    return seen if seen is not None and seen.record == record else Seen(record, now)


def decide(seen: Seen, me: str, now: float) -> Step:
    """What ``me`` may do. Every write is guarded by the version that was seen, so that of several who may, one succeeds."""
    record = seen.record
    if record is None:
        return Step.CREATE
    if record.holder not in ("", me) and now - seen.since < record.duration_s:
        return Step.WAIT
    if not record.version:
        return Step.CREATE
    return Step.RENEW if record.holder == me else Step.TAKE


class Elector:
    """Takes part in the election while ``run`` runs. Cancelled without ``release``, it looks to others like a pod that died.

    ``why`` says what is wrong with the API server, empty when nothing is. ``changed`` is set when leading or ``why`` changes; whoever
    waits for it clears it.
    """

    def __init__(
        self, api: Api, member: Member, clock: Clock, wall: Callable[[], float], timings: Timings = Timings()
    ) -> None:
        """Nobody leads yet. ``wall`` gives seconds since 1970, for the times that people read."""
        self.timings, self.why, self.changed = timings, "", asyncio.Event()
        self._api, self._me, self._clock, self._wall = api, member.identity, clock, wall
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{member.namespace}/leases"
        self._seen: Seen | None = None
        self._terms, self._leads_until = 0, -math.inf
        self._announced: tuple[bool, str] = False, ""
        self._trying, self._released = asyncio.Lock(), asyncio.Event()

    def leads(self) -> bool:
        """Whether this process may act as the one that leads, now."""
        return self._clock() < self._leads_until

    def term(self) -> int:
        """Which time it is that this process leads, from 1; 0 while it does not. Between two terms another may have led."""
        return self._terms if self.leads() else 0

    async def run(self) -> None:
        """Look, take and renew, until released."""
        while not self._released.is_set():
            pause = await self._round()
            await happened(self._released, pause)

    async def release(self) -> None:
        """Stop leading, and let another pod take over at its next look. Raises ApiError: they then wait for the record to expire.

        It waits for a try that is under way, so whoever calls it sets a bound.
        """
        self._released.set()
        async with self._trying:
            self._leads_until = -math.inf
            self.changed.set()
            found = await self._find()
            if found is not None and _record(found, self.timings).holder == self._me:
                await self._write(found, {"holderIdentity": "", "leaseDurationSeconds": RELEASED_S})

    async def _round(self) -> float:
        """One try. How long to wait before the next, in seconds."""
        granted = False
        try:
            async with asyncio.timeout(self.timings.renew_s), self._trying:
                granted = await self._try()
            self.why = ""
        except Conflict:  # somebody was quicker: look again
            self.why = ""
        except ApiError as error:
            self.why = str(error)
        except TimeoutError:
            self.why = f"the API server did not answer within {self.timings.renew_s:g} s"
        if (self.leads(), self.why) != self._announced:
            self._announced = self.leads(), self.why
            self.changed.set()
        return self.timings.renew_s if granted else self.timings.retry_s

    async def _try(self) -> bool:
        """Look, decide, write once at most. Whether this process was granted the Lease."""
        found = await self._find()
        record = None if found is None else _record(found, self.timings)
        self._seen = observe(self._seen, record, self._clock())
        step = decide(self._seen, self._me, self._clock())
        if step is not Step.RENEW:
            self._leads_until = -math.inf
        if step is Step.WAIT:
            return False
        sent_at = self._clock()
        stored = await self._write(found, self._mine(step, found))
        self._seen = Seen(_record(stored, self.timings), self._clock())
        if not self.leads():
            self._terms += 1
        self._leads_until = sent_at + self.timings.give_up_s
        return True

    async def _find(self) -> Json | None:
        try:
            return await self._api.get(f"{self._collection}/{LEASE}")
        except NotFound:
            return None

    async def _write(self, found: Json | None, spec: Json) -> Json:
        spec = {**_spec(found), "renewTime": _micro_time(self._wall()), **spec}
        if found is not None:
            return await self._api.replace(f"{self._collection}/{LEASE}", {**found, "spec": spec})
        metadata = {"name": LEASE}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        return await self._api.create(self._collection, lease)

    def _mine(self, step: Step, found: Json | None) -> Json:
        mine = {"holderIdentity": self._me, "leaseDurationSeconds": math.ceil(self.timings.duration_s)}
        if step is Step.RENEW:
            return mine
        changes = 0 if found is None else 1 + int(_spec(found).get("leaseTransitions") or 0)
        return {**mine, "acquireTime": _micro_time(self._wall()), "leaseTransitions": changes}


def _spec(lease: Json | None) -> Json:
    return {} if lease is None else lease.get("spec") or {}


def _record(lease: Json, timings: Timings) -> Record:
    """The duration that counts is the record's: its holder may be of another version, with other timings."""
    spec = _spec(lease)
    duration_s = min(LONGEST_S, float(spec.get("leaseDurationSeconds") or timings.duration_s))
    return Record(spec.get("holderIdentity") or "", duration_s, lease["metadata"]["resourceVersion"])


def _micro_time(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
