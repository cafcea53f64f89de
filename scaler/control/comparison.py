"""What a shadow would have done beside what was done: added up tick by tick since the shadow began."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scaler.control.history import strictest_budget_s

if TYPE_CHECKING:
    from scaler.core.decision import Decision
    from scaler.core.model import WorkloadKey

LONGEST_GAP_S = 30.0
"""A longer time between two decisions was seen by nobody, and counts for neither."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Seconds, and replicas times seconds. ``real`` is what was asked of the platform, ``ours`` what would have been.

    ``more_s`` and ``fewer_s`` are when ours was more, or fewer. ``late_s`` is when requests waited longer than their budget, ``helped_s``
    the part of it in which ours was more. What others' replicas cannot tell: how long requests would have waited for ours.
    """

    seen_s: float = 0.0
    blind_s: float = 0.0
    real_replica_s: float = 0.0
    ours_replica_s: float = 0.0
    more_s: float = 0.0
    fewer_s: float = 0.0
    late_s: float = 0.0
    helped_s: float = 0.0
    most_real: int = 0
    most_ours: int = 0

    def after(self, held: Decision, for_s: float) -> Comparison:
        """With a decision that stood for so long."""
        if held.blind:
            return replace(self, blind_s=self.blind_s + for_s)
        real, ours = held.estimate.current, held.desired
        budget_s = strictest_budget_s(held)
        late = budget_s is not None and held.estimate.queue_wait.s > budget_s
        return Comparison(
            seen_s=self.seen_s + for_s,
            blind_s=self.blind_s,
            real_replica_s=self.real_replica_s + real * for_s,
            ours_replica_s=self.ours_replica_s + ours * for_s,
            more_s=self.more_s + for_s * (ours > real),
            fewer_s=self.fewer_s + for_s * (ours < real),
            late_s=self.late_s + for_s * late,
            helped_s=self.helped_s + for_s * (late and ours > real),
            most_real=max(self.most_real, real),
            most_ours=max(self.most_ours, ours),
        )


class Comparisons:
    """By workload, of shadows only. One that begins to count for KEDA leaves nothing."""

    def __init__(self) -> None:
        """Nothing was compared yet."""
        self._kept: dict[WorkloadKey, tuple[Decision, Comparison]] = {}

    def add(self, decision: Decision) -> None:
        """The newest decision; the one before it stood until now."""
        if not decision.shadow:
            self.drop(decision.key)
            return
        held, so_far = self._kept.get(decision.key, (None, Comparison()))
        if held is not None and 0 < (for_s := decision.decided_at - held.decided_at) <= LONGEST_GAP_S:
            so_far = so_far.after(held, for_s)
        self._kept[decision.key] = decision, so_far

    def of(self, key: WorkloadKey) -> Comparison | None:
        """What was compared, None for a workload that is no shadow."""
        kept = self._kept.get(key)
        return None if kept is None else kept[1]

    def drop(self, key: WorkloadKey) -> None:
        """Forget a workload."""
        self._kept.pop(key, None)
