"""What the GPUs of every workload did, added up since the process began."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler.core.cost import Bill, Ledger, follow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scaler.core.cost import Spent
    from scaler.core.model import Observation, WorkloadKey


class Costs:
    """A ledger a workload, from its first look on, also while there is no decision: its GPUs are paid for all the same."""

    def __init__(self) -> None:
        """Nothing was spent yet."""
        self._ledgers: dict[WorkloadKey, Ledger] = {}

    def add(self, key: WorkloadKey, seen: Observation) -> None:
        """The newest look."""
        self._ledgers[key] = follow(self._ledgers.get(key, Ledger()), seen)

    def every(self) -> Iterator[tuple[WorkloadKey, Spent]]:
        """What each workload has spent, in the order of their keys."""
        for key in sorted(self._ledgers):
            yield key, self._ledgers[key].spent

    def lately(self, key: WorkloadKey, now: float, prices: Mapping[str, float]) -> Bill | None:
        """The bill of the last hour; None where nobody tells of GPUs."""
        ledger = self._ledgers.get(key)
        return None if ledger is None else ledger.lately(now, prices)

    def drop(self, key: WorkloadKey) -> None:
        """Forget a workload."""
        self._ledgers.pop(key, None)
