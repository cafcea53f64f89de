"""What an HTTP answer about pressure says besides its body: which class it is for, when to come back, which status a refusal has.

Both edges that speak of pressure use it, so a client is told the same whichever it asks. Headers hold what gateways can act on without
parsing a body.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaler.core.admission import LONGEST_RETRY_S, SHORTEST_RETRY_S
from scaler.core.model import Objective, Pressure, ShedStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scaler.core.decision import ClassDecision, Decision

CONTENDED, NO_CAPACITY = 429, 503
LONGEST_SPREAD_S = 30.0
"""Half the longest Retry-After: those who come back may be that much too early when the cap leaves no room after it."""
ADMIT_DIGITS = 10_000


@dataclass(frozen=True, slots=True)
class Retry:
    """When to ask again: ``ms`` milliseconds within 1000..60000, ``seconds`` the same rounded up. ``futile``: not at all is better."""

    seconds: int
    ms: int
    futile: bool


def shed_status(decision: Decision, choice: ShedStatus) -> int:
    """The HTTP status of a refusal: 503 when no replica is ready (no capacity), else 429 (contended), unless one was chosen."""
    if choice is ShedStatus.AUTO:
        return CONTENDED if decision.estimate.ready else NO_CAPACITY
    return int(choice)


def verdict_for(decision: Decision, request_class: str | None) -> tuple[ClassDecision, str]:
    """The verdict to answer with, and a note when it is not the one that was asked for.

    Without a class it is that of the class that gives the workload its state, the first of them. A class that the workload does not have
    is answered for its default class, the first: a gateway's misspelling must not break its traffic.
    """
    if request_class is None:
        return next((v for v in decision.classes if v.state is decision.state), decision.classes[0]), ""
    named = next((v for v in decision.classes if v.name == request_class), None)
    if named is not None:
        return named, ""
    default = decision.classes[0]
    return default, f"no such class here; this is the default class, {default.name}"


def age_s(decision: Decision, now: float) -> float:
    """Seconds since the newest reading behind the decision was taken."""
    return max(0.0, now - decision.observed_at)


def retry(verdict: ClassDecision, draw: float) -> Retry:
    """When a refused request of that class should come back; ``draw`` is uniform in 0..1.

    All who are refused in one second would return in one second, so each is told another time within the spread. At the cap there is no
    room after the wait, and the spread begins before it: the truth is later than the cap anyway.
    """
    patient = verdict.objective is Objective.COMPLETION
    return spread_out(verdict.retry_after_s, verdict.retry_spread_s, draw, patient=patient)


def spread_out(after_s: float, spread_s: float, draw: float, *, patient: bool) -> Retry:
    """The same from a wait and a spread in seconds; a ``patient`` client can wait for longer than a minute."""
    low = min(LONGEST_RETRY_S, max(SHORTEST_RETRY_S, after_s))
    high = min(LONGEST_RETRY_S, low + spread_s)
    low = max(SHORTEST_RETRY_S, min(low, high - min(spread_s, LONGEST_SPREAD_S)))
    ms = math.ceil(min(high, low + draw * (high - low)) * 1000)
    return Retry(math.ceil(ms / 1000), ms, futile=after_s >= LONGEST_RETRY_S and not patient)


def retry_headers(when: Retry) -> dict[str, str]:
    """The headers that say when to come back. Client libraries take milliseconds before seconds, and ``false`` as one attempt only."""
    return {
        "Retry-After": str(when.seconds),
        "retry-after-ms": str(when.ms),
        **({"x-should-retry": "false"} if when.futile else {}),
    }


def state_headers(decision: Decision, verdict: ClassDecision, now: float) -> dict[str, str]:
    """The headers of any answer about a decision, as far as one class is concerned. A fraction is rounded down: 1 always means all."""
    admit = math.floor(verdict.admit_ratio * ADMIT_DIGITS) / ADMIT_DIGITS
    return {
        "X-Backpressure-State": verdict.state.value,
        "X-Backpressure-Admit": f"{admit:g}",
        "X-Backpressure-Gate": verdict.gate.value,
        "X-Backpressure-Age-Ms": str(int(age_s(decision, now) * 1000)),
        "X-Backpressure-Seq": str(decision.sequence),
    }


UNKNOWN_HEADERS: Mapping[str, str] = {"X-Backpressure-State": Pressure.UNKNOWN.value, "X-Backpressure-Admit": "1"}
"""What is said of a workload without a decision: nothing is known against admitting all, and no gate is to act."""
