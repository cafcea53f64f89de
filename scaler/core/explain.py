"""Why this number: the steps from what was read to what is published, in values and in plain sentences.

The explanation carries ``LawInputs`` and ``ShapeInputs`` whole, and ``recompute`` of the two is the published number, bit for bit. So
whoever holds an explanation, or a log line, can check it without us.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaler.core.decision import Reason, Terms
from scaler.core.explain_state import number, state_because
from scaler.core.followed import followed
from scaler.core.stabilize import shape
from scaler.core.target import recommend, whole
from scaler.core.what_if import what_ifs

if TYPE_CHECKING:
    from scaler.core.decision import Capacity, ClassDecision, Decision, Estimate, Finding, LawInputs, ShapeInputs
    from scaler.core.model import Missing, Phase, Pressure, Signal, WorkloadKey
    from scaler.core.platform import Platform
    from scaler.core.ready_latency import ReadyLatency
    from scaler.core.what_if import WhatIf


@dataclass(frozen=True, slots=True)
class ReadingAge:
    """One replica's reading and how old it is, in seconds; ``absent`` names required signals that its page lacks."""

    replica: str
    age_s: float
    running: Signal
    waiting: Signal
    kv_usage_ratio: Signal
    awake: bool
    absent: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """One number of the estimate by its name there; the suffix is the unit. None: that sign says nothing."""

    name: str
    value: Signal | None


@dataclass(frozen=True, slots=True)
class Step:
    """One step on the way from load to the published number, in replicas."""

    name: str
    replicas: float
    text: str


