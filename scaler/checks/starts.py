"""How long a replica takes, and what that means for the least fleet, for scaling down, and for zero."""

from __future__ import annotations

from scaler.checks.facts import Facts
from scaler.checks.sources import found, live_of, ready_s, scaled_of, spec_of, words
from scaler.checks.verdicts import Basis, Outcome, Untold, check, failed, passed, warned

PUSH = "external-push"
FEW_STARTS = 5
"""The 90th percentile is trusted after so many: fewer say how one start went."""


@check(
    "SC04",
    remedy="scale up a few times before the launch; until then write the P90 of some starts as replicaReadySeconds",
    docs="docs/law.md",
)
def ready_measured(facts: Facts) -> Outcome:
    """The time from a decision to a ready replica is measured."""
    if facts.live is None:
        latency = spec_of(facts).latency
        if latency.origin == "prior":
            return warned(
                f"neither measured nor written: {latency.p90_s:g} s is assumed", latency.p90_s, basis=Basis.INFERRED
            )
        raise Untold(
            f"replicaReadySeconds says {latency.p90_s:g} s; whether that was measured only a running scaler knows (--ops)"
        )
    p90_s, samples = facts.live.ready_p90_s, facts.live.samples
    if samples < FEW_STARTS:
        return warned(f"{samples} starts were seen; {p90_s:.0f} s counts (P90, {facts.live.origin})", samples)
    return passed(f"nine of ten were ready within {p90_s:.0f} s ({samples} starts)", p90_s)


@check(
    "SC05",
    remedy="keep at least one replica, and as many warmReplicas as the burst needs that comes before a new one is ready",
    docs="docs/law.md",
)
def least_fleet(facts: Facts) -> Outcome:
    """The least number of replicas is sensible for that time."""
    if facts.live is not None and (burst := found(facts.live, "infeasible_burst")):
        warm = burst[0].warm_replicas or 1
        return warned(words(burst), warm, f"set warmReplicas to {warm} more, or let the gate shed such bursts")
    lowest, (took_s, by, basis) = scaled_of(facts).lowest, ready_s(facts)
    budget_s = spec_of(facts).budget_s
    if lowest == 0 and budget_s is not None and took_s > budget_s:
        return warned(
            f"down to zero: whoever asks first waits {took_s:g} s ({by}) of a budget of {budget_s:g} s",
            took_s,
            "minReplicaCount 1 where the first request counts; at zero a gateway must hold or refuse it with Retry-After",
            basis,
        )
    if facts.live is None:
        raise Untold(
            f"at least {lowest}, a new one in {took_s:g} s ({by}): what bursts need, only traffic shows (--ops)"
        )
    return passed(
        f"at least {lowest}, a new one in {took_s:g} s ({by}), and no burst is seen that breaks the budget before",
        lowest,
    )


@check(
    "SC10",
    remedy="downscaleDelaySeconds of at least twice the time to a ready replica (the default), idleSeconds of at least that time",
    docs="docs/law.md",
    basis=Basis.INFERRED,
)
def no_repeated_cold_starts(facts: Facts) -> Outcome:
    """Scaling down does not make the next cold start."""
    spec, (took_s, by, _) = spec_of(facts), ready_s(facts)
    delay_s = spec.stabilize.down_s(took_s)
    if delay_s < took_s:
        return failed(f"replicas go after {delay_s:g} s, and a new one takes {took_s:g} s ({by})", delay_s)
    if spec.scaling.min_replicas == 0 and spec.stabilize.idle_s < took_s:
        return failed(
            f"the last one goes after {spec.stabilize.idle_s:g} s of idling, and a new one takes {took_s:g} s ({by})",
            spec.stabilize.idle_s,
        )
    if delay_s < 2 * took_s:
        return warned(f"replicas go after {delay_s:g} s, less than two starts of {took_s:g} s ({by})", delay_s)
    return passed(f"replicas go after {delay_s:g} s, and a new one takes {took_s:g} s ({by})", delay_s)


@check(
    "T21",
    remedy="at a minimum of 0: demandSource, with a query `queued` in the configuration, and a trigger of type external-push",
    docs="docs/keda.md",
)
def wakes(facts: Facts) -> Outcome:
    """What sleeps can be woken."""
    scaled = scaled_of(facts)
    if scaled.lowest > 0:
        return passed(f"it never sleeps: at least {scaled.lowest}", scaled.lowest)
    written = (
        ""
        if scaled.min_replicas is not None or scaled.idle_replicas is not None
        else " (minReplicaCount is not written)"
    )
    if not any(key in scaled.ours.metadata for key in ("demandSource", "demandSourceFromEnv")):
        return failed(
            f"down to zero{written}, and nobody tells of requests that arrive there: it would sleep for ever", 0
        )
    if scaled.ours.kind != PUSH:
        return warned(
            f"type {scaled.ours.kind}: at zero a request waits up to {scaled.polling_s:g} s for the next poll",
            scaled.polling_s,
        )
    return passed("demandSource tells, and the stream of external-push wakes at once")


@check(
    "T22",
    remedy="initialCooldownPeriod longer than a replica takes to load, and idleSeconds + cooldownPeriod too",
    docs="docs/keda.md",
)
def cooldowns(facts: Facts) -> Outcome:
    """A model that has just been loaded is not scaled to zero."""
    scaled = scaled_of(facts)
    if scaled.lowest > 0:
        return passed("not at zero, where alone KEDA looks at cooldown periods")
    took_s, by, _ = ready_s(facts)
    if scaled.initial_cooldown_s < took_s:
        return failed(
            f"initialCooldownPeriod {scaled.initial_cooldown_s:g} s, and loading takes {took_s:g} s ({by}): a new ScaledObject without "
            "traffic stops the model while it loads",
            scaled.initial_cooldown_s,
        )
    quiet_s = spec_of(facts).stabilize.idle_s + scaled.cooldown_s
    if quiet_s < took_s:
        return warned(
            f"the last replica goes {quiet_s:g} s after the last request, and loading takes {took_s:g} s ({by})",
            quiet_s,
        )
    return passed(
        f"{scaled.initial_cooldown_s:g} s at first, {quiet_s:g} s later; loading takes {took_s:g} s ({by})",
        scaled.initial_cooldown_s,
    )


@check(
    "T51",
    remedy="raise maxReplicaCount (and maxReplicas of the trigger), or accept that the rest is refused",
    docs="docs/law.md",
)
def maximum_suffices(facts: Facts) -> Outcome:
    """The maximum is above the demand seen."""
    live = live_of(facts)
    if above := found(live, "demand_above_max"):
        return failed(words(above), live.load)
    if live.load > live.max_replicas:
        return warned(
            f"the load asks for {live.load:.1f} replicas, backlog included, and the maximum is {live.max_replicas}",
            live.load,
        )
    return passed(f"the load asks for {live.load:.1f} of {live.max_replicas} replicas now", live.load)
