"""What was promised, and whether a load test stands behind the capacity that it is promised with."""

from __future__ import annotations

from scaler.checks.facts import Facts
from scaler.checks.sources import found, live_of, spec_of, words
from scaler.checks.verdicts import Basis, Outcome, Untold, check, failed, passed, warned
from scaler.core.capacity import Match
from scaler.core.model import Kind, Objective, RequestClass

TAIL = 0.95
"""An objective below this quantile says nothing about the requests that hurt."""
CONTRADICTIONS = ("profile_contradicted", "mix_drift", "profile_unmatched")


@check(
    "SC01",
    remedy="set ttftSloSeconds in the trigger (or ttft_s of its classes) and sloPercentile 95 or 99",
    docs="docs/slo-scaler.yaml",
)
def objective_defined(facts: Facts) -> Outcome:
    """A TTFT objective at P95 or P99 is defined, and one replica can meet it."""
    if any(fault.startswith("ttftSloSeconds") for fault in facts.faults):
        return failed("the trigger defines no TTFT objective that can be used")
    spec = spec_of(facts)
    told = ", ".join(f"{one.name} {_promise(one)}" for one in spec.classes)
    unloaded, budget = spec.profile.unloaded_ttft_s, spec.budget_s
    if unloaded is not None and budget is not None and unloaded > budget:
        return failed(
            f"an idle replica already needs {unloaded:g} s to the first token, the objective is {budget:g} s",
            unloaded,
            f"set ttftSloSeconds above {unloaded:g}, or serve the model faster: no number of replicas helps",
        )
    if spec.slo_quantile < TAIL:
        return warned(
            f"{told}, at P{spec.slo_quantile * 100:g}: the slowest requests are not looked at", spec.slo_quantile
        )
    return passed(f"{told}, at P{spec.slo_quantile * 100:g}", budget)


def _promise(one: RequestClass) -> str:
    if one.objective is Objective.COMPLETION:
        return f"done within {one.deadline_s or 0:g} s"
    return f"TTFT {one.ttft_s or 0:g} s"


@check(
    "SC02a",
    remedy="run slo-scaler calibrate and name the resulting profile in the trigger instead of safeConcurrency",
    docs="docs/calibration.md",
)
def load_tested(facts: Facts) -> Outcome:
    """The safe concurrency comes from a load test."""
    profile = spec_of(facts).profile
    if not profile.name:
        return warned(
            f"safeConcurrency {profile.safe_concurrency:g} is a number without a load test: rate and residence time are learnt late",
            profile.safe_concurrency,
        )
    lacks = [
        key
        for key, value in (("safe_rate_per_s", profile.safe_rate_per_s), ("mix.in_p50", profile.input_p50))
        if value is None
    ]
    if lacks:
        return warned(
            f"profile {profile.name} lacks {' and '.join(lacks)}",
            remedy="calibrate again, or add them: without the rate scaling follows ongoing requests, without the mix no drift is seen",
        )
    return passed(
        f"profile {profile.name}: {profile.safe_concurrency:g} requests at once, {profile.safe_rate_per_s:g}/s",
        profile.safe_concurrency,
    )


@check(
    "SC02b",
    remedy="test again with the requests and the engine of now: slo-scaler calibrate --run",
    docs="docs/calibration.md",
)
def load_test_fits(facts: Facts) -> Outcome:
    """The load test still fits the live mix, the hardware and the engine's version."""
    if facts.spec is not None and facts.serving is not None and facts.serving.engine_version:
        seen, profiles = facts.serving.engine_version, (facts.spec.profile, *facts.spec.profile.alternatives)
        tested = [str(one.match) for one in profiles if _for_other_version(one.match, seen)]
        if len(tested) == len(profiles):
            return failed(
                f"the image is engine {seen}, and the load test was of {', '.join(tested)}", basis=Basis.INFERRED
            )
    live = live_of(facts)
    if against := found(live, *CONTRADICTIONS):
        return warned(words(against))
    if not live.read:
        raise Untold("no replica is read now, so nothing shows whether the load test fits")
    return passed("the running scaler sees neither drift of the mix, nor latency that contradicts the profile")


def _for_other_version(match: Match, seen: str) -> bool:
    return Match(engine_version=match.engine_version).fits(Kind(engine_version=seen)) is False


@check(
    "SC11",
    remedy="name both in requestClasses with different order (interactive first), or give batch a workload of its own",
    docs="docs/gateways.md",
)
def classes_apart(facts: Facts) -> Outcome:
    """Interactive and batch work have separate pools or priorities."""
    classes = spec_of(facts).classes
    if len(classes) == 1:
        raise Untold(f"one class, {classes[0].name}: whether batch requests come under that name too, nobody told")
    interactive = [one for one in classes if one.objective is Objective.LATENCY]
    batch = [one for one in classes if one.objective is Objective.COMPLETION]
    clash = [(a.name, b.name) for a in interactive for b in batch if b.order <= a.order]
    if clash:
        return failed("; ".join(f"{late} is served no later than {soon}" for soon, late in clash))
    orders = {one.order for one in classes}
    if len(orders) < len(classes):
        return warned(
            f"{len(classes)} classes have {len(orders)} different orders, so some are shed together", len(orders)
        )
    return passed(", then ".join(one.name for one in sorted(classes, key=lambda one: one.order)), len(classes))
