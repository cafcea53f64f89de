"""From history to belief: rates, queue, queue wait, latencies, and how long until the next replica is ready."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scaler.core.capacity import capacity, mix_drift
from scaler.core.decision import Estimate, QueueWait
from scaler.core.fleet import fleet_of, sized
from scaler.core.growth import growth
from scaler.core.increase import ongoing
from scaler.core.latencies import LATENCY_WINDOW_S, MEDIAN, Latencies, latencies, samples
from scaler.core.learning import with_residence, with_shown
from scaler.core.model import Absent
from scaler.core.ready_latency import PLANNING_QUANTILE, UnderWay, next_ready_s
from scaler.core.shown import Objectives
from scaler.core.windows import Series, quantile_value

if TYPE_CHECKING:
    from scaler.core.capacity import Learned, Profile
    from scaler.core.coming import Coming
    from scaler.core.decision import Capacity
    from scaler.core.history import History
    from scaler.core.model import ReplicaSet, Signal

SHORTEST_WINDOW_S, LONGEST_WINDOW_S = 15.0, 30.0
SHORTEST_SLOPE_S = 10.0
DRAIN_FLOOR_RATIO = 0.1
SATURATED_FOR_S = 10.0
PRESSURE_EDGE_RATIO = 0.4
WAIT_HOLDS_S = 5.0
TTFT_COUNTS_FROM_S = 0.25
SEVERAL = 2


@dataclass(frozen=True, slots=True)
class EstimateSpec:
    """What the estimate must know of the workload: capacity profiles, headroom, strictest TTFT budget in seconds, quantile of the SLO.

    ``coming`` is what is to be expected of starts now.
    """

    profile: Profile
    headroom_ratio: float
    budget_s: float | None
    slo_quantile: float
    coming: Coming
    reaction_s: float
    tick_s: float
    tpot_s: float | None = None


@dataclass(frozen=True, slots=True)
class Belief:
    """What the estimate remembers beside the history: recent waits and queues, since when the fleet is saturated, its last known rate."""

    waits: Series = Series(WAIT_HOLDS_S)
    queues: Series = Series(SHORTEST_SLOPE_S)
    saturated_since: float | None = None
    throughput_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ask:
    """What was asked of the platform: the count published last, and since when that exceeds what exists."""

    published: int | None
    raised_at: float | None
    max_replicas: int


@dataclass(frozen=True, slots=True)
class _Load:
    """The fleet's numbers at one instant that later ones are derived from. ``excess``: what runs above the safe concurrency."""

    at: float
    ready: int
    reporting: int
    running: float
    waiting: float
    running_smoothed: float
    throughput_per_s: float | None
    arrival_per_s: float
    refused_per_s: float
    offered_per_s: float
    excess: float
    queue: float


@dataclass(frozen=True, slots=True)
class _Found:
    """What an estimate is put together from. ``eta_s``: planned for, and usual."""

    capacity: Capacity
    load: _Load
    seen: Latencies
    wait: QueueWait
    drain_per_s: float
    eta_s: tuple[float, float]
    grows: bool


def window_s(residence_s: float | None) -> float:
    """The one window of all rates: twice the residence time at the safe point, within 15..30 s; 30 s while that is unknown.

    It must not follow the measured latency, which lengthens in saturation just when the newest data matters most.
    """
    return LONGEST_WINDOW_S if residence_s is None else min(LONGEST_WINDOW_S, max(SHORTEST_WINDOW_S, 2 * residence_s))


def estimate(
    spec: EstimateSpec, history: History, belief: Belief, learned: Learned, ask: Ask
) -> tuple[Belief, Learned, Estimate]:
    """The estimate at the newest observation of ``history``, which must have seen the replica set and at least one tick."""
    if history.replicas is None or not history.running.times:
        raise ValueError("an estimate needs an observation")
    now = history.running.times[-1]
    objectives = Objectives(spec.budget_s, spec.tpot_s, spec.slo_quantile)
    profile, learned = with_shown(spec.profile, learned, objectives, history)
    fleet = fleet_of(profile, history, history.replicas)
    spec = replace(spec, profile=fleet.mean)
    seen = latencies(history, spec.slo_quantile, now, spec.tick_s)
    cap = capacity(spec.profile, spec.headroom_ratio, learned, mix_drift(spec.profile, seen.prompt, seen.output))
    load = _load(spec, history, cap)
    learned = with_residence(spec.profile, learned, history, load.throughput_per_s, spec.tick_s)
    belief, drain = _drain(spec, belief, load, cap, now)
    whole, under_way = spec.coming.latency, _under_way(spec.coming, ask, now)
    may_add = max(history.replicas.current, ask.published or 0) < ask.max_replicas
    eta = [next_ready_s(whole, q, under_way, may_add=may_add) for q in (PLANNING_QUANTILE, MEDIAN)]
    belief, grows = _queue_trend(spec, belief, load)
    belief, wait = _queue_wait(belief, history, load, (drain, eta[0]), seen.beyond_s(spec.profile.unloaded_ttft_s))
    offered = None if history.lost else load.offered_per_s
    cap = sized(cap, fleet, load.running + load.waiting, offered)
    found = _Found(cap, load, seen, wait, drain, (eta[0], eta[1]), grows)
    return belief, learned, _assembled(spec, history, history.replicas, found)


