"""GREEN, YELLOW or RED per request class: a table of conditions with hysteresis and dwell.

The rows of ``TABLE`` are tried in order and the first that applies gives the next state; when none does the state stays. GREEN is tested
before RED because the literal RED rule (wait + start-up time >= budget) holds on an idle service whose replicas take minutes to start.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, StrEnum

from scaler.core.decision import Estimate
from scaler.core.model import Objective, Pressure, RequestClass, known

ENTER_RATIO = 0.4
EXIT_RATIO = 0.2
STAYS_HIGH_S = 10.0
DWELL_S = 10.0
KV_FULL_RATIO = 0.9
TPOT_SAMPLES = 20


class RedRule(StrEnum):
    """Which RED rule decides. Both are always computed and published.

    ``projected``: what the wait will be when the next replica is ready. ``budget``: the textbook wait + time to ready; with a start of
    minutes and a budget of seconds it never shows YELLOW.
    """

    PROJECTED = "projected"
    BUDGET = "budget"


class Condition(Enum):
    """What can be true of a class at one instant."""

    OVER_LIMIT = "queue above maxQueuedRequests"
    CALM = "below the YELLOW edge"
    SETTLED = "calm, below half the edge, everything offered can be admitted, for the dwell"
    BREACHING = "under pressure, and the budget will be broken"
    EASED = "under pressure, and for the dwell the budget would not have been broken"
    PRESSED = "under pressure"


@dataclass(frozen=True, slots=True)
class Row:
    """In one of the states ``before``, ``when`` leads to ``after``."""

    when: Condition
    before: frozenset[Pressure]
    after: Pressure


_ANY = frozenset({Pressure.GREEN, Pressure.YELLOW, Pressure.RED})
TABLE: tuple[Row, ...] = (
    Row(Condition.OVER_LIMIT, _ANY, Pressure.RED),
    Row(Condition.CALM, frozenset({Pressure.GREEN}), Pressure.GREEN),
    Row(Condition.SETTLED, frozenset({Pressure.YELLOW, Pressure.RED}), Pressure.GREEN),
    Row(Condition.BREACHING, _ANY, Pressure.RED),
    Row(Condition.PRESSED, frozenset({Pressure.GREEN, Pressure.YELLOW}), Pressure.YELLOW),
    Row(Condition.EASED, frozenset({Pressure.RED}), Pressure.YELLOW),
)


@dataclass(frozen=True, slots=True)
class PressureSpec:
    """``max_queued_requests`` None: as many as the ready replicas start within the budget."""

    red_rule: RedRule = RedRule.PROJECTED
    max_queued_requests: float | None = None


@dataclass(frozen=True, slots=True)
class Colour:
    """One class's state, and since when four things hold: it is that state, the wait is over the edge, it could settle, RED could end.

    ``rule`` is the condition whose row applied at the last tick, None when none did and the state just stayed. ``shed_only``: it is YELLOW
    for nothing but what a gate in the path refuses. ``gated``: such a gate refused some since the tick before.
    """

    state: Pressure = Pressure.GREEN
    rule: Condition | None = None
    since: float = -math.inf
    high_since: float | None = None
    quiet_since: float | None = None
    eased_since: float | None = None
    red_projected: bool = False
    red_budget: bool = False
    shed_only: bool = False
    gated: bool = False


def next_state(before: Pressure, conditions: frozenset[Condition]) -> tuple[Pressure, Condition | None]:
    """The table, applied: the state, and the condition that gave it, None when no row applies."""
    applied = next((row for row in TABLE if row.when in conditions and before in row.before), None)
    return (before, None) if applied is None else (applied.after, applied.when)


@dataclass(frozen=True, slots=True)
class Door:
    """How one class gets in: whether all that is offered could be admitted now, and whether a gate in the path refused some for that."""

    admits_all: bool
    sheds: bool = False


def judge(spec: PressureSpec, request_class: RequestClass, before: Colour, estimate: Estimate, door: Door) -> Colour:
    """The next colour of one class. Completion classes are always GREEN."""
    budget = request_class.ttft_s
    if request_class.objective is Objective.COMPLETION or budget is None:
        return Colour()
    timed = _timed(spec, request_class, before, estimate, admits_all=door.admits_all)
    state, rule = next_state(before.state, _conditions(spec, request_class, timed, estimate))
    shed_only = before.shed_only and rule is None
    if (
        state is Pressure.GREEN and door.sheds
    ):  # such a gate keeps the wait low, and there is too little capacity all the same
        state, rule, shed_only = Pressure.YELLOW, None, True
    since = before.since if state is before.state else estimate.at
    return replace(timed, state=state, rule=rule, since=since, shed_only=shed_only, gated=door.sheds)


def projected_rise_s(estimate: Estimate) -> float:
    """By how much the wait will have risen when the next replica is ready; 0 x infinite counts as 0."""
    excess = max(0.0, estimate.offered_per_s - estimate.drain_per_s)
    if excess == 0:
        return 0.0
    if estimate.drain_per_s <= 0:  # measured as nothing it never drains; not measured yet it says nothing
        return 0.0 if estimate.throughput_per_s is None else math.inf
    return excess / estimate.drain_per_s * estimate.eta_s


def queue_limit(spec: PressureSpec, budget_s: float, estimate: Estimate) -> float:
    """The queue depth that is RED at once, in requests; infinite while the safe rate is unknown and none was configured."""
    if spec.max_queued_requests is not None:
        return spec.max_queued_requests
    rate = estimate.capacity.safe_rate_per_s
    return math.inf if rate is None or not estimate.ready else rate * estimate.ready * budget_s


def tpot_pressed(request_class: RequestClass, estimate: Estimate) -> bool:
    """Whether tokens have come too slowly for two windows in a row."""
    objective, now, before = request_class.tpot_s, known(estimate.tpot_s), known(estimate.tpot_before_s)
    if objective is None or now is None or before is None or estimate.tpot_samples < TPOT_SAMPLES:
        return False
    return now > objective and before > objective


def _tpot_over(request_class: RequestClass, estimate: Estimate) -> bool:
    objective, now = request_class.tpot_s, known(estimate.tpot_s)
    return objective is not None and now is not None and estimate.tpot_samples >= TPOT_SAMPLES and now > objective


def _kv_full(estimate: Estimate) -> bool:
    usage = known(estimate.kv_usage_ratio)
    return usage is not None and usage >= KV_FULL_RATIO and estimate.preempting


def _timed(
    spec: PressureSpec, request_class: RequestClass, before: Colour, estimate: Estimate, *, admits_all: bool
) -> Colour:
    budget, now, wait = request_class.ttft_s or math.inf, estimate.at, estimate.queue_wait.s
    slow, over = _tpot_over(request_class, estimate), estimate.queue > queue_limit(spec, budget, estimate)
    served = (
        estimate.ready > 0 or estimate.queue <= 0
    )  # at zero nobody waits any more once those who asked have given up
    quiet = served and wait < EXIT_RATIO * budget and admits_all and not (slow or over or _kv_full(estimate))
    projected, by_budget = wait + projected_rise_s(estimate) >= budget, wait + estimate.eta_s >= budget
    red = by_budget if spec.red_rule is RedRule.BUDGET else projected
    breaking = over or red or _overfull(request_class, estimate)
    return Colour(
        state=before.state,
        since=before.since,
        high_since=_since(before.high_since, now, holds=wait >= ENTER_RATIO * budget),
        quiet_since=_since(before.quiet_since, now, holds=quiet),
        eased_since=_since(before.eased_since, now, holds=not breaking),
        red_projected=projected,
        red_budget=by_budget,
    )


def _overfull(request_class: RequestClass, estimate: Estimate) -> bool:
    return (
        tpot_pressed(request_class, estimate) and estimate.ongoing > estimate.ready * estimate.capacity.safe_concurrency
    )


def _stalled(request_class: RequestClass, estimate: Estimate) -> bool:
    """Whether nothing has started for a whole budget though something waits: that need not last, nor the queue grow, to be pressure."""
    stall = estimate.queue_wait.by_stall_s
    return stall is not None and request_class.ttft_s is not None and stall >= request_class.ttft_s


def _since(before: float | None, now: float, *, holds: bool) -> float | None:
    if not holds:
        return None
    return now if before is None else before


def _conditions(
    spec: PressureSpec, request_class: RequestClass, timed: Colour, estimate: Estimate
) -> frozenset[Condition]:
    high, tpot, kv = timed.high_since is not None, tpot_pressed(request_class, estimate), _kv_full(estimate)
    lasting = _lasts(timed.high_since, STAYS_HIGH_S, estimate.at) or _stalled(request_class, estimate)
    pressed = (high and (estimate.queue_grows or lasting)) or tpot or kv
    red = timed.red_budget if spec.red_rule is RedRule.BUDGET else timed.red_projected
    found = {
        Condition.OVER_LIMIT: estimate.queue > queue_limit(spec, request_class.ttft_s or math.inf, estimate),
        Condition.CALM: not high and not _tpot_over(request_class, estimate) and not kv,
        Condition.SETTLED: _lasts(timed.quiet_since, DWELL_S, estimate.at),
        Condition.BREACHING: pressed and (red or _overfull(request_class, estimate)),
        Condition.EASED: pressed and _lasts(timed.eased_since, DWELL_S, estimate.at),
        Condition.PRESSED: pressed,
    }
    return frozenset(condition for condition, holds in found.items() if holds)


def _lasts(since: float | None, for_s: float, now: float) -> bool:
    return since is not None and now - since >= for_s


def worst_of(colours: Iterable[Colour]) -> Pressure:
    """The state of a workload is that of the class that is worst off."""
    order = (Pressure.GREEN, Pressure.YELLOW, Pressure.RED)
    return max((colour.state for colour in colours), key=order.index, default=Pressure.GREEN)
