"""Kubernetes Events beside a ScaledObject, for those who look with ``kubectl describe``.

They are written by the leading pod alone, one after the other and beside the loops, so nothing waits for them. Of one reason a workload
gets one Event in ten minutes, which counts; it is written once a minute at most, with the last of what happened meanwhile.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random

from scaler.cluster.api import Api, ApiError, Json, NotFound
from scaler.cluster.happenings import Before, Happening, before_of, happenings
from scaler.cluster.waiting import happened, passed
from scaler.control.board import Board
from scaler.control.ports import Clock
from scaler.core.decision import Decision
from scaler.core.model import WorkloadKey

COMPONENT = "slo-scaler"
LONGEST_TEXT = 1024
"""Characters of a message, beyond which the API server refuses an Event."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds: between two writes of one Event, between any two writes, for how long one counts, and after a refusal."""

    repeat_s: float = 60.0
    between_s: float = 0.2
    same_s: float = 600.0
    refused_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who writes, and when it may. ``pod`` is our own; ``wall`` stamps what people read; ``leads`` is whether KEDA asks this pod.

    ``uid_of`` is that of a workload's ScaledObject, None where there is none. ``unannounced`` is told of what cannot be written.
    """

    api: Api
    pod: str
    clock: Clock
    wall: Clock
    leads: Callable[[], bool]
    uid_of: Callable[[WorkloadKey], str | None]
    unannounced: Callable[[str], None]
    rng: Random


_Kind = tuple[WorkloadKey, str]
"""A workload and a reason."""


@dataclass(frozen=True, slots=True)
class _Due:
    """What is to be written: the last of ``times`` happenings, at wall time ``at``."""

    happening: Happening
    at: float
    times: int = 1


@dataclass(frozen=True, slots=True)
class _Written:
    """The Event that stands, how often it has happened, and when it was made and written, by our clock."""

    path: str
    count: int
    made_at: float
    written_at: float


class Events:
    """Says what changes on a board, which calls ``heard``: it never waits and never raises; ``run`` writes."""

    def __init__(self, board: Board, speaker: Speaker, pace: Pace = Pace()) -> None:
        """Nothing has happened yet."""
        self._board, self._speaker, self._pace = board, speaker, pace
        self._before: dict[WorkloadKey, Before] = {}
        self._due: dict[_Kind, _Due] = {}
        self._written: dict[_Kind, _Written] = {}
        self._trouble = ""
        self._wake = asyncio.Event()

    def heard(self, key: WorkloadKey) -> None:
        """A workload has a new outcome, or is gone."""
        outcome = self._board.latest(key)
        if outcome is None:
            self._forget(key)
        if not isinstance(outcome, Decision):
            return
        before, self._before[key] = self._before.get(key), before_of(outcome)
        if self._speaker.leads():
            for one in happenings(before, outcome):
                self._add(key, one)

    async def run(self) -> None:
        """Write for ever."""
        while True:
            await happened(self._wake, self._idle_s())
            self._wake.clear()
            await self._write_all()

    def _add(self, key: WorkloadKey, one: Happening) -> None:
        kind = key, one.reason
        times = self._due[kind].times + 1 if kind in self._due else 1
        self._due[kind] = _Due(one, self._speaker.wall(), times)
        self._wake.set()

    def _forget(self, key: WorkloadKey) -> None:
        self._before.pop(key, None)
        for kept in (self._due, self._written):
            for kind in [kind for kind in kept if kind[0] == key]:
                kept.pop(kind, None)

    def _may_be_at(self, kind: _Kind) -> float:
        written = self._written.get(kind)
        return -math.inf if written is None else written.written_at + self._pace.repeat_s

    def _idle_s(self) -> float:
        """Until something that is due may be written; what comes new wakes before."""
        soonest = min((self._may_be_at(kind) for kind in self._due), default=math.inf)
        return min(self._pace.repeat_s, max(0.0, soonest - self._speaker.clock()))

    async def _write_all(self) -> None:
        """All that may be written now. Who leads no longer says nothing more: the other does."""
        for kind in [kind for kind in self._due if self._may_be_at(kind) <= self._speaker.clock()]:
            if not self._speaker.leads():
                self._due.clear()
                return
            due, uid = self._due.pop(kind, None), self._speaker.uid_of(kind[0])
            if due is None or uid is None:
                continue
            try:
                await self._write(kind, due, uid)
            except ApiError as error:
                self._keep(kind, due)
                self._troubled(str(error))
                await passed(self._pace.refused_s)
                return
            self._troubled("")
            await passed(self._pace.between_s)

    def _keep(self, kind: _Kind, due: _Due) -> None:
        """What could not be written is written later, unless something newer has come meanwhile or the workload is gone."""
        newer = self._due.get(kind)
        if newer is not None:
            self._due[kind] = replace(newer, times=newer.times + due.times)
        elif kind[0] in self._before:
            self._due[kind] = due

    def _troubled(self, sentence: str) -> None:
        """Said once for as long as it goes on."""
        if sentence and sentence != self._trouble:
            self._speaker.unannounced(sentence)
        self._trouble = sentence

    async def _write(self, kind: _Kind, due: _Due, uid: str) -> None:
        now, written = self._speaker.clock(), self._written.get(kind)
        if written is not None and now - written.made_at < self._pace.same_s:
            count = written.count + due.times
            news = {"count": count, "lastTimestamp": _stamp(due.at), "message": _message(due)}
            try:
                await self._speaker.api.patch(written.path, news)
            except NotFound:  # the cluster forgets Events
                self._written.pop(kind, None)
            else:
                self._written[kind] = replace(written, count=count, written_at=now)
                return
        event = self._event(kind[0], due, uid)
        collection = f"/api/v1/namespaces/{kind[0].namespace}/events"
        await self._speaker.api.create(collection, event)
        if kind[0] in self._before:
            path = f"{collection}/{event['metadata']['name']}"
            self._written[kind] = _Written(path, due.times, now, now)

    def _event(self, key: WorkloadKey, due: _Due, uid: str) -> Json:
        speaker, stamp = self._speaker, _stamp(due.at)
        about = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": key.name, "namespace": key.namespace}
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{key.name[:200].rstrip('-.')}.{speaker.rng.getrandbits(64):016x}",
                "namespace": key.namespace,
            },
            "involvedObject": about | {"uid": uid},
            "type": "Warning" if due.happening.warning else "Normal",
            "reason": due.happening.reason,
            "message": _message(due),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": speaker.pod,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": due.times,
        }


def _message(due: _Due) -> str:
    text = due.happening.text
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