def _assembled(spec: EstimateSpec, history: History, replicas: ReplicaSet, found: _Found) -> Estimate:
    load, seen, now = found.load, found.seen, found.load.at
    return Estimate(
        at=now,
        observed_at=history.observed_at if history.observed_at is not None else now,
        ready=load.ready,
        starting=len(replicas.starting),
        stuck=sum(start.stuck for start in spec.coming.under_way),
        missing=len(history.missing),
        current=replicas.current,
        max_replicas=replicas.max_replicas,
        running=load.running,
        waiting=load.waiting,
        running_smoothed=load.running_smoothed,
        queue=load.queue,
        queue_grows=found.grows,
        throughput_per_s=load.throughput_per_s,
        arrival_per_s=load.arrival_per_s,
        offered_per_s=load.offered_per_s,
        refused_per_s=load.refused_per_s,
        drain_per_s=found.drain_per_s,
        growth_ratio=growth(history, now, spec.coming.latency, load.offered_per_s),
        queue_wait=found.wait,
        ttft_s=quantile_value(seen.ttft),
        ttft_p99_s=quantile_value(seen.ttft_p99),
        tpot_s=quantile_value(seen.tpot),
        tpot_before_s=quantile_value(seen.tpot_before),
        ttft_samples=samples(seen.ttft),
        tpot_samples=samples(seen.tpot),
        queue_time_s=quantile_value(seen.queue_time),
        kv_usage_ratio=_worst_kv(history),
        preempting=(history.preemptions.rate_per_s(LATENCY_WINDOW_S) or 0.0) > 0,
        eta_s=found.eta_s[0],
        eta_median_s=found.eta_s[1],
        replica_ready_s=spec.coming.latency.quantile(PLANNING_QUANTILE),
        latency=spec.coming.latency,
        start_phases=spec.coming.phases,
        capacity=found.capacity,
        duration_p99_s=quantile_value(seen.duration_p99),
        prompt_p50_tokens=quantile_value(seen.prompt),
        output_p50_tokens=quantile_value(seen.output),
    )


def _queue_trend(spec: EstimateSpec, belief: Belief, load: _Load) -> tuple[Belief, bool]:
    """Whether the queue grows; at a slow beat over as many seconds as three looks take."""
    span_s = max(3 * spec.tick_s, SHORTEST_SLOPE_S)
    queues = Series(span_s, belief.queues.times, belief.queues.values).add(load.at, load.queue)
    slope = queues.slope(span_s)
    return replace(belief, queues=queues), slope is not None and slope.rises


def _load(spec: EstimateSpec, history: History, cap: Capacity) -> _Load:
    """The numbers of now. What runs is averaged, but never over other replicas than those of now; what is in excess is so at each tick."""
    window = window_s(cap.residence_s)
    awake = sum(reading.awake for reading in history.last.values())
    running, waiting = history.running.values[-1], history.waiting.values[-1]
    recent = history.running.mean(spec.reaction_s) or 0.0
    arrival, refused = _arrival(history, cap, window, awake), max(0.0, history.refused.rate_per_s(window) or 0.0)
    excess = 0.0  # nobody has shown that what runs above a learnt value is too much
    if not spec.profile.learnt:
        excess = recent - cap.safe_concurrency * (history.awake.mean(spec.reaction_s) or 0.0)
    members_at = history.members_at if history.members_at is not None else -math.inf
    return _Load(
        at=history.running.times[-1],
        ready=awake + len(history.missing),
        reporting=awake,
        running=running,
        waiting=waiting,
        running_smoothed=history.running.mean(spec.reaction_s, members_at) or 0.0,
        throughput_per_s=history.first_tokens.rate_per_s(window),
        arrival_per_s=arrival,
        refused_per_s=refused,
        offered_per_s=max(0.0, arrival + refused - (history.again.rate_per_s(window) or 0.0)),
        excess=excess,
        queue=waiting + max(0.0, excess),
    )


