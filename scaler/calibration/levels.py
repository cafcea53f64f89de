"""Runs put together: one level for each load, ascending, of one and the same setup.

A profile describes one model on one engine and GPU with one mix of tokens, so runs that differ in any of these are refused together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby

from scaler.calibration.formats import Results
from scaler.calibration.runs import Defect, Lengths, Load, LoadKind, Options, Run, Setup
from scaler.core.evidence import Ordered
from scaler.errors import ConfigError

ALIKE_RATIO = 0.1
"""How far the mean lengths of two runs may be apart beyond chance."""
CHANCE_ERRORS = 3.0
UNKNOWN_SPREAD = 1.0
"""The spread of lengths, relative to their mean, where a file does not tell it: that of real traffic."""
MIX_REQUESTS = 30
"""From so many requests on the mean and the spread of their lengths tell something."""
COMMAND_LINE = "the command line"


@dataclass(frozen=True, slots=True)
class Level:
    """All runs at one load."""

    runs: tuple[Run, ...]

    @property
    def load(self) -> Load:
        """What the load tester held constant."""
        return self.runs[0].load

    @property
    def options(self) -> Options:
        """How the load tester is told to do better."""
        return self.runs[0].options

    @property
    def files(self) -> str:
        """Where it stands."""
        return ", ".join(run.file for run in self.runs)

    @property
    def concurrency(self) -> float:
        """Requests in flight."""
        return _mean([(run.concurrency, run.completed) for run in self.runs])

    @property
    def little(self) -> float | None:
        """Requests in flight by Little's law, None where a file does not tell enough."""
        told = [(run.little, run.completed) for run in self.runs if run.little is not None]
        return _mean(told) if len(told) == len(self.runs) else None

    @property
    def completed(self) -> int:
        """Successful requests."""
        return sum(run.completed for run in self.runs)

    @property
    def failed(self) -> int | None:
        """Failed requests, None where no file tells."""
        told = [run.failed for run in self.runs if run.failed is not None]
        return sum(told) if told else None

    @property
    def rate_per_s(self) -> float:
        """Successful requests a second."""
        seconds = math.fsum(run.completed / run.rate_per_s for run in self.runs if run.rate_per_s > 0)
        return self.completed / seconds if seconds else 0.0

    @property
    def ttft(self) -> Ordered:
        """What is known of the times to the first token."""
        return Ordered.together([run.ttft.ordered() for run in self.runs])

    @property
    def tpot(self) -> Ordered:
        """What is known of the times per output token."""
        return Ordered.together([run.tpot.ordered() for run in self.runs])

    @property
    def prompts(self) -> Lengths:
        """The lengths of the prompts in the longest run; all runs are alike in them."""
        return max(self.runs, key=lambda run: run.completed).prompts

    @property
    def outputs(self) -> Lengths:
        """The lengths of the outputs, likewise."""
        return max(self.runs, key=lambda run: run.completed).outputs


@dataclass(frozen=True, slots=True)
class Sweep:
    """A whole load test: its levels in order of concurrency. ``warm`` is set when its prompts were in the prefix cache."""

    levels: tuple[Level, ...]
    setup: Setup
    files: tuple[Results, ...]
    warm: Defect | None = None
    notes: tuple[str, ...] = ()

    @property
    def options(self) -> Options:
        """How the load tester is told to do better."""
        return self.levels[0].options


def assemble(results: Iterable[Results], given: Setup, *, shared_prefix: bool = False) -> Sweep:
    """The sweep that the files hold, in whatever order they come.

    ``given`` is what the command line adds to the setup, and ``shared_prefix`` says that production's prompts are found in the prefix
    cache as the test's are. Raises ConfigError when there is no run, or when they are not of one setup.
    """
    files = tuple(sorted(results, key=lambda result: (result.file, result.sha256)))
    runs, notes = _counted_once([run for result in files for run in result.runs])
    if not runs:
        raise ConfigError("no level in these files: only warm-ups or summaries; give the file of each run")
    faults = [*_setup_faults(runs, given), *_mix_faults(runs)]
    if faults:
        raise ConfigError(*faults)
    runs.sort(key=lambda run: (run.load.kind, run.load.value, run.file))
    levels = [Level(tuple(same)) for _, same in groupby(runs, key=lambda run: run.load)]
    return Sweep(
        levels=_in_order(levels),
        setup=_merged(runs, given),
        files=tuple(result for result in files if result.runs),
        warm=None if shared_prefix else _warm(runs),
        notes=notes,
    )


