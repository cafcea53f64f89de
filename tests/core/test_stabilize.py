"""From the recommendation to the published number: up at once, down after a window, held while blind or RED."""

import itertools
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.decision import Reason, Shaped
from scaler.core.stabilize import Moment, Stabilizer, StabilizeSpec, reseed, roused, shape, stabilize
from scaler.core.windows import Extremes

FEW = settings(max_examples=settings().max_examples // 4)
CALM = Moment(
    now=0.0,
    recommended=2,
    current=2,
    min_replicas=1,
    max_replicas=100,
    start_floor=0,
    busy=True,
    red=False,
    pressed=False,
    blind=False,
    down_s=60.0,
)


@dataclass
class Shaper:
    """A stabilizer and what it published."""

    spec: StabilizeSpec = field(default_factory=lambda: StabilizeSpec(idle_s=100.0))
    memory: Stabilizer = field(default_factory=Stabilizer)

    def see(self, now: float, recommended: int, **rest) -> Shaped:
        self.memory, shaped = stabilize(self.spec, self.memory, replace(CALM, now=now, recommended=recommended, **rest))
        return shaped


def published(steps, **spec):
    shaper = Shaper(StabilizeSpec(**{"idle_s": 100.0, **spec}))
    return [(shaped.replicas, shaped.reason) for shaped in (shaper.see(now, want, **rest) for now, want, rest in steps)]


def test_up_at_once():
    assert published([(0.0, 2, {}), (2.0, 9, {})]) == [(2, None), (9, None)]


def test_down_only_to_the_largest_recommendation_of_the_window():
    steps: list[tuple] = [(0.0, 9, {}), (10.0, 5, {}), (20.0, 3, {}), (59.9, 3, {}), (60.0, 3, {}), (70.0, 3, {})]
    held, free = Reason.DOWNSCALE_WINDOW, None
    assert published(steps) == [(9, free), (9, held), (9, held), (9, held), (5, held), (3, free)]


def test_a_start_holds_what_runs_for_one_whole_window():
    steps = [(0.0, 1, {"current": 7}), (30.0, 1, {"current": 7}), (60.0, 1, {"current": 7})]
    assert published(steps) == [(7, Reason.START), (7, Reason.DOWNSCALE_WINDOW), (1, None)]


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        pytest.param({"recommended": 1, "current": 7}, (7, Reason.START), id="what-runs"),
        pytest.param({"recommended": 1, "start_floor": 6}, (6, Reason.START), id="what-the-ongoing-requests-need"),
        pytest.param({"recommended": 1, "min_replicas": 4}, (4, Reason.START), id="the-minimum"),
        pytest.param({"recommended": 9}, (9, None), id="the-recommendation"),
        pytest.param(
            {"recommended": 1, "current": 70, "max_replicas": 20}, (20, Reason.MAX_REPLICAS), id="at-most-the-maximum"
        ),
        pytest.param(
            {"recommended": 0, "current": 0, "min_replicas": 0, "busy": False}, (0, None), id="zero-stays-zero"
        ),
        pytest.param({"recommended": 0, "current": 0, "min_replicas": 0}, (1, Reason.NOT_IDLE), id="but-not-with-work"),
    ],
)
def test_the_first_number(moment, expected):
    shaped = stabilize(StabilizeSpec(), Stabilizer(), replace(CALM, **moment))[1]
    assert (shaped.replicas, shaped.reason) == expected


def test_the_upscale_delay_takes_the_smallest_recommendation_of_its_window():
    steps: list[tuple] = [(0.0, 2, {}), (10.0, 8, {}), (20.0, 5, {}), (39.9, 9, {}), (40.0, 9, {}), (50.0, 9, {})]
    held = Reason.UPSCALE_DELAY
    assert published(steps, upscale_delay_s=30.0) == [(2, None), (2, held), (2, held), (5, held), (5, held), (9, None)]


