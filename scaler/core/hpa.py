"""The one model of the Kubernetes HorizontalPodAutoscaler (HPA): one external metric, target type AverageValue.

``sync`` is one pass of the controller: the metric's proposal, then windows, then rate limits and bounds. It follows
``replica_calculator.go`` and ``horizontal.go`` (Kubernetes 1.31-1.37), comparisons, floats and names of reasons
included. Times are seconds of whatever clock the caller passes as ``now``; counts are replicas.
Not modelled: several metrics (the HPA takes the largest proposal), metricType Value, the HPAScaleToZero gate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from scaler.errors import ConfigError

DOWNSCALE_WINDOW_S = 300.0  # --horizontal-pod-autoscaler-downscale-stabilization, where no behavior sets a window
_MAX_PERIOD_S, _MAX_WINDOW_S, _ZERO_TARGET, _MAX_MILLI = 1800.0, 3600.0, 0.0005, 2**63 - 1


class Generation(StrEnum):
    """Which float comparison the tolerance uses; they differ only at the exact edge (10 -> 11, 20 -> 22, ...)."""

    OLD = "kubernetes<=1.32"
    NEW = "kubernetes>=1.33"


class KedaGeneration(StrEnum):
    """How KEDA turns a double into thousandths."""

    OLD = "keda<=2.19"
    NEW = "keda>=2.20"


class PolicyKind(StrEnum):
    """What a policy counts in."""

    PODS = "Pods"
    PERCENT = "Percent"


class Select(StrEnum):
    """Which of several policies counts: the one that allows the largest change, the smallest, or no change at all."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


class Reason(StrEnum):
    """Why a sync ended where it did: the reasons of Kubernetes' conditions, and one of ours (WITHIN_TOLERANCE)."""

    FAILED_METRIC = "FailedGetExternalMetric"
    SCALING_DISABLED = "ScalingDisabled"
    TOO_MANY = "TooManyReplicas"
    TOO_FEW = "TooFewReplicas"
    SCALE_UP_LIMIT = "ScaleUpLimit"
    SCALE_DOWN_LIMIT = "ScaleDownLimit"
    SCALE_UP_STABILIZED = "ScaleUpStabilized"
    SCALE_DOWN_STABILIZED = "ScaleDownStabilized"
    WITHIN_TOLERANCE = "WithinTolerance"
    WITHIN_RANGE = "DesiredWithinRange"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The dead band around ratio 1. Two of them need Kubernetes 1.35 (1.33 with the gate HPAConfigurableTolerance)."""

    up: float = 0.1
    down: float = 0.1
    generation: Generation = Generation.NEW

    def __post_init__(self) -> None:
        one = self.up == self.down or self.generation is Generation.NEW
        if not (one and 0.0 <= self.up < math.inf and 0.0 <= self.down < math.inf):
            raise ConfigError("tolerance: a ratio of 0 or more; Kubernetes 1.32 and older: the same in both directions")

    def holds(self, ratio: float) -> bool:
        """Whether the HPA leaves the count alone. Old: |1-1.1| is 0.10000000000000009, so +10 % is executed."""
        if self.generation is Generation.OLD:
            return abs(1.0 - ratio) <= self.up
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class Policy:
    """At most ``value`` replicas, or percent of the count at the start of the period, in any ``period_s``."""

    kind: PolicyKind
    value: int
    period_s: float


@dataclass(frozen=True, slots=True)
class Rules:
    """One direction of a behavior: the proposal must outlast ``stabilization_s``, then the policies limit the step."""

    stabilization_s: float
    policies: tuple[Policy, ...]
    select: Select = Select.MAX

    def __post_init__(self) -> None:
        allowed = all(p.value > 0 and 0.0 < p.period_s <= _MAX_PERIOD_S for p in self.policies)
        if not self.policies or not allowed or not 0.0 <= self.stabilization_s <= _MAX_WINDOW_S:
            raise ConfigError("stabilizationWindowSeconds: 0-3600; policies: one or more, value > 0, period <= 1800 s")


@dataclass(frozen=True, slots=True)
class Behavior:
    """``spec.behavior``. Kubernetes fills what is left out from DEFAULT_BEHAVIOR."""

    up: Rules = Rules(0.0, (Policy(PolicyKind.PODS, 4, 15.0), Policy(PolicyKind.PERCENT, 100, 15.0)))
    down: Rules = Rules(DOWNSCALE_WINDOW_S, (Policy(PolicyKind.PERCENT, 100, 15.0),))


DEFAULT_BEHAVIOR = Behavior()  # what Kubernetes uses as soon as the HPA has a behavior, however empty
# What our manifests set. We stabilize before we publish: a second window on top only holds idle replicas longer.
# Without tolerance every count is reachable and a surge cannot ratchet.
SHIPPED_BEHAVIOR = Behavior(down=replace(DEFAULT_BEHAVIOR.down, stabilization_s=0.0))
SHIPPED_TOLERANCE = Tolerance(up=0.0, down=0.0)


@dataclass(frozen=True, slots=True)
class Hpa:
    """The HPA object that KEDA writes, and the controller's flags."""

    min_replicas: int = 1
    max_replicas: int = 100
    behavior: Behavior | None = None  # KEDA's default, and not the same as DEFAULT_BEHAVIOR
    tolerance: Tolerance = Tolerance()
    target: float = 1.0  # AverageValue; KEDA writes it at a reconcile only, so it is no part of the sample
    sync_s: float = 15.0

    def __post_init__(self) -> None:
        if not 1 <= self.min_replicas <= self.max_replicas:
            raise ConfigError("minReplicas, maxReplicas: 1 <= min <= max; zero is KEDA's doing, never the HPA's")
        if not _ZERO_TARGET < self.target < math.inf or not 0.0 < self.sync_s < math.inf:
            raise ConfigError("target: above 0.0005, which KEDA would round to zero; sync period: above 0 s")

    @property
    def memory_s(self) -> float:
        """For how long the past can still change a result."""
        if self.behavior is None:
            return DOWNSCALE_WINDOW_S
        rules = (self.behavior.up, self.behavior.down)
        return max(*(r.stabilization_s for r in rules), *(p.period_s for r in rules for p in r.policies))


