"""Whether the replicas are what is published, and why not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaler.core.decision import Finding

if TYPE_CHECKING:
    from scaler.core.model import ReplicaSet
    from scaler.core.platform import Hpa, Platform

TOLERANCE, SLACK = 0.1, 1e-9
LIMITS = {
    "ScaleUpLimit": "the HPA's behavior lets it add no more at once (scaleUp policies)",
    "ScaleDownLimit": "the HPA's behavior lets it take no more away at once (scaleDown policies)",
    "TooManyReplicas": "the HPA's maximum is reached",
    "TooFewReplicas": "the HPA's minimum is reached",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """Why the replicas are not what is published. ``passing``: the next sync of the HPA, a few seconds away, should end it."""

    text: str
    passing: bool = False


def not_followed(desired: int | None, replicas: ReplicaSet | None) -> Iterator[Finding]:
    """A finding where the replicas are not what is published, for a reason that does not pass by itself. None is published in a shadow."""
    platform = None if replicas is None else replicas.platform
    if platform is None or desired is None:
        return
    cause = cause_of(desired, platform)
    if cause is not None and not cause.passing:
        yield Finding("not_followed", f"{_counts(desired, platform)}: {cause.text}")


def followed(desired: int, platform: Platform) -> str:
    """Whether the replicas are what is published, and why not, in one sentence."""
    cause = cause_of(desired, platform)
    return (
        f"{platform.target} has {platform.asked}, as published"
        if cause is None
        else f"{_counts(desired, platform)}: {cause.text}"
    )


def cause_of(desired: int, platform: Platform) -> Cause | None:
    """Why the replicas are not what is published, None where they are. The first that applies."""
    if platform.asked == desired:
        missing = platform.asked - platform.pods
        return None if missing <= 0 else Cause(_unmade(platform, missing), passing=False)
    return _keda(desired, platform) or _hpa(desired, platform)


def _counts(desired: int, platform: Platform) -> str:
    return f"{desired} published, and {platform.target} has {platform.asked}"


def _unmade(platform: Platform, missing: int) -> str:
    return (
        f"{missing} of its {platform.asked} pods do not exist: a ResourceQuota or an admission refuses them; kubectl describe the "
        "ReplicaSet says which"
    )


def _keda(desired: int, platform: Platform) -> Cause | None:
    up = desired > platform.asked
    if platform.paused:
        return Cause(f"KEDA is paused (annotation {platform.paused[0]})")
    if one := next((one for one in platform.kept if one.endswith("scale-out" if up else "scale-in")), None):
        return Cause(f"KEDA {'adds' if up else 'removes'} none (annotation {one})")
    if platform.fallback:
        return Cause("KEDA acts on the ScaledObject's fallback: it got no number from this scaler several times")
    if platform.asked == 0 or desired == 0:
        return Cause("KEDA itself goes to zero (after cooldownPeriod) and comes back (at its next poll)", passing=True)
    if platform.hpa is None and platform.hpas_known:
        return Cause("there is no HPA: KEDA could not make it; kubectl describe the ScaledObject says why")
    return None


def _hpa(desired: int, platform: Platform) -> Cause:
    if platform.hpa is None:
        return Cause("its HPA has not been read yet", passing=True)
    return next(_hpa_causes(desired, platform.hpa, up=desired > platform.asked))


def _hpa_causes(desired: int, hpa: Hpa, *, up: bool) -> Iterator[Cause]:
    """All that may apply, the first first."""
    name = f"HPA {hpa.name}"
    if hpa.inactive:
        yield Cause(f"{name} does not act: {hpa.inactive}")
    ours = next((one.replicas for one in hpa.proposals if one.ours), None)
    for one in hpa.proposals:
        if not one.ours and one.replicas is not None and one.replicas > max(desired, ours or 0):
            yield Cause(f"{name} takes the largest of its metrics, and {one.metric} asks for {one.replicas}")
    if ours != desired:
        yield Cause(f"{name} has not read that number yet; it asks every 15 s", passing=True)
    if hpa.desired == desired:
        yield Cause(f"{name} wants {desired} as well and is about to say so", passing=True)
    if hpa.able.endswith("Stabilized"):
        window = f"{'scaleUp' if up else 'scaleDown'} window of {hpa.up_s if up else hpa.down_s:g} s"
        yield Cause(f"{name} waits for its own {window}; this scaler has one already, so set that to 0")
    if hpa.limited in LIMITS:
        yield Cause(f"{name}: {LIMITS[hpa.limited]}", passing=hpa.limited.startswith("Scale"))
    if hpa.current and abs(desired / hpa.current - 1) <= TOLERANCE + SLACK:
        yield Cause(f"{name} lets {TOLERANCE:.0%} pass; set tolerance to 0 in its behavior (Kubernetes 1.35)")
    yield Cause(f"{name} wants {hpa.desired} and does not say why", passing=True)
