"""What a person should know beside the number: objectives that cannot be met, and what the estimate does not know."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaler.core.balance import imbalanced
from scaler.core.decision import Finding
from scaler.core.fleet import in_use, profile_of, unclear, unmatched
from scaler.core.followed import not_followed
from scaler.core.model import Kind, known
from scaler.core.ready_latency import STUCK_FACTOR
from scaler.core.shown import Basis
from scaler.core.target import whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scaler.core.capacity import Profile
    from scaler.core.decision import Estimate, Recommendation
    from scaler.core.model import Reading, ReplicaSet, RequestClass
    from scaler.core.ready_latency import UnderWay
    from scaler.core.target import ScalingSpec

NAMED = 3
BASES = {
    Basis.FIRST: "nothing has been shown yet",
    Basis.FOUND: "what a replica ran when it was first seen, for five minutes at most",
    Basis.SHOWN: "what live traffic has shown",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What findings need of the workload beside the tick's numbers. ``warnings`` come from parsing its spec.

    ``silent`` are the readings that do not tell how many first tokens there were; ``lost``: none tells. ``doubted`` are those whose
    counters were not believed, ``stalled`` the replicas that have work and do none of it. ``diced``: refusals are not counted but told
    from the fraction. ``stuck`` are the starts that cannot be counted on any more,
    ``replicas`` what the platform said last, ``readings`` what the replicas did; ``published`` is the
    number of this tick.
    """

    profile: Profile
    classes: tuple[RequestClass, ...]
    warnings: tuple[str, ...]
    scaling: ScalingSpec
    silent: tuple[Reading, ...] = ()
    lost: bool = False
    doubted: tuple[str, ...] = ()
    stalled: tuple[str, ...] = ()
    diced: bool = False
    stuck: tuple[UnderWay, ...] = ()
    replicas: ReplicaSet | None = None
    readings: tuple[Reading, ...] = ()
    published: int | None = None


def findings(facts: Facts, estimate: Estimate, recommendation: Recommendation) -> tuple[Finding, ...]:
    """All findings of one tick, the gravest first."""
    return (
        *_infeasible(facts, estimate, recommendation),
        *_untold(facts),
        *_stuck(facts, estimate),
        *not_followed(facts.published, facts.replicas),
        *imbalanced(facts.readings, estimate.capacity),
        *_told(facts),
        *_profiled(facts),
        *_learnt(facts, estimate),
        *_unsure(estimate),
        *_contradicted(facts, estimate),
        *(Finding("configuration", warning) for warning in facts.warnings),
    )


def _infeasible(facts: Facts, estimate: Estimate, recommendation: Recommendation) -> Iterator[Finding]:
    """Cases that no autoscaler can cure; saying so beats chasing them."""
    for request_class in facts.classes:
        for profile in in_use(facts.profile, facts.replicas):
            unloaded, of = profile.unloaded_ttft_s, _of(facts, profile)
            if unloaded is not None and request_class.ttft_s is not None and unloaded > request_class.ttft_s:
                yield Finding(
                    "infeasible_ttft",
                    f"class {request_class.name}: an unloaded replica{of} needs {unloaded:g} s to the first token, the objective is "
                    f"{request_class.ttft_s:g} s; no number of replicas meets it",
                )
    inputs, needed = recommendation.inputs, whole(recommendation.terms.flow)
    if needed > inputs.max_replicas:
        yield Finding(
            "demand_above_max",
            f"the offered load needs {needed} replicas and at most {inputs.max_replicas} are allowed; raise maxReplicas to {needed}",
        )
    yield from _burst(facts, estimate, recommendation)


