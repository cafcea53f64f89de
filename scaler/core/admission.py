"""What share of each request class to admit. The fraction is the real output; the colour is its label.

On/off shedding with seconds of lag gives a goodput of 0.1 where a fraction gives 0.95, so the fraction steers the queue to a set point:

    want = drain + (set_point - queue) / reaction         a place that is free counts as less than no queue

and, where a class is promised a pace of tokens, what is ongoing to the safe concurrency, for a queue that sits in the batch breaks TPOT.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scaler.core.decision import ClassDecision, Decision, Estimate
from scaler.core.model import GateMode, Objective, Pressure, RequestClass

if TYPE_CHECKING:
    from scaler.core.pressure import Colour

SET_POINT_RATIO = 0.6
RISE_PER_REACTION = 0.1
UNSEEN_RATIO = 0.5
"""For this share of a reaction time, what the last fraction lets in is on no page yet."""
AT_ONCE_RATIO = 0.6
"""Up to this share of the places, what is free is filled without a pace; beyond, the next page says how many have come."""
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
    keeps_tpot: bool = False


def wanted_per_s(spec: PlanSpec, estimate: Estimate) -> float:
    """How many requests a second may enter so that the queue goes to its set point within the reaction time.

    Infinite without a budget, and without a rate while nothing waits; 0 with no ready replica. Where tokens are promised at a pace, what is
    ongoing is moreover kept at the safe concurrency: a queue that sits in the batch is what breaks TPOT.
    """
    if spec.budget_s is None:
        return math.inf
    if not estimate.ready:
        return 0.0
    if estimate.drain_per_s <= 0 and estimate.queue <= 0:
        return math.inf
    drain, set_point, safe = estimate.drain_per_s, _set_point(spec, estimate), _places(estimate)
    # the mean that the queue is else made of is too slow here
    queue = estimate.waiting + max(0.0, estimate.running - safe)
    if estimate.waiting <= estimate.ready:  # as many may have come in just before their pages were made
        queue -= max(0.0, safe - estimate.ongoing)
    want = towards(set_point, queue, drain, spec.reaction_s)
    return min(want, towards(safe, estimate.ongoing, drain, spec.reaction_s)) if spec.keeps_tpot else want


def towards(set_point: float, queue: float, drain_per_s: float, reaction_s: float) -> float:
    """How many requests a second may enter so that ``queue`` requests become ``set_point`` within ``reaction_s`` seconds."""
    return max(0.0, drain_per_s + (set_point - queue) / reaction_s)


def plan(
    spec: PlanSpec, verdicts: tuple[Verdict, ...], estimate: Estimate, want_per_s: float
) -> tuple[ClassDecision, ...]:
    """The verdicts of all classes, in the order they were given. Who polls the fraction need not shed what a gate in the path does."""
    if all(verdict.colour.state is Pressure.GREEN or verdict.colour.shed_only for verdict in verdicts):
        return tuple(_decide(spec, verdict, 1.0, estimate) for verdict in verdicts)
    classes = [verdict.request_class for verdict in verdicts]
    attempts, drain = [verdict.attempts_per_s for verdict in verdicts], estimate.drain_per_s
    want_per_s = _foreseen_per_s(spec, verdicts, estimate, want_per_s)
    shares = share_out(classes, attempts, drain, want_per_s)
    lasting = share_out(classes, attempts, drain, min(want_per_s, _at_once_per_s(spec, verdicts, estimate)))
    ratios, highest = [1.0] * len(classes), 1.0
    for index in sorted(range(len(classes)), key=lambda index: precedence(classes[index])):
        ratio = _paced(spec, verdicts[index], shares[index], lasting[index], estimate.at)
        ratios[index] = highest = min(highest, ratio)  # one that is new has not risen with the others
    return tuple(_decide(spec, verdict, ratio, estimate) for verdict, ratio in zip(verdicts, ratios, strict=True))


def share_out(
    classes: Sequence[RequestClass], attempts_per_s: Sequence[float], drain_per_s: float, want_per_s: float
) -> list[float]:
    """The fraction of its attempts that ``want`` allows each class, in the order given: floors first, then by precedence.

    A class has the floor of those after it too, if that is larger: none is ever admitted less than a class after it.
    """
    ranks = sorted(range(len(classes)), key=lambda index: precedence(classes[index]))
    floors, highest = [0.0] * len(classes), 0.0
    for index in reversed(ranks):
        floors[index] = highest = max(highest, classes[index].floor_ratio)
    floored = sum(floor * attempts for floor, attempts in zip(floors, attempts_per_s, strict=True))
    scale = min(1.0, FLOORS_LIMIT_RATIO * drain_per_s / floored) if floored > 0 else 1.0
    left = max(0.0, want_per_s - floored * scale)
    shares = [0.0] * len(classes)
    for index in ranks:
        attempts, floor = attempts_per_s[index], floors[index] * scale
        missing = (1 - floor) * attempts
        if left > 0 and missing <= left:
            shares[index] = 1.0  # rounded to less, it could fall behind the next
        else:
            shares[index] = min(1.0, floor + left / attempts) if attempts > 0 else floor
        left = max(0.0, left - missing)
    return shares


def keeps_tpot(classes: Iterable[RequestClass]) -> bool:
    """Whether any of these classes is promised a pace of tokens."""
    return any(one.tpot_s is not None for one in classes)


def precedence(request_class: RequestClass) -> tuple[bool, int]:
    """What classes are served in the order of: interactive ones first; one that only has a deadline takes what is left."""
    return request_class.objective is Objective.COMPLETION, request_class.order


def as_of(decision: Decision, now: float) -> Decision:
    """The decision as a reader must see it at ``now``: once its pressure is no longer valid, UNKNOWN and fading to admit all."""
    late = late_s(decision, now)
    if late <= 0:
        return decision
    faded = tuple(
        replace(
            verdict,
            state=Pressure.UNKNOWN,
            admit_ratio=(ratio := faded_ratio(verdict.admit_ratio, late)),
            admit_per_s=_rescaled(verdict, ratio),
            retry_after_s=verdict.retry_after_s if late < FADE_S else 0.0,
            retry_spread_s=verdict.retry_spread_s if late < FADE_S else 0.0,
        )
        for verdict in decision.classes
    )
    return replace(decision, state=Pressure.UNKNOWN, classes=faded)


def late_s(decision: Decision, now: float) -> float:
    """For how many seconds the decision's pressure has not been valid any more; negative or 0 while it is."""
    return now - decision.observed_at - decision.valid_s


