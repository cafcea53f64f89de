"""HorizontalPodAutoscalers: what KEDA's HPA for a workload wants now, and what keeps it from that."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from scaler.cluster.api import Json
from scaler.cluster.fields import count, mapping, objects, quantity, text
from scaler.core.hpa import DOWNSCALE_WINDOW_S
from scaler.core.platform import Proposal

AT_MINIMUM, AT_ZERO = "TooFewReplicas", "ScalingDisabled"
"""Reasons that are no trouble: how an idle workload looks, and one at zero replicas."""
OURS = re.compile(r"s\d+-desired-replicas")
"""What KEDA makes of our metric's name: the number of the trigger before it."""
SOURCES = {
    "External": "external",
    "Resource": "resource",
    "Pods": "pods",
    "Object": "object",
    "ContainerResource": "containerResource",
}
"""Where a metric of each type is told."""
ROUNDED_UP = 1e-3
"""An average comes in thousandths, rounded up: of seven replicas wanted of three it is 2334m."""


@dataclass(frozen=True, slots=True)
class Hpa:
    """``desired`` and ``current`` are its status: the count it asks for, and that it saw. ``troubles`` are codes and what they mean.

    ``proposals`` are what its metrics ask for, one by one. ``up_s`` and ``down_s`` are its windows in seconds, ``able`` and ``limited`` the
    reasons of its conditions AbleToScale and ScalingLimited, the latter where it is so.
    """

    max_replicas: int | None
    desired: int
    current: int
    troubles: tuple[tuple[str, str], ...] = ()
    proposals: tuple[Proposal, ...] = ()
    up_s: float = 0.0
    down_s: float = DOWNSCALE_WINDOW_S
    able: str = ""
    limited: str = ""

    @property
    def inactive(self) -> str:
        """Why it acts on no metric, empty when it does."""
        return next((said for code, said in self.troubles if code != "hpa_limited"), "")


def hpa_of(item: Json) -> Hpa:
    """An HPA from its JSON."""
    conditions = {text(one, "type"): one for one in objects(item, "status", "conditions")}
    found = (
        _trouble("hpa_inactive", conditions.get("ScalingActive", {}), "False"),
        _trouble("hpa_unable", conditions.get("AbleToScale", {}), "False"),
        _trouble("hpa_limited", conditions.get("ScalingLimited", {}), "True"),
    )
    limited = conditions.get("ScalingLimited", {})
    return Hpa(
        max_replicas=count(item, "spec", "maxReplicas"),
        desired=count(item, "status", "desiredReplicas") or 0,
        current=count(item, "status", "currentReplicas") or 0,
        troubles=tuple(trouble for trouble in found if trouble is not None),
        proposals=tuple(_proposals(item)),
        up_s=_window_s(item, "scaleUp", 0.0),
        down_s=_window_s(item, "scaleDown", DOWNSCALE_WINDOW_S),
        able=text(conditions.get("AbleToScale", {}), "reason"),
        limited=text(limited, "reason") if text(limited, "status") == "True" else "",
    )


def _trouble(code: str, condition: Json, bad: str) -> tuple[str, str] | None:
    reason = text(condition, "reason")
    if text(condition, "status") != bad or reason in {AT_MINIMUM, AT_ZERO}:
        return None
    return code, f"{reason}: {text(condition, 'message')}"


def _window_s(item: Json, direction: str, default_s: float) -> float:
    window = count(item, "spec", "behavior", direction, "stabilizationWindowSeconds")
    return default_s if window is None else float(window)


def _proposals(item: Json) -> Iterator[Proposal]:
    """One for each metric of the spec, with what the status says that it was last."""
    seen = {_name(one): _told(one, "current") for one in objects(item, "status", "currentMetrics")}
    replicas = count(item, "status", "currentReplicas") or 0
    for metric in objects(item, "spec", "metrics"):
        name = _name(metric)
        asked = _asked(seen.get(name, {}), _told(metric, "target"), replicas)
        yield Proposal(name, asked, ours=OURS.fullmatch(name) is not None)


def _told(metric: Json, what: str) -> Json:
    return mapping(metric, SOURCES.get(text(metric, "type"), ""), what)


def _name(metric: Json) -> str:
    """The metric's name; that of a resource is the resource's."""
    source = SOURCES.get(text(metric, "type"), "")
    return text(metric, source, "metric", "name") or text(metric, source, "name")


def _asked(current: Json, target: Json, replicas: int) -> int | None:
    """How many replicas a metric asks for, as the HPA reckons without its tolerance; None where it is not told."""
    for kind in ("averageValue", "value"):
        now, wanted = quantity(current, kind), quantity(target, kind)
        if now is not None and wanted:
            slack = ROUNDED_UP * replicas if kind == "averageValue" else 0.0
            return math.ceil(now * replicas / wanted - slack / wanted - 1e-9)
    used, wanted_used = count(current, "averageUtilization"), count(target, "averageUtilization")
    return None if used is None or not wanted_used else math.ceil(used * replicas / wanted_used - 1e-9)
