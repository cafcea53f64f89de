"""docs/migrate.md, step by step, through the model of the HPA: no step lowers the replicas, and the orders that it warns of do.

A migration is a row of stages: who scales during some syncs, and by what. The last stage ends with the scaler's scale-down window;
what it decides then is no step. Metrics are in replicas (value ÷ target), so that the largest of several is what an HPA takes of them;
of CPU it is usage ÷ target × pods, the same proposal while all pods are ready.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.hpa import (
    DEFAULT_BEHAVIOR,
    DOWNSCALE_WINDOW_S,
    SHIPPED_BEHAVIOR,
    SHIPPED_TOLERANCE,
    Behavior,
    Generation,
    Hpa,
    HpaState,
    ScaleStatus,
    Select,
    Tolerance,
    quantize,
    sync,
)
from scaler.core.stabilize import MIN_DOWNSCALE_DELAY_S, Moment, Stabilizer, StabilizeSpec, stabilize

SYNC_S = 15.0
WINDOW = int(MIN_DOWNSCALE_DELAY_S / SYNC_S)
"""Syncs in a scale-down window of ours; the smallest that a trigger has without asking for less."""
OLD_WINDOW = int(DOWNSCALE_WINDOW_S / SYNC_S)
"""The same of an HPA that sets none."""
EMPTY = 0.0
"""What KEDA's prometheus trigger makes of an empty answer (``ignoreNullValues`` is true by default)."""
IDLE_CPU = 0.1
"""What a GPU server's CPU asks for, in replicas."""

Metric = Callable[[int, float], float | None]
"""The count asked of the platform and the time, to the metric in replicas; None while it fails."""


@dataclass(frozen=True)
class Stage:
    """Some syncs. ``hpa`` None: nobody scales. ``new``: the HPA was made afresh, so the controller remembers nothing of it.

    ``extra`` pods exist beside those asked for (negative: they are not created yet).
    """

    hpa: Hpa | None
    metric: Metric
    syncs: int
    new: bool = False
    extra: int = 0


def walk(count: int, *stages: Stage) -> list[list[int]]:
    """The counts of each stage: what it began with, and what each sync made of it."""
    state, now, walked = HpaState(), 0.0, []
    for stage in stages:
        state, counts = HpaState() if stage.new else state, [count]
        for _ in range(stage.syncs):
            now += SYNC_S
            if stage.hpa is not None:
                scale = ScaleStatus(count, max(1, count + stage.extra), count)
                state, result = sync(stage.hpa, state, stage.metric(count, now), scale, now)
                count = result.desired
            counts.append(count)
        walked.append(counts)
    return walked


def falls(counts: list[int]) -> list[tuple[int, int]]:
    return [(before, after) for before, after in pairwise(counts) if after < before]


@dataclass
class Ours:
    """What this scaler answers: nothing until it has read the engines, then the law's number.

    ``wanted`` is what the load asks for, ``unseen`` how many of the replicas asked of the platform it does not know of.
    """

    wanted: list[int]
    cold: int = 0
    min_replicas: int = 1
    max_replicas: int = 100
    unseen: int = 0
    memory: Stabilizer = field(default_factory=Stabilizer)
    asked: int = 0

    def __call__(self, count: int, now: float) -> float | None:
        self.asked += 1
        if self.asked <= self.cold:
            return None
        wanted = self.wanted[self.asked % len(self.wanted)]
        self.memory, shaped = stabilize(StabilizeSpec(), self.memory, self._moment(count, now, wanted))
        return quantize(float(shaped.replicas))

    def _moment(self, count: int, now: float, wanted: int) -> Moment:
        return Moment(
            now=now,
            recommended=min(max(wanted, self.min_replicas), self.max_replicas),
            current=count - self.unseen,
            min_replicas=self.min_replicas,
            max_replicas=self.max_replicas,
            start_floor=0,
            busy=True,
            red=False,
            pressed=False,
            blind=False,
            down_s=MIN_DOWNSCALE_DELAY_S,
        )


def steady(value: float | None) -> Metric:
    return lambda count, now: value


def series(values: Sequence[float | None]) -> Metric:
    """The values one after the other, again and again."""
    return lambda count, now: values[int(now / SYNC_S) % len(values)]


def larger(one: Metric, other: Metric) -> Metric:
    """What an HPA takes of two metrics."""
    return lambda count, now: max(v for v in (one(count, now), other(count, now), EMPTY) if v is not None)


def without_scale_in(hpa: Hpa) -> Hpa:
    """What KEDA makes of the HPA while autoscaling.keda.sh/paused-scale-in is there."""
    behavior = hpa.behavior or DEFAULT_BEHAVIOR
    return replace(hpa, behavior=replace(behavior, down=replace(behavior.down, select=Select.DISABLED)))