def faded_ratio(ratio: float, late: float) -> float:
    """What is left of a fraction ``late`` seconds after it was last valid: it rises to admit all within ``FADE_S``."""
    return ratio + min(1.0, late / FADE_S) * (1 - ratio)


def _rescaled(verdict: ClassDecision, ratio: float) -> float | None:
    """The rate limit that belongs to another fraction of the same attempts."""
    if verdict.admit_per_s is None or ratio >= 1:
        return None
    return verdict.admit_per_s / verdict.admit_ratio * ratio


def _decide(spec: PlanSpec, verdict: Verdict, ratio: float, estimate: Estimate) -> ClassDecision:
    request_class, colour = verdict.request_class, verdict.colour
    retry, spread = _retry_after(spec, estimate, ratio) if ratio < 1 else (0.0, 0.0)
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


def _places(estimate: Estimate) -> float:
    """How many requests the replicas that report hold safely."""
    return (estimate.ready - estimate.missing) * estimate.capacity.safe_concurrency


def _set_point(spec: PlanSpec, estimate: Estimate) -> float:
    return SET_POINT_RATIO * (spec.budget_s or 0.0) * estimate.drain_per_s


def _gated(verdicts: Iterable[Verdict]) -> bool:
    """Whether a gate in the path sheds: that one counts what it lets in, and no fraction makes it let in too many."""
    return any(verdict.colour.gated for verdict in verdicts)


def _foreseen_per_s(spec: PlanSpec, verdicts: tuple[Verdict, ...], estimate: Estimate, want_per_s: float) -> float:
    """``want`` less what the last fraction lets in beyond what drains and no page shows yet, and more if it lets in less than that."""
    known = all(verdict.admitted_at > -math.inf for verdict in verdicts)
    shed = any(verdict.admit_ratio < 1 for verdict in verdicts)
    if spec.budget_s is None or want_per_s <= 0 or not (known and shed) or _gated(verdicts):
        return want_per_s
    drain = estimate.drain_per_s
    unseen_per_s = UNSEEN_RATIO * (sum(one.admit_ratio * one.attempts_per_s for one in verdicts) - drain)
    if unseen_per_s <= 0:  # what is silent may have it all
        return want_per_s if estimate.missing else want_per_s - unseen_per_s
    most = _places(estimate) + (0.0 if spec.keeps_tpot else _set_point(spec, estimate))
    return min(want_per_s, towards(most, estimate.ongoing, drain - unseen_per_s, spec.reaction_s))


def _at_once_per_s(spec: PlanSpec, verdicts: tuple[Verdict, ...], estimate: Estimate) -> float:
    """What drains, which makes no queue grow, and what fills free places that nobody else can have taken meanwhile."""
    share = 1.0 if _gated(verdicts) else AT_ONCE_RATIO
    return towards(
        max(estimate.ongoing, share * _places(estimate)), estimate.ongoing, estimate.drain_per_s, spec.reaction_s
    )


def _paced(spec: PlanSpec, verdict: Verdict, allowed: float, lasting: float, now: float) -> float:
    """Down at once, and up to what may be admitted at once. Beyond that by a tenth a reaction time, to see the effect."""
    allowed, before = max(PROBE_RATIO, min(1.0, allowed)), verdict.admit_ratio
    if verdict.attempts_per_s > 0:  # else nobody knows how many will ask
        before = max(before, lasting)
    if allowed <= before:
        return allowed
    elapsed = min(now - verdict.admitted_at, spec.reaction_s)
    return min(allowed, before + RISE_PER_REACTION * max(0.0, elapsed) / spec.reaction_s)


def _retry_after(spec: PlanSpec, estimate: Estimate, ratio: float) -> tuple[float, float]:
    return come_back(estimate, estimate.queue - _set_point(spec, estimate), estimate.offered_per_s * (1 - ratio))


def come_back(estimate: Estimate, above_set_point: float, refused_per_s: float) -> tuple[float, float]:
    """When those who are refused should come back, and over how long to spread them, in seconds.

    ``above_set_point`` is by how many requests the queue exceeds its set point. Without a ready replica the next one is what helps. Those
    who come back get in by what drains beyond what is new.
    """
    drain, rate = estimate.drain_per_s, estimate.drain_per_s
    if not estimate.ready:
        drained, rate = 0.0, estimate.capacity.safe_rate_per_s or 0.0
    else:
        drained = above_set_point / drain if drain > 0 else LONGEST_RETRY_S
    relief = estimate.eta_median_s if not estimate.ready or estimate.offered_per_s > drain else 0.0
    wait = min(LONGEST_RETRY_S, max(SHORTEST_RETRY_S, drained, relief))
    spare = rate - estimate.offered_per_s
    return wait, min(LONGEST_RETRY_S, refused_per_s * wait / spare) if spare > 0 else LONGEST_RETRY_S