def _in_order(levels: Iterable[Level]) -> tuple[Level, ...]:
    """By requests in flight. A rate that does not tell them, as when every request failed, stands just above the lower rates."""
    placed, reached = [], 0.0
    for level in sorted(levels, key=lambda level: level.load.value):
        if level.load.kind is LoadKind.RATE:
            reached = max(reached, level.concurrency)
        placed.append((level.concurrency or reached, level.load.value, level))
    return tuple(level for *_, level in sorted(placed, key=lambda one: one[:2]))


def _counted_once(runs: list[Run]) -> tuple[list[Run], tuple[str, ...]]:
    """The runs without those that a second file repeats: a sweep's summary beside its parts. The file that says more is kept."""
    found: dict[tuple[object, ...], Run] = {}
    twice: list[str] = []
    for run in sorted(runs, key=lambda run: (-_detail(run), run.file)):
        if run.likeness in found:
            twice.append(f"{run.file} is in {found[run.likeness].file}")
        else:
            found[run.likeness] = run
    note = (f"{len(twice)} of the runs are counted once though they stand in two files ({twice[0]})",) if twice else ()
    return list(found.values()), note


def _detail(run: Run) -> int:
    return len(run.ttft.samples) + sum(getattr(run.setup, field.name) is not None for field in fields(Setup))


def _setup_faults(runs: Sequence[Run], given: Setup) -> Iterator[str]:
    for field in fields(Setup):
        told = {value: run.file for run in reversed(runs) if (value := getattr(run.setup, field.name)) is not None}
        if field.name != "tool" and (asked := getattr(given, field.name)) is not None:
            told = {asked: COMMAND_LINE} | {value: file for value, file in told.items() if value != asked}
        if len(told) > 1:
            differ = " and ".join(sorted(f"{value} in {file}" for value, file in told.items()))
            yield f"{field.name}: {differ}; a profile describes one setup, so calibrate each by itself"


def _merged(runs: Sequence[Run], given: Setup) -> Setup:
    known = {
        field.name: next(
            (value for run in runs if (value := getattr(run.setup, field.name)) is not None), getattr(given, field.name)
        )
        for field in fields(Setup)
    }
    return replace(given, **known)


def _mix_faults(runs: Sequence[Run]) -> Iterator[str]:
    """Means that differ by more than chance: the spread of a mean falls with the root of the number of requests."""
    for side in ("prompts", "outputs"):
        told = sorted(
            (
                (lengths.mean, run)
                for run in runs
                if (lengths := getattr(run, side)).mean and run.completed >= MIX_REQUESTS
            ),
            key=lambda pair: (pair[0], pair[1].file),
        )
        if not told:
            continue
        (least, short), (most, long) = told[0], told[-1]
        if most > least * (
            1 + ALIKE_RATIO + CHANCE_ERRORS * (_error(getattr(short, side), short) + _error(getattr(long, side), long))
        ):
            yield (
                f"length of {side}: {least:.0f} tokens in {short.file}, {most:.0f} in {long.file}; "
                "a safe concurrency holds for one mix of lengths, so calibrate each by itself"
            )


def _error(lengths: Lengths, run: Run) -> float:
    """The standard error of a mean length, relative to it."""
    spread = UNKNOWN_SPREAD if lengths.std is None or not lengths.mean else lengths.std / lengths.mean
    return spread / math.sqrt(run.completed)


def _warm(runs: Sequence[Run]) -> Defect | None:
    """Prompts that were sent before: more load, and yet nine of ten first tokens come sooner than the usual one before.

    Nothing but the prefix cache makes an engine faster under more load, and the lengths of the prompts are alike.
    """
    for slow in runs:
        for fast in runs:
            usual, nearly_all = slow.ttft.at(0.5), fast.ttft.at(0.9)
            if usual is None or nearly_all is None or fast.concurrency < slow.concurrency or nearly_all >= usual:
                continue
            return Defect(
                f"the prefix cache was warm: nine of ten first tokens within {nearly_all:.3g} s in {fast.file}, while half of them "
                f"take longer than {usual:.3g} s in {slow.file} under no more load. {fast.options.cold}"
            )
    return None


def _mean(weighted: Sequence[tuple[float, float]]) -> float:
    total = math.fsum(weight for _, weight in weighted)
    if not total:
        return weighted[0][0]
    return math.fsum(value * weight for value, weight in weighted) / total
