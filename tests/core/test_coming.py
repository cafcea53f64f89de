"""What is to be expected of starts: by class of nodes, by age, and by the word of their platform."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.coming import Coming, coming, measure
from scaler.core.model import Phase, ReplicaSet, Starting
from scaler.core.ready_latency import ReadyLatency
from scaler.core.starts import Finished, Seen, Starts, follow
from tests.support.law import near

PRIOR = ReadyLatency()
H100 = tuple(Finished(float(i), 60.0 + i, "H100") for i in range(5))
A100 = tuple(Finished(10.0 + i, 300.0 + i, "A100") for i in range(3))
DAY_S = 86400.0


def seen(starts: Starts, at: float, *starting: Starting) -> Starts:
    """One more look at a platform with one ready replica and these."""
    listed = ReplicaSet(("ready",), starting, 1 + len(starting), at)
    return follow(starts, Seen(listed, (), (), 10.0))


def expected(finished: tuple[Finished, ...], now: float, *starting: Starting) -> Coming:
    """What is expected when these are first seen to start."""
    starts = seen(Starts(finished=finished), now, *starting)
    return coming(measure(None, PRIOR, finished, now), starts, now)


def planned(*finished: Finished, now: float = 100.0) -> ReadyLatency:
    return expected(finished, now).latency


# --- What has ended ------------------------------------------------------------------------------------------------


def test_with_nothing_known_the_prior_is_what_is_expected():
    assert expected((), 0.0) == Coming(PRIOR, (), ())


@pytest.mark.parametrize(
    ("finished", "samples"),
    [
        pytest.param((*H100, *A100), 3, id="those-of-the-class-of-the-newest"),
        pytest.param((*A100, *H100), 5, id="of-another-class"),
        pytest.param((*H100, *A100[:2]), 7, id="all-while-there-are-two-of-its-class"),
        pytest.param((*H100, Finished(50.0, 100.0)), 6, id="all-when-its-class-is-not-known"),
    ],
)
def test_the_next_replica_is_thought_to_be_of_the_class_of_the_newest_start(finished, samples):
    assert planned(*finished).samples == samples


def test_a_start_under_way_is_judged_by_its_own_class():
    starting = (Starting("a", 95.0, node_class="A100"), Starting("b", 95.0, node_class="H100"), Starting("c", 95.0))
    under_way = expected((*H100, *A100), 100.0, *starting).under_way
    assert [(start.replica, start.age_s, start.latency.samples) for start in under_way] == [
        ("a", 5.0, 3),
        ("b", 5.0, 5),
        ("c", 5.0, 8),
    ]


def test_what_starts_on_one_class_tells_nothing_of_another():
    alone, beside = (
        expected((*H100, *A100), 400.0, *starting).latency
        for starting in ((), (Starting("a", 200.0, node_class="H100"),))
    )
    assert alone == beside


def test_newer_starts_count_for_more():
    slow_to_fast = [Finished(float(i), 300.0 if i < 20 else 100.0) for i in range(40)]
    fast_to_slow = [Finished(float(i), 100.0 if i < 20 else 300.0) for i in range(40)]
    medians = (planned(*slow_to_fast).quantile(0.5), planned(*fast_to_slow).quantile(0.5))
    assert (medians[0] < 160.0, medians[1] > 180.0) == (True, True)


def test_half_a_year_later_the_prior_counts_again():
    p90_s = [planned(*H100, now=days * DAY_S).p90_s for days in (0, 7, 180)]
    assert (p90_s[0] < p90_s[1] < p90_s[2], p90_s[2]) == (True, near(180.0, rel=0.01))


def test_what_was_measured_holds_until_another_start_ends_or_the_prior_is_edited_or_time_has_passed():
    measured = measure(None, PRIOR, H100, 100.0)
    assert measure(measured, PRIOR, H100, 102.0) is measured
    assert measure(measured, PRIOR, (*H100, *A100), 102.0).planned == "A100"
    assert measure(measured, ReadyLatency(30.0), H100, 102.0).prior.p90_s == 30.0
    assert measure(measured, PRIOR, H100, 100.0 + 30 * DAY_S).fits[""].latency.p90_s > measured.fits[""].latency.p90_s


def test_the_usual_phases_are_medians_in_the_order_in_which_they_pass():
    rows = ((1.0, 20.0, 2.0), (3.0, 40.0, 1.0), (2.0, 90.0, 9.0))
    finished = tuple(
        Finished(float(at), 60.0, "", (Phase("ready", ready), Phase("asked", asked), Phase("first_token", token)))
        for at, (asked, ready, token) in enumerate(rows)
    )
    odd = replace(finished[-1], at=4.0, phases=(Phase("warming", 5.0),))
    assert expected((*finished, odd), 100.0).phases == (
        Phase("asked", 2.0),
        Phase("ready", 40.0),
        Phase("first_token", 2.0),
        Phase("warming", 5.0),
    )


# --- What is under way ---------------------------------------------------------------------------------------------


def p90_s(starts: Starts, now: float) -> float:
    return coming(measure(None, PRIOR, starts.finished, now), starts, now).latency.quantile(0.9)


def test_a_start_that_its_platform_calls_stuck_tells_no_more_than_when_that_began():
    starts = seen(Starts(), 0.0, Starting("a", 0.0))
    for at in range(2, 130, 2):
        starts = seen(starts, float(at), Starting("a", 0.0))
    stuck = starts
    for at in range(130, 400, 2):
        starts, stuck = (
            seen(before, float(at), Starting("a", 0.0, why))
            for before, why in ((starts, ""), (stuck, "ImagePullBackOff"))
        )
    assert (p90_s(stuck, 130.0), p90_s(stuck, 398.0)) == (p90_s(stuck, 398.0), near(245.0, rel=0.05))
    assert p90_s(starts, 398.0) > 500.0


def test_a_start_that_moves_again_counts_its_whole_age():
    starts = seen(Starts(), 0.0, Starting("a", 0.0))
    for at in range(2, 200, 2):
        starts = seen(starts, float(at), Starting("a", 0.0, "Unschedulable"))
    standing = p90_s(starts, 200.0)
    moving = p90_s(seen(starts, 202.0, Starting("a", 0.0)), 202.0)
    assert (standing, moving > 300.0) == (180.0, True)


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(Starting("a", -9000.0), id="by-its-age"),
        pytest.param(Starting("a", -200.0, "ImagePullBackOff"), id="by-the-word-of-its-platform"),
    ],
)
def test_a_replica_that_is_stuck_when_it_is_first_seen_tells_nothing(start):
    now = expected((), 0.0, start)
    assert (now.latency, [one.stuck for one in now.under_way]) == (PRIOR, [True])


def test_a_replica_that_is_not_ready_any_more_is_no_start():
    starts = follow(Starts(), Seen(ReplicaSet(("a", "b"), (), 2, 0.0), (), (), 10.0))
    starts = seen(starts, 2.0, Starting("a", -150.0))
    now = coming(measure(None, PRIOR, (), 2.0), starts, 2.0)
    assert (now.latency, now.under_way[0].age_s) == (PRIOR, 152.0)


def test_the_age_of_a_start_counts_from_when_it_was_asked_for():
    asks = ((2, 10.0),)
    finished = (Finished(0.0, 60.0, phases=(Phase("asked", 4.0),)),)
    starts = Starts(finished=finished)
    for at, starting in ((8.0, ()), (12.0, ()), (26.0, (Starting("asked", 25.0),))):
        listed = ReplicaSet(("ready",), starting, 1, at)
        starts = follow(starts, Seen(listed, (), asks, 20.0))
    starts = seen(starts, 28.0, Starting("asked", 25.0), Starting("replacement", 27.0))
    under_way = coming(measure(None, PRIOR, finished, 28.0), starts, 28.0).under_way
    assert [(start.replica, start.age_s) for start in under_way] == [("asked", 18.0), ("replacement", 5.0)]


ENDED = st.lists(
    st.tuples(st.floats(2.0, 6.0) | st.floats(30.0, 400.0), st.sampled_from(["", "H100", "A100"])), max_size=9
).map(lambda rows: tuple(Finished(float(at), took_s, kind) for at, (took_s, kind) in enumerate(rows)))
STARTING = st.lists(
    st.builds(
        Starting,
        st.sampled_from("abcd"),
        st.floats(-400.0, 99.0),
        st.sampled_from(["", "", "", "Unschedulable"]),
        st.sampled_from(["", "H100", "A100"]),
    ),
    max_size=4,
    unique_by=lambda start: start.replica,
)
QUANTILES = (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99)


@given(ENDED, STARTING, st.integers(0, 40))
def test_neither_one_more_start_under_way_nor_its_ageing_lowers_what_is_planned_with(finished, starting, ticks):
    measured = measure(None, PRIOR, finished, 100.0)
    fewer = coming(measured, seen(Starts(finished=finished), 100.0, *starting[1:]), 100.0)
    starts = seen(Starts(finished=finished), 100.0, *starting)
    more = coming(measured, starts, 100.0)
    for tick in range(ticks):
        starts = seen(starts, 102.0 + 2 * tick, *starting)
    later = coming(measured, starts, 100.0 + 2 * ticks)
    for q in QUANTILES:
        rising = [found.latency.quantile(q) for found in (fewer, more, later)]
        assert rising[0] * (1 - 1e-8) <= rising[1]
        assert rising[1] * (1 - 1e-8) <= rising[2]
