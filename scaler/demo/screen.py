"""What a person sees of the running demo: a live picture on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from textwrap import fill
from typing import Generic, Protocol, TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from scaler.core.model import GateMode, Pressure
from scaler.demo.addresses import COLUMNS, Addresses
from scaler.demo.closing import Closing
from scaler.demo.scenario import COMPRESSIONS, KEY, TPOT_BUDGET_S, TTFT_BUDGET_S, Scenario
from scaler.demo.summary import Sample
from scaler.demo.watch import RATE_S

COLOURS = {Pressure.GREEN: "green", Pressure.YELLOW: "yellow", Pressure.RED: "red", Pressure.UNKNOWN: "bright_black"}
BAR_CELLS = 30
LINE_EVERY_S = 2.0


class Timed(Protocol):
    """Something seen, and when, in seconds after traffic began."""

    @property
    def at_s(self) -> float: ...


Seen = TypeVar("Seen", bound=Timed)
Seen_co = TypeVar("Seen_co", bound=Timed, covariant=True)


class Play(Protocol[Seen_co]):
    """What is up and can be played, once: where it answers, what its scalers log, and what is left of it."""

    @property
    def at(self) -> Addresses: ...

    @property
    def log(self) -> str: ...

    async def play(self, show: Callable[[Seen_co], None]) -> None: ...

    def closing(self) -> Closing | None: ...


@dataclass(frozen=True, slots=True)
class Look(Generic[Seen]):
    """How a run is shown: what is said once at its start, and what is seen of it as a line and as a picture."""

    title: str
    line: Callable[[Seen], str]
    picture: Callable[[Seen], RenderableType]


class Lines(Generic[Seen]):
    """A line every two seconds, for pipes and logs."""

    def __init__(self, console: Console, line: Callable[[Seen], str]) -> None:
        """Nothing was shown yet."""
        self._console = console
        self._line = line
        self._due_s = 0.0

    def show(self, seen: Seen) -> None:
        """Print a line, if the last is old enough."""
        if seen.at_s >= self._due_s:
            self._due_s = seen.at_s + LINE_EVERY_S
            self._console.print(self._line(seen), highlight=False, markup=False, soft_wrap=True)


class Picture(Generic[Seen]):
    """A picture that is redrawn in place."""

    def __init__(self, live: Live, picture: Callable[[Seen], RenderableType]) -> None:
        """``live`` is started and stopped by its owner."""
        self._live = live
        self._picture = picture

    def show(self, seen: Seen) -> None:
        """Redraw."""
        self._live.update(self._picture(seen))


def look(scenario: Scenario, at: Addresses) -> Look[Sample]:
    """That of one fleet."""
    return Look(title(scenario, at), lambda sample: line(sample, scenario), lambda sample: picture(sample, scenario))


def title(scenario: Scenario, at: Addresses) -> str:
    """What this is, where it answers, that its times are compressed, and by how much."""
    does = "observe: it only counts what it would refuse" if _observes(scenario) else "enforce"
    return paragraphs(
        "slo-scaler demo: an emulated vLLM fleet, a stand-in for KEDA and the HPA, and the real scaler between them.",
        f"Page {at.page}",
        f"Gate {at.state}",
        f"KEDA {at.keda} (gRPC)",
        compressed(),
        f"{objectives()} The gateway's gate is set to {does}; clients do not retry. Seed {scenario.seed}.",
    )


def paragraphs(*texts: str) -> str:
    """Each broken at the width of a terminal."""
    return "\n".join(fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False) for text in texts)


def compressed() -> str:
    """By how much the demo's times are."""
    squeezed = ", ".join(f"{c.what} {c.demo_s:g} s for {c.real_s:g} s ({c.factor:g}x)" for c in COMPRESSIONS)
    return f"Times are compressed: {squeezed}. Latencies are not."


def objectives() -> str:
    """What is promised."""
    return f"Objectives: TTFT {TTFT_BUDGET_S:g} s, TPOT {TPOT_BUDGET_S * 1000:g} ms."


def line(sample: Sample, scenario: Scenario) -> str:
    """One sample on one line."""
    observes = _observes(scenario)
    passed = (
        f"would refuse {sample.would_refuse_per_s:4.1f}/s" if observes else f"admitted {sample.admitted_per_s:4.1f}/s"
    )
    fraction = f"{'would admit' if observes else 'fraction told'} {100 * sample.admit_ratio:3.0f} %"
    return (
        f"{sample.at_s:5.1f} s  {_phase(sample.at_s, scenario):<10}  {sample.state.value:<7}  "
        f"last {RATE_S:g} s: offered {sample.offered_per_s:4.1f}/s, {passed}  {fraction}  "
        f"wait {sample.queue_wait_s:5.2f}/{TTFT_BUDGET_S:g} s  "
        f"desired {sample.desired}  starting {sample.starting}  ready {sample.ready}  "
        f"| {sample.state_because}  | {sample.reason}"
    )


def picture(sample: Sample, scenario: Scenario) -> RenderableType:
    """One sample as a panel. The cursor rests on the empty line below, where a terminal's ^C spoils nothing."""
    observes, colour = _observes(scenario), COLOURS[sample.state]
    passed = (
        f"would refuse {sample.would_refuse_per_s:.1f}/s" if observes else f"admitted {sample.admitted_per_s:.1f}/s"
    )
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bright_black", no_wrap=True)
    table.add_column()
    table.add_row("time", time(sample.at_s, scenario))
    table.add_row("state", _state(sample))
    table.add_row("queue wait", bar(sample, BAR_CELLS))
    table.add_row(f"last {RATE_S:g} s", f"offered {sample.offered_per_s:.1f}/s, {passed}")
    table.add_row("fraction told", f"{'would admit ' if observes else ''}{100 * sample.admit_ratio:.0f} %")
    counts = f"{sample.ready} ready, {sample.starting} starting, {sample.desired} desired"
    table.add_row("replicas", replicas(sample, counts))
    table.add_row("because", Text(sample.reason))
    return Group(Panel(table, title=str(KEY), border_style=colour), Text())


def _observes(scenario: Scenario) -> bool:
    return scenario.gate is GateMode.OBSERVE


def time(at_s: float, scenario: Scenario) -> str:
    """How far a run is, and in which phase."""
    if at_s >= scenario.seconds:
        return f"{scenario.seconds:g} of {scenario.seconds:g} s, finishing what is under way"
    return f"{int(at_s)} of {scenario.seconds:g} s, {_phase(at_s, scenario)}"


def _phase(at_s: float, scenario: Scenario) -> str:
    return next((p.name for p in scenario.phases if at_s < p.end_s), "finishing")


def _state(sample: Sample) -> Text:
    """The sentence begins with the state and for how long it has been that."""
    told = Text(sample.state_because)
    told.highlight_words([sample.state.value], f"bold {COLOURS[sample.state]}")
    return told


def bar(sample: Sample, cells: int) -> Text:
    """The queue wait; a full bar is the whole budget."""
    filled = min(cells, round(cells * sample.queue_wait_s / TTFT_BUDGET_S))
    told = Text("█" * filled, style=COLOURS[sample.state])
    told.append("░" * (cells - filled), style="bright_black")
    return told.append(f" {sample.queue_wait_s:.2f} of {TTFT_BUDGET_S:g} s", style="default")


def replicas(sample: Sample, words: str) -> Text:
    """A square for each, and then the words."""
    squares = Text("■" * sample.ready, style="green").append("□" * sample.starting, style="yellow")
    return squares.append(f" {words}", style="default")
