"""Decisions as JSON bodies. Every field is named as in the core, so code, JSON, logs and metrics speak of one thing by one word."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING

from scaler.core.explain import binding, explain
from scaler.core.explain_state import state_because
from scaler.core.model import Pressure
from scaler.core.plain import Json, plain
from scaler.core.retry import age_s

if TYPE_CHECKING:
    from scaler.core.decision import ClassDecision, Decision, Estimate, Pending

_RATES = ("offered_per_s", "arrival_per_s", "throughput_per_s", "drain_per_s", "refused_per_s")
_COUNTS = ("ready", "starting", "stuck", "current")


def state_body(decision: Decision, verdict: ClassDecision, now: float, note: str = "") -> dict[str, Json]:
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


def pending_body(pending: Pending) -> dict[str, Json]:
    """The answer for a workload that has no decision yet: nothing is known against admitting all."""
    return {
        "namespace": pending.key.namespace,
        "name": pending.key.name,
        "state": Pressure.UNKNOWN.value,
        "workload_state": Pressure.UNKNOWN.value,
        "admit_ratio": 1.0,
        "admit_per_s": None,
        "retry_after_s": 0.0,
        "reason": "pending",
        "because": pending.why,
        "classes": [],
    }


def explain_body(decision: Decision, now: float) -> Json:
    """The whole explanation, inputs included: ``core.plain.restore`` and ``core.explain.recompute`` give the number again."""
    return plain(explain(decision, now))


def error_body(code: str, message: str) -> dict[str, Json]:
    """An error as clients of OpenAI-like interfaces read it."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


def strictest_budget_s(decision: Decision) -> float | None:
    """The strictest TTFT budget of the classes that have one, in seconds."""
    budget = min((v.budget_s for v in decision.classes if v.budget_s is not None), default=math.inf)
    return budget if math.isfinite(budget) else None


def _estimate(estimate: Estimate) -> dict[str, object]:
    return {
        "queue": estimate.queue,
        "queue_wait_s": estimate.queue_wait.s,
        "eta_s": estimate.eta_s,
        "eta_median_s": estimate.eta_median_s,
        "saturation_ratio": estimate.saturation_ratio,
        **{name: getattr(estimate, name) for name in (*_RATES, *_COUNTS)},
    }
