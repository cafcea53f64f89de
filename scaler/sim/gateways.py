"""What a gateway can do about pressure: nothing, shed by the RED bit, throw dice by a fraction that it polls, or ask for each request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random
from typing import TYPE_CHECKING, Protocol

from scaler.core.admission import as_of
from scaler.core.counted import Counted
from scaler.core.decision import ClassDecision, Decision
from scaler.core.gate import GateState, Request, ask, followed
from scaler.core.gate_plan import GatePlan, gate_plan
from scaler.core.model import GateMode, Pressure
from scaler.core.retry import retry, shed_status, verdict_for
from scaler.sim.clients import Refusal, refusal

if TYPE_CHECKING:
    from scaler.core.step import WorkloadSpec


class Gateway(Protocol):
    """Decides about every attempt. ``polls_s``: how often it fetches the decision; None: it knows each at once."""

    @property
    def polls_s(self) -> float | None: ...

    def hear(self, decision: Decision, spec: WorkloadSpec) -> None:
        """Take a decision that was just made or fetched."""
        ...

    def ask(self, request: Request, now: float) -> Refusal | None:
        """May this attempt enter? None admits."""
        ...

    def nudges(self) -> bool:
        """Whether the law should look early; True once."""
        ...

    def refused_total(self) -> float | None:
        """First attempts that it refused so far by itself, None when it does not count them."""
        ...

    def drain(self, now: float) -> Counted:
        """What the gate in the path has counted since the last call."""
        ...


class Open:
    """Lets all in."""

    polls_s: float | None = None

    def hear(self, decision: Decision, spec: WorkloadSpec) -> None:
        """It does not listen."""

    def ask(self, request: Request, now: float) -> Refusal | None:  # noqa: ARG002 - the protocol's
        """Always."""
        return None

    def nudges(self) -> bool:
        """Never."""
        return False

    def refused_total(self) -> float | None:
        """It refuses none and counts none."""
        return None

    def drain(self, now: float) -> Counted:  # noqa: ARG002 - the protocol's
        """It asks no gate."""
        return Counted()


class _Listening(Open, ABC):
    """Acts on the decision that it heard last, with dice of its own. Until it has heard one it lets all in."""

    def __init__(self, seed: int, polls_s: float | None, *, counts: bool) -> None:
        self.polls_s = polls_s
        self._dice = Random(f"gateway {seed}")
        self._counts = counts
        self._refused = 0
        self._heard: Decision | None = None

    def hear(self, decision: Decision, spec: WorkloadSpec) -> None:  # noqa: ARG002 - the protocol's
        self._heard = decision

    def ask(self, request: Request, now: float) -> Refusal | None:
        if self._heard is None:
            return None
        decision = as_of(self._heard, now)
        verdict, _ = verdict_for(decision, request.request_class)
        if not self._refuses(verdict):
            return None
        self._refused += not request.retries
        return refusal(shed_status(decision, decision.shed), retry(verdict, self._dice.random()))

    def refused_total(self) -> float | None:
        return float(self._refused) if self._counts else None

    @abstractmethod
    def _refuses(self, verdict: ClassDecision) -> bool: ...


class RedBit(_Listening):
    """Asks for the RED bit at each attempt: all of a class are refused while that is RED."""

    def __init__(self, seed: int, *, counts: bool = False) -> None:
        """Dice by the seed. ``counts``: the law is told what was refused."""
        super().__init__(seed, None, counts=counts)

    def _refuses(self, verdict: ClassDecision) -> bool:
        return verdict.state is Pressure.RED


class Dice(_Listening):
    """Polls the fraction and throws dice."""

    def __init__(self, seed: int, polls_s: float = 2.0, *, counts: bool = False) -> None:
        """Dice by the seed. Unless it ``counts``, the law tells what was refused from the fraction."""
        super().__init__(seed, polls_s, counts=counts)

    def _refuses(self, verdict: ClassDecision) -> bool:
        return verdict.gate is GateMode.ENFORCE and self._dice.random() >= verdict.admit_ratio


class InPath(Open):
    """Asks the gate for each attempt."""

    def __init__(self, seed: int) -> None:
        """Dice by the seed."""
        self._dice = Random(f"gateway {seed}")
        self._state = GateState()
        self._plan: GatePlan | None = None
        self._drained = Counted()
        self._nudged = False

    def hear(self, decision: Decision, spec: WorkloadSpec) -> None:
        self._plan = gate_plan(decision, spec)

    def ask(self, request: Request, now: float) -> Refusal | None:
        if self._plan is None:
            return None
        self._state, verdict = ask(self._state, self._plan, request, now, self._dice.random())
        self._nudged |= verdict.nudge
        if verdict.admit or verdict.retry is None:
            return None
        decision = self._plan.decision
        return refusal(shed_status(decision, decision.shed), verdict.retry)

    def nudges(self) -> bool:
        nudged, self._nudged = self._nudged, False
        return nudged

    def drain(self, now: float) -> Counted:
        if self._plan is None:
            return Counted()
        self._state = followed(self._state, self._plan, now)
        counted = self._state.counted(now)
        more, self._drained = counted.since(self._drained), counted
        return more
