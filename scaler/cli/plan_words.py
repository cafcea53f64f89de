"""``slo-scaler plan`` in sentences: what to choose, what each other choice costs, and where each figure is from."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from scaler.cli.plan_run import Planned
from scaler.core.admission import SET_POINT_RATIO
from scaler.core.cost import HOUR_S
from scaler.core.pressure import ENTER_RATIO
from scaler.sim.edges import DEFAULT
from scaler.sim.forecast import LEAST_DAYS, PAYS_RATIO, Block, Scored
from scaler.sim.plan import Judged, around
from scaler.sim.traces.rate_windows import KIND as RATES

BEST = "bold green"


def sentences(plan: Planned) -> Iterator[str]:
    """What comes after the table."""
    yield from _steps(plan)
    yield _zero(plan)
    yield from _forecast(plan)
    if plan.wish.edges:
        yield _edges(plan)
    yield from _origin(plan)
    for note in (*plan.trace.notes, *plan.place.notes):
        yield f"note: {note}"


def answer(plan: Planned) -> str:
    """The first line."""
    wanted, best = plan.wish.aim.kept_ratio, plan.found.best
    if best is not None:
        choice = best.choice
        return (
            f"minReplicas {choice.min_replicas}, warmReplicas {choice.warm_replicas}: the cheapest that attains {wanted:.1%} on this "
            f"history, {best.kept_ratio:.2%} for {_bill(plan, best.gpu_hours)}."
        )
    tried = max(plan.found.tried, key=lambda one: one.kept_ratio)
    return (
        f"Nothing tried attains {wanted:.1%}: the most is {tried.kept_ratio:.2%}, with minReplicas {tried.choice.min_replicas} and "
        f"warmReplicas {tried.choice.warm_replicas}. With the maximum of {plan.pool.max_replicas} ready all the time it is at most "
        f"{plan.most.ratio:.2%}: raise --max-replicas, start faster, shed (--gate in-path), or promise less."
    )


def facts(plan: Planned) -> dict[str, str]:
    """What was planned for."""
    spec, bears, of = plan.place.setting.spec, plan.place.bears, plan.pool
    promised = spec.classes[0]
    objectives = [
        f"{name} {value:g} s" for name, value in (("TTFT", promised.ttft_s), ("TPOT", promised.tpot_s)) if value
    ]
    offered = plan.offered
    return {
        "history": f"{plan.trace.file}: {offered.total:,} requests in {_lasting(offered.seconds)}, {offered.total / offered.seconds:.3g}/s",
        "promised": f"{', '.join(objectives)}, to {plan.wish.aim.kept_ratio:.1%} of all requests; "
        + ("a gate sheds what would come too late" if of.sheds else "nothing is shed"),
        "replica": f"{plan.wish.place.preset}: safe {of.safe_rate_per_s:.3g}/s at {of.safe_concurrency:.3g} in flight, at most "
        f"{bears.ceiling_per_s:.3g}/s within the objectives, {of.gpus} GPU{'s' if of.gpus > 1 else ''}",
        "a start": f"{plan.wish.place.cold_start}, P90 {of.ready_s:.0f} s",
    }


def table(plan: Planned) -> Table:
    """All that was tried, the cheapest first."""
    shown = Table(box=None, pad_edge=False)
    headings = ["minReplicas", "warmReplicas", "attained"]
    headings += [] if plan.stretch is None else ["worst stretch"]
    headings += ["GPU-hours", "a day"] + ([] if plan.price is None else ["price a day", "a million tokens"])
    for heading in headings:
        shown.add_column(heading, justify="right")
    shown.add_column("")
    for one in sorted(plan.found.tried, key=lambda one: (one.gpu_hours, one.choice)):
        shown.add_row(*_cells(plan, one), style=BEST if one is plan.found.best else "")
    return shown


def _cells(plan: Planned, one: Judged) -> Iterator[str]:
    yield str(one.choice.min_replicas)
    yield str(one.choice.warm_replicas)
    yield f"{one.kept_ratio:.2%}"
    if one.played_ratio is not None:
        yield f"{one.played_ratio:.2%} ±{one.spread:.2%}"
    yield f"{one.gpu_hours:,.1f}"
    yield f"{one.gpu_hours / plan.days:,.1f}"
    money = plan.money(one.gpu_hours / plan.days)
    if money is not None:
        yield f"{money:,.2f}"
        each = plan.cost_per_million(one)
        yield "–" if each is None else f"{each:.3g}"
    yield "the cheapest that attains" if one is plan.found.best else ""


def _steps(plan: Planned) -> Iterator[str]:
    """What one step less costs in attainment, and one more in money."""
    best = plan.found.best
    if best is None:
        return
    names = {-1: "less", 1: "more"}
    for choice in around(best.choice, plan.pool.max_replicas):
        one = plan.found.at(choice)
        if one is None:
            continue
        replicas, warm = (
            choice.min_replicas - best.choice.min_replicas,
            choice.warm_replicas - best.choice.warm_replicas,
        )
        what = "minReplicas" if replicas else "warmReplicas"
        yield (
            f"One {names[replicas or warm]} of {what}: {_points(one.kept_ratio - best.kept_ratio)} points "
            f"({one.kept_ratio:.2%}), {one.gpu_hours - best.gpu_hours:+,.1f} GPU-hours."
        )


def _zero(plan: Planned) -> str:
    found = plan.zero
    days = max(found.days, 1e-9)
    idle = f"after {found.idle_s:.0f} s without a request"
    if not found.times:
        return f"Scale to zero: it would never have happened ({idle}), so minReplicas 1 costs nothing more than 0."
    contradiction = (
        f"contradicts the objective: a slow start takes {found.ready_s:.0f} s (P90), the first token may take {found.budget_s:g} s. "
        if found.contradicts
        else f"fits the objective: a slow start takes {found.ready_s:.0f} s (P90) of the {found.budget_s:g} s that a first token may take. "
    )
    return (
        f"Scale to zero {contradiction}{_times(found.times / days)} a day the last replica would have gone ({idle}), and "
        f"{found.met / days:,.1f} requests a day ({found.met / max(1, found.offered):.2%} of all) would have found none. "
        f"minReplicas 1 costs {_bill(plan, found.gpu_hours / days)} a day more than that."
    )


def _forecast(plan: Planned) -> Iterator[str]:
    found = plan.forecasts
    scored = [one for one in (found.reactive, found.trend, found.seasonal) if one is not None]
    lasting = _lasting(found.scored_days * 24 * HOUR_S)
    yield (
        f"Forecast, each with what it then needs to attain {plan.wish.aim.kept_ratio:.1%} (fluid, {lasting}): "
        f"{'; '.join(map(_score, scored))}."
    )
    if found.seasonal is None:
        yield f"A floor by the hour of the day is not judged: that takes {LEAST_DAYS} days of history."
    elif found.pays and (choice := found.seasonal.choice) is not None:
        yield (
            f"A floor by the hour, learnt from the first {found.learnt_days:.3g} days and scored on the others, costs "
            f"{found.saves_ratio:.1%} less, with minReplicas {choice.min_replicas} and warmReplicas {choice.warm_replicas}. As further "
            "triggers of the ScaledObject, from all days:\n"
            + "".join(_cron(block, found.lead_s) for block in found.blocks).rstrip()
        )
    else:
        told = "needs more than there may be" if found.seasonal.choice is None else _saves(found.saves_ratio)
        yield (
            f"A floor by the hour (cron) does not pay: it {told} (learnt from the first {found.learnt_days:.3g} days, scored on the "
            "others)."
        )


def _saves(ratio: float) -> str:
    if ratio < 0:
        return f"costs {-ratio:.1%} more"
    return f"saves {ratio:.1%}, and less than {PAYS_RATIO:.0%} is not worth another thing to look after"


def _score(one: Scored) -> str:
    if one.choice is None:
        return f"{one.name} does not attain it"
    choice = one.choice
    return f"{one.name} {one.gpu_hours:,.1f} GPU-hours (min {choice.min_replicas}, warm {choice.warm_replicas})"


def _cron(block: Block, lead_s: float) -> str:
    """One trigger, which begins as much earlier as a start takes."""
    begins = int(block.begins * 60 - -(-lead_s // 60)) % (24 * 60)
    return (
        "- type: cron\n  metadata:\n    timezone: UTC\n"
        f'    start: "{begins % 60} {begins // 60} * * *"\n    end: "0 {block.ends % 24} * * *"\n'
        f'    desiredReplicas: "{block.replicas}"\n'
    )


def _edges(plan: Planned) -> str:
    best = plan.edges.best
    usual = f"GREEN below {ENTER_RATIO:g}, set-point {SET_POINT_RATIO:g}, RED from 1 of the budget"
    if best == DEFAULT:
        first, again = plan.edges.first, plan.edges.again
        others = [first.gain(one)[0] for one in first.kept if one != DEFAULT]
        fresh = " Where one was, it was not so again with fresh dice." if again is not None else ""
        return (
            f"Edges: the defaults stand ({usual}). In an overload of this replica no other does better by more than the noise; "
            f"the differences are {100 * min(others):+.1f} to {100 * max(others):+.1f} points.{fresh}"
        )
    again = plan.edges.again or plan.edges.first
    gain, error = again.gain(best)
    ttft = plan.place.setting.spec.classes[0].ttft_s
    promised = f" (ttftSloSeconds {best.scale * ttft:g} instead of {ttft:g})" if ttft else ""
    return (
        f"Edges: in an overload of this replica GREEN below {best.green:g}, set-point {best.set_point:g}, RED from {best.red:g} of the "
        f"budget serve {100 * gain:+.1f} ±{100 * error:.1f} points more than the defaults ({usual}). Tell the scaler {best.scale:g} of "
        f"the budget{promised}."
    )


def _origin(plan: Planned) -> Iterator[str]:
    stretch, seeds = plan.stretch, plan.wish.seeds
    fluid = "the fluid model (rates, capacity, late starts)"
    if stretch is None:
        yield (
            f"Where the figures are from: all from {fluid}; the worst quarter of an hour has too many requests to be played one by one. "
            "--scale 0.1 plays a tenth of the load."
        )
    else:
        whole = stretch.first == 0 and stretch.last == len(plan.offered.counts)
        part = f"the {_lasting(stretch.ends_at - stretch.begins_at)} from {_clock(stretch.begins_at)} on"
        shown = plan.found.best or plan.found.tried[0]
        rest = "" if whole else f"; the rest, and the choice of that part, are from {fluid}{_agreement(shown)}"
        played = f"played request by request, {seeds} seed{'s' if seeds > 1 else ''} each{rest}"
        yield f"Where the figures are from: {'the whole history' if whole else part} {played}."
    if plan.trace.kind == RATES:
        yield (
            "This history has rates by window: within one the load is taken as even, and between two as a step. "
            "What bursts within a window really cost, only a history of requests can tell."
        )


def _agreement(one: Judged) -> str:
    if one.fluid_ratio is None or one.played_ratio is None:
        return ""
    return f", which has {one.fluid_ratio:.2%} there where {one.played_ratio:.2%} were played"


def _bill(plan: Planned, gpu_hours: float) -> str:
    money = plan.money(gpu_hours)
    price = "" if money is None else f", {money:,.2f} at {plan.price:g} a GPU-hour"
    return f"{gpu_hours:,.1f} GPU-hours{price}"


def _points(ratio: float) -> str:
    points = round(100 * ratio, 2)
    return f"{points:+.2f}" if points else "0.00"


def _times(count: float) -> str:
    return f"{count:,.1f} times"


def _clock(at: float) -> str:
    return f"hour {at / HOUR_S:.2f}"


def _lasting(seconds: float) -> str:
    if seconds > 48 * HOUR_S:
        return f"{seconds / 24 / HOUR_S:.3g} days"
    return f"{seconds / HOUR_S:.3g} h" if seconds >= HOUR_S else f"{seconds / 60:.3g} min"