def _burst(facts: Facts, estimate: Estimate, recommendation: Recommendation) -> Iterator[Finding]:
    """A rise that breaks the budget before any replica can be ready; only replicas that stand by already would have met it."""
    budget = min((c.ttft_s for c in facts.classes if c.ttft_s is not None), default=math.inf)
    excess = estimate.offered_per_s - estimate.drain_per_s
    rate = estimate.capacity.safe_rate_per_s
    if rate is None or excess <= 0 or math.isinf(estimate.eta_s) or not estimate.queue_wait.s:
        return
    warm = whole(recommendation.terms.flow) - estimate.ready
    if warm > 0 and excess * estimate.eta_s > budget * estimate.drain_per_s:
        yield Finding(
            "infeasible_burst",
            f"{excess:.3g} requests/s more than the fleet can start, and the next replica is {estimate.eta_s:.0f} s away: the budget of "
            f"{budget:g} s breaks before; {warm} more warm replicas would have met it",
            warm,
        )


def _untold(facts: Facts) -> Iterator[Finding]:
    """What the engines do not tell, or tell wrongly."""
    if facts.stalled:
        yield Finding(
            "stalled_replica",
            f"{_some(facts.stalled)}: there is work, and neither a first nor another token has come for 10 s or more",
        )
    if facts.lost or facts.silent:
        signals = sorted({name for reading in facts.silent for name in reading.absent}) or ["a count of first tokens"]
        who = f" on {_some(tuple(reading.replica for reading in facts.silent))}" if facts.silent else ""
        so = (
            "no rate is known, load counts as ongoing requests and the number does not fall"
            if facts.lost
            else "they count like the others"
        )
        yield Finding("signal_absent", f"{', '.join(signals)} absent or not to be compared{who}: {so}")
    if facts.diced:
        yield Finding(
            "offered_estimated",
            "the offered load is estimated from the admit fraction that gateways poll: nobody counts what they refuse (demandSource would)",
        )
    if facts.doubted:
        yield Finding(
            "counter_doubted",
            f"{_some(facts.doubted)}: a counter fell or rose by more than can have been done in the time, and was left out",
        )


def _some(names: tuple[str, ...]) -> str:
    """A few names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _stuck(facts: Facts, estimate: Estimate) -> Iterator[Finding]:
    """Starts that are not counted on any more: they are reported, not replaced."""
    if facts.stuck:
        who = _some(tuple(sorted(f"{start.replica} ({_why(start)})" for start in facts.stuck)))
        count = f"{len(facts.stuck)} of {estimate.starting} starting replicas"
        yield Finding("stuck", f"{count} may never be ready, and no other is asked for in their place: {who}")


def _told(facts: Facts) -> Iterator[Finding]:
    """What the platform itself says."""
    if facts.replicas is None:
        return
    yield from (Finding(note.code, note.text) for note in facts.replicas.notes)
    cap = facts.replicas.engine_cap
    for profile in in_use(facts.profile, facts.replicas):
        if cap is not None and cap < profile.safe_concurrency:
            yield Finding(
                "safe_concurrency_above_cap",
                f"the safe concurrency{_of(facts, profile)} is {profile.safe_concurrency:g} and the engine runs {cap} requests at once, by "
                f"its arguments: {cap} counts; test again with these arguments, or raise the engine's limit to that of the load test",
            )


def _of(facts: Facts, profile: Profile) -> str:
    """Which profile, where there are several."""
    return f" of profile {profile.name}" if facts.profile.alternatives else ""


def _profiled(facts: Facts) -> Iterator[Finding]:
    """Replicas that no load test is known to be of."""
    if facts.replicas is None:
        return
    for names, why in (
        (unmatched(facts.profile, facts.replicas), "no profile is for it, and the smallest counts"),
        (
            unclear(facts.profile, facts.replicas),
            "too little is known to choose its profile, and the first that may be for it counts",
        ),
    ):
        if names:
            kinds = [facts.replicas.kinds.get(name, Kind()) for name in names]
            counts = profile_of(facts.profile, kinds[0])
            made_for = f" for {counts.match}" if str(counts.match) else ""
            yield Finding(
                "profile_unmatched",
                f"{_some(tuple(f'{name} ({kind})' for name, kind in zip(names, kinds, strict=True)))}: {why}: "
                f"{counts.name}{made_for}, {counts.safe_concurrency:g} requests at once",
            )


def _why(start: UnderWay) -> str:
    """The platform's own reason, or how old it is."""
    usual_s = start.latency.limit_s / STUCK_FACTOR
    return start.why or f"{start.age_s:.0f} s old, and nine of ten were ready within {usual_s:.0f} s"


