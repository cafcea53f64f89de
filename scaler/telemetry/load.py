"""The load that a decision saw, for the log: enough to play an incident again (``sim.traces.decision_log``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaler.core.estimate import window_s

if TYPE_CHECKING:
    from scaler.core.decision import Decision
    from scaler.core.model import Signal

TOLD_EVERY_S = 15.0
"""The shortest window of a rate: what is told so often has been counted whole, and no request twice."""
MOVED_RATIO = 0.05


@dataclass(frozen=True, slots=True)
class Load:
    """Requests offered a second, the mean of the last ``window_s`` seconds; how many replicas there were; median lengths in tokens."""

    offered_per_s: float
    window_s: float
    ready: int
    starting: int
    prompt_p50_tokens: Signal
    output_p50_tokens: Signal


def load_of(decision: Decision) -> Load:
    """What the decision was made of."""
    seen = decision.estimate
    return Load(
        offered_per_s=seen.offered_per_s,
        window_s=window_s(seen.capacity.residence_s),
        ready=seen.ready,
        starting=seen.starting,
        prompt_p50_tokens=seen.prompt_p50_tokens,
        output_p50_tokens=seen.output_p50_tokens,
    )


def due(told: tuple[float, Load] | None, load: Load, now: float) -> bool:
    """Whether a load is to be told, given when which one was told last: at once, and then as often as it is counted anew and has moved."""
    if told is None:
        return True
    told_at, before = told
    by = abs(load.offered_per_s - before.offered_per_s)
    moved = by > MOVED_RATIO * before.offered_per_s or (load.ready, load.starting) != (before.ready, before.starting)
    return moved and now - told_at >= TOLD_EVERY_S
