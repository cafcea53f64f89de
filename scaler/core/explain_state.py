"""Why the state is what it is, in one sentence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scaler.core.model import Absent, Pressure
from scaler.core.pressure import DWELL_S, EXIT_RATIO

if TYPE_CHECKING:
    from scaler.core.decision import ClassDecision, Decision
    from scaler.core.model import Signal

LARGE, TINY = 100.0, 0.01
"""Beyond these a sentence shows no decimals, or one digit that counts."""


def number(value: float) -> str:
    """A number as a person reads it."""
    if abs(value) >= LARGE:
        return f"{value:.0f}"
    if 0 < abs(value) < TINY:
        return f"{value:.1g}"
    return f"{value:.2f}".rstrip("0").rstrip(".")


def state_because(decision: Decision, now: float) -> str:
    """Why the workload's state is what it is, in one sentence, and for how long it has been that."""
    verdict = next((v for v in decision.classes if v.state is decision.state), None)
    if verdict is None or decision.state is Pressure.UNKNOWN:
        return f"UNKNOWN: the newest reading is {number(max(0.0, now - decision.observed_at))} s old"
    lasted = "" if math.isinf(verdict.since) else f" for {number(max(0.0, now - verdict.since))} s"
    return f"{decision.state}{lasted}: {_rule(decision, verdict)}"


def _rule(decision: Decision, verdict: ClassDecision) -> str:
    seen, budget = decision.estimate, verdict.budget_s or math.inf
    wait = f"a request waits {number(seen.queue_wait.s)} s of its {number(budget)} s"
    excess = max(0.0, seen.offered_per_s - seen.drain_per_s)
    texts = {
        "calm": wait,
        "settled": wait,
        "over_limit": f"{number(seen.queue)} requests are queued, more than maxQueuedRequests",
        "breaching": f"{wait}, {number(excess)}/s more is offered than can start, and the next replica is {number(seen.eta_s)} s away",
        "eased": f"{wait}, and for {number(DWELL_S)} s that has not been enough to break the budget",
        "pressed": f"{wait}, TPOT is {_signal(seen.tpot_s)} s, KV cache is {_signal(seen.kv_usage_ratio)} full; one of them stays high",
    }
    if verdict.rule is not None:
        return texts[verdict.rule]
    if decision.state is Pressure.GREEN:
        return wait
    stall = seen.queue_wait.by_stall_s
    if stall is not None and stall >= DWELL_S:
        return f"{wait}; {number(seen.ongoing)} are there and no first token has come for {number(stall)} s: the engines look stuck"
    return f"{wait}; GREEN once that is below {number(EXIT_RATIO * budget)} s, with all that is offered admitted, for {number(DWELL_S)} s"


def _signal(signal: Signal) -> str:
    return signal.value if isinstance(signal, Absent) else number(signal)
