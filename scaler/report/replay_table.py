"""The scores of a replay, as one table for all that show them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean

from rich.table import Table
from rich.text import Text

from scaler.sim.outcome import Figure, Replay, Row, Side
from scaler.sim.worth import Quantiles

STYLES = {Side.OURS: "bold green", Side.RIVAL: "", Side.REFERENCE: "bright_black"}
WIDE = 155
"""From this width on there is room for every number."""


@dataclass(frozen=True, slots=True)
class Column:
    """A number of each row: its heading, what it means, and how it is written.

    ``spare``: it is left out where there is little room; ``priced``: it needs a price.
    """

    heading: str
    meaning: str
    cell: Callable[[Replay, Row], str]
    spare: bool = False
    priced: bool = False


def _shares(name: str) -> Callable[[Replay, Row], str]:
    return lambda _, row: _known(row.figure(name), 100.0, ".1f")


def _plain(name: str, form: str) -> Callable[[Replay, Row], str]:
    return lambda _, row: _known(row.figure(name), 1.0, form)


def _spread(name: str, times: float) -> Callable[[Replay, Row], str]:
    return lambda _, row: _with_spread(row.figure(name), times)


def _points(ratio: float) -> str:
    points = round(100 * ratio, 1)
    return f"{points:+.1f}" if points else "0.0"


def _ttft(name: str) -> Callable[[Replay, Row], str]:
    return lambda _, row: _seconds(fmean(_of(run.worth.ttft, name) for run in row.runs))


COLUMNS = (
    Column("within %", "requests served within TTFT and TPOT, of all that were offered", _spread("kept_ratio", 100.0)),
    Column("to bound", "points above or below the most that a law can attain which only reacts, if nobody who is refused comes back",
           lambda found, row: _points(row.kept - found.limits.reactive_ratio)),
    Column("to best", "points above or below who knows all that comes",
           lambda found, row: _points(row.kept - found.clairvoyant.kept)),
    Column("1st %", "likewise, and never refused before", _shares("first_try_ratio"), spare=True),
    Column("TTFT %", "first token within the objective, of all that were offered", _shares("ttft_ratio"), spare=True),
    Column("TPOT %", "tokens within the objective, of all that were offered", _shares("tpot_ratio"), spare=True),
    Column("refused %", "refused at the first attempt", _shares("refused_ratio")),
    Column("lost %", "never served", _shares("lost_ratio"), spare=True),
    Column("P50 s", "TTFT of the admitted, from the attempt that was admitted", _ttft("p50_s"), spare=True),
    Column("P95 s", "likewise", _ttft("p95_s")),
    Column("P99 s", "likewise", _ttft("p99_s")),
    Column(">safe %", "seconds of ready replicas above the safe concurrency", _shares("unsafe_ratio"), spare=True),
    Column("GREEN %", "not served within, of those that came while the workload was GREEN", _shares("surprised_ratio")),
    Column("GPU-h", "from the creation of a replica until it is gone", _spread("gpu_hours", 1.0)),
    Column("× best", "GPU-hours over those of who knows all that comes",
           lambda found, row: f"{found.hours_ratio(row):.2f}"),
    Column("a million", "what a million tokens cost, prompt and generated, at the price of a GPU-hour",
           lambda found, row: _money(row.bill(found.price).cost_per_million_tokens), priced=True),
    Column("bad min", "minutes in which fewer were served within than promised", _plain("violation_min", ".0f")),
    Column("turns", "changes of direction of the replica count", _plain("turns", ".0f"), spare=True),
    Column("most", "replicas at once", _plain("most_replicas", ".0f"), spare=True),
)  # fmt: skip


def columns(found: Replay, width: int = WIDE) -> Iterator[Column]:
    """Those for which there is room, and what they need."""
    priced = found.price is not None
    return (one for one in COLUMNS if (width >= WIDE or not one.spare) and (priced or not one.priced))


def scores(found: Replay, width: int) -> Table:
    """One row a law: ours, the rivals by what they served, and those that knew it all."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("law", no_wrap=True)
    shown = list(columns(found, width))
    for column in shown:
        table.add_column(column.heading.replace(" ", "\n", 1), justify="right", no_wrap=True)
    for row in found.rows:
        cells = (row.name, *(column.cell(found, row) for column in shown))
        table.add_row(*(Text(cell) for cell in cells), style=STYLES[row.side])
    return table


def _known(figure: Figure | None, times: float, form: str) -> str:
    return "–" if figure is None else f"{times * figure.mean:{form}}"


def _with_spread(figure: Figure | None, times: float) -> str:
    if figure is None:
        return "–"
    spread = f"{times * figure.spread:.1f}"
    return f"{times * figure.mean:.1f}" + (f" ±{spread}" if float(spread) else "")


def _seconds(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}" if value < 10 else f"{value:.0f}"  # noqa: PLR2004 - three digits


def _money(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _of(quantiles: Quantiles, name: str) -> float:
    found: float = getattr(quantiles, name)
    return found
