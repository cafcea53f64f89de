"""How many replicas the load asks for: the replica law.

    flow             = offered x W / target
    backlog_at_ready = max(0, queue + (arrival - drain) x eta)
    backlog          = backlog_at_ready / (mu x drain_deadline)
    load             = max(flow x growth, flow + backlog)
    replicas         = ceil(load) + warm, within min and max; going down never below what running needs

It is absolute, so replicas that are starting are never asked for twice. ``flow`` uses *offered* load (what wants to enter): a working gate
would otherwise hide the demand and the fleet would never grow. ``backlog`` uses *arrivals* (what does enter): a refused request does not
wait. Growth and backlog answer the same surge, so the larger counts, not the sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scaler.core.decision import LawInputs, Reason, Recommendation, Terms

DRAIN_DEADLINE_S = 120.0
DEFAULT_MIN_REPLICAS, DEFAULT_MAX_REPLICAS = 1, 100
CEIL_SLACK = 1e-9
"""Float noise must not buy a replica: 4.000000000001 is 4."""


@dataclass(frozen=True, slots=True)
class ScalingSpec:
    """Bounds in replicas. ``warm_replicas`` stand ready above what the load asks for. Seconds to drain a backlog: ``drain_deadline_s``."""

    min_replicas: int = DEFAULT_MIN_REPLICAS
    max_replicas: int = DEFAULT_MAX_REPLICAS
    warm_replicas: int = 0
    drain_deadline_s: float = DRAIN_DEADLINE_S


def whole(replicas: float) -> int:
    """The number of replicas that covers a fraction of one."""
    return math.ceil(replicas - CEIL_SLACK)


def recommend(inputs: LawInputs) -> Recommendation:
    """What the load asks for, with every term by name, the reason that binds and the runner-up."""
    terms = _terms(inputs)
    wanted = whole(terms.load) + inputs.warm_replicas
    floors = {Reason.RUNNING_FLOOR: terms.running_floor, Reason.MISSING_FLOOR: terms.missing_floor}
    candidates: list[tuple[float, Reason]] = [
        *((load, reason) for reason, load in _loads(inputs, terms)),
        *((min(float(inputs.current), floor), reason) for reason, floor in floors.items()),
        (float(inputs.min_replicas), Reason.MIN_REPLICAS),
    ]
    going_down = max(wanted, *(min(inputs.current, whole(floor)) for floor in floors.values()))
    replicas = min(max(going_down, inputs.min_replicas), inputs.max_replicas)
    ranked = sorted(candidates, key=lambda candidate: candidate[0], reverse=True)
    if max(going_down, inputs.min_replicas) > inputs.max_replicas:
        ranked.insert(0, (float(inputs.max_replicas), Reason.MAX_REPLICAS))
    return Recommendation(replicas, ranked[0][1], ranked[1][1], ranked[1][0], inputs, terms)


def _terms(inputs: LawInputs) -> Terms:
    load = inputs.ongoing if inputs.residence_s is None else inputs.offered_per_s * inputs.residence_s
    flow = load / inputs.target
    with_growth = flow * inputs.growth_ratio
    at_ready = _backlog_at_ready(inputs)
    backlog = at_ready / (inputs.safe_rate_per_s * inputs.drain_deadline_s) if inputs.safe_rate_per_s else 0.0
    if inputs.deadline_s is not None and inputs.safe_rate_per_s:
        load = inputs.queue / (inputs.safe_rate_per_s * inputs.deadline_s)
    else:
        load = max(with_growth, flow + backlog)
    return Terms(
        flow=flow,
        flow_with_growth=with_growth,
        backlog_at_ready_requests=at_ready,
        backlog=backlog,
        load=load,
        running_floor=inputs.running / inputs.target,
        missing_floor=load + inputs.missing + inputs.warm_replicas if inputs.missing else 0.0,
    )


def _backlog_at_ready(inputs: LawInputs) -> float:
    """Requests that will still wait when a new replica could help. With no replica to come (eta infinite) only the queue of now counts."""
    if math.isinf(inputs.eta_s):
        return max(0.0, inputs.queue)
    return max(0.0, inputs.queue + (inputs.arrival_per_s - inputs.drain_per_s) * inputs.eta_s)


def _loads(inputs: LawInputs, terms: Terms) -> tuple[tuple[Reason, float], ...]:
    """The load terms that compete, as replicas with warm ones on top."""
    warm = inputs.warm_replicas
    if inputs.deadline_s is not None and inputs.safe_rate_per_s:
        return ((Reason.COMPLETION, terms.load + warm),)
    if inputs.residence_s is None:
        return ((Reason.ONGOING, terms.flow + warm),)
    pairs = [(Reason.FLOW, terms.flow + warm)]
    if terms.backlog > 0:
        pairs.append((Reason.BACKLOG, terms.flow + terms.backlog + warm))
    if inputs.growth_ratio > 1:
        pairs.append((Reason.GROWTH, terms.flow_with_growth + warm))
    return tuple(pairs)
