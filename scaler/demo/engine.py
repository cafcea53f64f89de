"""A simulated engine that runs in real time: requests go in, progress comes out on a queue for each."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from scaler.control.ports import Clock
from scaler.core.model import Reading
from scaler.demo.page import Contents, Finishes
from scaler.sim import Event, Finished, FirstToken, Preempted, Replica, Request

FLUSH_S = 0.2
"""Tokens after the first are told this often: a message for each would cost more than the engine that it shows."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How many output tokens there are so far, and whether that is all."""

    tokens: int
    finished: bool


@dataclass(slots=True)
class Job:
    """A request under way. Its client awaits ``progress``."""

    request: Request
    progress: asyncio.Queue[Progress] = field(default_factory=asyncio.Queue)
    told: int = 0


class Engine:
    """Owns one simulated replica and shows it the time. Use it from the event loop's thread only."""

    def __init__(self, replica: Replica, clock: Clock) -> None:
        """An engine at rest; ``run`` makes it live."""
        self._replica = replica
        self._clock = clock
        self._jobs: dict[int, Job] = {}
        self._finishes = Finishes()
        self._submitted = 0
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    async def idle(self) -> None:
        """Return when no request is under way."""
        await self._idle.wait()

    def submit(self, prompt_tokens: int, output_tokens: int) -> Job:
        """Take in a request. ValueError when it can never fit into the cache."""
        now = self._clock()
        job = Job(Request(self._submitted, now, prompt_tokens, output_tokens))
        self._replica.submit(job.request, now)
        self._jobs[self._submitted] = job
        self._submitted += 1
        self._idle.clear()
        self._changed.set()
        return job

    def cancel(self, job: Job) -> None:
        """The client has gone; nothing happens if its request was finished."""
        if self._forget(job):
            self._replica.cancel(job.request.id, self._clock())
            self._changed.set()

    def read(self, name: str) -> Reading:
        """What a scrape sees now."""
        return self._replica.reading(name, self._clock())

    def contents(self, name: str, created_at: float) -> Contents:
        """All numbers of the metrics page now. ``created_at`` is wall time, in seconds."""
        reading = self.read(name)
        return Contents(
            reading, self._replica.counters, self._finishes.finished, self._finishes.histograms(), created_at
        )

    async def run(self) -> None:
        """Let time pass, for ever, and tell every job of its tokens."""
        flush_at = self._clock()
        while True:
            now = self._clock()
            for event in self._replica.advance(now):
                self._deliver(event)
            if now >= flush_at:
                self._flush()
                flush_at = now + FLUSH_S
            await self._rest(flush_at)

    async def _rest(self, flush_at: float) -> None:
        """Until the next event or flush, or until somebody comes or goes; for ever while nothing is under way."""
        self._changed.clear()
        due = self._replica.next_event_at()
        wait_s = None if due is None else max(0.0, min(due, flush_at) - self._clock())
        try:
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _deliver(self, event: Event) -> None:
        if isinstance(event, Preempted) or (job := self._jobs.get(int(event.id))) is None:
            return
        if isinstance(event, FirstToken):
            job.told = 1
        elif isinstance(event, Finished):
            self._forget(job)
            self._finishes.add(job.request, event)
            job.told = job.request.output_tokens
        job.progress.put_nowait(Progress(job.told, isinstance(event, Finished)))

    def _forget(self, job: Job) -> bool:
        known = self._jobs.pop(int(job.request.id), None) is not None
        if not self._jobs:
            self._idle.set()
        return known

    def _flush(self) -> None:
        for job in self._jobs.values():
            if job.told and (tokens := self._replica.generated(job.request.id)) > job.told:
                job.told = tokens
                job.progress.put_nowait(Progress(tokens, finished=False))
