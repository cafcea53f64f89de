"""Loads made up for a purpose."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.errors import ConfigError
from scaler.sim.shapes import SHAPES, Bursty, Daily, Pulse, Ramp, Shape, Step, Surges, rated, shape
from scaler.sim.traces import Assumed
from scaler.sim.traffic import Lengths, Rated, Rates, Stream

SEEDS = st.integers(0, 2**32)


def rate_at(rates: Rates, at: float) -> float:
    return [rate for begins_at, rate in rates if begins_at <= at][-1]


def each_second(of: Shape, seed: int = 1) -> list[float]:
    rates = of.rates(seed)
    times, found = [*(at for at, _ in rates[1:]), float("inf")], []
    index = 0
    for second in range(int(of.duration_s)):
        while times[index] <= second:
            index += 1
        found.append(rates[index][1])
    return found


def mean(of: Shape, seed: int) -> float:
    rates = of.rates(seed)
    ends = [at for at, _ in rates[1:]] + [of.duration_s]
    return sum(rate * (end - at) for (at, rate), end in zip(rates, ends, strict=True)) / of.duration_s


@pytest.mark.parametrize(
    ("of", "at"),
    [
        pytest.param(
            Step(low_per_s=15, high_per_s=60, begins_at_s=600, duration_s=3000), {599: 15, 600: 60, 2999: 60}, id="step"
        ),
        pytest.param(
            Pulse(low_per_s=15, high_per_s=60, begins_at_s=600, lasts_s=1200, duration_s=3000),
            {599: 15, 600: 60, 1799: 60, 1800: 15},
            id="pulse",
        ),
        pytest.param(
            Ramp(low_per_s=10, high_per_s=50, begins_at_s=100, lasts_s=400, duration_s=1000),
            {99: 10, 200: 20.2, 300: 30.2, 500: 50, 999: 50},
            id="ramp",
        ),
        pytest.param(
            Ramp(low_per_s=50, high_per_s=10, begins_at_s=100, lasts_s=400, duration_s=1000),
            {99: 50, 300: 29.8, 500: 10},
            id="ramp down",
        ),
        pytest.param(
            Ramp(low_per_s=50, high_per_s=10, begins_at_s=100, lasts_s=0, duration_s=1000),
            {99: 50, 100: 10},
            id="ramp at once",
        ),
        pytest.param(
            Daily(low_per_s=10, high_per_s=30),
            {0: 10.01, 21600: 20.3, 43200: 29.99, 64800: 19.7},
            id="daily",
        ),
    ],
)
def test_a_shape_has_the_rates_that_it_says(of, at):
    rates = of.rates(1)
    assert {second: rate_at(rates, second) for second in at} == pytest.approx(at, rel=5e-3)


@given(st.floats(0.1, 100), st.floats(0, 5), st.floats(5, 500), SEEDS)
def test_bursts_keep_their_mean_whatever_the_seed(mean_per_s, cv, burst_s, seed):
    of = Bursty(mean_per_s=mean_per_s, cv=cv, burst_s=burst_s, duration_s=3600)
    assert mean(of, seed) == pytest.approx(mean_per_s)


@given(st.floats(0.1, 100), st.floats(1, 50), st.floats(0, 600), st.floats(0, 3600), SEEDS)
def test_surges_keep_their_mean_whatever_the_seed(mean_per_s, factor, rise_s, every_s, seed):
    of = Surges(mean_per_s=mean_per_s, factor=factor, rise_s=rise_s, every_s=every_s, duration_s=3600)
    assert mean(of, seed) == pytest.approx(mean_per_s)


@pytest.mark.parametrize("cv", [0.0, 0.5, 1.0, 2.0])
def test_bursts_vary_as_they_say(cv):
    rates = [rate for _, rate in Bursty(mean_per_s=10, cv=cv, burst_s=60, duration_s=60 * 20000).rates(1)]
    assert pstdev(rates) / fmean(rates) == pytest.approx(cv, rel=0.05)


def test_surges_are_like_the_code_trace_of_azure():
    seconds = each_second(Surges(mean_per_s=2.57, duration_s=100 * 3600))
    minutes = [fmean(seconds[at : at + 60]) for at in range(0, len(seconds), 60)]
    assert max(minutes) / fmean(minutes) == pytest.approx(4.1, rel=0.1)
    assert max(later / earlier for earlier, later in zip(seconds, seconds[180:], strict=False)) == pytest.approx(
        10, rel=0.05
    )


def test_only_chance_depends_on_the_seed():
    texts = {
        "step": "low_per_s=1,high_per_s=2,begins_at_s=5,duration_s=3600",
        "pulse": "low_per_s=1,high_per_s=2,begins_at_s=5,lasts_s=5,duration_s=3600",
        "ramp": "low_per_s=1,high_per_s=2,begins_at_s=5,lasts_s=5,duration_s=3600",
        "bursty": "mean_per_s=1,cv=1,duration_s=3600",
        "surges": "mean_per_s=1,duration_s=3600",
        "daily": "low_per_s=1,high_per_s=2",
    }
    shapes = {name: shape(f"{name}:{texts[name]}") for name in SHAPES}
    assert [name for name, of in shapes.items() if of.rates(1) != of.rates(2)] == ["bursty", "surges"]
    assert all(of.rates(1) == of.rates(1) for of in shapes.values())


def test_a_shape_is_traffic_of_one_class():
    of = Step(low_per_s=15, high_per_s=60, begins_at_s=600, duration_s=3000)
    expected = Stream("chat", ((0.0, 15), (600, 60)), Lengths(50, 5))
    assert rated(of, 1, Assumed("chat", Lengths(50, 5))) == Rated((expected,), 3000)


def test_a_shape_can_be_written_in_a_line():
    assert shape("step: low_per_s=15, high_per_s=60,begins_at_s=600,duration_s=3000") == Step(
        low_per_s=15, high_per_s=60, begins_at_s=600, duration_s=3000
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(
            "stairs:", "stairs: no shape of load; there are step, pulse, ramp, bursty, surges, daily", id="name"
        ),
        pytest.param("step:low_per_second=1", "step: low_per_second: unknown, did you mean low_per_s?", id="near"),
        pytest.param(
            "daily:when=1", "daily: when: unknown, known are low_per_s, high_per_s, duration_s, day_s", id="key"
        ),
        pytest.param("step:low_per_s=few", "step: low_per_s: a number is needed", id="word"),
        pytest.param(
            "step:low_per_s=1",
            "step: high_per_s, begins_at_s, duration_s: missing; "
            "write step:low_per_s=…,high_per_s=…,begins_at_s=…,duration_s=…",
            id="missing",
        ),
        pytest.param(
            "step:low_per_s=-1,high_per_s=1,begins_at_s=1,duration_s=9",
            "step: low_per_s: a number from 0 to 1,000,000,000 is needed",
            id="negative",
        ),
        pytest.param(
            "step:low_per_s=1,high_per_s=1,begins_at_s=9,duration_s=9",
            "step: begins_at_s: less than the 9 s of duration_s is needed",
            id="never",
        ),
        pytest.param(
            "daily:low_per_s=1,high_per_s=2,duration_s=0", "daily: duration_s: more than 0 is needed", id="no time"
        ),
        pytest.param(
            "bursty:mean_per_s=1,cv=1,burst_s=0,duration_s=9",
            "bursty: burst_s: too short for 9 s; at most 200,000 changes of the load are drawn",
            id="too often",
        ),
        pytest.param(
            "surges:mean_per_s=1,factor=0.5,duration_s=9", "surges: factor: 1 or more is needed", id="no surge"
        ),
    ],
)
def test_a_shape_that_makes_no_sense_is_refused(text, says):
    with pytest.raises(ConfigError) as refused:
        shape(text)
    assert str(refused.value) == says


NUMBERS = st.one_of(st.floats(0, 1e4), st.floats(), st.sampled_from([0.0, 1e-9, 1e9]))


def ascending(rates: Sequence[tuple[float, float]]) -> bool:
    return all(one[0] <= other[0] for one, other in pairwise(rates))


@given(st.sampled_from(sorted(SHAPES)), st.data(), SEEDS)
def test_whatever_is_written_is_a_load_from_0_or_is_refused(name, data, seed):
    written = ",".join(f"{key}={data.draw(NUMBERS)}" for key in SHAPES[name].__dataclass_fields__)
    try:
        rates = shape(f"{name}:{written}").rates(seed)
    except ConfigError:
        return
    assert rates[0][0] == 0.0
    assert ascending(rates)
    assert all(0 <= rate < float("inf") for _, rate in rates)


@given(st.text(max_size=40))
def test_any_other_text_is_refused(text):
    with pytest.raises(ConfigError):
        shape(text)