def _learnt(facts: Facts, estimate: Estimate) -> Iterator[Finding]:
    """That nobody tested, what is gone by instead, and what would be better."""
    cap = estimate.capacity
    if cap.basis is not None:
        tries = f", {cap.target:.3g} are tried" if cap.target > cap.safe_concurrency else ""
        yield Finding(
            "safe_concurrency_learnt",
            f"safe concurrency {cap.safe_concurrency:.3g}, confidence {cap.confidence}: {BASES[cap.basis]}{tries}; "
            f"a load test replaces it: {_calibrate(facts, estimate)}",
        )


def _calibrate(facts: Facts, estimate: Estimate) -> str:
    """The command, with the lengths and the objectives of this workload. Which replica may be spared, only a person knows."""
    prompt, output = (known(tokens) for tokens in (estimate.prompt_p50_tokens, estimate.output_p50_tokens))
    ttft, tpot = (
        min((one for one in budgets if one is not None), default=None)
        for budgets in ([one.ttft_s for one in facts.classes], [one.tpot_s for one in facts.classes])
    )
    lengths = [f"{tokens:.0f}" if tokens else "TOKENS" for tokens in (prompt, output)]
    pace = "" if tpot is None else f" --tpot {tpot:g}"
    return (
        f"slo-scaler calibrate --run URL --model NAME --input-tokens {lengths[0]} --output-tokens {lengths[1]} "
        f"--ttft {'SECONDS' if ttft is None else f'{ttft:g}'}{pace} -o profile.yaml"
    )


def _unsure(estimate: Estimate) -> Iterator[Finding]:
    cap = estimate.capacity
    if cap.residence_s is None:
        yield Finding(
            "safe_rate_unknown",
            "only the safe concurrency is known: scaling follows ongoing requests until the safe rate is learnt from steady load below it",
        )
    if estimate.missing:
        yield Finding(
            "missing",
            f"{estimate.missing} ready replicas give no reading: full when scaling down, empty when scaling up",
        )


def _contradicted(facts: Facts, estimate: Estimate) -> Iterator[Finding]:
    """What is seen and is not what the load test saw."""
    cap = estimate.capacity
    if cap.derate_ratio < 1:
        yield Finding(
            "profile_contradicted",
            "measured latency was over its objective at a load that the profile calls safe: the safe rate counts "
            f"{cap.derate_ratio:.0%}; now {', '.join(_measured(facts, estimate))}",
        )
    if cap.drift_ratio != 1:
        yield Finding(
            "mix_drift",
            f"requests differ from the load test ({', '.join(_mixed(facts, estimate))}): the residence time counts {cap.drift_ratio:.2f} "
            "times; test with the requests of now",
        )


def _mixed(facts: Facts, estimate: Estimate) -> Iterator[str]:
    """The median lengths that are known, each beside that of the load test. Several profiles may have been tested with several mixes."""
    tested = facts.profile
    for name, signal, length in (
        ("prompts", estimate.prompt_p50_tokens, tested.input_p50),
        ("answers", estimate.output_p50_tokens, tested.output_p50),
    ):
        seen = known(signal)
        if seen and length is not None:
            yield f"{name} {seen:.0f} tokens" + ("" if tested.alternatives else f", then {length:.0f}")


def _measured(facts: Facts, estimate: Estimate) -> Iterator[str]:
    """The load of a replica, and the latencies that are known, each beside what it should be."""
    if estimate.ready:
        yield f"{estimate.ongoing / estimate.ready:.3g} of {estimate.capacity.safe_concurrency:.3g} requests a replica"
    for name, signal, objectives in (
        ("TTFT", estimate.ttft_s, [one.ttft_s for one in facts.classes if one.ttft_s is not None]),
        ("TPOT", estimate.tpot_s, [one.tpot_s for one in facts.classes if one.tpot_s is not None]),
    ):
        measured = known(signal)
        if measured and objectives:
            yield f"{name} {measured:.3g} s (objective {min(objectives):g} s)"
