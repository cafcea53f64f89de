"""Decisions as server-sent events, to whoever keeps a stream open.

An event is written once, when its decision is published, and every stream keeps the newest one of each workload until it is its turn. So
a reader that is slow gets fewer events, never older ones, and what waits for it is bounded by the number of workloads. One that has not
taken what was written within ten seconds is dropped. Its client comes back by itself, and is told the newest of each first.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web

from scaler.api import render
from scaler.api.view import View, asked_for, json_answer, unknown_workload
from scaler.core.decision import Decision

if TYPE_CHECKING:
    from collections.abc import Callable

    from scaler.core.decision import Pending
    from scaler.core.model import WorkloadKey

HEARTBEAT = b": nothing new\n\n"
HELLO = b"retry: 2000\n\n"
"""Milliseconds after which a client that lost its stream asks for another."""
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # or nginx would keep events until it has a buffer full
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """How many streams there may be, how often one is written to at most and at least, and how long one write may take; in seconds."""

    streams: int = 32
    pause_s: float = 1.0
    heartbeat_s: float = 15.0
    patience_s: float = 10.0


@dataclass(eq=False, slots=True)
class _Stream:
    """One reader: of one workload, or of all if ``only`` is None. ``waiting`` has the newest event of each."""

    request: web.Request
    only: WorkloadKey | None
    waiting: dict[WorkloadKey, bytes] = field(default_factory=dict)
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def left(self) -> bool:
        return self.request.transport is None or self.request.transport.is_closing()

    def add(self, key: WorkloadKey, event: bytes) -> None:
        self.waiting[key] = event
        self.wake.set()

    def take(self) -> bytes:
        """All that waits, in the order of the workloads' first change."""
        events = b"".join(self.waiting.values())
        self.waiting.clear()
        self.wake.clear()
        return events


class Streams:
    """The open streams. While there is none, a decision costs nothing here."""

    def __init__(self, view: View, limits: Limits | None = None) -> None:
        """No stream is open yet."""
        self._view, self._limits = view, limits or Limits()
        self._open: set[_Stream] = set()
        self._unfollow: Callable[[], None] | None = None
        self._ended = asyncio.Event()

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    async def of_all(self, request: web.Request) -> web.StreamResponse:
        """The stream of every workload's decisions."""
        return await self._serve(request, None)

    async def of_one(self, request: web.Request) -> web.StreamResponse:
        """The stream of one workload's decisions."""
        key = asked_for(request)
        if self._view.seen(key, self._view.clock()) is None:
            return unknown_workload()
        return await self._serve(request, key)

    async def end(self, _app: web.Application | None = None) -> None:
        """End every stream, and open no more: the process goes."""
        self._ended.set()
        for stream in self._open:
            stream.wake.set()

    async def _serve(self, request: web.Request, only: WorkloadKey | None) -> web.StreamResponse:
        if request.method == "HEAD":
            return web.Response(headers=HEADERS)
        if self._ended.is_set() or self._crowded():
            message = f"no more than {self._limits.streams} streams are open at a time; ask /v1/state, or come back"
            return json_answer(render.error_body("too_many_streams", message), 503, {"Retry-After": "5"})
        response, stream = web.StreamResponse(headers=HEADERS), _Stream(request, only)
        self._add(stream)
        try:
            async with asyncio.timeout(None) as patience:
                await self._tell(stream, response, patience)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            pass  # it left
        finally:
            self._remove(stream)
        return response

    async def _tell(self, stream: _Stream, response: web.StreamResponse, patience: asyncio.Timeout) -> None:
        limits, loop = self._limits, asyncio.get_running_loop()
        await response.prepare(stream.request)
        events = HELLO + stream.take()
        while not self._ended.is_set():
            patience.reschedule(loop.time() + limits.patience_s)
            await response.write(events)
            patience.reschedule(None)
            await _at_most(limits.pause_s, self._ended)
            await _at_most(limits.heartbeat_s, stream.wake)
            events = stream.take() or HEARTBEAT

    def _crowded(self) -> bool:
        """Whether there is room for no other. Who left is noticed at the next write only, so that is brought about."""
        left = [stream for stream in self._open if stream.left]
        for stream in left:
            stream.wake.set()
        return len(self._open) - len(left) >= self._limits.streams

    def _add(self, stream: _Stream) -> None:
        """Begin with the newest of what there is: nothing is missed between two streams."""
        for key in self._view.known() if stream.only is None else (stream.only,):
            stream.add(key, self._event(key))
        self._open.add(stream)
        if self._unfollow is None:
            self._unfollow = self._view.board.follow(self._changed)

    def _remove(self, stream: _Stream) -> None:
        self._open.discard(stream)
        if not self._open and self._unfollow is not None:
            self._unfollow()
            self._unfollow = None

    def _changed(self, key: WorkloadKey) -> None:
        told = [stream for stream in self._open if stream.only in {None, key}]
        event = self._event(key) if told else b""
        for stream in told:
            stream.add(key, event)

    def _event(self, key: WorkloadKey) -> bytes:
        now = self._view.clock()
        outcome = self._view.seen(key, now)
        name, body = _named(key, outcome, now)
        text = json.dumps(body, allow_nan=False)  # in ASCII, and without a line's end
        return f"event: {name}\ndata: {text}\n\n".encode()


def _named(key: WorkloadKey, outcome: Decision | Pending | None, now: float) -> tuple[str, render.Body]:
    if outcome is None:
        return "gone", {"namespace": key.namespace, "name": key.name}
    if isinstance(outcome, Decision):
        return "decision", render.event_body(outcome, now)
    return "pending", render.pending_body(outcome)


async def _at_most(seconds: float, awaited: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await awaited.wait()
