"""One tick of one workload: an observation in, the next state and a decision out. This is the law's table of contents."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from scaler.core.admission import PlanSpec, Verdict, keeps_tpot, plan, wanted_per_s
from scaler.core.attempts import Attempts
from scaler.core.capacity import DEFAULT_HEADROOM_RATIO, Learned, Profile, derate
from scaler.core.coming import Coming, Measured, coming, measure
from scaler.core.contradicted import contradicted
from scaler.core.decision import Decision, Estimate, LawInputs, Pending, Reason, Shaped
from scaler.core.estimate import Ask, Belief, EstimateSpec, estimate
from scaler.core.findings import Facts, findings
from scaler.core.fleet import unclear
from scaler.core.history import History, is_blind
from scaler.core.ingest import ingest
from scaler.core.model import GateMode, Objective, Observation, RequestClass, ShedStatus, WorkloadKey
from scaler.core.moments import moment_of, told
from scaler.core.pressure import Colour, Door, PressureSpec, judge, worst_of
from scaler.core.ready_latency import ReadyLatency
from scaler.core.stabilize import Stabilizer, StabilizeSpec, reseed, roused, stabilize
from scaler.core.starts import Seen, Starts, follow
from scaler.core.target import ScalingSpec, recommend

DEFAULT_TICK_S = 2.0
SHORTEST_STALE_S, STALE_TICKS = 10.0, 3
HOLD_S = 60.0


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """Everything that a person decides about one workload, parsed and complete. ``slo_quantile`` is 0.95 for P95.

    ``shadow``: nobody acts on what is decided.
    """

    key: WorkloadKey
    profile: Profile
    classes: tuple[RequestClass, ...]
    headroom_ratio: float = DEFAULT_HEADROOM_RATIO
    slo_quantile: float = 0.95
    scaling: ScalingSpec = ScalingSpec()
    stabilize: StabilizeSpec = StabilizeSpec()
    pressure: PressureSpec = PressureSpec()
    latency: ReadyLatency = ReadyLatency()
    gate: GateMode = GateMode.OBSERVE
    shed: ShedStatus = ShedStatus.AUTO
    tick_s: float = DEFAULT_TICK_S
    engine: str = "vllm"
    source: str = "pods"
    scrape: str = "default"
    model_name: str | None = None
    demand: str | None = None
    shadow: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def budget_s(self) -> float | None:
        """The strictest TTFT budget of the classes that have one, in seconds."""
        return min((c.ttft_s for c in self.classes if c.ttft_s is not None), default=None)

    @property
    def deadline_s(self) -> float | None:
        """The nearest deadline in seconds when every class promises completion only, else None."""
        if any(c.objective is not Objective.COMPLETION for c in self.classes):
            return None
        return min((c.deadline_s for c in self.classes if c.deadline_s is not None), default=None)

    @property
    def stale_s(self) -> float:
        """Seconds after which a reading, and the pressure that rests on it, no longer count."""
        return max(SHORTEST_STALE_S, STALE_TICKS * self.tick_s)

    @property
    def reaction_s(self) -> float:
        """Seconds between a change of the fraction and its visible effect, for gateways that poll."""
        return 2 * self.tick_s

    @property
    def surge_ratio(self) -> float:
        """How many times the drain rate can arrive without the queue passing the budget before the gate reacts."""
        return 1 + 0.6 * (self.budget_s or 0.0) / self.reaction_s


@dataclass(frozen=True, slots=True)
class State:
    """All that a workload remembers, replaced whole each tick.

    ``spec`` is the last tick's, ``admitted`` what another process did last, ``refused`` the classes of which a gate in the path refused
    some since the tick before.
    """

    spec: WorkloadSpec | None = None
    history: History = field(default_factory=History)
    belief: Belief = field(default_factory=Belief)
    learned: Learned = field(default_factory=Learned)
    stabilizer: Stabilizer = field(default_factory=Stabilizer)
    starts: Starts = field(default_factory=Starts)
    measured: Measured | None = None
    colours: tuple[tuple[str, Colour], ...] = ()
    decision: Decision | None = None
    admitted: tuple[tuple[str, float], ...] = ()
    attempts: Attempts = Attempts()
    refused: frozenset[str] = frozenset()


def step(spec: WorkloadSpec, state: State, seen: Observation) -> tuple[State, Decision | Pending]:
    """One tick. ``Pending`` until the first complete observation; then always a decision, held while nothing is known."""
    if state.spec is not None and state.spec != spec:
        state = replace(state, stabilizer=reseed(state.stabilizer, seen.at))
    if state.decision is not None and seen.at - state.decision.decided_at > spec.stale_s:  # the process stood still
        state = replace(state, stabilizer=roused(state.stabilizer, seen.at))
    history = ingest(state.history, seen, spec.stale_s)
    starts = follow(state.starts, Seen(history.replicas, seen.readings, state.stabilizer.asks, spec.stale_s))
    refused = frozenset(one.name for one in seen.asked if one.refused)
    attempts = state.attempts.seen(seen.asked, seen.at)
    state = replace(state, spec=spec, history=history, starts=starts, refused=refused, attempts=attempts)
    if state.decision is None and (why := _not_yet(spec, state.history, seen)):
        return state, Pending(spec.key, why)
    if is_blind(state.history, seen) and state.decision is not None:
        return _hold(spec, state, state.decision, seen.at)
    return _decide(spec, state, seen.at)


def resume(published: int, now: float) -> State:
    """The state of a workload of which only the last published count is known: that count stands for one whole window."""
    return State(stabilizer=reseed(Stabilizer(published=published), now))


def _not_yet(spec: WorkloadSpec, history: History, seen: Observation) -> str:
    """Why there can be no first decision, or nothing. What is not told is waited for no longer than a reading stays fresh."""
    if history.replicas is None:
        return f"no list of replicas yet: {seen.unlisted}" if seen.unlisted else "no list of replicas yet"
    waited = history.first_seen_at is not None and seen.at - history.first_seen_at >= spec.stale_s
    if history.missing and not (history.last and waited):
        return f"no reading from {history.missing[0].replica} ({history.missing[0].why})"
    undecided = () if waited else unclear(spec.profile, history.replicas)
    return f"too little is known of {undecided[0]} to choose its profile" if undecided else ""


def _decide(spec: WorkloadSpec, state: State, now: float) -> tuple[State, Decision]:
    ask = Ask(state.stabilizer.published, state.stabilizer.raised_at, _max_replicas(spec, state.history))
    measured = measure(state.measured, spec.latency, state.starts.finished, now)
    expected = coming(measured, state.starts, now)
    belief, learned, believed = estimate(_knows(spec, expected), state.history, state.belief, state.learned, ask)
    plan_spec = PlanSpec(spec.reaction_s, spec.budget_s, spec.gate, keeps_tpot(spec.classes))
    want = wanted_per_s(plan_spec, believed)
    short = believed.offered_per_s > min(want, believed.drain_per_s)  # what only fills a queue does not last
    colours = _judge(spec, state, believed, short=short)
    worst = worst_of(colour for _, colour in colours)
    recommendation = recommend(_law_inputs(spec, believed, ask.max_replicas, lost=state.history.lost))
    moment = moment_of(spec.stabilize, believed, recommendation, worst)
    moment = replace(moment, pressed=moment.pressed or (short and bool(state.refused)))
    moment = told(moment, state.history.replicas, shadow=spec.shadow)
    stabilizer, shaped = stabilize(spec.stabilize, state.stabilizer, moment)
    decision = Decision(
        key=spec.key,
        sequence=0 if state.decision is None else state.decision.sequence + 1,
        decided_at=now,
        observed_at=believed.observed_at,
        valid_s=spec.stale_s,
        hold_s=HOLD_S,
        desired=shaped.replicas,
        active=shaped.replicas > 0,
        blind=False,
        state=worst,
        reason=shaped.reason or recommendation.reason,
        runner_up=recommendation.runner_up if shaped.reason is None else recommendation.reason,  # what it overrules
        estimate=believed,
        recommendation=recommendation,
        shaped=shaped,
        classes=plan(plan_spec, _verdicts(spec, state, dict(colours), believed), believed, want),
        reaction_s=spec.reaction_s,
        surge_ratio=spec.surge_ratio,
        gate=spec.gate,
        shed=spec.shed,
        findings=findings(_facts(spec, state.history, expected, shaped), believed, recommendation),
        readings=state.history.reporting,
        missing=state.history.missing,
        replicas=state.history.replicas,
        shadow=spec.shadow,
    )
    learned = derate(learned, now, contradicted=contradicted(spec.classes, state.decision, believed))
    state = replace(
        state,
        belief=belief,
        learned=learned,
        measured=measured,
        stabilizer=stabilizer,
        colours=tuple(colours),
        decision=decision,
    )
    return state, decision


def _hold(spec: WorkloadSpec, state: State, held: Decision, now: float) -> tuple[State, Decision]:
    """Nothing is known now: the last number stands, its pressure ages, and nobody is told anything new."""
    moment = moment_of(spec.stabilize, held.estimate, held.recommendation, held.state)
    moment = replace(moment, now=now, max_replicas=_max_replicas(spec, state.history), blind=True)
    moment = told(moment, state.history.replicas, shadow=spec.shadow)
    stabilizer, shaped = stabilize(spec.stabilize, state.stabilizer, moment)
    decision = replace(
        held,
        sequence=held.sequence + 1,
        decided_at=now,
        desired=shaped.replicas,
        active=shaped.replicas > 0,
        blind=True,
        reason=shaped.reason or Reason.BLIND_HOLD,
        runner_up=held.reason if held.reason is not Reason.BLIND_HOLD else held.runner_up,
        shaped=shaped,
        missing=state.history.missing,
        replicas=state.history.replicas,
    )
    return replace(state, stabilizer=stabilizer, decision=decision), decision


def _knows(spec: WorkloadSpec, expected: Coming) -> EstimateSpec:
    return EstimateSpec(
        profile=spec.profile,
        headroom_ratio=spec.headroom_ratio,
        budget_s=spec.budget_s,
        tpot_s=min((c.tpot_s for c in spec.classes if c.tpot_s is not None), default=None),
        slo_quantile=spec.slo_quantile,
        coming=expected,
        reaction_s=spec.reaction_s,
        tick_s=spec.tick_s,
    )


def _max_replicas(spec: WorkloadSpec, history: History) -> int:
    """What both allow: the HPA obeys the platform's bound, and a trigger may narrow it."""
    bound = history.replicas.max_replicas if history.replicas is not None else None
    return spec.scaling.max_replicas if bound is None else min(bound, spec.scaling.max_replicas)


