"""What a replica can do: from a profile, learnt, derated, or corrected for another mix of tokens."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.capacity import (
    Learned,
    LoadWindow,
    Profile,
    capacity,
    derate,
    learn,
    mix_drift,
    within_cap,
)
from scaler.core.decision import Capacity
from scaler.core.model import Absent
from scaler.core.windows import Quantile
from tests.support.law import near

FEW = settings(max_examples=settings().max_examples // 4)
TESTED = Profile(100.0, 8.0, input_p50=1000.0)
BARE = Profile(100.0)
STEADY = LoadWindow(
    at=30.0,
    length_s=30.0,
    running_per_replica=50.0,
    running_change_ratio=0.1,
    waiting=0.0,
    throughput_per_replica_s=5.0,
)


@pytest.mark.parametrize(
    ("profile", "learned", "drift", "expected"),
    [
        pytest.param(TESTED, Learned(), 1.0, Capacity(100.0, 80.0, 8.0, 12.5, origin="profile"), id="load-tested"),
        pytest.param(
            TESTED, Learned(derate_ratio=0.5), 1.0, Capacity(100.0, 80.0, 4.0, 25.0, 0.5, 1.0, "profile"), id="derated"
        ),
        pytest.param(TESTED, Learned(), 2.0, Capacity(100.0, 80.0, 4.0, 25.0, 1.0, 2.0, "profile"), id="drifted"),
        pytest.param(
            BARE,
            Learned(10.0, windows=2),
            1.0,
            Capacity(100.0, 80.0, None, None, origin="unknown rate"),
            id="not-yet-learnt",
        ),
        pytest.param(
            BARE, Learned(10.0, windows=3), 1.0, Capacity(100.0, 80.0, 10.0, 10.0, origin="learned"), id="learnt"
        ),
    ],
)
def test_capacity_comes_from_the_load_test_or_is_learnt_and_is_corrected(profile, learned, drift, expected):
    assert capacity(profile, 0.2, learned, drift) == expected


def test_residence_is_learnt_by_littles_law_from_a_steady_window():
    assert learn(Learned(), BARE, STEADY) == Learned(residence_s=10.0, windows=1, learned_at=30.0)


def test_later_windows_weigh_by_how_full_they_are():
    learned = learn(Learned(10.0, 3, 30.0), BARE, replace(STEADY, at=60.0, running_per_replica=100.0))
    assert learned == Learned(near(10.0 + 0.3 * (20.0 - 10.0)), 4, 60.0)


@pytest.mark.parametrize(
    ("profile", "before", "window"),
    [
        pytest.param(TESTED, Learned(), STEADY, id="a-load-test-knows-better"),
        pytest.param(BARE, Learned(), replace(STEADY, waiting=1.0), id="something-waits"),
        pytest.param(BARE, Learned(), replace(STEADY, running_change_ratio=0.21), id="not-steady"),
        pytest.param(BARE, Learned(), replace(STEADY, running_per_replica=100.1), id="above-the-safe-concurrency"),
        pytest.param(BARE, Learned(), replace(STEADY, running_per_replica=19.0), id="nearly-empty"),
        pytest.param(BARE, Learned(), replace(STEADY, throughput_per_replica_s=0.6), id="too-few-requests"),
        pytest.param(BARE, Learned(10.0, 1, 10.0), STEADY, id="the-same-window-twice"),
    ],
)
def test_nothing_is_learnt_from_a_window_that_does_not_tell(profile, before, window):
    assert learn(before, profile, window) is before


@FEW
@given(
    st.lists(
        st.builds(
            LoadWindow,
            at=st.floats(0.0, 1e5),
            length_s=st.just(30.0),
            running_per_replica=st.floats(0.0, 300.0),
            running_change_ratio=st.floats(0.0, 2.0),
            waiting=st.floats(0.0, 5.0),
            throughput_per_replica_s=st.floats(0.0, 50.0),
        ),
        max_size=20,
    )
)
def test_a_learnt_residence_never_leaves_what_was_seen_below_the_safe_concurrency(windows):
    learned = Learned()
    for window in windows:
        learned = learn(learned, BARE, window)
    told = [
        w.running_per_replica / w.throughput_per_replica_s
        for w in windows
        if w.throughput_per_replica_s and w.running_per_replica <= 100
    ]
    assert learned.windows == 0 or min(told) * 0.999 <= learned.residence_s <= max(told) * 1.001


def test_a_contradicted_profile_is_derated_by_a_twentieth_every_half_minute_down_to_a_half_and_recovers_slower():
    learned, ratios = Learned(), []
    for tick in range(16 * 15):
        learned = derate(learned, tick * 2.0, contradicted=True)
        ratios.append(learned.derate_ratio)
    lowest = learned
    for tick in range(15):
        learned = derate(learned, lowest.derated_at + 2.0 + tick * 2.0, contradicted=False)
    assert (ratios[::15][:3], lowest.derate_ratio, learned.derate_ratio) == (
        [0.95, near(0.95**2), near(0.95**3)],
        0.5,
        near(0.5 * 1.02),
    )


@FEW
@given(st.lists(st.tuples(st.floats(0.1, 100.0), st.booleans()), max_size=100))
def test_derating_always_stays_within_a_half_and_one(ticks):
    learned, now = Learned(), 0.0
    for gap, contradicted in ticks:
        now += gap
        learned = derate(learned, now, contradicted=contradicted)
        assert 0.5 <= learned.derate_ratio <= 1.0


def test_derating_does_not_depend_on_when_the_clock_began():
    assert [derate(Learned(), now, contradicted=True).derate_ratio for now in (0.0, 5.0, 1e6)] == [0.95] * 3


SAME = Quantile(1000.0, 900.0, 1100.0, 500.0)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(Absent.UNKNOWN, 1.0, id="nothing-seen"),
        pytest.param(Quantile(1900.0, 1000.0, 2000.0, 500.0), 1.0, id="in-the-bucket-of-the-load-test"),
        pytest.param(Quantile(2000.0, 2000.0, 5000.0, 500.0), 1.6, id="longer"),
        pytest.param(Quantile(500.0, 200.0, 500.0, 500.0), 0.7, id="shorter"),
        pytest.param(Quantile(1250.0, 1200.0, 1500.0, 500.0), 1.0, id="longer-by-a-quarter"),
        pytest.param(Quantile(1300.0, 1200.0, 1500.0, 500.0), 1.18, id="longer-by-more"),
        pytest.param(Quantile(750.0, 500.0, 800.0, 500.0), 1.0, id="shorter-by-a-quarter"),
        pytest.param(Quantile(1.0, 0.0, 1.0, 500.0), 0.5, id="never-below-a-half"),
        pytest.param(Quantile(2000.0, 2000.0, 5000.0, 49.0), 1.0, id="too-few"),
    ],
)
def test_another_mix_counts_once_a_median_length_leaves_its_bucket_and_differs_by_more_than_a_quarter(seen, expected):
    tested = replace(TESTED, output_p50=1000.0)
    assert [mix_drift(tested, seen, SAME), mix_drift(tested, SAME, seen)] == [near(expected)] * 2


def test_longer_prompts_and_longer_answers_add_up_and_may_make_up_for_each_other():
    tested = replace(TESTED, output_p50=1000.0)
    double, half = Quantile(2000.0, 2000.0, 5000.0, 500.0), Quantile(500.0, 200.0, 500.0, 500.0)
    assert [mix_drift(tested, double, double), mix_drift(tested, double, half)] == [near(2.2), near(1.3)]


def test_without_the_mix_of_the_load_test_there_is_no_drift():
    seen = Quantile(2000.0, 2000.0, math.inf, 500.0)
    assert mix_drift(BARE, seen, seen) == 1.0


def test_an_engine_that_runs_fewer_at_once_than_the_load_test_found_safe_is_as_strong_as_it_is_wide():
    tested = Profile(100.0, 8.0)
    assert [within_cap(tested, cap) for cap in (None, 100, 50)] == [tested, tested, Profile(50.0, 4.0)]


@given(safe=st.floats(1.0, 1e4), rate=st.none() | st.floats(0.01, 1e3), cap=st.none() | st.integers(1, 10_000))
def test_a_cap_never_makes_a_profile_larger(safe, rate, cap):
    capped = within_cap(Profile(safe, rate), cap)
    assert capped.safe_concurrency <= safe
    assert (capped.safe_rate_per_s or 0.0) <= (rate or 0.0)
