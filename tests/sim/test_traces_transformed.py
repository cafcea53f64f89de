"""Traffic that is scaled, stretched, cut and mixed."""

from collections import Counter
from itertools import pairwise
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.errors import ConfigError
from scaler.sim.clients import OLD, OPENAI
from scaler.sim.traffic import (
    Arrival,
    Lengths,
    Measured,
    Rated,
    Requests,
    Spread,
    Stream,
    mixed,
    shared_out,
)

FACTORS = st.floats(0.05, 20.0)
SEEDS = st.integers(0, 2**32)
TIMES = st.lists(st.floats(0, 1000), min_size=1, max_size=60).map(sorted)
SPREADS = st.sampled_from(Spread)


def requests(times: list[float], duration_s: float = 1000.0) -> Requests:
    return Requests(tuple(Arrival(at, "chat", index + 1, 10) for index, at in enumerate(times)), duration_s)


def rated(*rates: tuple[float, float], spread: Spread = Spread.POISSON, duration_s: float = 1000.0) -> Rated:
    return Rated((Stream("chat", rates, spread=spread),), duration_s)


@given(TIMES, FACTORS, SEEDS)
def test_scaling_requests_gives_exactly_so_many_times_as_many_in_order_and_in_the_same_time(times, factor, seed):
    coming = list(requests(times).scaled(factor).arrivals(seed))
    assert abs(len(coming) - factor * len(times)) <= 0.5 + 1e-6
    assert all(one.at <= other.at for one, other in pairwise(coming))
    assert all(0.0 <= arrival.at <= 1000.0 for arrival in coming)


@given(TIMES, st.integers(1, 8), SEEDS)
def test_each_copy_has_every_request_once(times, copies, seed):
    coming = requests(times).scaled(copies).arrivals(seed)
    assert Counter(arrival.prompt_tokens for arrival in coming) == dict.fromkeys(range(1, len(times) + 1), copies)


def test_copies_do_not_come_at_the_same_instant_and_keep_the_shape_of_the_load():
    times = (
        [at / 10 for at in range(1000)] + [300 + at / 40 for at in range(4000)] + [float(at) for at in range(500, 1000)]
    )
    coming = list(requests(sorted(times)).scaled(8).arrivals(seed=1))
    assert len({arrival.at for arrival in coming}) > 0.9 * len(coming)
    calm, burst = (sum(begin <= arrival.at < begin + 60 for arrival in coming) / 60 for begin in (600, 335))
    assert [calm, burst] == pytest.approx([8, 320], rel=0.02)


def mean_rate(traffic: Rated) -> float:
    rates = traffic.streams[0].rates
    ends = [at for at, _ in rates[1:]] + [traffic.duration_s]
    return sum(rate * (end - at) for (at, rate), end in zip(rates, ends, strict=True)) / traffic.duration_s


@given(st.lists(st.floats(0, 50), min_size=1, max_size=10), FACTORS, SPREADS)
def test_scaling_rates_keeps_the_mean_rate_but_for_the_factor(rates, factor, spread):
    traffic = rated(*((100.0 * index, rate) for index, rate in enumerate(rates)), spread=spread)
    assert mean_rate(traffic.scaled(factor)) == pytest.approx(factor * mean_rate(traffic))


@given(st.lists(st.floats(0, 2), min_size=1, max_size=10), st.floats(0.05, 2.0), SEEDS)
def test_what_was_counted_comes_in_that_number_whatever_the_seed(rates, factor, seed):
    traffic = rated(*((100.0 * index, rate) for index, rate in enumerate(rates)), spread=Spread.COUNTED).scaled(factor)
    times = [arrival.at for arrival in traffic.arrivals(seed)]
    begins = [at for at, _ in traffic.streams[0].rates]
    for (begins_at, rate), ends_at in zip(traffic.streams[0].rates, [*begins[1:], 1000.0], strict=True):
        came = sum(begins_at <= at < ends_at for at in times)
        assert abs(came - rate * (ends_at - begins_at)) <= 1.0 + 1e-6
    assert times == sorted(times)


@given(st.floats(0.1, 1.0), SEEDS)
def test_poisson_arrivals_have_the_rate_that_is_asked_for(rate, seed):
    count = sum(1 for _ in rated((0.0, rate)).arrivals(seed))
    assert abs(count - 1000 * rate) < 6 * (1000 * rate) ** 0.5


@given(TIMES, st.floats(0.1, 10))
def test_stretching_keeps_every_request_and_changes_its_time(times, factor):
    stretched = requests(times).stretched(factor)
    assert [arrival.at for arrival in stretched.rows] == [at * factor for at in times]
    assert stretched.duration_s == 1000 * factor


