"""Stand-in for a gateway: it polls the scaler's state, rolls its own dice, and routes to the least loaded replica."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import aiohttp

from scaler.control.ports import Clock
from scaler.core.model import WorkloadKey
from scaler.demo.cluster import Endpoint

POLL_S = 0.5
POLL_TIMEOUT = aiohttp.ClientTimeout(total=2.0)
VALID_S = 10.0
"""A fraction is used for so long after it was told; then everything is admitted, for a gateway must not fail with its adviser."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Attempts so far. ``would_refuse`` counts what a gate that only observes let through against its dice."""

    offered: int = 0
    admitted: int = 0
    refused: int = 0
    would_refuse: int = 0
    polls: int = 0
    failed_polls: int = 0


class Gateway:
    """The door of one workload, and its ``Demand`` port: it counts what it refused."""

    def __init__(
        self, key: WorkloadKey, endpoints: Callable[[], tuple[Endpoint, ...]], *, enforce: bool, seed: int
    ) -> None:
        """``endpoints`` tells the ready replicas; without ``enforce`` it only counts what it would have refused."""
        self._key = key
        self._endpoints = endpoints
        self._enforce = enforce
        self._random = Random(seed)
        self._admit_ratio = 1.0
        self._told_at: float | None = None
        self._in_flight: Counter[str] = Counter()
        self._offered = self._admitted = self._refused = self._would_refuse = 0
        self._polls = self._failed_polls = 0

    @property
    def counts(self) -> Counts:
        """All that was counted so far."""
        return Counts(self._offered, self._admitted, self._refused, self._would_refuse, self._polls, self._failed_polls)

    def queued(self, key: WorkloadKey) -> float | None:  # noqa: ARG002 - the port's signature
        """It holds nothing back: what it does not refuse it sends on at once."""
        return None

    def refused_total(self, key: WorkloadKey) -> float | None:
        """First attempts refused so far; clients here never try again, so every attempt is a first one."""
        return float(self._refused) if key == self._key else None

    def admit(self, now: float) -> bool:
        """The verdict for one request, counted."""
        self._offered += 1
        stale = self._told_at is None or now - self._told_at > VALID_S
        drawn = self._random.random()  # always drawn: what is refused must not change the dice of those who follow
        refuse = not stale and drawn >= self._admit_ratio
        if refuse and self._enforce:
            self._refused += 1
            return False
        self._would_refuse += refuse
        self._admitted += 1
        return True

    @contextmanager
    def routed(self) -> Iterator[Endpoint | None]:
        """The replica with the fewest requests under way through this gateway, held while the context lasts; None: there is none."""
        endpoint = min(self._endpoints(), key=lambda e: (self._in_flight[e.name], e.name), default=None)
        if endpoint is None:
            yield None
            return
        self._in_flight[endpoint.name] += 1
        try:
            yield endpoint
        finally:
            self._in_flight[endpoint.name] -= 1

    def hear(self, admit_ratio: float, now: float) -> None:
        """Take a fraction from the scaler."""
        self._admit_ratio, self._told_at = admit_ratio, now
        self._polls += 1

    async def poll(self, url: str, session: aiohttp.ClientSession, clock: Clock) -> None:
        """Ask the scaler's gate at ``url`` for the fraction, for ever."""
        while True:
            try:
                async with session.get(url, timeout=POLL_TIMEOUT) as answer:
                    answer.raise_for_status()
                    self.hear(float(answer.headers["X-Backpressure-Admit"]), clock())
            except (aiohttp.ClientError, TimeoutError, KeyError, ValueError):
                self._failed_polls += 1
            await asyncio.sleep(POLL_S)
