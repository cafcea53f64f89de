"""The levels of a calibration as a table for a terminal, each latency drawn against its objective."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from scaler.calibration.choose import Calibration
from scaler.calibration.judge import Check, Judged, Verdict
from scaler.calibration.report import NAMES
from scaler.calibration.runs import LoadKind

CELLS, OBJECTIVE_AT = 12, 8
"""The width of a bar, and the cell where the objective stands."""
WIDE = 100
"""From this width on there is room for the bars."""
STYLES = {Verdict.PASSES: "green", Verdict.FAILS: "red", Verdict.NOT_SHOWN: "yellow", Verdict.UNUSABLE: "bright_black"}


def chart(found: Calibration, width: int) -> Table:
    """One row a level. ``█`` is the percentile as measured, ``░`` its 95 % bound, ``│`` the objective; ``▸`` goes beyond."""
    percentile = f"P{found.objectives.percentile:g}"
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("in flight", "requests", "requests/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for check in found.levels[0].checks:
        table.add_column(f"{percentile} {NAMES[check.name]} ≤ {check.limit_s:g} s", no_wrap=width >= WIDE)
    table.add_column("")
    for judged in found.levels:
        table.add_row(*_cells(judged, bars=width >= WIDE), style=STYLES[judged.verdict])
    return table


def _cells(judged: Judged, *, bars: bool) -> list[Text]:
    level, load = judged.level, judged.level.load
    in_flight = (
        f"{load.value:g}" if load.kind is LoadKind.CONCURRENCY else f"{level.concurrency:.3g} at {load.value:g}/s"
    )
    checks = [f"{bar(check)} {_numbers(check)}" if bars else _numbers(check) for check in judged.checks]
    return [
        Text(cell)
        for cell in (in_flight, str(level.completed), f"{level.rate_per_s:.3g}", *checks, judged.verdict.value)
    ]


def _numbers(check: Check) -> str:
    estimate = "?" if check.estimate_s is None else f"{check.estimate_s:.3g}"
    return f"{estimate} (≤ ?)" if check.bound_s is None else f"{estimate} (≤ {check.bound_s:.3g})"


def bar(check: Check) -> str:
    """One latency against its objective."""
    measured, bounded = (_cell(check, value) for value in (check.estimate_s, check.bound_s or check.estimate_s))
    drawn = "".join("█" if cell < measured else "░" if cell < bounded else " " for cell in range(CELLS))
    drawn = drawn[:OBJECTIVE_AT] + "│" + drawn[OBJECTIVE_AT + 1 :]
    return drawn[:-1] + "▸" if bounded > CELLS else drawn


def _cell(check: Check, value: float | None) -> int:
    """How many cells a latency fills; one that is within its objective never reaches beyond the mark."""
    share = (value or 0.0) / check.limit_s
    return (
        min(OBJECTIVE_AT, round(share * OBJECTIVE_AT))
        if share <= 1
        else max(OBJECTIVE_AT + 2, round(share * OBJECTIVE_AT))
    )
