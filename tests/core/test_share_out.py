"""How much of what may enter each class gets."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.admission import FLOORS_LIMIT_RATIO, precedence, share_out
from scaler.core.model import Objective, RequestClass

CHAT = RequestClass("chat", ttft_s=2.0)
AGENT = RequestClass("agent", ttft_s=5.0, order=1, floor_ratio=0.1)
rates = st.floats(0.0, 1e4) | st.just(0.0)
classes = st.builds(
    RequestClass,
    name=st.just("any"),
    objective=st.sampled_from(Objective),
    order=st.integers(0, 3),
    floor_ratio=st.floats(0.0, 1.0),
)
asking = st.lists(st.tuples(classes, rates), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("attempts", "want", "shares"),
    [
        pytest.param([10.0, 10.0], 14.0, [1.0, 0.4], id="the last is cut first"),
        pytest.param([10.0, 10.0], 5.0, [0.4, 0.1], id="down to its floor"),
        pytest.param([10.0, 10.0], 0.0, [0.1, 0.1], id="and the first has that floor too"),
        pytest.param([10.0, 0.0], 14.0, [1.0, 1.0], id="who does not ask would be admitted while there is room"),
        pytest.param([10.0, 0.0], 5.0, [0.5, 0.1], id="and else as its floor is"),
    ],
)
def test_shares(attempts, want, shares):
    assert share_out((CHAT, AGENT), attempts, 100.0, want) == pytest.approx(shares)


@given(asking, rates, rates)
def test_no_class_is_admitted_less_than_one_after_it(asked, drain, want):
    one, attempts = zip(*asked, strict=True)
    shares = share_out(one, attempts, drain, want)
    ranked = [shares[index] for index in sorted(range(len(one)), key=lambda index: precedence(one[index]))]
    assert all(first >= later for first, later in pairwise(ranked))


@pytest.mark.parametrize("floor", [0.05, 0.1, 0.3, 0.7])
def test_who_gets_all_it_asks_for_gets_exactly_all(floor):
    first = replace(CHAT, floor_ratio=floor)
    assert share_out((first, AGENT), [7.3, 1.0], 1e6, 7.3 + 0.5)[0] == 1.0


@given(asking, rates, rates)
def test_floors_are_held_as_far_as_all_of_them_are_a_quarter_of_what_drains(asked, drain, want):
    one, attempts = zip(*asked, strict=True)
    highest = max(each.floor_ratio for each in one)
    scale = min(1.0, FLOORS_LIMIT_RATIO * drain / (highest * sum(attempts))) if highest * sum(attempts) > 0 else 1.0
    shares = share_out(one, attempts, drain, want)
    assert all(share >= each.floor_ratio * scale - 1e-9 for share, each in zip(shares, one, strict=True))


@given(asking, rates, rates)
def test_together_they_get_no_more_than_may_enter_and_what_the_floors_take(asked, drain, want):
    one, attempts = zip(*asked, strict=True)
    shares = share_out(one, attempts, drain, want)
    got = sum(share * rate for share, rate in zip(shares, attempts, strict=True))
    assert got <= max(want, FLOORS_LIMIT_RATIO * drain) + 1e-6
