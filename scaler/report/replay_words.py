"""A replay in sentences: what it shows, what nobody could have done, and where ours loses."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.core.cost import told
from scaler.sim.limits import Limits
from scaler.sim.outcome import AS_GOOD_RATIO, Replay, Row, Side

HOUR_S = 3600.0
WORTH_SAYING_RATIO = 0.001
"""Surges that cost less than this share of the requests are nobody's trouble."""


def sentences(found: Replay) -> Iterator[str]:
    """The answer first."""
    if found.ours is not None:
        yield _answer(found, found.ours)
        yield _cost(found, found.ours)
    yield from physics(found.limits)
    yield from losses(found)
    yield from _agreements(found)
    for note in found.subject.notes:
        yield f"note: {note}"


def facts(found: Replay) -> dict[str, str]:
    """What was replayed and where."""
    spec, limits, bears = found.setting.spec, found.limits, found.bears
    promised = spec.classes[0]
    objectives = [
        f"{name} {value:g} s" for name, value in (("TTFT", promised.ttft_s), ("TPOT", promised.tpot_s)) if value
    ] or ["to be served at all"]
    rate = spec.profile.safe_rate_per_s
    return {
        "traffic": (
            f"{found.subject.traffic}: {found.subject.offered:,} requests in {_lasting(found.subject.duration_s)}, "
            f"{limits.mean_per_s:.3g}/s, {limits.busiest_per_s:.3g}/s in the busiest minute"
        ),
        "promised": f"P{spec.slo_quantile * 100:g} {', '.join(objectives)}",
        "replica": (
            f"{found.subject.replica}: safe {bears.safe_rate_per_s:.3g}/s at {bears.safe_concurrency:.3g} in flight, "
            f"at most {bears.ceiling_per_s:.3g}/s within the objectives"
        ),
        "the laws are told": f"safe concurrency {spec.profile.safe_concurrency:.4g}"
        + (f", {rate:.3g} requests/s" if rate else ", no safe rate"),
        "a start": found.subject.starts,
        "replicas": (
            f"{found.setting.platform.replicas} at first, {spec.scaling.min_replicas} to {spec.scaling.max_replicas}, "
            f"{found.setting.platform.preset.gpus} GPUs each"
        ),
        **({} if found.price is None else {"price": f"{found.price:g} a GPU-hour"}),
    }


def physics(limits: Limits) -> Iterator[str]:
    """What no law that only reacts can do, and what would."""
    late = f"a replica is there {limits.dead_s:.0f} s after the load that needs it"
    if limits.reachable:
        yield (
            f"Bound: {late}, and with a gate that refuses exactly what would come too late, a law that only reacts attains at most "
            f"{limits.reactive_ratio:.1%}; with the maximum ready all the time it is {limits.most_ratio:.1%}."
        )
    else:
        yield (
            f"No law that only reacts can keep {limits.wanted_ratio:.0%} here: {late}, and with a gate that refuses exactly what would "
            f"come too late at most {limits.reactive_ratio:.1%} are served in time. {_price(limits)}"
        )
    if limits.returning_ratio - limits.reactive_ratio > WORTH_SAYING_RATIO:
        yield (
            f"That is for refused clients who go away. Those who come back when they are told to may lift it to at most "
            f"{limits.returning_ratio:.1%}, with TTFT from the attempt that is admitted."
        )
    if limits.brief and limits.most_ratio - limits.reactive_ratio > WORTH_SAYING_RATIO:
        yield (
            f"{limits.brief} of {limits.surges} surges beyond what can stand ready {'is' if limits.brief == 1 else 'are'} over within "
            f"{limits.dead_s:.0f} s: no replica that is started for one is there in time; only spare replicas or a faster start help."
        )


def losses(found: Replay) -> Iterator[str]:
    """Who is better than ours, and by what, and whether no rival is."""
    ours = found.ours
    if ours is None:
        return
    better = list(found.better())
    for row in better:
        what = "serves more" if row.kept - ours.kept > AS_GOOD_RATIO else "serves as much for less"
        known = ", knowing what nobody can know beforehand" if row.side is Side.REFERENCE else ""
        yield f"{row.name} {what} than {ours.name} here{known}: {_compared(row, ours)}."
    if not any(row.side is Side.RIVAL for row in better) and any(row.side is Side.RIVAL for row in found.rows):
        yield f"No rival serves more within the objectives than {ours.name}, or as much for less."


def _answer(found: Replay, ours: Row) -> str:
    optimum = found.clairvoyant
    return (
        f"{ours.name}: {ours.kept:.1%} of the requests served within the objectives for {ours.gpu_hours:.1f} GPU-hours. Who knows all that "
        f"comes attains {optimum.kept:.1%} for {optimum.gpu_hours:.1f}, and a law that only reacts at most "
        f"{found.limits.reactive_ratio:.1%}, {found.limits.returning_ratio:.1%} where refused clients come back."
    )


def _cost(found: Replay, ours: Row) -> str:
    return f"{ours.name}: {told(ours.bill(found.price))}; who knows all that comes: {told(found.clairvoyant.bill(found.price))}."


def _price(limits: Limits) -> str:
    if limits.warm is None:
        return f"The maximum is too small: with all of it ready all the time it is {limits.most_ratio:.1%}."
    warm = limits.warm
    replicas = f"{warm.replicas} replica{'s' if warm.replicas > 1 else ''}"
    return (
        f"{replicas} kept warm above what the load has shown would lift that to {warm.ratio:.1%}, for {warm.gpu_hours:.1f} GPU-hours more "
        f"(warmReplicas: {warm.replicas})."
    )


def _compared(row: Row, ours: Row) -> str:
    points, hours = round(100 * (row.kept - ours.kept), 1), row.gpu_hours - ours.gpu_hours
    difference = f"{points:+.1f} points, " if points else ""
    share = f" ({hours / ours.gpu_hours:+.0%})" if ours.gpu_hours else ""
    return f"{difference}{hours:+.1f} GPU-hours{share}"


def _agreements(found: Replay) -> Iterator[str]:
    for row in found.rows:
        if (agreed := row.agreement) is not None and agreed.syncs:
            yield (
                f"{row.name} against the recorded desired: equal at {agreed.equal} of {agreed.syncs} syncs, within one replica at "
                f"{agreed.within_one}, {agreed.most_apart} apart at most."
            )


def _lasting(seconds: float) -> str:
    return f"{seconds / HOUR_S:.3g} h" if seconds >= HOUR_S else f"{seconds / 60:.3g} min"