@dataclass(frozen=True, slots=True)
class ScaleStatus:
    """Wanted, existing (cold, pending, surge), ready. AverageValue ignores ready: no overshoot and no collapse."""

    spec: int
    status: int
    ready: int


@dataclass(frozen=True, slots=True)
class Stamped:
    """A recommended count, or a signed change of it, and when."""

    at: float
    count: int


@dataclass(frozen=True, slots=True)
class HpaState:
    """What kube-controller-manager remembers in memory; a restart of it is a fresh ``HpaState()``."""

    recommendations: tuple[Stamped, ...] = ()
    changes: tuple[Stamped, ...] = ()


@dataclass(frozen=True, slots=True)
class HpaResult:
    """The new ``spec.replicas`` and why."""

    desired: int
    reason: Reason

    @property
    def held(self) -> bool:
        """ScalingActive=False: the count stays as it is, even outside the bounds."""
        return self.reason in {Reason.FAILED_METRIC, Reason.SCALING_DISABLED}


def quantize(value: float, keda: KedaGeneration = KedaGeneration.NEW) -> float:
    """What arrives at the HPA, in thousandths, when a scaler answers ``value`` as the float field.

    2.20 rounds ("%.3f"; NaN and infinity are 0, negatives since 2.20.2); 2.19 truncates, so 8.001 arrives as 8. More
    than 64 bits of thousandths overflow on the way; 1e300 was seen to end at the minimum (Kubernetes 1.36).
    """
    if not math.isfinite(value) or abs(value) * 1000.0 > _MAX_MILLI:
        return 0.0
    if keda is KedaGeneration.OLD:
        return math.trunc(value * 1000.0) / 1000.0
    return max(0.0, float(f"{value:.3f}"))


def sync(hpa: Hpa, state: HpaState, value: float | None, scale: ScaleStatus, now: float) -> tuple[HpaState, HpaResult]:
    """One pass of the controller. ``value`` is the metric as ``quantize`` returns it; None: the metric failed."""
    if not state.recommendations:  # the controller has just started: its windows begin full of the present
        state = replace(state, recommendations=(Stamped(now, scale.spec),))
    if scale.spec == 0:
        return state, HpaResult(0, Reason.SCALING_DISABLED)
    if not hpa.min_replicas <= scale.spec <= hpa.max_replicas:  # neither metric nor windows nor policies are asked
        high = scale.spec > hpa.max_replicas
        result = HpaResult(hpa.max_replicas, Reason.TOO_MANY) if high else HpaResult(hpa.min_replicas, Reason.TOO_FEW)
    elif value is None:
        return state, HpaResult(scale.spec, Reason.FAILED_METRIC)
    else:
        state, result = _decide(hpa, state, value, scale, now)
    kept = tuple(c for c in state.changes if c.at >= now - hpa.memory_s)
    change = result.desired - scale.spec
    return replace(state, changes=(*kept, Stamped(now, change)) if change else kept), result


def reachable(current: int, desired: float, tolerance: Tolerance) -> int:
    """The count that the HPA proposes from a settled ``current`` when ``desired`` is published with target 1."""
    return _proposal(Hpa(tolerance=tolerance), desired, current)[0]


