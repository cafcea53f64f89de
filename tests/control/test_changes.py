"""The last hour of what was decided."""

from dataclasses import replace

from scaler.control.board import Board
from scaler.control.changes import MOST, Change
from scaler.core.decision import Decision, Reason
from scaler.core.model import Pressure
from tests.support.decisions import KEY, green

GREEN = green()


def at(now: float, **changes) -> Decision:
    return replace(GREEN, decided_at=now, **changes)


def told(*decisions) -> list[Change]:
    board = Board()
    for decision in decisions:
        board.publish(decision)
    return board.changes.since(KEY, 0.0)


def test_a_change_of_the_number_of_the_state_and_of_sight_is_kept_with_what_it_was_before():
    found = told(
        at(0.0), at(2.0), at(4.0, desired=9), at(6.0, desired=9, state=Pressure.RED), at(8.0, desired=9, blind=True)
    )
    assert [(one.at, one.before, one.desired, one.state, one.blind) for one in found] == [
        (0.0, None, GREEN.desired, Pressure.GREEN, False),
        (4.0, GREEN.desired, 9, Pressure.GREEN, False),
        (6.0, 9, 9, Pressure.RED, False),
        (8.0, 9, 9, Pressure.GREEN, True),
    ]


def test_another_reason_for_the_same_number_is_no_change():
    assert len(told(at(0.0), at(2.0, reason=Reason.BACKLOG), at(4.0))) == 1


def test_what_is_kept_is_bounded_and_the_newest():
    found = told(*(at(float(i), desired=i) for i in range(MOST + 20)))
    assert [one.desired for one in found] == list(range(20, MOST + 20))


def test_only_what_is_asked_for_is_told():
    board = Board()
    board.publish(at(0.0))
    board.publish(at(5000.0, desired=9))
    assert [one.at for one in board.changes.since(KEY, 1400.0)] == [5000.0]


def test_a_workload_that_is_gone_leaves_nothing():
    board = Board()
    board.publish(GREEN)
    board.drop(KEY)
    assert board.changes.since(KEY, 0.0) == []