def test_the_upscale_delay_holds_from_the_very_start():
    assert published([(0.0, 8, {})], upscale_delay_s=30.0) == [(2, Reason.UPSCALE_DELAY)]


def test_pressure_skips_the_upscale_delay():
    assert published([(0.0, 2, {}), (2.0, 8, {"pressed": True})], upscale_delay_s=30.0) == [(2, None), (8, None)]


def test_a_raised_minimum_does_not_wait_for_the_upscale_delay():
    assert published([(0.0, 2, {}), (2.0, 5, {"min_replicas": 4})], upscale_delay_s=30.0) == [
        (2, None),
        (4, Reason.UPSCALE_DELAY),
    ]


def test_red_holds_the_number_and_lets_it_rise():
    steps = [(0.0, 5, {}), (100.0, 2, {"red": True}), (102.0, 7, {"red": True, "pressed": True})]
    assert published(steps) == [(5, None), (5, Reason.RED_HOLD), (7, None)]


def test_while_blind_the_number_stands_but_for_a_lower_maximum():
    steps = [(0.0, 5, {}), (100.0, 9, {"blind": True}), (102.0, 1, {"blind": True, "max_replicas": 3})]
    assert published(steps) == [(5, None), (5, Reason.BLIND_HOLD), (3, Reason.MAX_REPLICAS)]


def test_blind_before_anything_was_published_starts_and_remembers_nothing():
    memory, shaped = stabilize(StabilizeSpec(), Stabilizer(), replace(CALM, blind=True))
    assert (memory, shaped.replicas) == (Stabilizer(published=2), 2)


def test_a_blind_time_is_evidence_for_neither_a_smaller_number_nor_idleness():
    shaper = Shaper()
    shaper.see(0.0, 5)
    for now in range(10, 200, 10):
        shaper.see(float(now), 5, blind=True)
    after = [shaper.see(200.0 + wait, 0, min_replicas=0, busy=False).replicas for wait in (0.0, 49.0, 50.0, 89.0, 90.0)]
    assert after == [5, 5, 1, 1, 0]


def test_zero_only_after_nothing_was_asked_for_during_the_idle_time():
    work, idle = {"current": 1}, {"busy": False, "min_replicas": 0}
    steps = [(0.0, 1, work), (50.0, 1, work), (120.0, 0, idle), (149.9, 0, idle), (150.0, 0, idle)]
    assert published(steps) == [(1, None), (1, None), (1, Reason.NOT_IDLE), (1, Reason.NOT_IDLE), (0, None)]


def test_an_edit_lets_the_number_stand_for_one_more_window():
    shaper = Shaper()
    shaper.see(0.0, 9)
    shaper.see(59.0, 2)
    shaper.memory = reseed(shaper.memory, 59.0)
    assert [shaper.see(now, 2).replicas for now in (60.0, 118.9, 119.0)] == [9, 9, 2]


def test_an_edit_before_anything_was_published_changes_nothing():
    fresh = Stabilizer()
    assert reseed(fresh, 5.0) is fresh


def test_an_edit_keeps_what_the_upscale_delay_has_seen():
    shaper = Shaper(StabilizeSpec(upscale_delay_s=30.0))
    shaper.see(0.0, 2)
    shaper.see(10.0, 8)
    assert reseed(shaper.memory, 20.0).ups == shaper.memory.ups


YOUNG = Stabilizer(published=5, busy_at=1.0)


def test_an_edit_of_what_has_seen_nothing_begins_both_windows_with_the_published_number():
    now = ((7.0, 5.0),)
    assert reseed(YOUNG, 7.0) == replace(YOUNG, downs=Extremes(stairs=now), ups=Extremes(-1, now))


def test_a_time_in_which_nobody_looked_is_an_edit_that_ends_with_work():
    assert roused(YOUNG, 7.0) == replace(reseed(YOUNG, 7.0), busy_at=7.0)


