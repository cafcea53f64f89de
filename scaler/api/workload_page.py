"""The status page of one workload: the decision in plain words, live charts, and the tables behind both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaler.api.page import (
    NONE,
    badge,
    frame,
    path_of,
    percent,
    seconds,
    starting,
    state_of,
)
from scaler.control.history import SPAN_S, strictest_budget_s
from scaler.core import cost
from scaler.core.decision import ClassDecision, Decision, Pending
from scaler.core.explain import Explanation, ReadingAge, explain
from scaler.core.explain_state import number
from scaler.core.model import Absent
from scaler.core.pressure import ENTER_RATIO
from scaler.report.markup import Markup, element, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scaler.control.changes import Change
    from scaler.core.cost import Bill
    from scaler.core.model import Signal, WorkloadKey

ROOT = "../../"


@dataclass(frozen=True, slots=True)
class Lately:
    """What was in the last hour: the changes, the oldest first, and what it cost where that is known."""

    changes: Sequence[Change] = ()
    bill: Bill | None = None


def workload_page(
    key: WorkloadKey, outcome: Decision | Pending | None, now: float, faults: Sequence[str], lately: Lately
) -> str:
    """The page as HTML, also of a workload that nobody knows."""
    path = path_of(key)
    title = element("h1", element("a", "SLO scaler", href=ROOT), " / ", str(key), " ", badge(state_of(outcome)))
    if isinstance(outcome, Decision):
        told = explain(outcome, now)
        above = _decision(outcome, told, lately.bill)
        below = together(*_tables(told), _changes(lately.changes, now))
    else:
        above = element("p", "No such workload." if outcome is None else f"No decision yet: {outcome.why}.")
        below = Markup()
    links = element(
        "p",
        element("a", "the explanation as JSON", href=f"{ROOT}v1/explain/{path}"),
        " · ",
        element("a", "the charts' points as JSON", href=f"{ROOT}v1/history/{path}"),
    )
    charts = element(
        "section",
        element("noscript", "The charts need JavaScript; everything else is here without it."),
        id="charts",
        data_history=f"{ROOT}v1/history/{path}",
        data_span=SPAN_S,
        data_edge=ENTER_RATIO,
    )
    inside = element(
        "main",
        element("div", title, above, id="above", data_live=""),
        Markup() if outcome is None else charts,
        element("div", below, Markup() if outcome is None else links, id="below", data_live=""),
    )
    return frame(f"{key} – SLO scaler", ROOT, f"v1/events/{path}", inside, faults)


def _decision(decision: Decision, told: Explanation, bill: Bill | None) -> Markup:
    seen = decision.estimate
    numbers = (
        ("desired", str(decision.desired)),
        ("ready", str(seen.ready)),
        ("starting", starting(decision)),
        ("silent", str(len(decision.missing))),
        ("queue wait", seconds(seen.queue_wait.s)),
        ("budget", seconds(strictest_budget_s(decision))),
        ("newest reading", f"{told.age_s:.1f} s old"),
    )
    tiles = element("dl", *(element("div", element("dt", name), element("dd", shown)) for name, shown in numbers))
    because = element(
        "ul",
        element("li", element("b", told.binding.text), "."),
        element("li", f"Next in line: {told.runner_up.text}."),
        element("li", f"{told.state_because}."),
        Markup() if bill is None else element("li", f"Cost: {cost.told(bill)}."),
        class_="why",
    )
    items = [element("li", f"{finding.text}.", " ", element("code", finding.code)) for finding in told.findings]
    found = [element("div", element("h2", "Findings"), element("ul", *items), class_="warning")] if items else []
    return together(tiles, because, *found)


def _tables(told: Explanation) -> Iterator[Markup]:
    steps = ((step.name.replace("_", " "), number(step.replicas), step.text) for step in told.steps)
    yield _table("From load to the number", ("step", "replicas", "how"), steps)
    heads = ("class", "state", "gate", "admitted", "at most", "budget", "left of it", "Retry-After")
    yield _table("Request classes", heads, map(_class, told.classes))
    silent = [(miss.replica, "silent", "", "", "", miss.why) for miss in told.missing]
    replicas = [*map(_replica, told.readings), *silent]
    yield _table("Replicas", ("replica", "running", "waiting", "KV cache", "age", "note"), replicas)


def _changes(changes: Sequence[Change], now: float) -> Markup:
    """The newest first."""
    if not changes:
        return Markup()
    heads = ("ago", "state", "replicas", "why")
    return _table("Changes of the last hour", heads, (_change(one, now) for one in reversed(changes)))


def _change(one: Change, now: float) -> tuple[str, ...]:
    came = "" if one.before in {None, one.desired} else f"{one.before} → "
    blind = " blind" if one.blind else ""
    ago = f"{max(0.0, now - one.at) / 60:.0f} min"
    return ago, together(badge(one.state), blind), f"{came}{one.desired}", one.because


def _class(verdict: ClassDecision) -> tuple[str, ...]:
    rate, wait = verdict.admit_per_s, verdict.retry_after_s
    return (
        verdict.name,
        badge(verdict.state),
        verdict.gate.value,
        percent(verdict.admit_ratio),
        NONE if rate is None else f"{number(rate)}/s",
        seconds(verdict.budget_s),
        seconds(verdict.remaining_budget_s),
        seconds(wait) if wait else NONE,
    )


def _replica(reading: ReadingAge) -> tuple[str, ...]:
    notes = ("" if reading.awake else "asleep", f"absent: {', '.join(reading.absent)}" if reading.absent else "")
    usage = reading.kv_usage_ratio
    return (
        reading.replica,
        _signal(reading.running),
        _signal(reading.waiting),
        usage.value if isinstance(usage, Absent) else percent(usage),
        f"{reading.age_s:.1f} s",
        "; ".join(filter(None, notes)),
    )


def _signal(signal: Signal) -> str:
    return signal.value if isinstance(signal, Absent) else number(signal)


def _table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    heads = element("thead", element("tr", *(element("th", heading, scope="col") for heading in headings)))
    body = element("tbody", *(element("tr", *(element("td", cell) for cell in row)) for row in rows))
    return together(element("h2", title), element("div", element("table", heads, body), class_="wide"))
