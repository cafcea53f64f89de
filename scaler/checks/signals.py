"""Whether what decides is seen: every replica, every signal, now."""

from __future__ import annotations

from scaler.checks.facts import Facts
from scaler.checks.objectives import CONTRADICTIONS
from scaler.checks.sources import found, live_of, spec_of, words
from scaler.checks.verdicts import Basis, Outcome, Untold, check, failed, passed, warned
from scaler.core.model import Absent

COLLECTED = ("running", "waiting", "queue_time_s", "ttft_s")
NAMED = 3
ELSEWHERE = frozenset(
    {
        *CONTRADICTIONS,
        *(
            "infeasible_ttft",
            "infeasible_burst",
            "demand_above_max",
            "safe_concurrency_above_cap",
            "signal_absent",
            "missing",
        ),
        *("stuck", "stalled_replica", "configuration", "two_triggers", "slow_wake", "keda_paused", "keda_held"),
        *("hpa_inactive", "hpa_unable", "hpa_limited"),
    }
)
"""What other checks speak of."""


@check(
    "SC03",
    remedy="open /metrics of a replica: start the engine without --disable-log-stats, and name the right engine in the trigger",
    docs="docs/law.md",
)
def signals_collected(facts: Facts) -> Outcome:
    """Running, waiting, queue time and TTFT are collected."""
    if facts.serving is not None and facts.serving.mute:
        return failed("the engine's arguments turn its metrics off", basis=Basis.INFERRED)
    live = live_of(facts)
    if live.blind or not live.read:
        return failed(
            "no replica gives a fresh reading: the number is held, and after a minute KEDA is told nothing", live.read
        )
    if lost := found(live, "signal_absent"):
        return failed(words(lost))
    unknown = [name for name in COLLECTED if live.signals.get(name, Absent.UNKNOWN) is Absent.UNKNOWN]
    if unknown:
        raise Untold(f"{', '.join(unknown)} unknown so far: nothing was asked for since the scaler looks")
    return passed(f"{', '.join(COLLECTED)} of {live.read} replicas", live.read)


@check(
    "T41",
    remedy="the reason behind each replica says which: port, scheme, path, credentials (scrape), or the labels that Prometheus gives pods",
    docs="docs/cluster.md",
)
def all_read(facts: Facts) -> Outcome:
    """Every ready replica gives a reading, and its page has what is needed."""
    live = live_of(facts)
    if live.missing:
        some = "; ".join(f"{miss.replica}: {miss.why}" for miss in live.missing[:NAMED])
        return failed(
            f"{len(live.missing)} of {len(live.missing) + live.read} replicas are silent: {some}", len(live.missing)
        )
    if live.absent:
        return failed(f"pages lack {', '.join(sorted(live.absent))}", len(live.absent))
    if not live.read:
        raise Untold("there is no ready replica now")
    return passed(f"{live.read} of {live.read}", live.read)


@check(
    "T42",
    remedy="shorten the interval of the Prometheus that the source names (or use source: pods), and look for slow /metrics pages",
    docs="docs/law.md",
)
def readings_fresh(facts: Facts) -> Outcome:
    """Readings are fresh."""
    live = live_of(facts)
    if live.blind:
        return failed(f"the newest reading is {live.age_s:.0f} s old, and the scaler is blind", live.age_s)
    limit_s = spec_of(facts).stale_s
    if live.age_s > limit_s:
        return failed(
            f"the newest reading is {live.age_s:.0f} s old; after {limit_s:g} s it does not count", live.age_s
        )
    return passed(f"the newest reading is {live.age_s:.1f} s old, of at most {limit_s:g} s", live.age_s)


@check(
    "T43",
    remedy="kubectl describe the pods named: quota, nodes, image, memory; restart a stalled engine",
    docs="docs/cluster.md",
)
def none_stuck(facts: Facts) -> Outcome:
    """No replica is stuck on its way, or stalled at work."""
    if hindered := found(live_of(facts), "stuck", "stalled_replica"):
        return failed(words(hindered))
    return passed("the running scaler reports neither")


@check(
    "T44",
    remedy="see what slo-scaler explain says of it",
    docs="docs/law.md",
)
def nothing_else(facts: Facts) -> Outcome:
    """The running scaler has nothing else to say."""
    rest = tuple(one for one in live_of(facts).findings if one.code not in ELSEWHERE)
    return warned(words(rest), len(rest)) if rest else passed("no other finding")