def test_a_recommendation_that_may_be_too_small_is_no_evidence_for_a_smaller_number():
    unsure: dict[str, bool] = {"unsure": True}
    steps: list[tuple] = [(0.0, 5, {}), (59.0, 2, unsure), (60.0, 2, {}), (118.9, 2, {}), (119.0, 2, {})]
    held = Reason.DOWNSCALE_WINDOW
    assert published(steps) == [(5, None), (5, held), (5, held), (5, held), (2, None)]


def test_one_that_asks_for_more_counts_for_what_it_asks():
    steps: list[tuple] = [(0.0, 5, {}), (10.0, 9, {"unsure": True}), (69.9, 2, {}), (70.0, 2, {})]
    assert [replicas for replicas, _ in published(steps)] == [5, 9, 9, 2]


def test_a_floor_is_the_reason_where_less_is_asked_for_and_falls_like_load():
    floor = {"floor": 6}
    steps: list[tuple] = [
        (0.0, 2, {}),
        (1.0, 2, floor),
        (2.0, 6, floor),
        (3.0, 2, floor),
        (4.0, 2, {}),
        (62.9, 2, {}),
        (63.0, 2, {}),
    ]
    held = Reason.DOWNSCALE_WINDOW
    assert published(steps) == [
        (2, None),
        (6, Reason.FLOOR),
        (6, None),
        (6, Reason.FLOOR),
        (6, held),
        (6, held),
        (2, None),
    ]


def test_a_number_that_red_need_not_hold_is_not_said_to_be_held():
    assert published([(0.0, 5, {}), (100.0, 5, {"red": True})])[1] == (5, None)


def test_a_restart_with_a_replica_and_no_work_waits_for_the_idle_time():
    idle = {"current": 1, "busy": False, "min_replicas": 0}
    steps = [(0.0, 0, idle), (60.0, 0, idle), (99.9, 0, idle), (100.0, 0, idle)]
    assert published(steps) == [(1, Reason.START), (1, Reason.NOT_IDLE), (1, Reason.NOT_IDLE), (0, None)]


def test_at_zero_a_recommendation_that_may_be_too_small_is_evidence_for_zero():
    zero = replace(CALM, recommended=0, current=0, min_replicas=0, busy=False, unsure=True)
    memory, _ = stabilize(StabilizeSpec(), Stabilizer(published=0), zero)
    assert memory.downs.extreme() == 0.0


def test_what_was_published_is_made_again_from_its_inputs():
    _, shaped = stabilize(StabilizeSpec(), Stabilizer(published=9), replace(CALM, recommended=9, max_replicas=3))
    assert (shaped.replicas, shape(shaped.inputs)) == (3, shaped)


def test_what_is_owed_is_the_oldest_number_that_the_platform_has_not_reached():
    shaper, owed = Shaper(), []
    steps = [(0.0, 2, 2), (10.0, 4, 2), (20.0, 9, 2), (30.0, 9, 3), (40.0, 9, 4), (50.0, 9, 9), (60.0, 10, 9)]
    for now, want, current in steps:
        shaper.see(now, want, current=current)
        owed.append(shaper.memory.raised_at)
    assert owed == [None, 10.0, 10.0, 10.0, 20.0, None, 60.0]


def test_what_is_no_longer_asked_for_is_no_longer_owed():
    shaper = Shaper()
    for now, want in ((0.0, 2), (10.0, 4), (20.0, 9), (90.0, 3)):
        shaper.see(now, want, down_s=1.0)
    assert shaper.memory.asks == ((3, 90.0),)


def test_the_scale_down_window_is_five_minutes_or_two_starts_unless_said_otherwise():
    windows = [
        StabilizeSpec(downscale_delay_s=given).down_s(ready)
        for given, ready in ((None, 100.0), (None, 200.0), (7.0, 200.0))
    ]
    assert windows == [300.0, 400.0, 7.0]


def test_the_defaults_of_stabilization():
    assert StabilizeSpec() == StabilizeSpec(upscale_delay_s=0.0, downscale_delay_s=None, idle_s=600.0)