def _judge(spec: WorkloadSpec, state: State, believed: Estimate, *, short: bool) -> list[tuple[str, Colour]]:
    """``short``: not all that is offered can be admitted."""
    before = dict(state.colours)
    doors = [Door(not short, sheds=short and c.name in state.refused) for c in spec.classes]
    return [
        (c.name, judge(spec.pressure, c, before.get(c.name, Colour()), believed, door))
        for c, door in zip(spec.classes, doors, strict=True)
    ]


def _law_inputs(spec: WorkloadSpec, believed: Estimate, max_replicas: int, *, lost: bool) -> LawInputs:
    """``lost``: no rate is known, so the load is judged by what is ongoing, as before the safe rate is known."""
    cap, by_ongoing = believed.capacity, lost and spec.deadline_s is None
    return LawInputs(
        offered_per_s=believed.offered_per_s,
        arrival_per_s=believed.arrival_per_s,
        drain_per_s=believed.drain_per_s,
        queue=believed.queue,
        ongoing=believed.ongoing,
        running=believed.running_smoothed,
        eta_s=believed.eta_s,
        growth_ratio=believed.growth_ratio,
        residence_s=None if by_ongoing else cap.residence_s,
        safe_rate_per_s=None if by_ongoing else cap.safe_rate_per_s,
        target=cap.target,
        drain_deadline_s=spec.scaling.drain_deadline_s,
        deadline_s=spec.deadline_s,
        missing=believed.missing,
        current=believed.current,
        warm_replicas=spec.scaling.warm_replicas,
        min_replicas=spec.scaling.min_replicas,
        max_replicas=max_replicas,
    )


def _facts(spec: WorkloadSpec, history: History, expected: Coming, shaped: Shaped) -> Facts:
    return Facts(
        *(spec.profile, spec.classes, spec.warnings, spec.scaling),
        silent=tuple(reading for reading in history.reporting if reading.replica in history.lacking),
        lost=history.lost,
        doubted=tuple(sorted(history.doubted)),
        stalled=history.stalled,
        diced=history.diced,
        stuck=tuple(start for start in expected.under_way if start.stuck),
        replicas=history.replicas,
        readings=history.reporting,
        published=None if spec.shadow else shaped.replicas,
    )


def _verdicts(spec: WorkloadSpec, state: State, colours: dict[str, Colour], believed: Estimate) -> tuple[Verdict, ...]:
    rates, before = state.attempts.rates_per_s([c.name for c in spec.classes], believed.offered_per_s), state.decision
    ratios = dict(state.admitted) if before is None else {v.name: v.admit_ratio for v in before.classes}
    at = before.decided_at if before is not None else -math.inf
    classes = zip(spec.classes, rates, strict=True)
    return tuple(Verdict(c, colours[c.name], rate, ratios.get(c.name, 1.0), at) for c, rate in classes)
