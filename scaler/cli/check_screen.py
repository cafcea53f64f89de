"""The findings of one workload as lines for a person: the worst first, what cannot be told in one place."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import typer

from scaler.checks import Finding, Verdict

STYLES = {Verdict.FAILS: "red", Verdict.WARNS: "yellow", Verdict.UNKNOWN: "bright_black", Verdict.PASSES: "green"}
INDENT = 8
NARROWEST = 60


@dataclass(frozen=True, slots=True)
class Line:
    """What stands at the left, coloured by the verdict, and the text beside it."""

    verdict: Verdict | None
    left: str
    text: str = ""


def show(workload: str, findings: Sequence[Finding]) -> None:
    """Print them. Lines are wrapped and coloured for a terminal only, so that elsewhere they can be searched. No colour with NO_COLOR."""
    plain = not sys.stdout.isatty() or bool(os.environ.get("NO_COLOR"))
    width = max(NARROWEST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else sys.maxsize
    for line in rendered(workload, findings):
        left = f"{line.left:<{INDENT}}" if line.text else line.left
        room = max(NARROWEST, width - INDENT)
        text = "\n".join(textwrap.wrap(line.text, room, subsequent_indent=" " * INDENT)) if line.text else ""
        colour = None if line.verdict is None else STYLES[line.verdict]
        typer.echo((left if plain else typer.style(left, fg=colour, bold=not line.text)) + text)


def rendered(workload: str, findings: Sequence[Finding]) -> Iterator[Line]:
    """All lines."""
    counts = Counter(one.verdict for one in findings)
    yield Line(None, f"{workload}: {', '.join(f'{counts[verdict]} {verdict}' for verdict in Verdict)}")
    for verdict in Verdict:
        of = [one for one in findings if one.verdict is verdict]
        if not of:
            continue
        yield Line(verdict, f"{verdict}")
        yield from _untold(of) if verdict is Verdict.UNKNOWN else (line for one in of for line in _told(one))
    yield Line(None, "")


def _told(one: Finding) -> Iterator[Line]:
    yield Line(one.verdict, one.code, f"{one.title}: {one.evidence} ({one.basis})")
    if one.remedy:
        yield Line(None, " ", f"→ {one.remedy} ({one.docs})")


def _untold(findings: Sequence[Finding]) -> Iterator[Line]:
    """By what is missing, since one fact often leaves many open."""
    codes: dict[str, list[str]] = defaultdict(list)
    for one in findings:
        codes[one.evidence].append(one.code)
    for evidence, of in codes.items():
        rest = f" (so with {' '.join(of[1:])})" if len(of) > 1 else ""
        yield Line(Verdict.UNKNOWN, of[0], f"{evidence}{rest}")
