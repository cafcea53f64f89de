"""Stand-in for a gateway: it polls the scaler's state, rolls its own dice, and routes to the least loaded replica."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Self

import aiohttp

from scaler.control.ports import Clock
from scaler.core.model import WorkloadKey
from scaler.core.retry import CONTENDED, NO_CAPACITY, spread_out
from scaler.demo.cluster import Endpoint
from scaler.sim.clients import Refusal, refusal

POLL_S = 0.5
POLL_TIMEOUT = aiohttp.ClientTimeout(total=2.0)
VALID_S = 10.0
"""A fraction is used for so long after it was told; then everything is admitted, for a gateway must not fail with its adviser."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the scaler says: which share to admit, and the wait of those who are refused, in seconds, with how far to spread it."""

    admit_ratio: float
    retry_after_s: float = 0.0
    retry_spread_s: float = 0.0
    ready: bool = True

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """From the answer of the state endpoint, which has no waits before the first decision. Raises KeyError, TypeError, ValueError."""
        after_s, spread_s = (float(body.get(name) or 0.0) for name in ("retry_after_s", "retry_spread_s"))
        return cls(float(body["admit_ratio"]), after_s, spread_s, ready=body.get("ready") != 0)


@dataclass(frozen=True, slots=True)
class Counts:
    """Attempts so far. ``would_refuse`` counts what a gate that only observes let through against its dice."""

    offered: int = 0
    admitted: int = 0
    refused: int = 0
    refused_first: int = 0
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
        self._waits = Random(f"waits {seed}")
        self._told = Told(1.0)
        self._told_at: float | None = None
        self._in_flight: Counter[str] = Counter()
        self._offered = self._admitted = self._refused = self._refused_first = self._would_refuse = 0
        self._polls = self._failed_polls = 0

    @property
    def counts(self) -> Counts:
        """All that was counted so far."""
        return Counts(
            offered=self._offered,
            admitted=self._admitted,
            refused=self._refused,
            refused_first=self._refused_first,
            would_refuse=self._would_refuse,
            polls=self._polls,
            failed_polls=self._failed_polls,
        )

    def queued(self, key: WorkloadKey) -> float | None:  # noqa: ARG002 - the port's signature
        """It holds nothing back: what it does not refuse it sends on at once."""
        return None

    def refused_total(self, key: WorkloadKey) -> float | None:
        """First attempts refused so far: one who comes back is no new demand."""
        return float(self._refused_first) if key == self._key else None

    def ask(self, tried: int, now: float) -> Refusal | None:
        """May a request enter that was tried so often before? Counted; None admits."""
        self._offered += 1
        stale = self._told_at is None or now - self._told_at > VALID_S
        drawn = self._random.random()  # always drawn: what is refused must not change the dice of those who follow
        refuse = not stale and drawn >= self._told.admit_ratio
        if refuse and self._enforce:
            self._refused += 1
            self._refused_first += not tried
            return self._refusal()
        self._would_refuse += refuse
        self._admitted += 1
        return None

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

    def hear(self, told: Told, now: float) -> None:
        """Take what the scaler says."""
        self._told, self._told_at = told, now
        self._polls += 1

    async def poll(self, url: str, session: aiohttp.ClientSession, clock: Clock) -> None:
        """Ask the scaler's gate at ``url`` for the state, for ever."""
        while True:
            try:
                async with session.get(url, timeout=POLL_TIMEOUT) as answer:
                    answer.raise_for_status()
                    self.hear(Told.of(await answer.json()), clock())
            except (aiohttp.ClientError, TimeoutError, KeyError, TypeError, ValueError):
                self._failed_polls += 1
            await asyncio.sleep(POLL_S)

    def _refusal(self) -> Refusal:
        """Each is told another time within the spread: all who are refused in one second would return in one second."""
        told = self._told
        when = spread_out(told.retry_after_s, told.retry_spread_s, self._waits.random(), patient=False)
        return refusal(CONTENDED if told.ready else NO_CAPACITY, when)
