import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.attempts import FADE_S, Attempts
from scaler.core.counted import ClassCounted


def asked(**attempts: int) -> tuple[ClassCounted, ...]:
    return tuple(ClassCounted(name, admitted=count) for name, count in attempts.items())


def test_while_nobody_asks_every_class_is_taken_to_make_the_same_share_of_what_is_offered():
    assert Attempts().seen((), 7.0).rates_per_s(("chat", "batch"), 9.0) == [4.5, 4.5]


def test_classes_make_the_shares_that_were_counted():
    seen = Attempts()
    for tick in range(60):
        seen = seen.seen(asked(chat=2, batch=18), 2.0 * tick)
    assert seen.rates_per_s(("chat", "batch"), 1.0) == [pytest.approx(1.0, rel=0.15), pytest.approx(9.0, rel=0.15)]


def test_what_other_gates_let_in_is_taken_to_be_of_the_same_mix():
    seen = Attempts().seen(asked(chat=10, batch=30), 0.0)
    assert seen.rates_per_s(("chat", "batch"), 100.0) == pytest.approx([25.0, 75.0])


def test_a_mix_of_a_minute_ago_is_forgotten():
    seen = Attempts().seen(asked(chat=100), 0.0).seen(asked(batch=60), 6 * FADE_S)
    chat, batch = seen.rates_per_s(("chat", "batch"), 0.0)
    assert chat == pytest.approx(100 * math.exp(-6) / FADE_S)
    assert batch == pytest.approx(1.0, rel=0.01)


@given(st.sampled_from([0.5, 1.0, 2.0, 15.0, 60.0]), st.integers(1, 1000))
def test_an_even_pace_is_told_as_it_is_however_rare_the_looks(every_s, count):
    seen = Attempts()
    for look in range(1 + math.ceil(10 * FADE_S / every_s)):
        seen = seen.seen(asked(chat=count), look * every_s)
    assert seen.rates_per_s(("chat",), 0.0) == pytest.approx([count / every_s], rel=0.01)


@given(
    counts=st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=20),
    offered=st.floats(0, 1e4),
)
def test_no_fewer_attempts_are_believed_than_are_offered(counts, offered):
    seen = Attempts()
    for tick, (chat, batch) in enumerate(counts):
        seen = seen.seen(asked(chat=chat, batch=batch), 2.0 * tick)
    rates = seen.rates_per_s(("chat", "batch"), offered)
    assert sum(rates) >= offered * (1 - 1e-9)
    assert all(rate >= 0 for rate in rates)
