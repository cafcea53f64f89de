"""Decisions as JSON bodies. Every field is named as in the core, so code, JSON, logs and metrics speak of one thing by one word."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeAlias

from scaler.control.history import SPAN_S, Point, point
from scaler.core import cost
from scaler.core.explain import Explanation, binding, explain
from scaler.core.explain_state import state_because
from scaler.core.floor import standing
from scaler.core.model import GateMode, Pressure
from scaler.core.plain import Json, plain
from scaler.core.retry import age_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scaler.control.changes import Change
    from scaler.control.comparison import Comparison
    from scaler.core.cost import Bill
    from scaler.core.decision import ClassDecision, Decision, Estimate, Pending
    from scaler.core.model import WorkloadKey

Body: TypeAlias = dict[str, Json]

_RATES = ("offered_per_s", "arrival_per_s", "throughput_per_s", "drain_per_s", "refused_per_s")
_MEASURED = ("offered_per_s", "arrival_per_s", "refused_per_s", "queue_wait_s", "budget_s")
_EXPLAINED = Explanation.__slots__
_COUNTS = ("ready", "starting", "stuck", "current")


def state_body(decision: Decision, verdict: ClassDecision, now: float, note: str = "") -> Body:
    """The answer of the state endpoint for one class; ``note`` says when it is not the class that was asked for."""
    body: dict[str, object] = {
        **_verdict(verdict, now),
        **asdict(decision.key),  # after the verdict: ``name`` is the workload's, the verdict's is ``class``
        "class": verdict.name,
        **({"note": note} if note else {}),
        **_estimate(decision.estimate),
        "missing": len(decision.missing),  # the estimate has none where none was made: in blindness all are silent
        "desired": decision.desired,
        "active": decision.active,
        "blind": decision.blind,
        "workload_state": decision.state,
        "reason": decision.reason,
        "runner_up": decision.runner_up,
        "because": binding(decision, now).text,
        "state_because": state_because(decision, now),
        "findings": decision.findings,
        **_floor(decision, now),
        "shed_status": decision.shed,
        "reaction_s": decision.reaction_s,
        "surge_ratio": decision.surge_ratio,
        "age_s": age_s(decision, now),
        "valid_s": decision.valid_s,
        "sequence": decision.sequence,
        "classes": [_verdict(one, now) for one in decision.classes],
    }
    return {name: plain(value) for name, value in body.items()}


def _verdict(verdict: ClassDecision, now: float) -> dict[str, object]:
    """A verdict with the age of its state instead of an instant of our clock, which says nothing outside."""
    fields = asdict(verdict)
    since = fields.pop("since")
    return fields | {"state_age_s": None if math.isinf(since) else max(0.0, now - since)}


def _floor(decision: Decision, now: float) -> Body:
    """The floor that a person has set, by how long it still stands; nothing without one."""
    floor = standing(decision.replicas, now)
    if floor is None:
        return {}
    ends_in_s = max(0.0, floor.until_at - now)
    return {"floor": {"replicas": floor.replicas, "until": floor.until, "ends_in_s": ends_in_s}}


def pending_body(pending: Pending) -> Body:
    """The answer for a workload that has no decision yet: nothing is known against admitting all."""
    return {
        "namespace": pending.key.namespace,
        "name": pending.key.name,
        "state": Pressure.UNKNOWN.value,
        "workload_state": Pressure.UNKNOWN.value,
        "admit_ratio": 1.0,
        "admit_per_s": None,
        "gate": GateMode.OFF.value,
        "retry_after_s": 0.0,
        "reason": "pending",
        "because": pending.why,
        "classes": [],
    }


def explain_body(
    decision: Decision,
    now: float,
    changes: Sequence[Change] = (),
    shadow: Comparison | None = None,
    bill: Bill | None = None,
) -> Body:
    """The whole explanation, inputs included: ``core.plain.restore`` and ``core.explain.recompute`` give the number again.

    ``changes`` are those of the last hour, the oldest first; ``shadow`` is what was compared if the workload is one. ``bill`` is that of
    the last hour.
    """
    explained = explain(decision, now)
    told = {name: getattr(explained, name) for name in _EXPLAINED}
    compared = {} if shadow is None else {"shadow": shadow}
    costs = {} if bill is None else {"cost": {"text": cost.told(bill), **asdict(bill)}}
    shown = {**told, **_floor(decision, now), "changes": [_change(one, now) for one in changes], **compared, **costs}
    return {name: plain(value) for name, value in shown.items()}


def _change(one: Change, now: float) -> dict[str, object]:
    """A change with its age instead of an instant of our clock."""
    told = asdict(one)
    return {"age_s": max(0.0, now - told.pop("at"))} | told


def error_body(code: str, message: str) -> Body:
    """An error as clients of OpenAI-like interfaces read it."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


def event_body(decision: Decision, now: float) -> Body:
    """A decision in short, for streams: its point in the charts, and what it is called."""
    return {**_named(decision.key), "state": decision.state.value, "sequence": decision.sequence} | _point(
        point(decision), now
    )


def history_body(key: WorkloadKey, points: Sequence[Point], now: float) -> Body:
    """The points of a workload's charts, the oldest first."""
    return {**_named(key), "span_s": SPAN_S, "points": [_point(one, now) for one in points]}


def _named(key: WorkloadKey) -> Body:
    return {"namespace": key.namespace, "name": key.name}


def _point(one: Point, now: float) -> Body:
    """A point with its age instead of an instant of our clock; null is what is not known."""
    age: Body = {"age_s": round(max(0.0, now - one.at), 3)}
    rest: Body = {name: _rounded(getattr(one, name)) for name in _MEASURED}
    return age | rest | {"desired": one.desired, "starting": one.starting, "ready": one.ready}


def _rounded(value: float) -> Json:
    return None if math.isnan(value) else plain(round(value, 3))


def _estimate(estimate: Estimate) -> dict[str, object]:
    return {
        "queue": estimate.queue,
        "queue_wait_s": estimate.queue_wait.s,
        "eta_s": estimate.eta_s,
        "eta_median_s": estimate.eta_median_s,
        "saturation_ratio": estimate.saturation_ratio,
        **{name: getattr(estimate, name) for name in (*_RATES, *_COUNTS)},
    }
