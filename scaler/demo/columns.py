"""What a person sees of two fleets side by side: with the gate and without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from scaler.demo.addresses import COLUMNS, Addresses
from scaler.demo.closing import Closing, paragraph, percent
from scaler.demo.contrast import Contrast, Side
from scaler.demo.scenario import KEY, Scenario
from scaler.demo.screen import COLOURS, Look, bar, compressed, objectives, paragraphs, replicas, time
from scaler.demo.summary import Sample
from scaler.demo.watch import RATE_S

WITH, WITHOUT = "with the gate", "without it"
BAR_CELLS = 14
FIGURE_COLUMNS = 16
LABEL_COLUMNS = COLUMNS - 2 * FIGURE_COLUMNS


@dataclass(frozen=True, slots=True)
class Column:
    """One fleet at one instant, and how many of its requests were served so far, in objective and late."""

    sample: Sample
    in_objective: int
    late: int


@dataclass(frozen=True, slots=True)
class Both:
    """Both fleets at about the same instant."""

    gated: Column
    ungated: Column

    @property
    def at_s(self) -> float:
        """Seconds after traffic began."""
        return max(self.gated.sample.at_s, self.ungated.sample.at_s)


def look(scenario: Scenario, gated: Addresses, ungated: Addresses) -> Look[Both]:
    """How the two are shown."""
    return Look(
        title(scenario, gated, ungated), lambda both: line(both, scenario), lambda both: picture(both, scenario)
    )


def title(scenario: Scenario, gated: Addresses, ungated: Addresses) -> str:
    """What this is, where both answer, and by how much times are compressed."""
    return paragraphs(
        "slo-scaler demo: the same burst on two emulated vLLM fleets, each with a scaler of its own. One gateway refuses what its scaler "
        "says, the other lets all in.",
        f"Page with the gate {gated.page}",
        f"Page without it {ungated.page}",
        compressed(),
        f"{objectives()} Refused clients come back as OpenAI's and Anthropic's libraries do. Seed {scenario.seed}.",
    )


def line(both: Both, scenario: Scenario) -> str:
    """Both on one line."""
    return f"{time(both.at_s, scenario)}  | {WITH}: {_words(both.gated)}  | {WITHOUT}: {_words(both.ungated)}"


def picture(both: Both, scenario: Scenario) -> RenderableType:
    """Both as a panel; the empty line below is where a terminal's ^C spoils nothing."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bright_black", no_wrap=True)
    table.add_column()
    table.add_column()
    table.add_row("", *(Text(name, style="bold") for name in (WITH, WITHOUT)))
    for label, cell in ROWS:
        table.add_row(label, cell(both.gated), cell(both.ungated))
    return Group(Panel(table, title=f"{KEY}: {time(both.at_s, scenario)}"), Text())


def _words(seen: Column) -> str:
    sample = seen.sample
    return f"{sample.state.value:<6} wait {sample.queue_wait_s:5.2f} s  {_rates(seen)}  ready {sample.ready}  so far {_served(seen)}"


def _state(seen: Column) -> Text:
    return Text(seen.sample.state.value, style=f"bold {COLOURS[seen.sample.state]}")


def _rates(seen: Column) -> str:
    return f"let in {seen.sample.admitted_per_s:.1f}/s of {seen.sample.offered_per_s:.1f}/s"


def _replicas(seen: Column) -> Text:
    return replicas(seen.sample, f"{seen.sample.ready} ready, {seen.sample.desired} desired")


def _served(seen: Column) -> str:
    return f"{seen.in_objective} in objective, {seen.late} late"


ROWS: tuple[tuple[str, Callable[[Column], RenderableType]], ...] = (
    ("state", _state),
    ("queue wait", lambda seen: bar(seen.sample, BAR_CELLS)),
    (f"last {RATE_S:g} s", _rates),
    ("replicas", _replicas),
    ("served so far", _served),
)


def closing(found: Contrast) -> Closing:
    """What is left of both runs."""
    return Closing(found.ok, contrast_text(found), found.as_json())


def contrast_text(found: Contrast) -> str:
    """The table, what it says, and whether the loops worked."""
    verdict = "both loops worked" if found.ok else "; ".join(found.problems)
    return "\n".join(("", *_table(found), "", paragraph("Says", found.says), paragraph("Result", verdict)))


def _table(found: Contrast) -> Iterator[str]:
    yield _row("", WITH, WITHOUT)
    for label, figure in FIGURES:
        yield _row(label, figure(found.with_gate), figure(found.without_gate))


def _row(label: str, *figures: str) -> str:
    return f"{label:<{LABEL_COLUMNS}}" + "".join(f"{figure:>{FIGURE_COLUMNS}}" for figure in figures)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


FIGURES: tuple[tuple[str, Callable[[Side], str]], ...] = (
    ("requests offered", lambda one: f"{one.offered}"),
    ("served in objective (goodput)", lambda one: f"{one.in_objective}"),
    ("  of those offered", lambda one: percent(one.in_objective_ratio)),
    ("  per second", lambda one: f"{one.in_objective_per_s:.2f}"),
    ("  of them never refused", lambda one: f"{one.in_objective_at_once}"),
    ("refused at first", lambda one: f"{one.refused}"),
    ("  of them came back and were served", lambda one: f"{one.came_back}"),
    ("    away for, P50", lambda one: _seconds(one.away_p50_s)),
    ("  gave up", lambda one: f"{one.gave_up}"),
    ("failed or unfinished", lambda one: f"{one.failed + one.unfinished}"),
    ("TTFT of the admitted, P50", lambda one: _seconds(one.ttft_p50_s)),
    ("TTFT of the admitted, P99", lambda one: _seconds(one.ttft_p99_s)),
    ("longest queue wait, as the scaler saw it", lambda one: _seconds(one.longest_wait_s)),
    ("most replicas ready", lambda one: f"{one.ready_max}"),
    ("GPU-seconds", lambda one: f"{one.gpu_s:.0f}"),
)
