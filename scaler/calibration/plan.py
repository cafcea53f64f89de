"""Which level a sweep tests next: twice the load until the knee is passed, then one between, and then it is over."""

from __future__ import annotations

from scaler.calibration.advice import NextTest, between, next_test
from scaler.calibration.choose import COARSE_STEP, Calibration
from scaler.calibration.judge import Objectives, enough_requests
from scaler.calibration.runs import Load, LoadKind

LOWEST, HIGHEST = 1.0, 4096.0
"""Where a sweep begins, and more than one replica runs at a time."""
MOST_RUNS = 2
"""A level that is not shown to pass or fail is tested once more, with more requests."""
REFUSED = "errors"


def next_level(found: Calibration | None, objectives: Objectives, fewest: int | None = None) -> NextTest | None:
    """What to test after what was found, if anything was; None when the sweep is over, as it is where the endpoint refused requests.

    ``fewest`` requests are what a low level is given, None for as many as make a good bound.
    """
    if found is None:
        return _fresh(Load(LoadKind.CONCURRENCY, LOWEST), objectives, fewest)
    step = next_test(found)
    if step is None or _refused(found):
        return None
    runs = sum(run.load == step.load for file in found.sweep.files for run in file.runs)
    if 0 < runs < MOST_RUNS:
        return step
    load = _bisecting(found) if runs or found.stopper is not None else step.load
    return None if load is None or load.value > HIGHEST else _fresh(load, objectives, fewest)


def _bisecting(found: Calibration) -> Load | None:
    """The level between the safe one and the next; None when they are as near as one level between has made them."""
    safe, stopper = found.safe, found.stopper
    if safe is None or stopper is None or stopper.level.load.value < COARSE_STEP * safe.level.load.value:
        return None
    return between(safe.level.load, stopper)


def _refused(found: Calibration) -> bool:
    return found.stopper is not None and any(trouble.name == REFUSED for trouble in found.stopper.troubles)


def _fresh(load: Load, objectives: Objectives, fewest: int | None) -> NextTest:
    return NextTest(load, enough_requests(load, objectives.share, fewest))
