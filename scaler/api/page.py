"""The status page: the list of all workloads, and the frame of every page.

A page is whole without a script. With one, the parts that are marked ``data-live`` are replaced by their newer selves. All addresses are
relative to ``root``, so that the pages work behind a prefix, and everything that comes from outside is escaped by ``element``.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING
from urllib.parse import quote

from scaler import __version__
from scaler.control.history import strictest_budget_s
from scaler.core.decision import Decision, Pending
from scaler.core.explain import binding
from scaler.core.explain_state import number
from scaler.core.model import Pressure
from scaler.core.retry import age_s
from scaler.report.markup import Markup, element, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scaler.core.model import WorkloadKey

REFRESH_S = 5
NONE = "–"
_HEADINGS = ("workload", "state", "desired", "ready", "starting", "queue wait / budget", "admitted", "age", "why")
_GRAVEST_FIRST = (Pressure.RED, Pressure.YELLOW, Pressure.UNKNOWN, Pressure.GREEN)


def frame(title: str, root: str, events: str, inside: Markup, faults: Sequence[str]) -> str:
    """A document around the main part. ``root`` leads from its address to the list's, ``events`` from there to its stream.

    ``faults`` are those of a refused configuration file.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("noscript", element("meta", http_equiv="refresh", content=str(REFRESH_S))),
        element("title", title),
        element("link", rel="stylesheet", href=f"{root}static/status.css"),
        element("script", src=f"{root}static/status.js", type="module"),
    )
    links = (("metrics", "metrics"), ("v1/events", "events"), ("openapi.json", "interface"))
    foot = element(
        "footer",
        *(together(element("a", text, href=root + to), " · ") for to, text in links),
        f"SLO scaler {__version__}",
    )
    stream = element("p", id="stream", role="status")
    body = element("body", stream, _refused(faults), inside, foot, data_events=root + events)
    return f"<!doctype html>{element('html', head, body, lang='en')}"


def _refused(faults: Sequence[str]) -> Markup:
    told = "The configuration file was refused, the one before it is in use:" if faults else ""
    items = [element("li", fault) for fault in faults]
    return element(
        "div", told, element("ul", *items), id="faults", data_live="", class_="warning" if faults else "none"
    )


def listing(rows: Sequence[Markup], states: Sequence[Pressure], faults: Sequence[str]) -> str:
    """The page of all workloads."""
    heads = element("thead", element("tr", *(element("th", heading, scope="col") for heading in _HEADINGS)))
    table = element("table", heads, element("tbody", *rows), class_="workloads")
    known = table if rows else element("p", "No workload is known yet.")
    inside = element("div", element("p", _counted(states), class_="quiet"), known, id="list", data_live="")
    return frame("SLO scaler", "./", "v1/events", element("main", element("h1", "SLO scaler"), inside), faults)


def _counted(states: Sequence[Pressure]) -> str:
    counts = Counter(states)
    told = ", ".join(f"{counts[state]} {state.value}" for state in _GRAVEST_FIRST if counts[state])
    return f"{len(states)} {'workload' if len(states) == 1 else 'workloads'}: {told}" if states else ""


def row(outcome: Decision | Pending, now: float) -> Markup:
    """One workload in the list."""
    name = element("a", str(outcome.key), href=f"./workload/{path_of(outcome.key)}")
    if isinstance(outcome, Pending):
        cells = (*("",) * (len(_HEADINGS) - 3), outcome.why)
    else:
        seen, budget = outcome.estimate, strictest_budget_s(outcome)
        cells = (
            str(outcome.desired),
            str(seen.ready),
            starting(outcome),
            f"{seconds(seen.queue_wait.s)} / {seconds(budget)}",
            admitted(outcome),
            f"{age_s(outcome, now):.1f} s",
            " ".join(f"{text}." for text in (binding(outcome, now).text, *(f.text for f in outcome.findings))),
        )
    shown = zip(_HEADINGS, (name, badge(state_of(outcome)), *cells), strict=True)
    return element("tr", *(element("td", cell, data_label=heading) for heading, cell in shown))


def state_of(outcome: Decision | Pending | None) -> Pressure:
    """Its pressure; unknown while there is no decision."""
    return outcome.state if isinstance(outcome, Decision) else Pressure.UNKNOWN


def badge(state: Pressure) -> Markup:
    """A state by its word, and by a colour besides."""
    return element("span", state.value, class_=f"state {state.value.lower()}")


def path_of(key: WorkloadKey) -> str:
    """A workload as a piece of an address."""
    return f"{quote(key.namespace, safe='')}/{quote(key.name, safe='')}"


def starting(decision: Decision) -> str:
    """Replicas on their way, and how many of them may never arrive."""
    seen = decision.estimate
    return f"{seen.starting} ({seen.stuck} stuck)" if seen.stuck else str(seen.starting)


def admitted(decision: Decision) -> str:
    """The share of each class, and how far a gate that asks us holds to it."""
    modes = [
        ", ".join(f"{verdict.name} {percent(verdict.admit_ratio)}" for verdict in verdicts) + f" (gate {mode.value})"
        for mode, verdicts in groupby(decision.classes, lambda verdict: verdict.gate)
    ]
    return "; ".join(modes)


def percent(ratio: float) -> str:
    """A share; what is short of all does not look like all."""
    return f"{math.floor(ratio * 1000 + 1e-9) / 10:g}%"


def seconds(value: float | None) -> str:
    """Seconds as a person reads them."""
    if value is None:
        return NONE
    return f"{number(value)} s" if math.isfinite(value) else "∞"
