"""The levels of a calibration as a table for a terminal, each latency drawn against its objective."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from scaler.calibration.choose import Calibration
from scaler.calibration.judge import Check, Judged, Verdict
from scaler.calibration.report import NAMES, measured, numbers
from scaler.calibration.runs import LoadKind

CELLS, OBJECTIVE_AT = 12, 8
"""The width of a bar, and the cell where the objective stands."""
WIDE = 100
"""From this width on there is room for every number; below, a bound is only drawn."""
STYLES = {Verdict.PASSES: "green", Verdict.FAILS: "red", Verdict.NOT_SHOWN: "yellow", Verdict.UNUSABLE: "bright_black"}


def levels_table(found: Calibration, width: int) -> Table:
    """One row a level. ``█`` is the percentile as measured, ``░`` its 95 % bound, ``│`` the objective; ``▸`` goes beyond."""
    wide, percentile = width >= WIDE, f"P{found.objectives.percentile:g}"
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("in flight", "requests", "requests/s") if wide else ("in flight", "requests/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for check in found.levels[0].checks:
        table.add_column(f"{percentile} {NAMES[check.name]} ≤ {check.limit_s:g} s", no_wrap=wide)
    table.add_column("", no_wrap=True)
    for judged in found.levels:
        verdict = f"{judged.verdict.value} ◂ safe" if judged is found.safe else judged.verdict.value
        cells = (*_numbers(judged, wide=wide), *_latencies(judged, wide=wide), verdict)
        table.add_row(*(Text(cell) for cell in cells), style=STYLES[judged.verdict])
    return table


def _numbers(judged: Judged, *, wide: bool) -> tuple[str, ...]:
    level, load = judged.level, judged.level.load
    rate = "" if load.kind is LoadKind.CONCURRENCY else f" at {load.value:g}/s"
    requests = (str(level.completed),) if wide else ()
    return (f"{level.concurrency:.4g}{rate}", *requests, f"{level.rate_per_s:.3g}")


def _latencies(judged: Judged, *, wide: bool) -> tuple[str, ...]:
    return tuple(f"{bar(check)} {numbers(check) if wide else measured(check)}" for check in judged.checks)


def bar(check: Check) -> str:
    """One latency against its objective."""
    filled, bounded = (_cell(check, value) for value in (check.estimate_s, check.bound_s or check.estimate_s))
    drawn = "".join("█" if cell < filled else "░" if cell < bounded else " " for cell in range(CELLS))
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
