"""The law's first values, one at a time around the defaults, in the scenes where they matter.

``python -m bench study`` takes an hour and more. What has no knob is a constant of ``scaler.core``: it is set in the processes that play.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, stdev

from bench.contenders import OURS, Job, Told, all_played, play_in
from scaler.core.step import WorkloadSpec
from scaler.sim.contest import Contest
from tests.support.scenes import SCENES

IN_PATH, POLLED, NO_GATE = OURS
SEEDS, FEW_SEEDS = range(11, 21), range(11, 13)
"""Others than those of ``decisions``: a choice must not be judged by what it was made on. Those of a trace differ in dice only."""
HEAD = (
    f"{len(SEEDS)} seeds, of the chat trace {len(FEW_SEEDS)}; kept / GPU-hours / most replicas,",
    "and below each the change against the default, seed by seed: points +- their error / GPU-hours",
)
WIDTH = 30


@dataclass(frozen=True, slots=True)
class Factor:
    """One value of the law: the default and those that are tried, and where. ``names`` are constants or knobs."""

    title: str
    names: tuple[str, ...]
    default: str
    values: tuple[float, ...]
    scenes: tuple[str, ...]
    laws: tuple[str, ...]


GATES, SURGES, OVERLOADS = (IN_PATH, POLLED), ("chat", "step", "bursts"), ("2x at max", "5x at max")
FACTORS = (
    Factor("headroom", ("headroom_ratio",), "0.1", (0.05, 0.15, 0.2), SURGES, (IN_PATH,)),
    Factor("drain deadline", ("drain_deadline_s",), "120 s", (60, 180, 300), ("step", "pulse", "bursts"), (NO_GATE,)),
    Factor(
        "scale-down window", ("downscale_delay_s",), "max(300 s, 2 L)", (180, 600, 900), ("chat", "bursts"), (IN_PATH,)
    ),
    Factor("growth at most", ("GROWTH_LIMIT",), "1.25", (1.0, 1.15, 1.5), (*SURGES, "pulse"), GATES),
    Factor("growth, least rise", ("GROWTH_SHARE",), "0.25", (0.1, 0.5), ("chat", "bursts"), (IN_PATH,)),
    Factor("set point", ("SET_POINT_RATIO",), "0.6", (0.4, 0.8), OVERLOADS, GATES),
    Factor("rise a reaction time", ("RISE_PER_REACTION",), "0.1", (0.05, 0.2, 0.5), (*OVERLOADS, "step"), GATES),
    Factor(
        "window of the rates",
        ("SHORTEST_WINDOW_S", "LONGEST_WINDOW_S"),
        "2 W in 15..30 s",
        (15, 30, 60),
        SURGES,
        (IN_PATH,),
    ),
)


@dataclass(frozen=True, slots=True)
class Trial:
    """One run, with one value changed by its names, or with none."""

    names: tuple[str, ...]
    value: float
    job: Job


Key = tuple[tuple[str, ...], float, str, str]
AS_IT_IS: tuple[tuple[str, ...], float] = ((), 0.0)


def run() -> list[str]:
    """A table for each factor."""
    return studied(FACTORS)


def studied(factors: Sequence[Factor]) -> list[str]:
    """Those of some."""
    began = time.monotonic()
    trials = list(dict.fromkeys(trial for factor in factors for trial in _trials(factor)))
    told = defaultdict[Key, list[Told]](list)
    for trial, one in zip(trials, all_played(play, trials), strict=True):
        told[trial.names, trial.value, trial.job.scene, trial.job.law].append(one)
    return [*HEAD, *(row for factor in factors for row in _table(factor, told)), f"{time.monotonic() - began:.0f} s"]


def play(trial: Trial) -> Told:
    """One run, by names. The process that plays it keeps nothing of the value."""
    contest = SCENES[trial.job.scene].contest(trial.job.seed)
    if contest is None:
        raise LookupError(trial.job.scene)
    before = {name: value for name in trial.names if (value := _constant(name)) is not None}
    try:
        for name in trial.names:
            contest = _changed(contest, name, trial.value)
        return play_in(contest, trial.job)
    finally:
        for name, value in before.items():
            _set(name, value)


def _changed(contest: Contest, name: str, value: float) -> Contest:
    if _constant(name) is not None:
        _set(name, value)
        return contest
    return replace(contest, setting=replace(contest.setting, spec=_with_knob(contest.setting.spec, name, value)))


def _with_knob(spec: WorkloadSpec, name: str, value: float) -> WorkloadSpec:
    match name:
        case "drain_deadline_s":
            return replace(spec, scaling=replace(spec.scaling, drain_deadline_s=value))
        case "downscale_delay_s":
            return replace(spec, stabilize=replace(spec.stabilize, downscale_delay_s=value))
        case "headroom_ratio":
            return replace(spec, headroom_ratio=value)
        case _:
            raise LookupError(name)


def _constant(name: str) -> float | None:
    return next((getattr(module, name) for module in _core() if hasattr(module, name)), None)


def _set(name: str, value: float) -> None:
    for module in _core():
        if hasattr(module, name):
            setattr(module, name, value)


def _core() -> list[object]:
    return [module for name, module in sys.modules.items() if name.startswith("scaler.core.")]


def _trials(factor: Factor) -> Iterator[Trial]:
    for scene, law in _places(factor):
        for names, value in (AS_IT_IS, *((factor.names, value) for value in factor.values)):
            for seed in FEW_SEEDS if scene == "chat" else SEEDS:
                yield Trial(names, value, Job(scene, law, seed))


def _places(factor: Factor) -> list[tuple[str, str]]:
    return [(scene, law) for scene in factor.scenes if SCENES[scene].contest(1) is not None for law in factor.laws]


def _table(factor: Factor, told: Mapping[Key, Sequence[Told]]) -> Iterator[str]:
    places = _places(factor)
    default = [told[*AS_IT_IS, *place] for place in places]
    yield from ("", _row(factor.title, [f"{scene}, {law}" for scene, law in places]))
    yield _row(factor.default, map(_figures, default))
    for value in factor.values:
        runs = [told[factor.names, value, *place] for place in places]
        yield _row(f"{value:g}", map(_figures, runs))
        yield _row("", map(_change, default, runs))


def _row(name: str, cells: Iterator[str] | Sequence[str]) -> str:
    return f"{name:22s}" + "".join(f"{cell:>{WIDTH}s}" for cell in cells)


def _figures(runs: Sequence[Told]) -> str:
    kept, hours = (fmean(getattr(one.worth, name) for one in runs) for name in ("kept_ratio", "gpu_hours"))
    return f"{kept:.2%} / {hours:.1f} / {max(one.worth.most_replicas for one in runs)}"


def _change(before: Sequence[Told], after: Sequence[Told]) -> str:
    """The dice are the same, so runs are compared one by one."""
    points = [100 * (new.worth.kept_ratio - old.worth.kept_ratio) for old, new in zip(before, after, strict=True)]
    dearer = sum(one.worth.gpu_hours for one in after) / sum(one.worth.gpu_hours for one in before) - 1
    return f"{fmean(points):+.2f} +-{stdev(points) / sqrt(len(points)):.2f} / {dearer:+.1%}"
