"""What of a decision is worth an Event: what has changed since the one before. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scaler.core.decision import Decision, Reason
from scaler.core.explain import binding
from scaler.core.explain_state import state_because
from scaler.core.model import Pressure

FOUND: Mapping[str, str] = {
    "infeasible_ttft": "Infeasible",
    "infeasible_burst": "Infeasible",
    "stuck": "ReplicaStuck",
    "imbalanced": "Imbalanced",
    "not_followed": "NotFollowed",
    "profile_unmatched": "ProfileMismatch",
    "profile_contradicted": "ProfileMismatch",
    "mix_drift": "ProfileMismatch",
    "floor": "BreakGlass",
}
"""Findings that are an Event when they begin, and its reason."""
ABOVE_MAX = "demand_above_max"


@dataclass(frozen=True, slots=True)
class Happening:
    """``reason`` as Kubernetes writes it, in one word. ``warning``: somebody should look."""

    reason: str
    text: str
    warning: bool = True


@dataclass(frozen=True, slots=True)
class Before:
    """What is compared of the decision before."""

    desired: int
    red: bool
    capped: bool
    blind: bool
    codes: frozenset[str]


def before_of(decision: Decision) -> Before:
    """What the next decision is compared with."""
    codes = frozenset(finding.code for finding in decision.findings)
    red = decision.state is Pressure.RED
    capped = decision.reason is Reason.MAX_REPLICAS or ABOVE_MAX in codes
    return Before(decision.desired, red, capped, decision.blind, codes)


def happenings(before: Before | None, decision: Decision) -> Iterator[Happening]:
    """What has happened. Before the first decision nothing had, and its number is no change: a restart of ours scales nothing."""
    now, at = before_of(decision), decision.decided_at
    was = before or Before(now.desired, red=False, capped=False, blind=False, codes=frozenset())
    because = binding(decision, at).text
    if now.desired != was.desired:
        yield Happening("Scaled", f"from {was.desired} to {because}", warning=False)
    if now.red != was.red:
        yield Happening("PressureRed" if now.red else "PressureEased", state_because(decision, at), warning=now.red)
    if now.capped and not was.capped:
        yield Happening("Capped", next((one.text for one in decision.findings if one.code == ABOVE_MAX), because))
    if now.blind and not was.blind:
        yield Happening("Blind", because)
    for finding in decision.findings:
        if finding.code in FOUND and finding.code not in was.codes:
            yield Happening(FOUND[finding.code], finding.text)
