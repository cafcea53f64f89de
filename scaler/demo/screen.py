"""What a person sees of the demo: a live picture on a terminal, a line now and then elsewhere, and the summary."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from scaler.core.model import Pressure
from scaler.demo.scenario import COMPRESSIONS, TPOT_BUDGET_S, TTFT_BUDGET_S, Scenario
from scaler.demo.summary import PhaseScore, Sample, Summary

COLOURS = {Pressure.GREEN: "green", Pressure.YELLOW: "yellow", Pressure.RED: "red", Pressure.UNKNOWN: "bright_black"}
BAR_CELLS = 30
LINE_EVERY_S = 2.0


class Screen(Protocol):
    """Shows samples as they come."""

    def show(self, sample: Sample) -> None:
        """One more sample."""
        ...


class Lines:
    """A line every two seconds, for pipes and logs."""

    def __init__(self, console: Console, scenario: Scenario) -> None:
        """Says at once what is going to be seen."""
        self._console = console
        self._scenario = scenario
        self._due_s = 0.0
        console.print(title(scenario), highlight=False, soft_wrap=True)

    def show(self, sample: Sample) -> None:
        """Print a line, if the last is old enough."""
        if sample.at_s >= self._due_s:
            self._due_s = sample.at_s + LINE_EVERY_S
            self._console.print(line(sample, self._scenario), highlight=False, soft_wrap=True)


class Picture:
    """A picture that is redrawn in place."""

    def __init__(self, live: Live, scenario: Scenario) -> None:
        """``live`` is started and stopped by its owner."""
        self._live = live
        self._scenario = scenario

    def show(self, sample: Sample) -> None:
        """Redraw."""
        self._live.update(picture(sample, self._scenario))


def title(scenario: Scenario) -> str:
    """What this is, and that its times are compressed, and by how much."""
    squeezed = ", ".join(f"{c.what} {c.demo_s:g} s for {c.real_s:g} s ({c.factor:g}x)" for c in COMPRESSIONS)
    return (
        "slo-scaler demo: an emulated vLLM fleet, a stand-in for KEDA and the HPA, and the real scaler between them.\n"
        f"Times are compressed: {squeezed}. Latencies are not.\n"
        f"Objectives: TTFT {TTFT_BUDGET_S:g} s, TPOT {TPOT_BUDGET_S * 1000:g} ms. The gateway's gate is set to "
        f"{scenario.gate.value}; clients do not retry. Seed {scenario.seed}."
    )


def line(sample: Sample, scenario: Scenario) -> str:
    """One sample on one line."""
    return (
        f"{sample.at_s:5.1f} s  {_phase(sample, scenario):<10}  {sample.state.value:<7}  "
        f"offered {sample.offered_per_s:4.1f}/s  admitted {sample.admitted_per_s:4.1f}/s ({sample.admit_ratio:4.0%})  "
        f"wait {sample.queue_wait_s:5.2f}/{TTFT_BUDGET_S:g} s  "
        f"desired {sample.desired}  starting {sample.starting}  ready {sample.ready}  | {sample.reason}"
    )


def picture(sample: Sample, scenario: Scenario) -> RenderableType:
    """One sample as a panel."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bright_black")
    table.add_column()
    table.add_row("time", f"{sample.at_s:.0f} of {scenario.seconds:g} s, {_phase(sample, scenario)}")
    table.add_row("traffic", f"offered {sample.offered_per_s:.1f}/s, admitted {sample.admitted_per_s:.1f}/s")
    table.add_row("state", Text(sample.state.value, style=f"bold {COLOURS[sample.state]}"))
    table.add_row("queue wait", _bar(sample))
    table.add_row("admit", f"{sample.admit_ratio:.0%} of requests")
    table.add_row("replicas", _replicas(sample))
    table.add_row("because", sample.reason)
    return Group(
        Text(title(scenario), style="bright_black"), Panel(table, title="demo/llm", border_style=COLOURS[sample.state])
    )


def summary_text(summary: Summary) -> str:
    """The summary for a person."""
    score, rpcs, cpu = summary.requests, summary.rpcs, summary.cpu_cores
    states = " -> ".join(f"{entered.state} {entered.at_s:.0f} s" for entered in summary.states)
    would = f", {summary.would_refuse} would have been refused" if summary.would_refuse else ""
    within = f"{_percent(score.attained_ratio)} of offered, {_percent(score.attained_of_admitted_ratio)} of admitted"
    asked = f"{sum(rpcs.answered.values())} calls answered, {len(rpcs.failures)} failed, {rpcs.pushed} messages pushed"
    worked = "The loop worked." if summary.ok else f"The loop did not work: {'; '.join(summary.problems)}."
    lines = [
        "",
        f"States: {states}",
        f"Requests: {score.requests}; {score.refused} refused, {score.failed} failed, {score.unfinished} unfinished{would}",
        f"Within TTFT and TPOT: {within}",
        *(_phase_line(phase) for phase in summary.phases),
        f"KEDA: {asked}",
        f"CPU: {cpu.fleet:.2f} cores the fleet, {cpu.rest:.2f} scaler, gateway and clients",
        worked,
    ]
    return "\n".join(lines)


def _phase_line(phase: PhaseScore) -> str:
    return (
        f"  {phase.name:<10} {phase.start_s:3.0f}-{phase.end_s:3.0f} s: offered {phase.offered_per_s:4.1f}/s, admitted "
        f"{phase.admitted_per_s:4.1f}/s, at most {phase.desired_max} desired and {phase.ready_max} ready, "
        f"{_percent(phase.score.attained_ratio)} of offered within both, {_percent(phase.score.attained_of_admitted_ratio)} of admitted"
    )


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.1%}"


def _phase(sample: Sample, scenario: Scenario) -> str:
    return next((p.name for p in scenario.phases if sample.at_s < p.end_s), "finishing")


def _bar(sample: Sample) -> Text:
    filled = min(BAR_CELLS, round(BAR_CELLS * sample.queue_wait_s / TTFT_BUDGET_S))
    bar = Text("█" * filled, style=COLOURS[sample.state])
    bar.append("░" * (BAR_CELLS - filled), style="bright_black")
    return bar.append(f" {sample.queue_wait_s:.2f} of {TTFT_BUDGET_S:g} s", style="default")


def _replicas(sample: Sample) -> Text:
    squares = Text("■" * sample.ready, style="green").append("□" * sample.starting, style="yellow")
    return squares.append(
        f" {sample.ready} ready, {sample.starting} starting, {sample.desired} desired", style="default"
    )
