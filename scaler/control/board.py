"""The latest decision of every workload. RPC handlers and HTTP answers read it and nothing else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from scaler.control.changes import Changes
from scaler.control.comparison import Comparisons
from scaler.control.costs import Costs
from scaler.control.history import History, point
from scaler.core.decision import Decision, Pending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scaler.core.model import WorkloadKey


class Board:
    """One outcome a workload, written by its loop only, what charts and explanations show of those before it, and what it has cost."""

    def __init__(self) -> None:
        """An empty board."""
        self.history, self.changes, self.comparisons, self.costs = History(), Changes(), Comparisons(), Costs()
        self._outcomes: dict[WorkloadKey, Decision | Pending] = {}
        self._activity: dict[WorkloadKey, asyncio.Event] = {}
        self._followers: list[Callable[[WorkloadKey], None]] = []

    def latest(self, key: WorkloadKey) -> Decision | Pending | None:
        """The newest outcome, None when no loop ever published one."""
        return self._outcomes.get(key)

    def decisions(self) -> Iterator[Decision]:
        """Every workload's decision, in the order of their keys."""
        for key in sorted(self._outcomes):
            outcome = self._outcomes[key]
            if isinstance(outcome, Decision):
                yield outcome

    def pending(self) -> Iterator[Pending]:
        """What there is no decision for yet, in the order of their keys."""
        for key in sorted(self._outcomes):
            outcome = self._outcomes[key]
            if isinstance(outcome, Pending):
                yield outcome

    def publish(self, outcome: Decision | Pending) -> None:
        """Replace a workload's outcome, and wake those who wait for a change of its activity."""
        before = self._outcomes.get(outcome.key)
        self._outcomes[outcome.key] = outcome
        if isinstance(outcome, Decision):
            self.history.add(outcome.key, point(outcome))
            self.changes.add(outcome)
            self.comparisons.add(outcome)
        if _activity(before) != _activity(outcome):
            self._wake(outcome.key)
        self._tell(outcome.key)

    def follow(self, changed: Callable[[WorkloadKey], None]) -> Callable[[], None]:
        """Call ``changed``, which must not raise, of each workload that gets a new outcome or is dropped, until the answer is called."""
        self._followers.append(changed)
        return lambda: self._followers.remove(changed)

    def activity(self, key: WorkloadKey) -> asyncio.Event:
        """Is set at the next change of the workload's activity after this call, also if it is not known yet or dropped meanwhile."""
        return self._activity.setdefault(key, asyncio.Event())

    def drop(self, key: WorkloadKey) -> None:
        """Forget a workload."""
        self._outcomes.pop(key, None)
        self.history.drop(key)
        self.changes.drop(key)
        self.comparisons.drop(key)
        self.costs.drop(key)
        self._wake(key)
        self._tell(key)

    def _tell(self, key: WorkloadKey) -> None:
        for changed in tuple(self._followers):
            changed(key)

    def _wake(self, key: WorkloadKey) -> None:
        waiting = self._activity.pop(key, None)
        if waiting is not None:
            waiting.set()


def _activity(outcome: Decision | Pending | None) -> bool | None:
    return outcome.active if isinstance(outcome, Decision) else None