def test_stretched_rates_give_the_same_requests_in_more_time():
    assert rated((0.0, 4.0), (100.0, 8.0)).stretched(2) == rated((0.0, 2.0), (200.0, 4.0), duration_s=2000.0)


@given(TIMES, st.floats(0, 999), st.floats(1e-6, 2000))
def test_a_window_has_the_requests_of_its_time_and_begins_at_0(times, begins_at, length_s):
    ends_at = begins_at + length_s
    window = requests(times).clipped(begins_at, ends_at)
    assert [row.prompt_tokens for row in window.rows] == [
        index for index, at in enumerate(times, 1) if begins_at <= at < min(ends_at, 1000)
    ]
    assert all(0 <= row.at <= window.duration_s for row in window.rows)


def test_a_window_of_rates_begins_with_the_rate_that_holds_there():
    traffic = rated((0.0, 1.0), (100.0, 2.0), (200.0, 3.0), (300.0, 4.0))
    assert traffic.clipped(150, 300) == rated((0.0, 2.0), (50.0, 3.0), duration_s=150.0)


def test_a_window_before_the_first_rate_is_silent_until_then():
    assert rated((100.0, 2.0)).clipped(50, 150) == rated((50.0, 2.0), duration_s=100.0)


@pytest.mark.parametrize(
    "traffic", [pytest.param(requests([1.0]), id="requests"), pytest.param(rated((0.0, 1.0)), id="rates")]
)
@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param(lambda it: it.scaled(0), "scale: a factor above 0 is needed", id="nothing"),
        pytest.param(lambda it: it.scaled(float("nan")), "scale: a factor above 0 is needed", id="nan"),
        pytest.param(lambda it: it.stretched(-1), "stretch: a factor above 0 is needed", id="backwards"),
        pytest.param(
            lambda it: it.clipped(1000, 2000),
            "clip: a window must begin before it ends, and within the 1000 s of the traffic",
            id="beyond the end",
        ),
        pytest.param(
            lambda it: it.clipped(20, 10),
            "clip: a window must begin before it ends, and within the 1000 s of the traffic",
            id="turned around",
        ),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(traffic, change, says):
    with pytest.raises(ConfigError) as refused:
        change(traffic)
    assert str(refused.value) == says


@given(SEEDS, FACTORS)
def test_the_same_seed_gives_the_same_requests(seed, factor):
    counted = rated((0.0, 0.05), spread=Spread.COUNTED)
    for traffic in (requests([1.0, 2.0, 5.0, 400.0]), rated((0.0, 0.05)), counted):
        scaled = traffic.scaled(factor)
        assert list(scaled.arrivals(seed)) == list(scaled.arrivals(seed))


def test_classes_are_shared_out_at_random_and_nothing_else_changes():
    rows = [Arrival(float(at), "chat", at + 1, 7, OPENAI) for at in range(4000)]
    shared = list(shared_out(iter(rows), {"chat": 0.75, "agent": 0.25}, seed=1))
    assert [(row.at, row.prompt_tokens, row.output_tokens, row.sdk) for row in shared] == [
        (row.at, row.prompt_tokens, row.output_tokens, row.sdk) for row in rows
    ]
    assert Counter(row.request_class for row in shared)["agent"] == pytest.approx(1000, rel=0.1)


@pytest.mark.parametrize("shares", [{"chat": 0.5, "agent": 0.4}, {"chat": 1.5, "agent": -0.5}, {}])
def test_shares_that_are_none_are_refused(shares):
    with pytest.raises(
        ConfigError, match=r"^classes: the shares of the request classes must not be negative and must add"
    ):
        list(shared_out(iter(()), shares, seed=1))


@given(TIMES, TIMES)
def test_mixed_traffic_is_in_order_of_time(one, other):
    coming = [row.at for row in mixed([requests(one).arrivals(1), requests(other).arrivals(1)])]
    assert coming == sorted([*one, *other])


def test_lengths_told_by_their_medians_have_them():
    chance, lengths = Random(1), Lengths.of_medians(1000, 100)
    drawn = sorted(lengths.draw(chance) for _ in range(4001))
    assert drawn[2000][0] == pytest.approx(1000, rel=0.05)


def test_measured_lengths_stay_in_pairs():
    pairs = ((10, 1000), (1000, 10))
    coming = list(Rated((Stream("chat", ((0.0, 2.0),), Measured(pairs)),), 1000.0).arrivals(1))
    assert {(row.prompt_tokens, row.output_tokens) for row in coming} == set(pairs)
    assert fmean(row.prompt_tokens for row in coming) == pytest.approx(505, rel=0.1)
    assert {row.sdk for row in coming} == {OLD}
