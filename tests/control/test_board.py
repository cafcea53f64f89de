"""The board: the newest outcome of each workload, and a wake-up when its activity changes."""

from __future__ import annotations

from scaler.control.board import Board
from scaler.control.history import point
from scaler.core.decision import Pending
from scaler.core.model import WorkloadKey
from tests.support.builders import KEY, decision, idle, spec


async def test_the_latest_outcome_is_read_back():
    board = Board()
    board.publish(Pending(KEY, "starting"))
    board.publish(decided := decision(spec()))
    assert (board.latest(KEY), list(board.decisions())) == (decided, [decided])


async def test_those_who_wait_are_woken_when_activity_changes_and_not_by_every_tick():
    board = Board()
    board.publish(decision(spec()))
    changed = board.activity(KEY)
    board.publish(decision(spec()))
    woken_by_a_tick = changed.is_set()
    board.publish(idle())
    assert (woken_by_a_tick, changed.is_set()) == (False, True)


async def test_those_who_wait_for_a_workload_that_is_not_known_yet_are_woken_by_its_first_decision():
    board = Board()
    changed = board.activity(KEY)
    board.publish(Pending(KEY, "starting"))
    woken_by_pending = changed.is_set()
    board.publish(decision(spec()))
    assert (woken_by_pending, changed.is_set()) == (False, True)


async def test_those_who_wait_are_woken_when_the_workload_is_dropped():
    board = Board()
    board.publish(decision(spec()))
    changed = board.activity(KEY)
    board.drop(KEY)
    assert changed.is_set()


async def test_a_dropped_workload_is_unknown():
    board = Board()
    board.publish(decision(spec()))
    board.drop(KEY)
    assert (board.latest(KEY), list(board.decisions())) == (None, [])


async def test_who_follows_is_told_of_each_outcome_and_of_a_drop_until_they_leave():
    board, told = Board(), list[WorkloadKey]()
    leave = board.follow(told.append)
    board.publish(Pending(KEY, "starting"))
    board.publish(decision(spec()))
    board.drop(KEY)
    leave()
    board.publish(decision(spec()))
    assert told == [KEY, KEY, KEY]


async def test_the_board_keeps_the_history_of_decisions_and_drops_it_with_the_workload():
    board, decided = Board(), decision(spec())
    board.publish(Pending(KEY, "starting"))
    before = board.history.points(KEY)
    board.publish(decided)
    kept = board.history.points(KEY)
    board.drop(KEY)
    assert (before, kept, board.history.points(KEY)) == ([], [point(decided)], [])
