"""Real servers on loopback, and what the HTTP edge is given in their tests."""

import random
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from aiohttp import ClientSession, web

from scaler.api.http import runner
from scaler.api.view import View
from scaler.control.board import Board
from scaler.core.decision import Decision, Pending
from scaler.core.model import WorkloadKey
from scaler.core.step import WorkloadSpec
from tests.support.decisions import SPEC


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Workloads:
    """Those that somebody runs a loop for."""

    keys: list[WorkloadKey] = field(default_factory=list)
    polls: list[WorkloadKey] = field(default_factory=list)

    def __contains__(self, key: WorkloadKey) -> bool:
        return key in self.keys

    def specs(self) -> Iterator[WorkloadSpec]:
        return (replace(SPEC, key=key) for key in sorted(self.keys))

    def polled(self, key: WorkloadKey) -> None:
        self.polls.append(key)


class BrokenBoard(Board):
    def latest(self, key: WorkloadKey) -> Decision | Pending | None:
        raise LookupError("a bug")


@dataclass
class Failures:
    told: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, path: str, error: Exception) -> None:
        self.told.append((path, type(error).__name__))


def board_of(outcomes: Iterable[Decision | Pending]) -> Board:
    board = Board()
    for outcome in outcomes:
        board.publish(outcome)
    return board


def view_of(*outcomes: Decision | Pending, now: float = 39.0) -> View:
    """A view of these outcomes; the observations of ``tests.support.decisions`` end at 38 s."""
    keys = [outcome.key for outcome in outcomes]
    return View(board_of(outcomes), Workloads(keys), Clock(now), random.Random(7), Failures())


@asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[ClientSession]:
    """A client of the app, which listens on a free port meanwhile."""
    running = runner(app)
    await running.setup()
    try:
        await web.TCPSite(running, "127.0.0.1", 0).start()
        host, port = running.addresses[0][:2]
        async with ClientSession(f"http://{host}:{port}") as client:
            yield client
    finally:
        await running.cleanup()
