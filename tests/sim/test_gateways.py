"""What simulated gateways do with a decision, as the real ones would."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.core.counted import ClassCounted
from scaler.core.decision import Decision
from scaler.core.gate import Request
from scaler.core.model import GateMode
from scaler.sim.gateways import Dice, Gateway, InPath, Open, RedBit
from tests.support import decisions as made

RED, NOW = made.red(), made.red().observed_at + 1.0
HALF = replace(RED, classes=tuple(replace(verdict, admit_ratio=0.5) for verdict in RED.classes))
CHAT, BATCH = Request("chat"), Request("batch")


def heard(gateway: Gateway, decision: Decision) -> Gateway:
    gateway.hear(decision, made.SPEC)
    return gateway


def admitted(gateway: Gateway, request: Request = CHAT, attempts: int = 1000, now: float = NOW) -> int:
    return sum(gateway.ask(request, now) is None for _ in range(attempts))


@pytest.mark.parametrize("gateway", [Open(), RedBit(1), Dice(1), InPath(1)])
def test_who_has_heard_of_nothing_lets_all_in(gateway):
    assert (admitted(gateway), gateway.drain(NOW).classes) == (1000, ())


def test_the_red_bit_lets_all_of_a_class_in_or_none():
    gateway = heard(RedBit(1), RED)
    assert (admitted(gateway), admitted(gateway, BATCH), admitted(heard(RedBit(1), made.yellow()))) == (0, 1000, 1000)


def test_dice_let_in_the_share_that_was_published():
    assert admitted(heard(Dice(1), HALF), attempts=10_000) == pytest.approx(5000, rel=0.05)


def test_dice_are_not_thrown_where_the_gate_only_observes():
    observed = tuple(replace(verdict, gate=GateMode.OBSERVE) for verdict in HALF.classes)
    assert admitted(heard(Dice(1), replace(HALF, classes=observed))) == 1000


def test_a_fraction_that_is_old_fades():
    assert admitted(heard(Dice(1), RED), now=RED.observed_at + RED.valid_s + 60.0) == 1000


def test_the_same_seed_throws_the_same_dice():
    one, same, other = (heard(Dice(seed), HALF) for seed in (1, 1, 2))
    thrown = [[gateway.ask(CHAT, NOW) is None for _ in range(50)] for gateway in (one, same, other)]
    assert (thrown[0] == thrown[1], thrown[0] == thrown[2]) == (True, False)


def test_a_gateway_that_counts_counts_first_attempts_only():
    gateway = heard(Dice(1, counts=True), RED)
    refused = 500 - admitted(gateway, attempts=500)
    admitted(gateway, Request("chat", retries=1), attempts=500)
    assert (gateway.refused_total(), heard(Dice(1), RED).refused_total()) == (refused, None)


def test_a_gate_in_the_path_tells_each_count_once():
    gateway = heard(InPath(1), RED)
    let_in = admitted(gateway, attempts=100)
    first, second = gateway.drain(NOW), gateway.drain(NOW)
    assert first.classes[0] == ClassCounted("chat", admitted=let_in, refused=100 - let_in)
    assert {one.attempts for one in second.classes} == {0}


def test_a_gate_in_the_path_would_have_the_law_look_once_when_it_crosses_the_edge():
    gateway = heard(InPath(1), made.green())
    admitted(gateway, attempts=200)
    assert (gateway.nudges(), gateway.nudges()) == (True, False)


@pytest.mark.parametrize("gateway", [RedBit(1), Dice(1), InPath(1)])
def test_who_is_refused_is_told_when_to_come_back(gateway):
    told = [gateway.ask(CHAT, NOW) for _ in range(1000) if gateway.hear(RED, made.SPEC) is None]
    assert all(one is None or (one.status == 429 and 1 <= (one.retry_after_s or 0) <= 60) for one in told)
    assert any(one is not None for one in told)
