"""Virtual time: in order, and never back."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from scaler.sim.agenda import Agenda

instants = st.lists(st.floats(0.0, 100.0) | st.sampled_from([0.0, 1.0, 2.0]), max_size=30)


@given(instants, st.floats(0.0, 100.0))
def test_what_is_due_happens_in_order_of_time_and_then_as_it_was_entered(times, until):
    happened: list[tuple[float, int]] = []
    agenda = Agenda()
    for number, at in enumerate(times):
        agenda.at(at, partial(lambda number, now: happened.append((now, number)), number))
    agenda.run(until)
    assert happened == sorted((at, number) for number, at in enumerate(times) if at <= until)


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=10))
def test_it_makes_no_difference_how_often_it_is_run(stops):
    def run(until: list[float]) -> list[float]:
        happened: list[float] = []
        agenda = Agenda()
        agenda.every(7.0, 3.0, happened.append)
        for stop in until:
            agenda.run(stop)
        return happened

    assert run(sorted(stops)) == run([max(stops)])


def test_something_may_be_entered_for_the_very_instant_at_which_something_happens():
    happened: list[tuple[str, float]] = []
    agenda = Agenda()
    agenda.at(5.0, lambda now: agenda.at(now, lambda later: happened.append(("second", later))))
    agenda.at(5.0, lambda now: happened.append(("first", now)))
    agenda.run(5.0)
    assert happened == [("first", 5.0), ("second", 5.0)]