def _arrival(history: History, cap: Capacity, window: float, awake: int) -> float:
    """What enters a second. When nobody tells it is what keeps as much running as does, by Little's law at the safe point."""
    if history.lost and cap.residence_s is not None:
        return min(history.running.values[-1], cap.safe_concurrency * awake) / cap.residence_s
    return max(0.0, history.entered.rate_per_s(window) or 0.0)


def _drain(spec: EstimateSpec, belief: Belief, load: _Load, cap: Capacity, now: float) -> tuple[Belief, float]:
    """What the reporting replicas can start a second. It is capacity, never today's throughput of a fleet with room to spare.

    An idle fleet's throughput is its load: taking that for capacity would make a gate starve the fleet, which then looks smaller still.
    """
    throughput = load.throughput_per_s if load.throughput_per_s is not None else belief.throughput_per_s
    if cap.safe_rate_per_s is None:
        return replace(belief, saturated_since=None, throughput_per_s=throughput), throughput
    nominal = cap.safe_rate_per_s * load.reporting
    if load.throughput_per_s is None:  # what it was may have been that of another fleet
        return replace(belief, saturated_since=None), nominal
    saturated = (
        spec.budget_s is not None and load.queue > PRESSURE_EDGE_RATIO * spec.budget_s * throughput and load.queue > 0
    )
    since = (belief.saturated_since if belief.saturated_since is not None else now) if saturated else None
    measured = since is not None and now - since >= SATURATED_FOR_S
    drain = throughput if measured else max(throughput, nominal)
    if load.excess > 0:
        drain = min(drain, nominal)  # what is beyond was bought with broken TPOT
    belief = replace(belief, saturated_since=since, throughput_per_s=throughput)
    return belief, max(drain, DRAIN_FLOOR_RATIO * nominal)


def _queue_wait(
    belief: Belief, history: History, load: _Load, rate: tuple[float, float], ttft_excess_s: float | None
) -> tuple[Belief, QueueWait]:
    drain, eta_s = rate
    if not load.ready:
        return belief, QueueWait(eta_s if load.waiting > 0 else 0.0)
    by_drain: float | None = None
    if drain > 0:
        belief = replace(belief, waits=belief.waits.add(load.at, load.queue / drain))
        by_drain = belief.waits.lowest(WAIT_HOLDS_S)
    # the quantile stays high for a while after the queue has gone
    by_ttft = ttft_excess_s if load.queue > TTFT_COUNTS_FROM_S * drain else None
    by_stall: float | None = None
    seen_at, since = history.observed_at, history.waiting_since
    if (
        since is not None and seen_at is not None
    ):  # counted in readings: a page that nobody answered is no stalled engine
        by_stall = seen_at - max(since, history.first_token_at if history.first_token_at is not None else since)
    if (stood := _stood_still_s(history)) is not None:
        by_stall = max(stood, by_stall or 0.0)
    return belief, QueueWait(max(0.0, by_drain or 0.0, by_ttft or 0.0, by_stall or 0.0), by_drain, by_ttft, by_stall)


def _stood_still_s(history: History) -> float | None:
    """For how long nothing has moved in any replica that holds requests; None where something does, or one long prompt would explain it.

    A frozen engine with free places shows no queue, and serves nobody.
    """
    held = {reading.replica: ongoing(reading) for reading in history.last.values() if ongoing(reading) > 0}
    if not held or not held.keys() <= set(history.stalled) or sum(held.values()) < SEVERAL * len(held):
        return None
    newest = max(reading.observed_at for reading in history.last.values())
    return newest - max(history.still[name].since for name in held)


def _under_way(coming: Coming, ask: Ask, now: float) -> tuple[UnderWay, ...]:
    """The starts under way, with the one that was asked for and does not exist yet."""
    if ask.raised_at is None:
        return coming.under_way
    return (*coming.under_way, UnderWay("", now - ask.raised_at, coming.latency))


def _worst_kv(history: History) -> Signal:
    """The fullest replica's KV cache; IDLE counts as empty only when nobody reports a value."""
    values = [reading.kv_usage_ratio for reading in history.reporting]
    numbers = [value for value in values if not isinstance(value, Absent)]
    if numbers:
        return max(numbers)
    return Absent.IDLE if Absent.IDLE in values else Absent.UNKNOWN
