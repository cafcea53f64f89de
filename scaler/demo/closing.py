"""The summary for a person: at most 80 columns wide, broken between words only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from scaler.core.model import GateMode
from scaler.demo.addresses import COLUMNS
from scaler.demo.scenario import TPOT_BUDGET_S, TTFT_BUDGET_S, Scenario
from scaler.demo.summary import PhaseScore, Rpcs, Score, Summary

LABEL_COLUMNS = 10
TIED = "\u00a0"
"""A space at which no line is broken; it is printed as an ordinary one."""


@dataclass(frozen=True, slots=True)
class Closing:
    """What is left of a run: whether the loop worked, and what to print, as text and as JSON."""

    ok: bool
    text: str
    json: dict[str, Any]


def closing(summary: Summary) -> Closing:
    """That of one fleet."""
    return Closing(summary.ok, summary_text(summary), summary.as_json())


def summary_text(summary: Summary) -> str:
    """What was seen, and whether the loop worked."""
    cpu = summary.cpu_cores
    return "\n".join(
        (
            "",
            paragraph(
                "States", " -> ".join(f"{entered.state}{TIED}{entered.at_s:.0f}{TIED}s" for entered in summary.states)
            ),
            paragraph("Requests", _requests(summary)),
            paragraph("In time", _attained(summary)),
            paragraph("Compare", _other(summary)),
            *_table(summary),
            paragraph("KEDA", _calls(summary.rpcs)),
            paragraph("CPU", f"{cpu.fleet:.2f} cores the fleet, {cpu.rest:.2f} scaler, gateway and clients"),
            paragraph("Result", _verdict(summary)),
        )
    )


def paragraph(label: str, text: str) -> str:
    """A label and its text beside it."""
    first, rest = f"{label:<{LABEL_COLUMNS}}", " " * LABEL_COLUMNS
    told = fill(
        text, COLUMNS, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    return told.replace(TIED, " ")


def _requests(summary: Summary) -> str:
    score = summary.requests
    would = f", {summary.would_refuse} would have been refused" if _observed(summary) else ""
    ended = f"{score.completed} completed, {score.refused} refused, {score.failed} failed"
    return f"{score.requests}: {ended}, {score.unfinished} unfinished{would}"


def _attained(summary: Summary) -> str:
    score = summary.requests
    objectives = f"TTFT within {TTFT_BUDGET_S:g} s and TPOT within {TPOT_BUDGET_S * 1000:g} ms"
    ended = "" if summary.cut_at_s is None else " that had ended by then"
    shares = " and ".join(_shares(score, observed=_observed(summary)))
    return f"{shares}{ended} had {objectives}; {_p95(score)}"


def _shares(score: Score, *, observed: bool) -> Iterator[str]:
    if not observed:  # else they are the same
        yield f"{percent(score.attained_of_admitted_ratio)} of the admitted requests"
    yield f"{percent(score.attained_ratio)} of all offered"


def _p95(score: Score) -> str:
    if score.ttft_p95_s is None or score.tpot_p95_s is None:
        return "no request was completed"
    return f"of those completed 95 % had a TTFT up to {score.ttft_p95_s:.1f} s, 95 % a TPOT up to {score.tpot_p95_s * 1000:.0f} ms"


def _other(summary: Summary) -> str:
    """How to see the same burst with the gate set the other way."""
    usual = Scenario()
    options = [] if _observed(summary) else ["--observe"]
    options += [] if summary.seconds == usual.seconds else [f"--seconds {summary.seconds:g}"]
    options += [] if summary.seed == usual.seed else [f"--seed {summary.seed}"]
    which = "with" if _observed(summary) else "without"
    command = " ".join(("slo-scaler demo", *options)).replace(" ", TIED)  # so that it can be pasted
    return f"the same burst {which} shedding: {command}"


def _table(summary: Summary) -> Iterator[str]:
    """A row for each phase. Without shedding all that is offered is admitted, and is not told twice."""
    observed = _observed(summary)
    rate, share = ("", "") if observed else (" admitted", "  admitted")
    yield ""
    yield _columns("", "", "req/s", " " * len(rate), "at most", "", "in time, of").rstrip()
    yield _columns("phase", "time", "offered", rate, "desired", "ready", "offered") + share
    for phase in summary.phases:
        yield _row(phase, observed=observed)
    yield ""


def _columns(*cells: str) -> str:
    name, span, offered, admitted, desired, ready, share = cells
    return f"{name:<{LABEL_COLUMNS}} {span:>9} {offered:>8}{admitted} {desired:>8} {ready:>6} {share:>11}"


def _row(phase: PhaseScore, *, observed: bool) -> str:
    score = phase.score
    cells = _columns(
        phase.name,
        f"{phase.start_s:.0f}-{phase.end_s:.0f} s",
        f"{phase.offered_per_s:.1f}",
        "" if observed else f" {phase.admitted_per_s:8.1f}",
        f"{phase.desired_max}",
        f"{phase.ready_max}",
        percent(score.attained_ratio),
    )
    return cells if observed else f"{cells} {percent(score.attained_of_admitted_ratio):>9}"


def _calls(rpcs: Rpcs) -> str:
    refused = sum(failure.cold and failure.code == "UNAVAILABLE" for failure in rpcs.failures)
    found = [f"{sum(rpcs.answered.values())} calls answered"]
    if refused:
        found.append(f"{refused} refused before the first decision, as they must be")
    found += [f"{len(rpcs.failures) - refused} failed", f"{rpcs.pushed} messages pushed"]
    return ", ".join(found)


def _verdict(summary: Summary) -> str:
    if summary.cut_at_s is not None:
        return f"cut short after {summary.cut_at_s:.0f} of {summary.seconds:g} s, so the loop was not judged"
    return "the loop worked" if summary.ok else f"the loop did not work: {'; '.join(summary.problems)}"


def _observed(summary: Summary) -> bool:
    return summary.gate == GateMode.OBSERVE


def percent(ratio: float | None) -> str:
    """A share as it is printed; a dash for that of nothing."""
    return "-" if ratio is None else f"{100 * ratio:.1f} %"
