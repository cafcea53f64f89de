"""What share of each request class to admit. The fraction is the real output; the colour is its label.

On/off shedding with seconds of lag gives a goodput of 0.1 where a fraction gives 0.95, so the fraction steers the queue to a set point
that lies above the YELLOW edge: shedding below that edge would hide the demand from the replica law.

    want = drain + (set_point - queue) / reaction
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scaler.core.decision import ClassDecision, Decision, Estimate
from scaler.core.model import GateMode, Objective, Pressure, RequestClass

if TYPE_CHECKING:
    from scaler.core.pressure import Colour

SET_POINT_RATIO = 0.6
RISE_PER_REACTION = 0.1
PROBE_RATIO = 0.01
"""Never less than this share is admitted: without any request nobody would learn that the pressure is over."""
FLOORS_LIMIT_RATIO = 0.25
FADE_S = 30.0
SHORTEST_RETRY_S, LONGEST_RETRY_S = 1.0, 60.0
"""Above 60 s most client libraries ignore Retry-After and retry at once; 0 counts as absent."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One class, its colour, the requests a second that want to enter as that class, and the fraction of the tick before (and when)."""

    request_class: RequestClass
    colour: Colour
    attempts_per_s: float
    admit_ratio: float = 1.0
    admitted_at: float = -math.inf


@dataclass(frozen=True, slots=True)
class PlanSpec:
    """What the plan must know of the workload: seconds between cause and effect, strictest budget, its own gate mode."""

    reaction_s: float
    budget_s: float | None
    gate: GateMode


def wanted_per_s(spec: PlanSpec, estimate: Estimate, *, tpot_pressed: bool) -> float:
    """How many requests a second may enter so that the queue goes to its set point within the reaction time.

    Infinite without a budget, and without a rate while nothing waits; 0 with no ready replica. Under TPOT pressure the set point is 0:
    a queue that sits in the batch is what breaks TPOT.
    """
    if spec.budget_s is None:
        return math.inf
    if not estimate.ready:
        return 0.0
    if estimate.drain_per_s <= 0 and estimate.queue <= 0:
        return math.inf
    set_point = 0.0 if tpot_pressed else SET_POINT_RATIO * spec.budget_s * estimate.drain_per_s
    return max(0.0, estimate.drain_per_s + (set_point - estimate.queue) / spec.reaction_s)


def plan(
    spec: PlanSpec, verdicts: tuple[Verdict, ...], estimate: Estimate, want_per_s: float
) -> tuple[ClassDecision, ...]:
    """The verdicts of all classes, in the order they were given."""
    if all(verdict.colour.state is Pressure.GREEN for verdict in verdicts):
        return tuple(_decide(spec, verdict, 1.0, estimate) for verdict in verdicts)
    shares = _share_out(verdicts, estimate, want_per_s)
    return tuple(
        _decide(spec, verdict, _paced(spec, verdict, shares[verdict.request_class.name], estimate.at), estimate)
        for verdict in verdicts
    )


def as_of(decision: Decision, now: float) -> Decision:
    """The decision as a reader must see it at ``now``: once its pressure is no longer valid, UNKNOWN and fading to admit all."""
    late = now - decision.observed_at - decision.valid_s
    if late <= 0:
        return decision
    share = min(1.0, late / FADE_S)
    faded = tuple(
        replace(
            verdict,
            state=Pressure.UNKNOWN,
            admit_ratio=(ratio := verdict.admit_ratio + share * (1 - verdict.admit_ratio)),
            admit_per_s=_rescaled(verdict, ratio),
            retry_after_s=verdict.retry_after_s if share < 1 else 0.0,
            retry_spread_s=verdict.retry_spread_s if share < 1 else 0.0,
        )
        for verdict in decision.classes
    )
    return replace(decision, state=Pressure.UNKNOWN, classes=faded)


def _rescaled(verdict: ClassDecision, ratio: float) -> float | None:
    """The rate limit that belongs to another fraction of the same attempts."""
    if verdict.admit_per_s is None or ratio >= 1:
        return None
    return verdict.admit_per_s / verdict.admit_ratio * ratio


def _share_out(verdicts: tuple[Verdict, ...], estimate: Estimate, want_per_s: float) -> dict[str, float]:
    """The fraction that ``want`` allows each class: floors first, then by order."""
    floors = sum(verdict.request_class.floor_ratio * verdict.attempts_per_s for verdict in verdicts)
    scale = min(1.0, FLOORS_LIMIT_RATIO * estimate.drain_per_s / floors) if floors > 0 else 0.0
    left = max(0.0, want_per_s - floors * scale)
    shares: dict[str, float] = {}
    for verdict in sorted(verdicts, key=_rank):
        attempts, floor = verdict.attempts_per_s, verdict.request_class.floor_ratio * scale
        more = min(left, (1 - floor) * attempts)
        left -= more
        shares[verdict.request_class.name] = floor + more / attempts if attempts > 0 else float(want_per_s > 0)
    return shares


def _rank(verdict: Verdict) -> tuple[bool, int]:
    """Interactive classes first; a class that only has a deadline takes what is left."""
    return verdict.request_class.objective is Objective.COMPLETION, verdict.request_class.order


def _decide(spec: PlanSpec, verdict: Verdict, ratio: float, estimate: Estimate) -> ClassDecision:
    request_class, colour = verdict.request_class, verdict.colour
    retry, spread = _retry_after(spec, estimate, ratio)
    budget = request_class.ttft_s
    return ClassDecision(
        name=request_class.name,
        objective=request_class.objective,
        gate=request_class.gate or spec.gate,
        state=colour.state,
        rule=None if colour.rule is None else colour.rule.name.lower(),
        since=colour.since,
        budget_s=budget,
        remaining_budget_s=None if budget is None else max(0.0, budget - estimate.queue_wait.s),
        admit_ratio=ratio,
        admit_per_s=None if ratio >= 1 else ratio * verdict.attempts_per_s,
        retry_after_s=retry,
        retry_spread_s=spread,
        red_projected=colour.red_projected,
        red_budget=colour.red_budget,
    )


def _paced(spec: PlanSpec, verdict: Verdict, allowed: float, now: float) -> float:
    """Down at once, up by a tenth a reaction time: the effect of the last step must be seen before the next one."""
    allowed, before = max(PROBE_RATIO, min(1.0, allowed)), verdict.admit_ratio
    if allowed <= before:
        return allowed
    elapsed = min(now - verdict.admitted_at, spec.reaction_s)
    return min(allowed, before + RISE_PER_REACTION * max(0.0, elapsed) / spec.reaction_s)


def _retry_after(spec: PlanSpec, estimate: Estimate, ratio: float) -> tuple[float, float]:
    """When to come back, and over how long to spread those who do, in seconds; both 0 when all are admitted."""
    if ratio >= 1:
        return 0.0, 0.0
    set_point = SET_POINT_RATIO * (spec.budget_s or 0.0) * estimate.drain_per_s
    drained = (estimate.queue - set_point) / estimate.drain_per_s if estimate.drain_per_s > 0 else LONGEST_RETRY_S
    relief = estimate.eta_median_s if estimate.offered_per_s > estimate.drain_per_s else 0.0
    wait = min(LONGEST_RETRY_S, max(SHORTEST_RETRY_S, drained, relief))
    refused = estimate.offered_per_s * (1 - ratio) * wait
    spread = refused / estimate.drain_per_s if estimate.drain_per_s > 0 else LONGEST_RETRY_S
    return wait, max(0.0, min(spread, LONGEST_RETRY_S))
