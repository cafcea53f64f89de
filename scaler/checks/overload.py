"""What happens to requests that come too many: bounded, refused in the right words, and the others unharmed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler.checks.facts import Drill, Facts
from scaler.checks.sources import live_of, safe_rate, scaled_of, signal, spec_of
from scaler.checks.verdicts import Basis, Outcome, Untold, check, failed, passed, told, warned
from scaler.core.model import GateMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scaler.core.counted import ClassCounted

SHORTEST_S, LONGEST_S = 1, 60
"""What Retry-After may say."""


@check(
    "SC06",
    remedy="leave maxQueuedRequests out: the default is what the ready replicas start within the budget",
    docs="docs/law.md",
    basis=Basis.INFERRED,
)
def queue_bounded(facts: Facts) -> Outcome:
    """The queue is bounded by what can be started within the budget."""
    spec = spec_of(facts)
    if spec.budget_s is None:
        return passed("no class waits for a first token: the queue is the work")
    bound = spec.pressure.max_queued_requests
    if bound is None:
        return _by_default(facts, spec.budget_s)
    if facts.live is not None and (drain := signal(facts.live, "drain_per_s")):
        fits = drain * spec.budget_s
        evidence = (
            f"maxQueuedRequests {bound:g}, and {fits:.3g} can be started within {spec.budget_s:g} s now ({drain:.3g}/s)"
        )
        return (failed if bound > fits else passed)(evidence, bound, basis=Basis.VERIFIED)
    scaled, rate = scaled_of(facts), safe_rate(facts)
    least, most = (rate * count * spec.budget_s for count in (max(1, scaled.lowest), scaled.highest))
    evidence = f"maxQueuedRequests {bound:g}; within {spec.budget_s:g} s the least fleet starts {least:g}, the largest {most:g}"
    if bound > most:
        return failed(evidence, bound)
    return warned(evidence, bound) if bound > least else passed(evidence, bound)


def _by_default(facts: Facts, budget_s: float) -> Outcome:
    try:
        each = safe_rate(facts) * budget_s
    except Untold:
        return warned(
            "no maxQueuedRequests, and the rate of a replica is not known: nothing bounds the queue until it is learnt",
            remedy="set maxQueuedRequests, or name a profile with safe_rate_per_s",
        )
    return passed(f"by default: {each:g} requests a ready replica", each)


@check(
    "SC07",
    remedy="gate: enforce, once the states that it publishes have been watched for a while; let the gateway pass its headers on",
    docs="docs/gateways.md",
)
def refusals_defined(facts: Facts) -> Outcome:
    """Refusals are defined: 429 or 503 with a Retry-After of 1 to 60 s."""
    if facts.drill is not None:
        return _refusals_seen(facts.drill)
    spec = spec_of(facts)
    modes = {one.name: one.gate or spec.gate for one in spec.classes}
    off = sorted(name for name, mode in modes.items() if mode is GateMode.OFF)
    if off:
        return failed(f"the gate is off for {', '.join(off)}")
    watching = sorted(name for name, mode in modes.items() if mode is GateMode.OBSERVE)
    if watching:
        raise Untold(
            f"the gate only observes for {', '.join(watching)}: it refuses nothing in the path, and whether a gateway that polls does, "
            "nobody told (gate: enforce, or --drill URL)"
        )
    return passed(
        f"status {spec.shed}, Retry-After {SHORTEST_S} to {LONGEST_S} s computed from drain and next replica",
        basis=Basis.INFERRED,
    )


def _refusals_seen(drill: Drill) -> Outcome:
    if drill.broken:
        return failed(
            f"{drill.broken} of {drill.sent} requests of the drill ended in neither an answer nor a refusal",
            drill.broken,
        )
    if not drill.refused:
        raise Untold(f"the drill sent {drill.sent} requests and none was refused: send more at once (--concurrency)")
    wrong = [wait for wait in drill.waits_s if wait is None or not SHORTEST_S <= wait <= LONGEST_S]
    if wrong:
        return failed(
            f"{len(wrong)} of {drill.refused} refusals have no Retry-After of {SHORTEST_S} to {LONGEST_S} s", len(wrong)
        )
    seen = ", ".join(f"{count} × {status}" for status, count in sorted(drill.statuses.items()))
    return passed(f"the drill saw {seen}; Retry-After {_spread(drill)} s", drill.refused)


def _spread(drill: Drill) -> str:
    waits = [wait for wait in drill.waits_s if wait is not None]
    return f"{min(waits)} to {max(waits)}" if waits else "none"


@check(
    "SC08",
    remedy="clients: exponential back-off with jitter, obey Retry-After, at most two or three attempts; classes: max_retries",
    docs="docs/gateways.md",
)
def clients_back_off(facts: Facts) -> Outcome:
    """Clients back off, and try a bounded number of times."""
    if facts.drill is not None and (wait_s := _one_wait_s(facts.drill)) is not None:
        return warned(
            f"all {facts.drill.refused} refusals of the drill said the same Retry-After, {wait_s} s: clients that obey return together",
            wait_s,
            "spread Retry-After: pass the scaler's headers through, or add jitter in the gateway",
        )
    if facts.live is not None and (announced := _announced(facts.live.asked)) is not None:
        return announced
    drill = told(
        facts.drill,
        "only traffic shows it: a running scaler (--ops HOST:PORT) sees clients that announce their retries in the path "
        "(x-stainless-retry-count), once something was refused; or let --drill URL send some to a staging endpoint",
    )
    if not drill.returned:
        raise Untold("what your clients do only their traffic shows; the drill could not try again within its time")
    raise Untold(
        f"of {drill.returned} that the drill refused and that came back when they were told to, {drill.welcomed} were admitted; whether "
        "your own clients back off, only their traffic shows"
    )


def _one_wait_s(drill: Drill) -> int | None:
    """The Retry-After that all refusals had, where that is no chance."""
    waits = {wait for wait in drill.waits_s if wait is not None}
    return waits.pop() if drill.refused >= SAME_TIME and len(waits) == 1 else None


def _announced(counted: Sequence[ClassCounted]) -> Outcome | None:
    """What those do that say of a request that they try it again; None where none says so."""
    attempts, first = sum(one.attempts for one in counted), sum(one.offered for one in counted)
    if attempts - first < FEW or not first:
        return None
    retries, refused = attempts - first, sum(one.refused for one in counted)
    evidence = (
        f"{retries} of {attempts} attempts ({retries / attempts:.0%}) were announced as retries, {refused} were refused: "
        f"{attempts / first:.2f} attempts a request"
    )
    return (warned if attempts / first > MOST_ATTEMPTS else passed)(evidence, attempts / first, basis=Basis.INFERRED)


FEW = 20
"""Fewer retries say nothing of how clients are made."""
MOST_ATTEMPTS = 3.0
"""A mean above it: clients that stop after two or three do not reach it even where all are refused."""
SAME_TIME = 5
"""So many refusals with one and the same Retry-After are no chance."""


@check(
    "SC09",
    remedy="shed earlier: lower maxQueuedRequests or safeConcurrency, poll the fraction more often, or ask in the path",
    docs="docs/gateways.md",
)
def admitted_unharmed(facts: Facts) -> Outcome:
    """The P99 of admitted requests holds while refusals rise."""
    if facts.drill is not None:
        return _held_in_drill(facts, facts.drill)
    live = live_of(facts)
    budgets = [one.budget_s for one in live.classes if one.budget_s is not None]
    refused, p99_s = signal(live, "refused_per_s"), signal(live, "ttft_p99_s")
    if not refused or not p99_s or not budgets:
        raise Untold("nothing is refused now; watch it under load, or let --drill URL make some")
    evidence = f"{refused:.3g}/s are refused, the P99 TTFT of the others is {p99_s:.3g} s of {min(budgets):g} s"
    return (passed if p99_s <= min(budgets) else failed)(evidence, p99_s)


def _held_in_drill(facts: Facts, drill: Drill) -> Outcome:
    if not drill.refused or drill.refusing_p99_s is None:
        raise Untold("the drill saw no request admitted while others were refused")
    budgets = [one.budget_s for one in facts.live.classes if one.budget_s is not None] if facts.live else []
    budget_s = min(budgets, default=None) if facts.spec is None else facts.spec.budget_s
    seen = f"P99 TTFT of the admitted {drill.refusing_p99_s:.3g} s while {drill.refused} were refused"
    if budget_s is None:
        raise Untold(f"{seen}; the objective is not known")
    before = "" if drill.calm_p99_s is None else f", {drill.calm_p99_s:.3g} s before"
    evidence = f"{seen}{before}; the objective is {budget_s:g} s"
    return (passed if drill.refusing_p99_s <= budget_s else failed)(evidence, drill.refusing_p99_s)
