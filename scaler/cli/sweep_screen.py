"""What a person sees of a sweep: a line a level, and on a terminal how long the present one has been running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from scaler.calibration.report import line

if TYPE_CHECKING:
    from scaler.calibration import Calibration
    from scaler.calibration.advice import NextTest

MINUTE_S = 60.0


class Screen:
    """Shows a sweep on a console, which should be standard error: the answer goes to standard output."""

    def __init__(self, console: Console) -> None:
        """Nothing shown yet."""
        self._console = console

    def kept(self, found: Calibration) -> None:
        """The levels that are there from before."""
        for judged in found.levels:
            self._print(f"kept: {line(judged)}")

    @contextmanager
    def testing(self, step: NextTest, found: Calibration | None) -> Iterator[None]:
        """While a level is tested."""
        if not self._console.is_terminal:
            yield
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            progress.add_task(f"{step.load}: {step.requests} requests{_about(step, found)}")
            yield

    def tested(self, found: Calibration | None, step: NextTest) -> None:
        """What came of it."""
        for judged in found.levels if found is not None else ():
            if judged.level.load == step.load:
                self._print(line(judged))

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _about(step: NextTest, found: Calibration | None) -> str:
    """How long its load should last if requests take as long as they did at the highest level so far; load testers start slowly."""
    if found is None:
        return ""
    level = found.levels[-1].level
    if not level.little or not level.rate_per_s:
        return ""
    seconds = step.requests * level.little / level.rate_per_s / step.load.value
    lasts = f"{seconds:.0f} s" if seconds < MINUTE_S else f"{seconds / MINUTE_S:.0f} min"
    return f", about {lasts} of load"