@dataclass(frozen=True, slots=True)
class Because:
    """One reason, the replicas that it asks for, and a sentence with the numbers."""

    reason: Reason
    replicas: float
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything behind one decision. ``age_s`` is that of the newest reading, ``decided_age_s`` that of the decision, in seconds.

    ``latency`` is that of a replica that is asked for now, ``start_phases`` the median of each phase of recent starts.
    ``recomputed`` is ``recompute(inputs, shape)`` and equals ``desired``. ``what_ifs`` are what it would be if one thing were different.
    ``platform`` is what acts on the number, where that can be seen, and ``followed`` whether it does, in one sentence.
    """

    key: WorkloadKey
    sequence: int
    age_s: float
    decided_age_s: float
    state: Pressure
    state_because: str
    blind: bool
    desired: int
    recomputed: int
    binding: Because
    runner_up: Because
    readings: tuple[ReadingAge, ...]
    missing: tuple[Missing, ...]
    signals: tuple[Named, ...]
    capacity: Capacity
    latency: ReadyLatency
    start_phases: tuple[Phase, ...]
    terms: Terms
    steps: tuple[Step, ...]
    inputs: LawInputs
    shape: ShapeInputs
    classes: tuple[ClassDecision, ...]
    findings: tuple[Finding, ...]
    what_ifs: tuple[WhatIf, ...] = ()
    platform: Platform | None = None
    followed: str = ""


def explain(decision: Decision, now: float) -> Explanation:
    """The explanation of a decision as a reader at ``now`` (monotonic seconds) sees it."""
    recommendation, shaped = decision.recommendation, decision.shaped
    platform = None if decision.replicas is None else decision.replicas.platform
    return Explanation(
        key=decision.key,
        sequence=decision.sequence,
        age_s=_age(decision.observed_at, now),
        decided_age_s=_age(decision.decided_at, now),
        state=decision.state,
        state_because=state_because(decision, now),
        blind=decision.blind,
        desired=decision.desired,
        recomputed=recompute(recommendation.inputs, shaped.inputs),
        binding=binding(decision, now),
        runner_up=_because(decision, decision.runner_up, now),
        readings=_readings(decision, now),
        missing=decision.missing,
        signals=_signals(decision.estimate),
        capacity=decision.estimate.capacity,
        latency=decision.estimate.latency,
        start_phases=decision.estimate.start_phases,
        terms=recommendation.terms,
        steps=_steps(decision, now),
        inputs=recommendation.inputs,
        shape=shaped.inputs,
        classes=decision.classes,
        findings=decision.findings,
        what_ifs=what_ifs(recommendation.inputs, shaped.inputs, decision.estimate.capacity.safe_concurrency),
        platform=platform,
        followed="" if platform is None or decision.shadow else followed(decision.desired, platform),
    )


def recompute(inputs: LawInputs, shape_inputs: ShapeInputs) -> int:
    """The published number from its inputs alone. Raises ValueError when the two inputs are not of one decision."""
    recommended = recommend(inputs).replicas
    if recommended != shape_inputs.recommended:
        raise ValueError(f"the law recommends {recommended}, but {shape_inputs.recommended} was stabilized")
    return shape(shape_inputs).replicas


def binding(decision: Decision, now: float) -> Because:
    """The reason that the published number is what it is."""
    _, text = _sentences(decision, now)[decision.reason]
    return Because(decision.reason, decision.desired, f"{_replicas(decision.desired)}: {text}")


def _because(decision: Decision, reason: Reason, now: float) -> Because:
    replicas, text = _sentences(decision, now)[reason]
    return Because(reason, replicas, f"{_replicas(replicas)}: {text}")


def _age(at: float, now: float) -> float:
    return max(0.0, now - at)


def _readings(decision: Decision, now: float) -> tuple[ReadingAge, ...]:
    return tuple(
        ReadingAge(r.replica, _age(r.observed_at, now), r.running, r.waiting, r.kv_usage_ratio, r.awake, r.absent)
        for r in decision.readings
    )


_SIGNALS = (
    *("running", "waiting", "running_smoothed", "queue", "throughput_per_s", "arrival_per_s", "offered_per_s"),
    *("refused_per_s", "drain_per_s", "growth_ratio", "ttft_s", "ttft_p99_s", "tpot_s", "queue_time_s"),
    *("duration_p99_s", "kv_usage_ratio", "prompt_p50_tokens", "output_p50_tokens"),
    *("eta_s", "eta_median_s", "replica_ready_s", "saturation_ratio"),
)
_WAITS = ("s", "by_drain_s", "by_ttft_s", "by_stall_s")
_CAPACITY = ("safe_concurrency", "target", "safe_rate_per_s", "residence_s", "derate_ratio", "drift_ratio")


def _signals(estimate: Estimate) -> tuple[Named, ...]:
    return (
        *(Named(name, getattr(estimate, name)) for name in _SIGNALS),
        *(Named(f"queue_wait_{name}", getattr(estimate.queue_wait, name)) for name in _WAITS),
        *(Named(name, getattr(estimate.capacity, name)) for name in _CAPACITY),
    )


def _steps(decision: Decision, now: float) -> tuple[Step, ...]:
    inputs, terms = decision.recommendation.inputs, decision.recommendation.terms
    wanted = whole(terms.load) + inputs.warm_replicas
    floors = [min(inputs.current, whole(floor)) for floor in (terms.running_floor, terms.missing_floor)]
    return (
        Step("flow", terms.flow, _flow(inputs, terms)),
        Step("flow_with_growth", terms.flow_with_growth, f"flow × growth {number(inputs.growth_ratio)}"),
        Step("backlog", terms.backlog, _backlog(inputs, terms)),
        Step("load", terms.load, _load(inputs)),
        Step("wanted", wanted, f"load, rounded up, and {inputs.warm_replicas} warm"),
        Step("floored", max(wanted, *floors), "going down, never below what running and silent replicas need"),
        Step(
            "recommended", decision.recommendation.replicas, f"within {inputs.min_replicas} and {inputs.max_replicas}"
        ),
        Step("published", decision.desired, _shaped(decision, now)),
    )


def _shaped(decision: Decision, now: float) -> str:
    reason = decision.shaped.reason
    return "the recommendation, untouched" if reason is None else _sentences(decision, now)[reason][1]


def _replicas(count: float) -> str:
    return "1 replica" if count == 1 else f"{number(count)} replicas"


def _flow(inputs: LawInputs, terms: Terms) -> str:
    if inputs.residence_s is None:
        return f"ongoing {number(inputs.ongoing)} requests / target {number(inputs.target)}; the safe rate is not known"
    offered = f"offered {number(inputs.offered_per_s)} requests/s × residence {number(inputs.residence_s)} s"
    return f"flow {number(terms.flow)} = {offered} / target {number(inputs.target)}"


def _backlog(inputs: LawInputs, terms: Terms) -> str:
    rest = f"{number(terms.backlog_at_ready_requests)} requests still wait when the next replica is ready"
    head = f"backlog {number(terms.backlog)} on top of flow {number(terms.flow)}"
    return f"{head}: {rest} ({number(inputs.eta_s)} s), to be drained in {number(inputs.drain_deadline_s)} s"


def _load(inputs: LawInputs) -> str:
    if inputs.deadline_s is not None and inputs.safe_rate_per_s:
        return _completion(inputs)
    return "the larger of flow_with_growth and flow + backlog"


def _completion(inputs: LawInputs) -> str:
    rate, deadline = number(inputs.safe_rate_per_s or 0.0), number(inputs.deadline_s or 0.0)
    return f"{number(inputs.queue)} queued requests to start within {deadline} s at {rate}/s a replica"


def _sentences(decision: Decision, now: float) -> dict[Reason, tuple[float, str]]:
    """For every reason, the replicas that it asks for and why."""
    return _loads(decision) | _bounds(decision) | _holds(decision, now)


def _loads(decision: Decision) -> dict[Reason, tuple[float, str]]:
    inputs, terms = decision.recommendation.inputs, decision.recommendation.terms
    growing = f"flow {number(terms.flow)} will be {number(inputs.growth_ratio)} times that when a new replica is ready"
    loads = {
        Reason.FLOW: (terms.flow, _flow(inputs, terms)),
        Reason.ONGOING: (terms.flow, _flow(inputs, terms)),
        Reason.BACKLOG: (terms.flow + terms.backlog, _backlog(inputs, terms)),
        Reason.GROWTH: (terms.flow_with_growth, growing),
        Reason.COMPLETION: (terms.load, _completion(inputs)),
    }
    warm = f", and {inputs.warm_replicas} warm" if inputs.warm_replicas else ""
    return {reason: (load + inputs.warm_replicas, text + warm) for reason, (load, text) in loads.items()}


def _bounds(decision: Decision) -> dict[Reason, tuple[float, str]]:
    inputs, terms = decision.recommendation.inputs, decision.recommendation.terms
    running = f"{number(inputs.running)} running requests fill {number(terms.running_floor)} replicas at target {number(inputs.target)}"
    silent = f"{inputs.missing} replicas without a reading count as full beside a load of {number(terms.load)}"
    asked = f"the load asks for {number(terms.load + inputs.warm_replicas)}"
    return {
        Reason.RUNNING_FLOOR: (min(inputs.current, terms.running_floor), running),
        Reason.MISSING_FLOOR: (min(inputs.current, terms.missing_floor), silent),
        Reason.MIN_REPLICAS: (inputs.min_replicas, f"{asked}, and the minimum is {inputs.min_replicas}"),
        Reason.MAX_REPLICAS: (inputs.max_replicas, f"{asked}, and the maximum is {inputs.max_replicas}"),
    }


def _holds(decision: Decision, now: float) -> dict[Reason, tuple[float, str]]:
    seen = decision.shaped.inputs
    published, asked = seen.published or 0, f"the load asks for {seen.recommended}"
    start = max(seen.current, seen.start_floor, seen.min_replicas)
    delayed = max(published, min(seen.recommended, seen.window_min), seen.min_replicas)
    within = f"{seen.window_max} were wanted within the scale-down window"
    first = f"{seen.current} exist and ongoing requests fill {seen.start_floor}; a restart removes none"
    silence = f"no fresh reading for {number(_age(decision.observed_at, now))} s"
    held = f"{silence}, so the last number stands; KEDA is told it for {number(decision.hold_s)} s"
    return {
        Reason.NOT_IDLE: (1, f"{asked}, but there was work too recently to stop the last one"),
        Reason.START: (start, f"first decision: {asked}, {first}"),
        Reason.UPSCALE_DELAY: (delayed, f"{asked}, but for only {seen.window_min} at some time in upscaleDelaySeconds"),
        Reason.DOWNSCALE_WINDOW: (min(published, seen.window_max), f"{asked}, but {within}"),
        Reason.RED_HOLD: (published, f"{asked}, but nothing is removed while the pressure is RED"),
        Reason.BLIND_HOLD: (published, held),
        Reason.FLOOR: (seen.floor, f"{asked}, and a person has set a floor until {_until(decision)}"),
    }


def _until(decision: Decision) -> str:
    floor = None if decision.replicas is None else decision.replicas.floor
    return "" if floor is None else floor.until
