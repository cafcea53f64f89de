"""A safe concurrency that is learnt from live traffic: what raises it, what lowers it, and what never does."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.capacity import AUTO, Learned, capacity, within_cap
from scaler.core.decision import Capacity
from scaler.core.model import RequestClass
from scaler.core.shown import (
    FIRST_CONCURRENCY,
    MOST_LEVELS,
    STEP_RATIO,
    Basis,
    Counts,
    Level,
    Objectives,
    Shown,
    Window,
    concurrency_of,
    heed,
    highest_shown,
)
from tests.support.law import Engine, Law, near, workload

FEW = settings(max_examples=settings().max_examples // 4)
OBJECTIVES = Objectives(2.0, 0.1, 0.95)
FIRST = Shown(OBJECTIVES, 0)
SPEC = workload(AUTO, (RequestClass("chat", ttft_s=2.0, tpot_s=0.1),))
GOOD, BAD = Counts(300.0), Counts(300.0, 90.0, 90.0)


def after(shown: Shown, *windows: tuple[float | None, Counts]) -> Shown:
    """What is shown after these half minutes, the first of which has the same load before it."""
    shown = replace(shown, before=windows[0][0])
    for number, (running, seen) in enumerate(windows):
        shown = heed(shown, Window(30.0 * (number + 1), running, seen))
    return shown


def steps_after(shown: Shown, *windows: tuple[float | None, Counts]) -> int | None:
    return after(shown, *windows).step


@pytest.mark.parametrize(
    ("windows", "step"),
    [
        pytest.param([(9.0, GOOD)] * 3, 8, id="three-good-windows-show-what-ran"),
        pytest.param([(9.0, GOOD)] * 2, 0, id="two-do-not-however-many-requests"),
        pytest.param([(9.0, Counts(60.0))] * 3, 0, id="nor-do-too-few-requests"),
        pytest.param([(9.0, Counts(60.0))] * 4, 8, id="few-at-a-time-add-up"),
        pytest.param([(9.0, Counts(300.0, 15.0, 15.0))] * 3, 0, id="as-many-late-as-may-be-is-no-proof"),
        pytest.param([(9.0, Counts(300.0, 30.0))] * 9, 0, id="nor-is-what-a-coarse-histogram-leaves-open"),
        pytest.param([(4.5, GOOD), (9.0, GOOD), (4.5, GOOD), (9.0, GOOD)], 0, id="a-load-that-changes-tells-nothing"),
        pytest.param([(None, GOOD)] * 5, 0, id="nor-does-one-that-is-not-known"),
        pytest.param([(8.0, GOOD), (8.8, GOOD), (9.7, GOOD)], 7, id="higher-levels-speak-for-lower-ones"),
        pytest.param([(5.0, BAD)] * 3 + [(9.0, GOOD)] * 3, 0, id="but-not-over-one-that-broke"),
        pytest.param([(3.4, BAD)] * 2, -2, id="a-step-down-for-each-window-that-breaks"),
        pytest.param([(3.4, BAD)] * 9, -3, id="to-below-the-level-that-broke"),
        pytest.param([(1.0, BAD)] * 30, -14, id="and-never-below-one-at-a-time"),
        pytest.param([(9.0, BAD)] * 5, 0, id="what-breaks-far-above-lowers-nothing"),
    ],
)
def test_what_half_minutes_make_of_the_first_value(windows, step):
    assert steps_after(FIRST, *windows) == step


def test_a_value_that_is_contradicted_falls_step_by_step_and_rises_again_once_that_is_over():
    learnt = after(FIRST, *[(9.0, GOOD)] * 3)
    fallen = after(learnt, *[(9.0, BAD)] * 2)
    again = after(fallen, *[(9.0, GOOD)] * 20)
    assert (learnt.step, fallen.step, again.step) == (8, 7, 8)


@pytest.mark.parametrize(
    ("windows", "step", "basis"),
    [
        pytest.param([(20.0, Counts(10.0))] * 2, 16, Basis.FOUND, id="stands-without-proof"),
        pytest.param([(20.0, GOOD)] * 4, 16, Basis.SHOWN, id="until-it-is-shown"),
        pytest.param([(20.0, BAD)], 0, Basis.FIRST, id="or-breaks"),
        pytest.param([(20.0, Counts(10.0))] * 10, 0, Basis.FIRST, id="or-five-minutes-are-over"),
        pytest.param([(9.0, GOOD)] * 10, 8, Basis.SHOWN, id="with-what-was-shown-meanwhile"),
    ],
)
def test_what_a_replica_ran_when_it_was_first_seen(windows, step, basis):
    shown = after(Shown(OBJECTIVES, 16, found_at=0.0), *windows)
    assert (shown.step, shown.basis) == (step, basis)


def law(running: float) -> Law:
    law = Law(SPEC)
    law.see(Engine(running=running))
    return law


@pytest.mark.parametrize(
    ("running", "value", "basis"),
    [
        pytest.param(0.0, 4.0, Basis.FIRST, id="idle"),
        pytest.param(3.0, 4.0, Basis.FIRST, id="little"),
        pytest.param(20.0, near(4.0 * 1.1**16), Basis.FOUND, id="more"),
    ],
)
def test_it_begins_with_four_or_with_what_runs(running, value, basis):
    cap = law(running).decisions[-1].estimate.capacity
    assert (cap.safe_concurrency, cap.basis, cap.confidence) == (value, basis, "low")


def test_a_fleet_that_is_found_serving_well_is_left_as_it_is():
    law, engines = Law(SPEC), [Engine(name, running=20.0) for name in "abc"]
    assert law.steady(60.0, *engines, rate_per_s=2.0).desired == 4  # 20 lies between two levels


def test_the_law_learns_from_what_engines_report_and_aims_at_a_little_more():
    law, engine = Law(SPEC), Engine(running=4.5)
    decision = law.steady(240.0, engine, rate_per_s=5.0)
    assert decision.estimate.capacity == Capacity(
        safe_concurrency=near(4.4),
        target=near(4.4 * STEP_RATIO**3),
        safe_rate_per_s=near(4.4 / 0.9, rel=0.05),
        residence_s=near(0.9, rel=0.05),
        origin="learned",
        confidence="low",
        basis=Basis.SHOWN,
    )


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"ttft_s": 3.0}, id="slow-first-tokens"),
        pytest.param({"tpot_s": 0.3}, id="slow-tokens"),
        pytest.param({"ttft_s": 1.9}, id="in-the-bucket-of-the-objective"),
    ],
)
def test_late_requests_show_nothing(changes):
    spec = workload(AUTO, (RequestClass("chat", ttft_s=1.95, tpot_s=0.1),))
    law, engine = Law(spec), Engine(running=8.0)
    for _ in range(200):
        engine.emit(10.0, **changes)
        law.see(engine)
    assert law.decisions[-1].estimate.capacity.safe_concurrency <= FIRST_CONCURRENCY


def test_preemptions_show_that_the_cache_is_full():
    law, engine = Law(SPEC), Engine(running=4.5)
    for _ in range(200):
        engine.preemptions += 1.0
        engine.emit(10.0)
        law.see(engine)
    assert law.decisions[-1].estimate.capacity.safe_concurrency == FIRST_CONCURRENCY


def test_what_runs_above_a_learnt_value_is_no_queue():
    estimate = law(3.0).see(Engine(running=300.0)).estimate
    assert (estimate.queue, estimate.queue_wait.s) == (0.0, 0.0)


def test_other_objectives_begin_anew():
    law = Law(SPEC)
    law.steady(240.0, Engine(running=4.5), rate_per_s=5.0)
    law.edit(classes=(RequestClass("chat", ttft_s=1.0, tpot_s=0.1),))
    assert law.see(Engine(running=1.0)).estimate.capacity.safe_concurrency == FIRST_CONCURRENCY


def test_headroom_counts_once_the_limit_is_known_to_be_near():
    learnt = after(FIRST, *[(9.0, GOOD)] * 3)
    tried = after(learnt, *[(10.0, BAD)] * 3)
    assert [learnt.target(0.1), tried.target(0.1)] == [near(concurrency_of(11)), near(0.9 * tried.value)]


def test_the_engines_own_cap_counts_before_what_was_shown():
    shown = after(FIRST, *[(9.0, GOOD)] * 3)
    capped = within_cap(replace(AUTO, safe_concurrency=shown.value), 6)
    assert capacity(capped, 0.1, Learned(shown=shown), 1.0).target == near(5.4)


COUNTS = st.builds(
    lambda n, late, surely: Counts(n, late * n, late * surely * n),
    st.floats(0.0, 2000.0),
    st.sampled_from([0.0, 0.001, 0.02, 0.05, 0.2, 1.0]),
    st.floats(0.0, 1.0),
)
LOADS = st.none() | st.floats(0.0, 200.0) | st.floats(4.0, 12.0)
WINDOWS = st.lists(st.tuples(LOADS, COUNTS), min_size=1, max_size=60)
CALM = st.lists(st.tuples(st.floats(8.0, 10.0), COUNTS), min_size=1, max_size=30)


@given(WINDOWS | CALM)
def test_the_value_never_exceeds_what_ran(windows):
    ran = [running for running, _ in windows if running is not None]
    assert after(FIRST, *windows).value <= max([FIRST_CONCURRENCY, *ran]) * (1 + 1e-9)


@given(WINDOWS | CALM, CALM, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_more_latency_never_raises_the_value(before, windows, later, surely):
    shown = after(FIRST, *before)
    running, seen = windows[0]
    more = Counts(seen.requests, seen.late + later * (seen.requests - seen.late), seen.surely_late)
    worst = replace(more, surely_late=more.surely_late + surely * (more.late - more.surely_late))
    values = [
        heed(replace(shown, before=running), Window(1e4, running, counts)).value for counts in (seen, more, worst)
    ]
    assert values == sorted(values, reverse=True)


@given(WINDOWS | CALM)
def test_a_value_that_is_kept_is_shown_or_was_and_a_level_that_breaks_is_never_passed_over(windows):
    shown = after(FIRST, *windows)
    highest = highest_shown(shown.levels, 0.95)
    assert highest is None or highest <= (shown.step or 0)


@FEW
@given(WINDOWS, st.floats(0.1, 100.0))
def test_what_is_remembered_is_always_bounded(windows, share):
    shown = after(FIRST, *[(running, seen.at_most(share)) for running, seen in windows])
    kept = [one.seen.requests for one in shown.levels]
    assert len(kept) <= MOST_LEVELS
    assert all(math.isfinite(requests) for requests in kept)


@FEW
@given(st.lists(st.tuples(st.integers(0, 20), COUNTS), max_size=8), st.integers(0, 20))
def test_more_late_requests_at_any_level_never_raise_what_is_shown(seen, place):
    levels = tuple(Level(step, counts) for step, counts in sorted(dict(seen).items()))
    worse = tuple(
        replace(one, seen=replace(one.seen, late=one.seen.requests, surely_late=one.seen.requests))
        if one.step == place
        else one
        for one in levels
    )
    before, now = (highest_shown(each, 0.95) for each in (levels, worse))
    assert now is None or (before is not None and now <= before)
