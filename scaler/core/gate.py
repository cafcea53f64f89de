"""One verdict a request, from the last decision and from what was let in since. Pure: ``ask`` gives the next state and the verdict.

Below the YELLOW edge the published fraction holds. Once the reckoned level is there (``core.gate_plan``)

    want = drain + (set_point - level) / reaction

is shared out over the attempts that are counted here, by the rule of the published plan, and the smaller fraction holds: a gate may be
stricter than what is published, never laxer. No admission takes the level above its limit, but those of floors and probes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum, StrEnum

from scaler.core.admission import PROBE_RATIO, come_back, faded_ratio, late_s, share_out
from scaler.core.counted import ClassCounted, Counted
from scaler.core.decision import ClassDecision, Decision
from scaler.core.gate_plan import Buckets, GatePlan, Level
from scaler.core.model import GateMode, Objective, Pressure
from scaler.core.retry import Retry, spread_out
from scaler.core.tenants import MOST as MOST_TENANTS
from scaler.core.tenants import Tenants

RATE_S = 2.0
"""The mean age of the attempts that a rate is made of; their weight fades exponentially."""
WANTED_S, WANTED_BUCKET_S = 75.0, 5.0
"""Who was told the longest Retry-After and has not come back after a quarter more has given up."""


class Why(StrEnum):
    """Why a request is refused, or would be; the last three: why it is let in though nothing is known."""

    CONTENDED = "contended"
    TENANT = "tenant"
    DEADLINE = "deadline"
    NO_CAPACITY = "no-capacity"
    UNKNOWN_WORKLOAD = "unknown-workload"
    PENDING = "pending"
    ERROR = "internal-error"


@dataclass(frozen=True, slots=True)
class Request:
    """What a gate must know of a request. Class and tenant are trusted; ``retries`` is how often it was tried before.

    ``deadline_s`` is for how many seconds its client will wait.
    """

    request_class: str | None = None
    tenant: str | None = None
    deadline_s: float | None = None
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with one request, and what to say of it.

    ``admit_ratio`` is the fraction of its class that is admitted now. ``retry`` is set when it is refused, or would be if the gate were
    enforced. ``nudge``: the loop should look early.
    """

    admit: bool
    why: Why | None
    state: Pressure
    admit_ratio: float = 1.0
    request_class: str = ""
    retry: Retry | None = None
    decision: Decision | None = None
    nudge: bool = False

    @property
    def would_refuse(self) -> bool:
        """Whether it is let in only because the gate is not enforced."""
        return self.admit and self.retry is not None


