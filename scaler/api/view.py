"""What HTTP answers are made from, and the forms that they share."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Protocol

from aiohttp import web

from scaler.api import render
from scaler.core.admission import as_of
from scaler.core.counted import Counted
from scaler.core.decision import Decision, Pending
from scaler.core.model import WorkloadKey
from scaler.core.plain import Json

if TYPE_CHECKING:
    from scaler.control.board import Board
    from scaler.control.ports import Clock
    from scaler.core.cost import Bill
    from scaler.core.step import WorkloadSpec

Answer = Callable[[web.Request], web.Response]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MOST_NAMED = 3
"""Workloads that an error names."""


class Workloads(Protocol):
    """Knows which workloads exist, with a decision or without one."""

    def __contains__(self, key: WorkloadKey) -> bool: ...

    def specs(self) -> Iterator[WorkloadSpec]:
        """The spec of every workload, in the order of their keys."""
        ...

    def polled(self, key: WorkloadKey) -> None:
        """Is told that somebody read the workload's admit fraction."""
        ...


@dataclass(frozen=True, slots=True)
class View:
    """What answers are made from. ``failed`` is told of a handler that raised something unexpected, by its route's path.

    ``faults`` are those of the newest configuration file; while there are any, the one before it is in use. ``prices`` are those of a
    GPU-hour, by the name of the GPU. ``asked`` is what the gate in the path counted of a workload since this process began.
    """

    board: Board
    workloads: Workloads
    clock: Clock
    rng: random.Random
    failed: Callable[[str, Exception], None]
    faults: Callable[[], tuple[str, ...]] = tuple
    prices: Callable[[], Mapping[str, float]] = dict
    asked: Callable[[WorkloadKey], Counted] = lambda _: Counted()

    def seen(self, key: WorkloadKey, now: float) -> Decision | Pending | None:
        """The newest outcome as it must be read now; None when nobody knows the workload."""
        outcome = self.board.latest(key)
        if isinstance(outcome, Decision):
            return as_of(outcome, now)
        if outcome is None and key in self.workloads:
            return Pending(key, "its first look at the engines has not ended")
        return outcome

    def bill(self, key: WorkloadKey, now: float) -> Bill | None:
        """What the workload's GPUs did in the last hour, and what that cost; None where nobody tells of GPUs."""
        return self.board.costs.lately(key, now, self.prices())

    def known(self) -> list[WorkloadKey]:
        """Every workload, in the order of their keys."""
        waiting = {outcome.key for outcome in self.board.pending()}
        return sorted(waiting | {spec.key for spec in self.workloads.specs()})

    def every(self, now: float) -> Iterator[Decision | Pending]:
        """The newest outcome of each, as it must be read now."""
        for key in self.known():
            outcome = self.seen(key, now)
            if outcome is not None:
                yield outcome


def served(answer: Answer) -> Handler:
    """An answer that waits for nothing."""

    async def handler(request: web.Request) -> web.Response:
        return answer(request)

    return handler


def asked_for(request: web.Request) -> WorkloadKey:
    """The workload that a path names."""
    return WorkloadKey(request.match_info["namespace"], request.match_info["name"])


def json_answer(body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A body as strict JSON."""
    text = json.dumps(body, allow_nan=False, ensure_ascii=False)
    return web.Response(text=text, status=status, headers=headers, content_type="application/json")


def unknown_workload(known: Sequence[WorkloadKey] = (), asked: WorkloadKey | None = None) -> web.Response:
    """404, naming those of the ``known`` that are written like the one that was ``asked`` for, else the first of them."""
    message = "no such workload: a workload is the namespace and the name of a ScaledObject that names this scaler"
    names = [str(key) for key in known]
    near = get_close_matches(str(asked), names, MOST_NAMED) or names[:MOST_NAMED]
    if near:
        message += f"; there is {', '.join(near)}" + (
            f" and {len(names) - len(near)} more" if names[len(near) :] else ""
        )
    return json_answer(render.error_body("unknown_workload", message), 404)
