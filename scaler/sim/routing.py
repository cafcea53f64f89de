"""Which of the ready replicas gets a request."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Protocol, TypeVar

from scaler.sim.values import Request


class Candidate(Protocol):
    """A ready replica; ``load`` is how many requests it has under way."""

    @property
    def name(self) -> str: ...

    @property
    def load(self) -> int: ...


Chosen = TypeVar("Chosen", bound=Candidate)


class Router(Protocol):
    """Chooses among ready replicas, of which there is at least one, always in the order in which they were created."""

    def choose(self, ready: Sequence[Chosen], request: Request) -> Chosen: ...


class LeastLoaded:
    """The one with the fewest requests under way; the oldest of several."""

    _load = attrgetter("load")

    def choose(self, ready: Sequence[Chosen], request: Request) -> Chosen:  # noqa: ARG002 - the protocol's
        """Look at all."""
        return min(ready, key=self._load)


class RoundRobin:
    """Each in turn, however long its queue is."""

    def __init__(self) -> None:
        """The first is first."""
        self._turn = -1

    def choose(self, ready: Sequence[Chosen], request: Request) -> Chosen:  # noqa: ARG002 - the protocol's
        """The next."""
        self._turn += 1
        return ready[self._turn % len(ready)]


class Sticky:
    """A session stays where it is while that replica is ready, and moves only then: rendezvous hashing.

    Requests belong to any of ``sessions`` sessions alike, by their number: the fewer, the less even the load.
    """

    def __init__(self, sessions: int = 64) -> None:
        """No session is anywhere yet."""
        self._sessions = sessions
        self._weights: dict[tuple[int, str], bytes] = {}

    def choose(self, ready: Sequence[Chosen], request: Request) -> Chosen:
        """The one whose name and the session's give the largest hash."""
        session = int.from_bytes(_hash(str(request.id))) % self._sessions
        return max(ready, key=lambda one: self._weight(session, one.name))

    def _weight(self, session: int, name: str) -> bytes:
        weight = self._weights.get((session, name))
        if weight is None:
            weight = self._weights[session, name] = _hash(f"{session} {name}")
        return weight


def _hash(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=8).digest()
