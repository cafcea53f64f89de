"""Facts that several checks need, each with the words for who could tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler.checks.verdicts import Basis, told
from scaler.core.model import Signal, known

if TYPE_CHECKING:
    from scaler.checks.facts import Facts, Live, ScaledObject, Serving
    from scaler.core.decision import Finding
    from scaler.core.step import WorkloadSpec


def scaled_of(facts: Facts) -> ScaledObject:
    """The ScaledObject."""
    return told(facts.scaled, "no ScaledObject is known: name its file, or look with --cluster")


def spec_of(facts: Facts) -> WorkloadSpec:
    """What the trigger and the configuration mean together."""
    return told(
        facts.spec, "what the trigger means is not known: name the scaler's configuration beside the ScaledObject"
    )


def serving_of(facts: Facts) -> Serving:
    """What is scaled."""
    return told(facts.serving, "what is scaled is not known: name the file of the Deployment, or look with --cluster")


def live_of(facts: Facts) -> Live:
    """The running scaler's explanation."""
    return told(facts.live, "only a running scaler knows: ask it with --ops HOST:PORT")


def ready_s(facts: Facts) -> tuple[float, str, Basis]:
    """How long a replica takes to be ready (P90, seconds), by whom that is said, and what that is worth."""
    if facts.live is not None and facts.live.samples:
        return facts.live.ready_p90_s, "measured", Basis.VERIFIED
    latency = spec_of(facts).latency
    return latency.p90_s, "assumed" if latency.origin == "prior" else "by replicaReadySeconds", Basis.INFERRED


def signal(live: Live, name: str) -> float | None:
    """A signal's value, idle being 0; None when it is unknown."""
    found: Signal | None = live.signals.get(name)
    return None if found is None else known(found)


def safe_rate(facts: Facts) -> float:
    """What a replica starts in a second at the safe point."""
    if facts.live is not None and (rate := signal(facts.live, "safe_rate_per_s")):
        return rate
    return told(
        spec_of(facts).profile.safe_rate_per_s,
        "the rate of a replica is not known: only its safe concurrency is configured, and the rate is learnt from traffic",
    )


def found(live: Live, *codes: str) -> tuple[Finding, ...]:
    """Those of the running scaler's own findings."""
    return tuple(one for one in live.findings if one.code in codes)


def words(findings: tuple[Finding, ...]) -> str:
    """What they say."""
    return "; ".join(one.text for one in findings)