def lands_on(hpa: Hpa, current: int, desired: float) -> int:
    """The count at which the HPA comes to rest from a settled ``current`` while ``desired`` stays published.

    Not always ``reachable``: a rate limit can stop a ramp inside the dead band (1 -> 5 -> 10, and 11 is within 10 %).
    """
    state, now, quiet_s = HpaState(), 0.0, 0.0
    while quiet_s <= hpa.memory_s + hpa.sync_s:  # until it has looked once after all was forgotten
        state, result = sync(hpa, state, desired * hpa.target, ScaleStatus(current, current, current), now)
        quiet_s = quiet_s + hpa.sync_s if result.desired == current else 0.0
        current, now = result.desired, now + hpa.sync_s
    return current


def tolerance_note(current: int, desired: int, tolerance: Tolerance) -> str | None:
    """The sentence for an operator whose decision the HPA will not execute; None where it will."""
    held = reachable(current, desired, tolerance)
    return None if held == desired else f"HPA tolerance holds you at {held} although {desired} is asked"


def _proposal(hpa: Hpa, value: float, status: int) -> tuple[int, int]:
    """What the metric proposes, and would without tolerance; held means *status*, not spec: the surge ratchet."""
    usage, per_replica = float(round(value * 1000.0)), float(round(hpa.target * 1000.0))
    ratio = usage / (per_replica * status) if status else math.inf  # Go divides by zero: infinity or NaN, never held
    asked = max(0, math.ceil(usage / per_replica))
    return (status if hpa.tolerance.holds(ratio) else asked), asked


def _decide(hpa: Hpa, state: HpaState, value: float, scale: ScaleStatus, now: float) -> tuple[HpaState, HpaResult]:
    proposal, asked = _proposal(hpa, value, scale.status)
    past = tuple(r for r in state.recommendations if r.at >= now - hpa.memory_s)
    state = replace(state, recommendations=(*past, Stamped(now, proposal)))
    if hpa.behavior is None:
        stable = max([proposal, *(r.count for r in past)])  # above the current count too: a lone peak lasts 300 s
    else:
        stable = _stabilized(hpa.behavior, past, proposal, scale.spec, now)
    desired, limit = _limited(hpa, state, scale.spec, stable, now)
    if desired != stable:
        return state, HpaResult(desired, limit)
    if stable != proposal:
        rising = hpa.behavior is not None and proposal >= scale.spec
        return state, HpaResult(desired, Reason.SCALE_UP_STABILIZED if rising else Reason.SCALE_DOWN_STABILIZED)
    return state, HpaResult(desired, Reason.WITHIN_RANGE if proposal == asked else Reason.WITHIN_TOLERANCE)


def _stabilized(behavior: Behavior, past: tuple[Stamped, ...], proposal: int, spec: int, now: float) -> int:
    """The current count, moved only as far as every recommendation in the window of that direction agrees."""
    up = min([proposal, *(r.count for r in past if r.at > now - behavior.up.stabilization_s)])
    down = max([proposal, *(r.count for r in past if r.at > now - behavior.down.stabilization_s)])
    return min(max(spec, up), down)


def _limited(hpa: Hpa, state: HpaState, spec: int, stable: int, now: float) -> tuple[int, Reason]:
    """The count within bounds and rate limits, and the reason that applies if that changed it."""
    if hpa.behavior is None:
        highest, lowest = max(2 * spec, 4), 0  # against bogus metrics (kubernetes#32304), on the way up only
    else:
        highest = max(spec, _rate_limit(hpa.behavior.up, state, spec, +1, now))
        lowest = min(spec, _rate_limit(hpa.behavior.down, state, spec, -1, now))
    if stable > spec:
        reason = Reason.SCALE_UP_LIMIT if highest < hpa.max_replicas else Reason.TOO_MANY
        return min(stable, highest, hpa.max_replicas), reason
    reason = Reason.SCALE_DOWN_LIMIT if lowest > hpa.min_replicas else Reason.TOO_FEW
    return max(stable, lowest, hpa.min_replicas), reason


def _rate_limit(rules: Rules, state: HpaState, spec: int, sign: int, now: float) -> int:
    """The farthest count that the policies allow in the direction of ``sign``."""
    if rules.select is Select.DISABLED:
        return spec
    limits: list[int] = []
    for policy in rules.policies:
        # As the HPA's own events tell it: what KEDA or a person changed leaves none.
        start = spec - sum(c.count for c in state.changes if c.at > now - policy.period_s)
        percent = start * (1.0 + sign * policy.value / 100.0)
        # Percent is rounded up on the way up, or a small fleet could never grow, and towards zero on the way down.
        whole = math.ceil(percent) if sign > 0 else math.trunc(percent)
        limits.append(start + sign * policy.value if policy.kind is PolicyKind.PODS else whole)
    return max(limits) if (rules.select is Select.MAX) == (sign > 0) else min(limits)
