"""The gates in the path: which decision they ask by, what they count, and whom they tell."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.counted import ClassCounted, Counted
from scaler.core.decision import Decision
from scaler.core.gate import Request, Why
from scaler.core.model import Pressure, WorkloadKey
from tests.support import decisions as made
from tests.support.gated import Gated

FEW = settings(max_examples=settings().max_examples // 4)
KEY, OTHER, CHAT = made.KEY, WorkloadKey("prod", "other"), Request("chat")


def ask(gate: Gated, request: Request = CHAT, key: WorkloadKey = KEY):
    return gate.gates.ask(key, request)


@pytest.mark.parametrize(
    ("gate", "key", "why"),
    [
        pytest.param(Gated([made.red()]), OTHER, Why.UNKNOWN_WORKLOAD, id="a workload that nobody runs"),
        pytest.param(Gated(), KEY, Why.PENDING, id="nothing was published yet"),
        pytest.param(Gated([made.pending()]), KEY, Why.PENDING, id="not decided yet"),
    ],
)
def test_what_is_not_known_is_let_in_and_counted(gate, key, why):
    verdict = ask(gate, key=key)
    assert (verdict.admit, verdict.why, verdict.state) == (True, why, Pressure.UNKNOWN)
    assert (gate.gates.let_in_unknown, list(gate.gates.counted())) == ({why: 1}, [])


def test_the_newest_decision_is_asked():
    gate = Gated([made.green()])
    before = ask(gate).state
    gate.board.publish(made.red())
    assert (before, ask(gate).state) == (Pressure.GREEN, Pressure.RED)


def test_a_burst_asks_the_loop_for_an_early_look_once_a_decision():
    gate = Gated([made.green()])
    for _ in range(50):
        ask(gate)
    first = list(gate.nudged)
    gate.board.publish(replace(made.green(), sequence=99))
    for _ in range(50):
        ask(gate)
    assert (first, gate.nudged) == ([KEY], [KEY, KEY])


def test_a_request_while_nothing_runs_wakes_the_loop_at_once_and_is_wanted_until_a_replica_is_ready():
    gate = Gated([made.nothing_ready()])
    verdict = ask(gate)
    wanted = gate.gates.drain(KEY).wanted
    gate.board.publish(made.green())
    assert (verdict.why, gate.nudged, wanted, gate.gates.drain(KEY).wanted) == (Why.NO_CAPACITY, [KEY], 1, 0)


def test_the_loop_is_told_what_was_counted_since_it_last_asked():
    gate = Gated([made.red()])
    ask(gate)
    ask(gate, Request("agent", retries=1))
    first, second = gate.gates.drain(KEY), gate.gates.drain(KEY)
    ask(gate, Request("agent"))
    assert first.classes == (
        ClassCounted("chat", refused=1),
        ClassCounted("agent", refused=1, refused_retries=1),
        ClassCounted("batch"),
    )
    assert {one.attempts for one in second.classes} == {0}
    assert gate.gates.drain(KEY).classes[1] == ClassCounted("agent", refused=1)


def test_a_workload_that_nobody_asked_for_has_counted_nothing():
    assert Gated([made.red()]).gates.drain(KEY) == Counted()


def test_a_workload_that_no_longer_runs_is_forgotten():
    gate = Gated([made.red()])
    ask(gate)
    told = [key for key, _ in gate.gates.counted()]
    gate.specs.clear()
    assert (told, list(gate.gates.counted()), gate.gates.drain(KEY)) == ([KEY], [], Counted())


OUTCOMES = (made.green(), made.yellow(), made.red(), made.nothing_ready(), made.blind())
steps = st.lists(
    st.one_of(
        st.just("drain"),
        st.sampled_from(OUTCOMES),
        st.builds(Request, request_class=st.sampled_from(["chat", "agent", "batch"]), retries=st.integers(0, 1)),
    ),
    max_size=80,
)


@FEW
@given(steps, st.randoms(use_true_random=False))
def test_what_is_drained_adds_up_to_what_was_asked(run, chance):
    gate = Gated([made.green()])
    drained: list[ClassCounted] = []
    asked: list[tuple[str | None, bool, bool]] = []
    for one in [*run, "drain"]:
        gate.clock.now += 0.1
        gate.coins.coin = chance.random()
        if isinstance(one, Request):
            asked.append((one.request_class, ask(gate, one).admit, one.retries > 0))
        elif isinstance(one, Decision):
            gate.board.publish(one)
        else:
            drained += gate.gates.drain(KEY).classes
    for name in ("chat", "agent", "batch"):
        mine = [(admit, again) for of, admit, again in asked if of == name]
        parts = [one for one in drained if one.name == name]
        assert sum(one.admitted for one in parts) == sum(admit for admit, _ in mine)
        assert sum(one.refused for one in parts) == sum(not admit for admit, _ in mine)
        assert sum(one.offered for one in parts) == sum(not again for _, again in mine)
        assert sum(one.refused_first for one in parts) == sum(not (admit or again) for admit, again in mine)
