"""The status page: one table, no scripts and nothing fetched from elsewhere."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from scaler.api.render import strictest_budget_s
from scaler.core.decision import Decision, Pending
from scaler.core.explain import binding
from scaler.core.model import Pressure
from scaler.core.retry import age_s

if TYPE_CHECKING:
    from collections.abc import Iterable

REFRESH_S = 2
_COLOURS = {Pressure.GREEN: "#2e7d32", Pressure.YELLOW: "#b26a00", Pressure.RED: "#c62828", Pressure.UNKNOWN: "#616161"}
_HEADINGS = ("workload", "state", "desired", "ready", "starting", "queue wait / budget", "admitted", "age", "why")
_STYLE = """
body{font:14px/1.5 system-ui,sans-serif;margin:2rem;color:#222;background:#fff}
table{border-collapse:collapse;width:100%}th,td{padding:.35rem .7rem;text-align:left;border-bottom:1px solid #ddd;vertical-align:top}
td.n{text-align:right;white-space:nowrap}td.s{font-weight:600}p{color:#616161}
.w{border-left:4px solid #c62828;padding:.3rem 1rem;margin-bottom:1rem}
"""


def status_page(outcomes: Iterable[Decision | Pending], now: float, faults: tuple[str, ...] = ()) -> str:
    """The page as HTML; everything that comes from outside is escaped. ``faults`` are those of a refused configuration file."""
    rows = [_row(o, now) if isinstance(o, Decision) else _pending(o) for o in outcomes]
    heads = "".join(f"<th>{heading}</th>" for heading in _HEADINGS)
    table = f"<table><tr>{heads}</tr>{''.join(rows)}</table>" if rows else "<p>No workload is known yet.</p>"
    refused = "".join(f"<li>{escape(fault)}</li>" for fault in faults)
    warning = (
        f'<div class="w">The configuration file was refused, the one before it is in use:<ul>{refused}</ul></div>'
        if faults
        else ""
    )
    links = '<p><a href="metrics">metrics</a> · <a href="openapi.json">interface</a></p>'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="{REFRESH_S}">'
        f"<title>SLO scaler</title><style>{_STYLE}</style></head><body><h1>SLO scaler</h1>{warning}{table}{links}</body></html>"
    )


def _row(decision: Decision, now: float) -> str:
    seen, budget = decision.estimate, strictest_budget_s(decision)
    admitted = ", ".join(f"{escape(v.name)} {v.admit_ratio:.0%}" for v in decision.classes)
    why = " ".join(
        escape(text) for text in (binding(decision, now).text + ".", *(f.text + "." for f in decision.findings))
    )
    starting = f"{seen.starting} ({seen.stuck} stuck)" if seen.stuck else str(seen.starting)
    cells = (
        str(decision.desired),
        str(seen.ready),
        starting,
        f"{seen.queue_wait.s:.2f} s / {'–' if budget is None else f'{budget:g} s'}",
    )
    numbers = "".join(f'<td class="n">{cell}</td>' for cell in cells)
    age = f'<td class="n">{age_s(decision, now):.1f} s</td>'
    return f"<tr>{_name(decision)}{_state(decision.state)}{numbers}<td>{admitted}</td>{age}<td>{why}</td></tr>"


def _pending(pending: Pending) -> str:
    blanks = "<td></td>" * (len(_HEADINGS) - 3)
    return f"<tr>{_name(pending)}{_state(Pressure.UNKNOWN)}{blanks}<td>{escape(pending.why)}</td></tr>"


def _name(outcome: Decision | Pending) -> str:
    path = escape(f"v1/explain/{outcome.key}", quote=True)
    return f'<td><a href="{path}">{escape(str(outcome.key))}</a></td>'


def _state(state: Pressure) -> str:
    return f'<td class="s" style="color:{_COLOURS[state]}">{state.value}</td>'