def shipped(old: Hpa, tolerance: Tolerance = SHIPPED_TOLERANCE) -> Hpa:
    """The old HPA after KEDA has written a ScaledObject of ours into it, with its bounds."""
    return replace(old, behavior=SHIPPED_BEHAVIOR, tolerance=tolerance)


# --- What may be found, and what may happen meanwhile -----------------------------------------------------------------

COUNTS = st.integers(1, 40)
LOADS = st.lists(st.integers(0, 60), min_size=1, max_size=30)
METRICS = st.lists(st.one_of(st.none(), st.floats(0, 60).map(quantize)), min_size=1, max_size=30).map(series)
NUMBERS = st.lists(st.integers(0, 60).map(float), min_size=1, max_size=30).map(series)
TOLERANCES = st.sampled_from([SHIPPED_TOLERANCE, Tolerance(), Tolerance(generation=Generation.OLD)])
WINDOWED = [None, DEFAULT_BEHAVIOR, replace(DEFAULT_BEHAVIOR, up=replace(DEFAULT_BEHAVIOR.up, stabilization_s=60.0))]
"""Old HPAs whose scale-down window is Kubernetes' own."""
UNWINDOWED = replace(DEFAULT_BEHAVIOR, down=replace(DEFAULT_BEHAVIOR.down, stabilization_s=0.0))


def hpas(behaviors: list[Behavior | None]) -> st.SearchStrategy[Hpa]:
    return st.builds(
        Hpa,
        min_replicas=st.integers(1, 3),
        max_replicas=st.integers(40, 60),
        behavior=st.sampled_from(behaviors),
        tolerance=TOLERANCES,
    )


OLD = hpas([*WINDOWED, UNWINDOWED])


@st.composite
def movers(draw: st.DrawFn, old: Hpa) -> tuple[Ours, Hpa, int, int]:
    """Our metric, the HPA that KEDA writes, for how many syncs it stays within one window of ours, and the extra pods."""
    cold = draw(st.integers(0, 5))
    ours = Ours(draw(LOADS), cold, old.min_replicas, old.max_replicas)
    tolerance = draw(TOLERANCES)
    # With a dead band the HPA takes the pods that exist for the count that is wanted, up and down (kubernetes#138505): with any metric,
    # and migration or not.
    extra = draw(st.integers(-3, 3)) if tolerance == SHIPPED_TOLERANCE else 0
    return ours, shipped(old, tolerance), draw(st.integers(1, cold + WINDOW)), extra


# --- The steps that the page gives ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "anew"),
    [
        pytest.param(METRICS, False, id="an HPA that is taken over"),
        pytest.param(METRICS, False, id="a prometheus trigger replaced in one apply"),
        pytest.param(NUMBERS, False, id="WVA behind KEDA or behind an HPA"),
        pytest.param(METRICS, True, id="an HPA that KServe removes first"),
    ],
)
@given(data=st.data())
def test_no_step_lowers_the_replicas(before, anew, data):
    """The first three are one thing to Kubernetes: an HPA object that goes on, with another metric, behavior and bounds."""
    old, count = data.draw(OLD), data.draw(COUNTS)
    ours, changed, more, extra = data.draw(movers(old))
    gap = Stage(None, ours, data.draw(st.integers(0, 10)) if anew else 0)
    found = Stage(old, data.draw(before), data.draw(st.integers(0, 30)))
    _, *steps = walk(count, found, gap, Stage(changed, ours, more, new=anew, extra=extra))
    assert [falls(counts) for counts in steps] == [[], []]


@given(data=st.data())
def test_nor_does_a_tool_that_deletes_the_hpa_after_keda_took_it_over(data):
    old, count = data.draw(OLD), data.draw(COUNTS)
    ours, adopted, more, extra = data.draw(movers(old))
    first, gap = data.draw(st.integers(0, more)), data.draw(st.integers(0, 3))
    _, *steps = walk(
        count,
        Stage(old, data.draw(METRICS), 10),
        Stage(adopted, ours, first, extra=extra),
        Stage(None, ours, gap),
        Stage(adopted, ours, max(0, more - first - gap), new=True, extra=extra),
    )
    assert [falls(counts) for counts in steps] == [[], [], []]


@given(count=COUNTS, old=OLD, before=METRICS, answers=METRICS, syncs=st.integers(1, 60))
def test_while_scale_in_is_paused_nothing_is_removed_whatever_is_answered(count, old, before, answers, syncs):
    _, after = walk(count, Stage(old, before, 10), Stage(without_scale_in(shipped(old)), answers, syncs))
    assert falls(after) == []


