"""The gates in the path: one for each workload that has a decision. Asked for every request, and drained by the loop at every tick."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from scaler.core.counted import Counted
from scaler.core.decision import Decision
from scaler.core.gate import GateState, Request, Verdict, Why, ask, followed, unknown
from scaler.core.gate_plan import GatePlan, gate_plan

if TYPE_CHECKING:
    from scaler.control.board import Board
    from scaler.control.ports import Clock
    from scaler.core.model import WorkloadKey
    from scaler.core.step import WorkloadSpec


@dataclass(frozen=True, slots=True)
class GateParts:
    """What the gates work with. ``spec`` is that of a workload that runs, else None; ``nudge`` asks its loop for an early tick."""

    board: Board
    spec: Callable[[WorkloadKey], WorkloadSpec | None]
    clock: Clock
    rng: Random
    nudge: Callable[[WorkloadKey], None]


@dataclass(slots=True)
class _Gate:
    plan: GatePlan
    state: GateState = GateState()
    drained: Counted = Counted()


class Gates:
    """Never waits. Call it from the event loop's thread only."""

    def __init__(self, parts: GateParts) -> None:
        """Gates that nobody has asked yet."""
        self._parts = parts
        self._gates: dict[WorkloadKey, _Gate] = {}
        self._unknown: Counter[Why] = Counter()

    @property
    def clock(self) -> Clock:
        """The clock that requests are judged by."""
        return self._parts.clock

    @property
    def let_in_unknown(self) -> Mapping[Why, int]:
        """How many requests were let in so far because nothing was known, by why."""
        return self._unknown

    def ask(self, key: WorkloadKey, request: Request) -> Verdict:
        """The verdict for one request of a workload, counted."""
        now, gate = self._parts.clock(), self._gate(key)
        if isinstance(gate, Why):
            return self.unknown(gate)
        gate.state, verdict = ask(gate.state, gate.plan, request, now, self._parts.rng.random())
        if verdict.nudge:
            self._parts.nudge(key)
        return verdict

    def unknown(self, why: Why) -> Verdict:
        """A request of which nothing is known is let in, counted."""
        self._unknown[why] += 1
        return unknown(why)

    def drain(self, key: WorkloadKey) -> Counted:
        """What was counted for a workload since the last call, and how many requests wait now for its first replica."""
        now, gate = self._parts.clock(), self._gate(key) if key in self._gates else None
        if not isinstance(gate, _Gate):
            return Counted()
        gate.state = followed(gate.state, gate.plan, now)
        counted = gate.state.counted(now)
        more, gate.drained = counted.since(gate.drained), counted
        return more

    def asked(self, key: WorkloadKey) -> Counted:
        """All that was counted so far for one workload; nothing where nobody asked."""
        gate = self._gates.get(key)
        return Counted() if gate is None else gate.state.counted(self._parts.clock())

    def counted(self) -> Iterator[tuple[WorkloadKey, Counted]]:
        """All that was counted so far for each workload that was asked for and still runs, in the order of their keys."""
        now = self._parts.clock()
        for key in sorted(self._gates):
            gate = self._gate(key)
            if isinstance(gate, _Gate):
                yield key, gate.state.counted(now)

    def _gate(self, key: WorkloadKey) -> _Gate | Why:
        """The gate of a workload with its newest plan, or why there is none. What no longer runs is forgotten."""
        outcome, spec = self._parts.board.latest(key), self._parts.spec(key)
        if spec is None:
            self._gates.pop(key, None)
            return Why.UNKNOWN_WORKLOAD
        if not isinstance(outcome, Decision):
            return Why.PENDING
        gate = self._gates.get(key)
        if gate is None:
            gate = self._gates[key] = _Gate(gate_plan(outcome, spec))
        elif gate.plan.decision is not outcome:
            gate.plan = gate_plan(outcome, spec)
        return gate
