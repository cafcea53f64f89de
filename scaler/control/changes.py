"""The last hour of what was decided: each change of the number or of the state, and why."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaler.core.explain import binding

if TYPE_CHECKING:
    from scaler.core.decision import Decision, Reason
    from scaler.core.model import Pressure, WorkloadKey

SPAN_S, MOST = 3600.0, 60


@dataclass(frozen=True, slots=True)
class Change:
    """From one number and state to the next, at monotonic ``at``, and why. ``before`` None: the first that was published."""

    at: float
    before: int | None
    desired: int
    state: Pressure
    blind: bool
    reason: Reason
    because: str


class Changes:
    """By workload, sixty at most."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._kept: dict[WorkloadKey, deque[Change]] = {}

    def add(self, decision: Decision) -> None:
        """Keep it if it differs from the one before in more than its reason: that one flips as terms of like size do."""
        kept = self._kept.setdefault(decision.key, deque(maxlen=MOST))
        last = kept[-1] if kept else None
        told = decision.desired, decision.state, decision.blind
        if last is not None and (last.desired, last.state, last.blind) == told:
            return
        kept.append(
            Change(
                at=decision.decided_at,
                before=None if last is None else last.desired,
                desired=decision.desired,
                state=decision.state,
                blind=decision.blind,
                reason=decision.reason,
                because=binding(decision, decision.decided_at).text,
            )
        )

    def since(self, key: WorkloadKey, earliest: float) -> list[Change]:
        """Those of a workload after that instant, the oldest first."""
        return [one for one in self._kept.get(key, ()) if one.at >= earliest]

    def drop(self, key: WorkloadKey) -> None:
        """Forget a workload."""
        self._kept.pop(key, None)
