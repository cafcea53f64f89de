"""What the HPA, and KEDA in its stead, make of the number."""

from __future__ import annotations

from scaler.checks.facts import Facts
from scaler.checks.sources import scaled_of
from scaler.checks.verdicts import Outcome, check, failed, passed, told, warned
from scaler.core.hpa import Tolerance, reachable

TOLERANCE = 0.1
HIGHER, HELD = "currentReplicasIfHigher", "currentReplicas"
EXPLICIT = 'write behavior as manifests/examples/scaledobject.yaml does: windows 0, tolerance "0" both ways'


@check(
    "T11",
    remedy='behavior.scaleUp.tolerance: "0" and behavior.scaleDown.tolerance: "0" (KEDA 2.18, Kubernetes 1.35)',
    docs="docs/keda.md",
)
def tolerance_none(facts: Facts) -> Outcome:
    """The HPA's tolerance does not hold the fleet beside its number."""
    scaled = scaled_of(facts)
    up, down = (TOLERANCE if one.tolerance is None else one.tolerance for one in scaled.directions)
    tolerance = Tolerance(up, down)
    counts = range(1, scaled.highest)
    held = next((n for n in counts if reachable(n, n + 1, tolerance) == n or reachable(n + 1, n, tolerance) > n), None)
    if held is None:
        return passed(f"every count up to {scaled.highest} can be reached", scaled.highest)
    return warned(f"between {held} and {held + 1} replicas, and above, one more or one less is not carried out", held)


@check("T12", remedy=EXPLICIT, docs="docs/keda.md")
def behavior_written(facts: Facts) -> Outcome:
    """The HPA's behavior is written, and does not wait a second time."""
    behavior = scaled_of(facts).behavior
    if behavior is None:
        return warned(
            "no behavior: the largest number of the last 300 s counts, a spurious one included, and stacks with our window",
            300,
        )
    window_s = behavior[1].window_s
    if window_s is None:
        return warned(
            "scaleDown.stabilizationWindowSeconds is not written: 300 s on top of the scaler's own window", 300
        )
    if window_s > 0:
        return warned(
            f"scaleDown.stabilizationWindowSeconds {window_s:g} on top of the scaler's own window costs GPU-hours",
            window_s,
        )
    return passed("scale-down window 0: the scaler stabilises")


@check(
    "T13",
    remedy="scaleUp.stabilizationWindowSeconds 0 and selectPolicy Max; selectPolicy Disabled in neither direction",
    docs="docs/keda.md",
)
def directions_free(facts: Facts) -> Outcome:
    """Nothing holds scaling up, or down for good."""
    up, down = scaled_of(facts).directions
    if up.disabled:
        return failed("scaleUp.selectPolicy Disabled: it never scales up")
    if (window_s := up.window_s or 0.0) > 0:
        return warned(
            f"scaleUp.stabilizationWindowSeconds {window_s:g}: so long does a burst wait before anything starts",
            window_s,
        )
    if down.disabled:
        return warned("scaleDown.selectPolicy Disabled: it never scales down")
    return passed("up at once, down at once")


@check(
    "T14",
    remedy="fallback with replicas of at least 1 and behavior currentReplicasIfHigher",
    docs="docs/keda.md",
)
def fallback_safe(facts: Facts) -> Outcome:
    """The fallback neither shrinks the fleet nor ends it."""
    scaled = scaled_of(facts)
    fallback = scaled.fallback
    if fallback is None:
        return passed("none: while the scaler refuses to answer, the HPA holds the count")
    if fallback.replicas == 0:
        return failed("fallback.replicas 0: while the scaler is away KEDA scales to zero", 0)
    if fallback.behavior in {HIGHER, HELD}:
        return passed(f"{fallback.behavior}, {fallback.replicas}", fallback.replicas)
    if fallback.replicas >= scaled.highest:
        return warned(
            f"fallback {fallback.behavior}: all {fallback.replicas} start whenever the scaler is away",
            fallback.replicas,
        )
    return failed(
        f"fallback {fallback.behavior} {fallback.replicas}: a fleet of up to {scaled.highest} shrinks to it when it is blind",
        fallback.replicas,
    )


@check(
    "T15",
    remedy="delete the other HPA; on an InferenceService set serving.kserve.io/autoscalerClass: external",
    docs="docs/migrate.md",
)
def no_rival(facts: Facts) -> Outcome:
    """Nobody else scales the same target."""
    rivals = told(
        facts.rivals, "other autoscalers were not looked for: name the files of the target, or look with --cluster"
    )
    return failed(f"{', '.join(rivals)} scales it too", len(rivals)) if rivals else passed("none was found")