def unknown(why: Why) -> Verdict:
    """What nothing is known of is let in."""
    return Verdict(admit=True, why=why, state=Pressure.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Lane:
    """One class at the gate: what was counted, how many attempts a second there were at ``at``, and whose they were."""

    counted: ClassCounted
    attempts_per_s: float = 0.0
    at: float = -math.inf
    tenants: Tenants = Tenants()

    def rate_per_s(self, now: float) -> float:
        """Attempts a second, as far as they are remembered now."""
        return self.attempts_per_s * math.exp((self.at - now) / RATE_S) if self.attempts_per_s else 0.0


@dataclass(frozen=True, slots=True)
class GateState:
    """What one workload's gate remembers. ``lanes`` begin with the classes of ``plan``, in its order; the others were classes once.

    ``level`` is that of ``at``. ``nudged``: the loop was told already under this decision.
    """

    plan: GatePlan | None = None
    level: Level = Level()
    at: float = -math.inf
    admitted: Buckets = Buckets()
    wanted: Buckets = Buckets()
    lanes: tuple[Lane, ...] = ()
    nudged: bool = False

    def counted(self, now: float) -> Counted:
        """All that was counted so far, and what is wanted now."""
        return Counted(tuple(lane.counted for lane in self.lanes), self.wanted.within(WANTED_S, now))


class _Rule(Enum):
    """What a request is judged by."""

    STALE = "the decision does not hold any more: its fraction, which fades"
    STARVED = "no replica is ready: none"
    RECKONED = "the level has reached the edge: the published fraction or our own, whichever is smaller"
    PUBLISHED = "the published fraction"


@dataclass(frozen=True, slots=True)
class _Case:
    """One request before its judges: what is under way, and how many attempts a second there are of each class, this one included."""

    plan: GatePlan
    index: int
    request: Request
    now: float
    coin: float
    level: Level
    rates_per_s: tuple[float, ...]
    tenants: Tenants


@dataclass(frozen=True, slots=True)
class _Ruling:
    """The rule that applies to a request, the fraction of its class to admit, and that of its tenant."""

    rule: _Rule
    ratio: float
    own: float


def ask(state: GateState, plan: GatePlan, request: Request, now: float, coin: float) -> tuple[GateState, Verdict]:
    """The verdict for one request, counted. ``coin`` is uniform in 0..1, without 1."""
    state = followed(state, plan, now)
    case = _case(state, plan, request, now, coin)
    ruling = _ruled(case)
    published = plan.decision.classes[case.index]
    why = None if published.gate is GateMode.OFF else _why(case, ruling)
    crossed = ruling.rule is _Rule.RECKONED and plan.decision.state is Pressure.GREEN
    verdict = Verdict(
        admit=why is None or published.gate is not GateMode.ENFORCE,
        why=why,
        state=_state(published, ruling.rule),
        admit_ratio=ruling.ratio,
        request_class=published.name,
        retry=None if why is None else _retry(case, ruling),
        decision=plan.decision,
        nudge=not state.nudged and (crossed or ruling.rule is _Rule.STARVED),
    )
    return _counted(state, case, ruling.rule, verdict), verdict


def followed(state: GateState, plan: GatePlan, now: float) -> GateState:
    """The state under the newest decision: the level is reckoned afresh, and the decision's classes stand first."""
    if state.plan is plan:
        return state
    lanes = {lane.counted.name: lane for lane in state.lanes}
    current = [lanes.pop(one.name, Lane(ClassCounted(one.name))) for one in plan.classes]
    return GateState(
        plan=plan,
        level=plan.caught_up(state.level, state.at, state.admitted, now),
        at=now,
        admitted=state.admitted,
        wanted=state.wanted if plan.starved else Buckets(),  # who waited for the first replica has it
        lanes=(*current, *lanes.values()),
    )


def _case(state: GateState, plan: GatePlan, request: Request, now: float, coin: float) -> _Case:
    index, rates = plan.index(request.request_class), [0.0] * len(plan.classes)
    for other in range(len(rates)):
        rates[other] = state.lanes[other].rate_per_s(now)
    rates[index] += 1 / RATE_S
    tenants = state.lanes[index].tenants
    if request.tenant is not None:
        tenants = tenants.ask(request.tenant, now, MOST_TENANTS // len(rates))
    return _Case(plan, index, request, now, coin, plan.passed(state.level, now - state.at), tuple(rates), tenants)


def _ruled(case: _Case) -> _Ruling:
    plan, published = case.plan, case.plan.decision.classes[case.index].admit_ratio
    late = late_s(plan.decision, case.now)
    if late > 0:
        rule, ratio = _Rule.STALE, faded_ratio(published, late)
    elif plan.starved:
        rule, ratio = _Rule.STARVED, 0.0
    elif plan.past_edge(case.level):
        rule, ratio = _Rule.RECKONED, min(published, _own_ratio(case))
    else:
        rule, ratio = _Rule.PUBLISHED, published
    tenant = case.request.tenant
    return _Ruling(rule, ratio, ratio if tenant is None else case.tenants.ratio(tenant, ratio))


def _own_ratio(case: _Case) -> float:
    """What the reckoned level allows the class: when there is no room left, what floors and probes do."""
    believed, rates = case.plan.decision.estimate, case.rates_per_s
    unseen = max(1.0, believed.offered_per_s / sum(rates))  # other gateways may not ask, and rates begin at nothing
    attempts, want = [rate * unseen for rate in rates], case.plan.want_per_s(case.level, case.index)
    return max(PROBE_RATIO, share_out(case.plan.classes, attempts, believed.drain_per_s, want)[case.index])


def _why(case: _Case, ruling: _Ruling) -> Why | None:
    """Why the request is to be refused, None if it is not."""
    if ruling.rule is _Rule.STARVED:
        return Why.NO_CAPACITY
    deadline_s = case.request.deadline_s
    if deadline_s is not None and ruling.rule is not _Rule.STALE and case.plan.wait_s(case.level) > deadline_s:
        return Why.DEADLINE
    if case.coin < ruling.own:
        return None
    return Why.TENANT if ruling.own < ruling.ratio else Why.CONTENDED


def _state(published: ClassDecision, rule: _Rule) -> Pressure:
    """The state to name: a class that has a budget is not GREEN beyond the edge, whatever the last tick saw."""
    if rule is _Rule.STALE:
        return Pressure.UNKNOWN
    green = published.state is Pressure.GREEN and published.budget_s is not None
    return Pressure.YELLOW if green and rule is _Rule.RECKONED else published.state


def _retry(case: _Case, ruling: _Ruling) -> Retry:
    """When to come back. Each coin that refuses has another time."""
    plan, share = case.plan, ruling.own if case.coin >= ruling.own else 0.0
    over = max(0.0, case.level.queue) - (0.0 if plan.queue is None else plan.queue.set_point)
    after_s, spread_s = come_back(plan.decision.estimate, over, (1 - share) * sum(case.rates_per_s))
    promised = plan.classes[case.index]
    patient = promised.objective is Objective.COMPLETION
    when = spread_out(after_s, spread_s, (case.coin - share) / (1 - share), patient=patient)
    tried_enough = promised.max_retries is not None and case.request.retries >= promised.max_retries
    return replace(when, futile=True) if tried_enough else when


def _counted(state: GateState, case: _Case, rule: _Rule, verdict: Verdict) -> GateState:
    """The state after the verdict. What is let in without a replica to go to is in no queue."""
    plan, now, index, was = case.plan, case.now, case.index, state.lanes[case.index].counted
    admit, again, starved = verdict.admit, case.request.retries > 0, rule is _Rule.STARVED
    enters = admit and not starved
    counted = ClassCounted(
        was.name,
        was.admitted + admit,
        was.admitted_retries + (again and admit),
        was.refused + (not admit),
        was.refused_retries + (again and not admit),
        was.would_refuse + verdict.would_refuse,
    )
    lane = Lane(counted, case.rates_per_s[index], now, case.tenants)
    return GateState(
        plan=plan,
        level=case.level.admitted() if enters else case.level,
        at=now,
        admitted=state.admitted.add(now, plan.bucket_s, plan.decision.valid_s) if enters else state.admitted,
        wanted=state.wanted.add(now, WANTED_BUCKET_S, WANTED_S) if starved else state.wanted,
        lanes=(*state.lanes[:index], lane, *state.lanes[index + 1 :]),
        nudged=state.nudged or verdict.nudge,
    )
