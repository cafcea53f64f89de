"""What one namespace may take of the reading: so many replicas, and so many requests under way, over all of its workloads.

A namespace with ten thousand pods, or with pods that all hang, must not take the descriptors and the time that others are read with.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from scaler.control.ports import Clock
from scaler.core.model import WorkloadKey

LEAST_RETRIES, RETRIED_SHARE = 32, 8
FORGET_S = 300.0
"""Longer than any tick: who has not asked for so long is gone, and takes no share."""


@dataclass(frozen=True, slots=True)
class Share:
    """How many ``replicas`` of a namespace are read, and how many of its requests (``lanes``) are under way at once."""

    replicas: int = 2000
    lanes: int = 128


@dataclass(slots=True)
class _Namespace:
    """``granted``: how many replicas of each workload, and when it last asked, who asked longest ago first. ``retries`` are under way."""

    lanes: asyncio.Semaphore
    granted: OrderedDict[str, tuple[int, float]] = field(default_factory=OrderedDict)
    total: int = 0
    retries: int = 0

    def take(self, name: str) -> None:
        """What a workload was granted is free again."""
        self.total -= self.granted.pop(name, (0, 0.0))[0]


class Shares:
    """The shares of all namespaces. Belongs to one event loop."""

    def __init__(self, share: Callable[[], Share], clock: Clock) -> None:
        """``share`` is that of the moment; of its ``lanes`` a namespace keeps what they were when it was first seen."""
        self._share, self._clock = share, clock
        self._namespaces: dict[str, _Namespace] = {}

    def lanes(self, namespace: str) -> asyncio.Semaphore:
        """What each request of that namespace holds while it is under way."""
        return self._of(namespace).lanes

    def retry(self, namespace: str) -> bool:
        """Whether a replica that did not answer last time may be asked now; then ``retried`` must follow.

        Each that hangs costs as much as one that answers, and longer. Of many, an eighth is asked at a time: with a tick of 2 s all have
        their turn within 16 s.
        """
        of = self._of(namespace)
        if of.retries >= max(LEAST_RETRIES, of.total // RETRIED_SHARE):
            return False
        of.retries += 1
        return True

    def retried(self, namespace: str) -> None:
        """That one was asked."""
        self._of(namespace).retries -= 1

    def granted(self, key: WorkloadKey, replicas: int) -> int:
        """How many of these replicas of a workload may be read now: what the namespace's other workloads leave of its share."""
        of, now = self._of(key.namespace), self._clock()
        of.take(key.name)
        while of.granted and next(iter(of.granted.values()))[1] < now - FORGET_S:
            of.take(next(iter(of.granted)))
        granted = max(0, min(replicas, self._share().replicas - of.total))
        of.granted[key.name] = granted, now
        of.total += granted
        return granted

    def _of(self, namespace: str) -> _Namespace:
        found = self._namespaces.get(namespace)
        if found is None:
            found = self._namespaces[namespace] = _Namespace(asyncio.Semaphore(self._share().lanes))
        return found
