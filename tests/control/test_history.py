"""What the charts show: the last quarter of an hour, thinned, in little memory."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scaler.control.history import SLOT_S, SPAN_S, History, Point, point
from scaler.core.decision import QueueWait
from scaler.core.model import WorkloadKey
from tests.support import decisions as made

KEY = made.KEY
GREEN = made.green()


def at(at_s: float, wait_s: float = 0.0) -> Point:
    return Point(at_s, 1.0, 1.0, 0.0, wait_s, 2.0, 1, 0, 1)


def test_a_decision_is_shown_by_its_rates_its_wait_its_budget_and_its_replicas():
    assert point(made.red()) == Point(38.0, 24.0, 24.0, 0.0, 19.5, 2.0, 5, 0, 2)


def test_what_is_measured_is_not_known_while_blind_and_a_budget_not_where_none_is_promised():
    shown = point(replace(made.blind(), classes=made.blind().classes[2:]))
    measured = (shown.offered_per_s, shown.arrival_per_s, shown.refused_per_s, shown.queue_wait_s, shown.budget_s)
    assert ([math.isnan(value) for value in measured], shown.desired, shown.ready) == ([True] * 5, 2, 2)


@given(st.floats(0, allow_nan=False, allow_infinity=True))
def test_no_number_is_too_large_to_be_kept(wait_s):
    kept = History()
    kept.add(KEY, point(replace(GREEN, estimate=replace(GREEN.estimate, queue_wait=QueueWait(wait_s)))))
    [found] = kept.points(KEY)
    assert math.isclose(found.queue_wait_s, wait_s if wait_s < 1e38 else math.inf, rel_tol=1e-6, abs_tol=1e-37)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.25, 1.0, 2.0, 7.0, 300.0, 2000.0]), st.sampled_from([0.0, 0.5, 8.0])), max_size=600
    )
)
def test_of_each_slot_the_longest_wait_is_kept_and_nothing_older_than_the_span(beats):
    kept, slots, now = History(), dict[float, Point](), 0.0
    for pause_s, wait_s in beats:
        now += pause_s
        new = at(now, wait_s)
        kept.add(KEY, new)
        before = slots.get(now // SLOT_S)
        slots[now // SLOT_S] = new if before is None or new.queue_wait_s >= before.queue_wait_s else before
    newest = list(slots.values())[-round(SPAN_S / SLOT_S) :]
    assert kept.points(KEY) == [one for one in newest if one.at > newest[-1].at - SPAN_S]


def test_a_thousand_workloads_need_eight_megabytes():
    kept, points = History(), [at(beat * 2.0) for beat in range(1000)]
    tracemalloc.start()
    for number in range(10):
        for one in points:
            kept.add(WorkloadKey("prod", str(number)), one)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / 10 < 8.5e3


def test_a_workload_that_is_forgotten_has_no_history():
    kept = History()
    kept.add(KEY, at(1.0))
    kept.drop(KEY)
    assert kept.points(KEY) == []