@given(data=st.data(), count=COUNTS, old=hpas(WINDOWED), answers=METRICS, gap=st.integers(0, 10))
def test_going_back_to_a_new_hpa_costs_no_replica_within_its_window(data, count, old, answers, gap):
    ours, ended, more, _ = data.draw(movers(old))
    _, paused, after = walk(
        count,
        Stage(ended, ours, more),
        Stage(None, ours, gap),
        Stage(old, answers, OLD_WINDOW, new=True),
    )
    assert falls(paused) == falls(after) == []


@given(count=COUNTS, old=hpas(WINDOWED), wanted=LOADS, answers=METRICS, syncs=st.integers(1, WINDOW))
def test_going_back_to_the_old_trigger_costs_no_replica_within_its_window(count, old, wanted, answers, syncs):
    """Which begins with our last number, so at the first sync of the old metric it is one sync old."""
    ours = Ours(wanted, 0, old.min_replicas, old.max_replicas)
    _, after = walk(count, Stage(shipped(old), ours, syncs), Stage(old, answers, OLD_WINDOW - 1))
    assert falls(after) == []


# --- The orders that it warns of: without them the tests above could not fail -----------------------------------------

BIG = Hpa(max_replicas=20)


def test_the_hpa_deleted_first_and_the_scaler_not_there_goes_to_the_minimum_before_keda_2_20():
    """KEDA makes an HPA without our metric, and Kubernetes fills in CPU at 80 %."""
    on_cpu = Stage(shipped(BIG), steady(IDLE_CPU), 2, new=True)
    assert walk(10, Stage(BIG, steady(10.0), 2), Stage(None, steady(None), 2), on_cpu) == [
        [10, 10, 10],
        [10, 10, 10],
        [10, 1, 1],
    ]


def test_a_maximum_below_the_count_removes_replicas_without_any_metric():
    lower = replace(shipped(BIG), max_replicas=6)
    assert walk(10, Stage(BIG, steady(10.0), 2), Stage(lower, Ours([10], cold=5), 2)) == [[10, 10, 10], [10, 6, 6]]


def test_our_window_of_zero_on_the_old_metric_drops_what_the_old_window_held():
    quiet = series([4.0])
    held, dropped = walk(10, Stage(BIG, quiet, 3), Stage(shipped(BIG), quiet, 2))
    assert (held, dropped) == ([10, 10, 10, 10], [10, 4, 4])


def test_wva_stopped_first_reads_as_zero():
    wva = replace(BIG, behavior=UNWINDOWED)
    assert walk(10, Stage(wva, steady(10.0), 2), Stage(wva, steady(EMPTY), 1)) == [[10, 10, 10], [10, 1]]


def test_a_trigger_that_stood_beside_ours_takes_its_replicas_along():
    ours, theirs = Ours([4]), steady(10.0)
    both, alone = walk(4, Stage(shipped(BIG), larger(ours, theirs), WINDOW + 2), Stage(shipped(BIG), ours, 1))
    assert (both[-1], alone) == (10, [10, 4])


def test_a_scaler_that_does_not_start_from_what_is_there_drops_it():
    """Why the first number is never below the count: a law without memory, at its first sync."""
    assert walk(10, Stage(BIG, steady(10.0), 2), Stage(shipped(BIG), steady(4.0), 1)) == [[10, 10, 10], [10, 4]]


def test_going_back_after_a_long_silence_finds_an_empty_window():
    silent = Stage(shipped(BIG), steady(None), OLD_WINDOW + 1)
    assert walk(10, Stage(shipped(BIG), Ours([10]), 2), silent, Stage(BIG, steady(4.0), 1))[2] == [10, 4]


def test_a_scaler_that_sees_ready_replicas_only_drops_those_that_are_starting():
    ready_only = Stage(shipped(BIG), Ours([4], unseen=3), 1)
    assert walk(10, Stage(BIG, steady(10.0), 2), ready_only) == [[10, 10, 10], [10, 7]]


def test_scale_in_that_is_freed_goes_to_our_number_at_once():
    paused = Stage(without_scale_in(shipped(BIG)), ours := Ours([4]), WINDOW + 2)
    assert walk(10, paused, Stage(shipped(BIG), ours, 1))[1] == [10, 4]


@pytest.mark.parametrize("old", [BIG, replace(BIG, behavior=DEFAULT_BEHAVIOR)], ids=["no behavior", "default behavior"])
def test_the_old_law_is_the_old_law_again_after_its_window(old):
    (counts,) = walk(10, Stage(old, steady(4.0), OLD_WINDOW + 2, new=True))
    assert (counts[-3], counts[-1]) == (10, 4)
