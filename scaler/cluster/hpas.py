"""HorizontalPodAutoscalers: what KEDA's HPA for a workload wants now, and what keeps it from that."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.cluster.api import Json
from scaler.cluster.fields import count, objects, text

AT_MINIMUM, AT_ZERO = "TooFewReplicas", "ScalingDisabled"
"""Reasons that are no trouble: how an idle workload looks, and one at zero replicas."""


@dataclass(frozen=True, slots=True)
class Hpa:
    """``desired`` and ``current`` are its status: the count it asks for, and that it saw. ``troubles`` are codes and what they mean."""

    max_replicas: int | None
    desired: int
    current: int
    troubles: tuple[tuple[str, str], ...] = ()


def hpa_of(item: Json) -> Hpa:
    """An HPA from its JSON."""
    conditions = {text(one, "type"): one for one in objects(item, "status", "conditions")}
    found = (
        _trouble("hpa_inactive", conditions.get("ScalingActive", {}), "False"),
        _trouble("hpa_unable", conditions.get("AbleToScale", {}), "False"),
        _trouble("hpa_limited", conditions.get("ScalingLimited", {}), "True"),
    )
    return Hpa(
        max_replicas=count(item, "spec", "maxReplicas"),
        desired=count(item, "status", "desiredReplicas") or 0,
        current=count(item, "status", "currentReplicas") or 0,
        troubles=tuple(trouble for trouble in found if trouble is not None),
    )


def _trouble(code: str, condition: Json, bad: str) -> tuple[str, str] | None:
    reason = text(condition, "reason")
    if text(condition, "status") != bad or reason in {AT_MINIMUM, AT_ZERO}:
        return None
    return code, f"{reason}: {text(condition, 'message')}"