MOMENTS = st.builds(
    Moment,
    now=st.just(0.0),
    recommended=st.integers(0, 40),
    current=st.integers(0, 40),
    min_replicas=st.integers(0, 3),
    max_replicas=st.integers(5, 40),
    start_floor=st.integers(0, 40),
    busy=st.booleans(),
    red=st.booleans(),
    pressed=st.booleans(),
    blind=st.booleans(),
    down_s=st.just(60.0),
)
HISTORIES = st.lists(st.tuples(st.integers(1, 30), MOMENTS), min_size=1, max_size=30)
SPECS = st.builds(StabilizeSpec, upscale_delay_s=st.sampled_from([0.0, 20.0]), idle_s=st.just(50.0))


def run(spec, history):
    """(instant, moment, published) of every tick; recommendations obey their own bounds, as those of the law do."""
    memory, now, rows = Stabilizer(), 0.0, []
    for gap, moment in history:
        now += gap
        want = min(max(moment.recommended, moment.min_replicas), moment.max_replicas)
        seen = replace(moment, now=now, recommended=want)
        memory, shaped = stabilize(spec, memory, seen)
        rows.append((now, seen, shaped.replicas))
    return rows


@FEW
@given(SPECS, HISTORIES)
def test_the_published_number_is_always_within_zero_and_the_maximum(spec, history):
    assert all(0 <= replicas <= moment.max_replicas for _, moment, replicas in run(spec, history))


@FEW
@given(SPECS, HISTORIES)
def test_a_published_scale_down_is_never_below_the_largest_recommendation_of_the_window(spec, history):
    rows = run(spec, history)
    for (_, _, before), (now, moment, replicas) in itertools.pairwise(rows):
        if replicas < before and replicas < moment.max_replicas:
            wanted = [seen.recommended for at, seen, _ in rows if not seen.blind and now - 60.0 < at <= now]
            assert replicas >= min(before, max(wanted))


@FEW
@given(SPECS, HISTORIES)
def test_blind_or_red_never_lowers_the_number_but_for_a_lower_maximum(spec, history):
    rows = run(spec, history)
    for (_, _, before), (_, moment, replicas) in itertools.pairwise(rows):
        if moment.blind or moment.red:
            assert replicas >= min(before, moment.max_replicas)


@FEW
@given(SPECS, HISTORIES)
def test_zero_is_never_published_within_the_idle_time_after_work(spec, history):
    rows = run(spec, history)
    for now, _, replicas in rows:
        if replicas == 0:
            assert not [at for at, seen, _ in rows if seen.busy and not seen.blind and now - 50.0 < at <= now]


@FEW
@given(HISTORIES)
def test_without_a_delay_and_with_sight_the_number_is_never_below_the_recommendation(history):
    for _, moment, replicas in run(StabilizeSpec(), history):
        if not moment.blind:
            assert replicas >= moment.recommended


@FEW
@given(HISTORIES)
def test_what_is_owed_always_rises_and_always_ends_at_what_was_published(history):
    memory, now = Stabilizer(), 0.0
    for gap, moment in history:
        now += gap
        memory, shaped = stabilize(StabilizeSpec(), memory, replace(moment, now=now))
        levels = [level for level, _ in memory.asks]
        assert levels == sorted(set(levels))
        assert (levels[-1:] == [shaped.replicas]) is (shaped.replicas > moment.current)


def test_a_time_in_which_the_platform_must_not_act_does_not_age_what_it_owes():
    owing = replace(CALM, recommended=3, current=1, held=True)
    memory, _ = stabilize(StabilizeSpec(), Stabilizer(published=1), replace(owing, now=0.0))
    memory, _ = stabilize(StabilizeSpec(), memory, replace(owing, now=1800.0))
    memory, _ = stabilize(StabilizeSpec(), memory, replace(owing, now=1802.0, held=False))
    assert memory.asks == ((3, 1800.0),)
