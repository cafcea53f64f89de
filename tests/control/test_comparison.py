"""What a shadow would have done beside what was done."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.control.board import Board
from scaler.control.comparison import LONGEST_GAP_S, Comparison
from scaler.core.decision import Decision
from tests.support.decisions import KEY, green, red

GREEN, RED = replace(green(), shadow=True), replace(red(), shadow=True)


def stood(decision: Decision, at: float, real: int, ours: int, **changes) -> Decision:
    estimate = replace(decision.estimate, current=real)
    return replace(decision, decided_at=at, desired=ours, estimate=estimate, **changes)


def compared(*decisions: Decision) -> Comparison | None:
    board = Board()
    for one in decisions:
        board.publish(one)
    return board.comparisons.of(KEY)


def test_each_decision_counts_for_as_long_as_it_stood():
    found = compared(
        stood(GREEN, 0.0, 4, 2), stood(GREEN, 10.0, 4, 6), stood(RED, 20.0, 4, 8), stood(GREEN, 22.0, 4, 4)
    )
    assert found == Comparison(
        seen_s=22.0,
        real_replica_s=88.0,
        ours_replica_s=20.0 + 60.0 + 16.0,
        more_s=12.0,
        fewer_s=10.0,
        late_s=2.0,
        helped_s=2.0,
        most_real=4,
        most_ours=8,
    )


def test_what_was_not_seen_counts_for_neither():
    found = compared(
        stood(GREEN, 0.0, 4, 2, blind=True), stood(GREEN, 10.0, 4, 2), stood(GREEN, 11.0 + LONGEST_GAP_S, 4, 2)
    )
    assert found == Comparison(blind_s=10.0)


def test_a_workload_that_counts_is_not_compared():
    counts = replace(GREEN, shadow=False)
    assert (compared(counts, counts), compared(GREEN, GREEN, counts)) == (None, None)


@given(st.lists(st.tuples(st.floats(0.1, 30.0), st.integers(0, 50), st.integers(0, 50)), max_size=9))
def test_more_and_fewer_never_exceed_what_was_seen(steps):
    found = Comparison()
    for took_s, real, ours in steps:
        found = found.after(stood(GREEN, 0.0, real, ours), took_s)
    assert found.more_s + found.fewer_s <= found.seen_s + 1e-6
    assert found.seen_s == pytest.approx(sum(took_s for took_s, _, _ in steps))
