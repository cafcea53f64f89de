"""How good the measured latency is, over 500 fleets whose true start times are known."""

import math
import random
from statistics import NormalDist, mean, median

import pytest

from scaler.core.coming import measure
from scaler.core.ready_fit import fit
from scaler.core.ready_latency import ReadyLatency
from scaler.core.starts import Finished

NORMAL = NormalDist()
Z90 = NORMAL.inv_cdf(0.9)
SIGMA = 0.25
TRUE_P90_S = 180.0
SEEDS = range(500)
RIGHT, SHORT, LONG = ReadyLatency(TRUE_P90_S), ReadyLatency(TRUE_P90_S / 3), ReadyLatency(TRUE_P90_S * 3)


def true_starts(seed: int, count: int, p90_s: float = TRUE_P90_S, sigma: float = SIGMA) -> list[float]:
    chance = random.Random(seed)
    middle = math.log(p90_s) - Z90 * sigma
    return [math.exp(chance.gauss(middle, sigma)) for _ in range(count)]


def covered(seconds: float, p90_s: float = TRUE_P90_S, sigma: float = SIGMA) -> float:
    """The share of the true starts that takes no longer."""
    return NORMAL.cdf(math.log(seconds / p90_s) / sigma + Z90)


def published(prior: ReadyLatency, count: int, sigma: float = SIGMA) -> list[float]:
    """The 90th percentile that each fleet publishes after so many starts, one every ten minutes."""
    fleets = []
    for seed in SEEDS:
        took_s = true_starts(seed, count, sigma=sigma)
        finished = tuple(Finished(600.0 * i, seconds) for i, seconds in enumerate(took_s))
        measured = measure(None, prior, finished, 600.0 * count)
        fleets.append(measured.fits[measured.planned].latency.quantile(0.9))
    return fleets


def errors(fleets: list[float]) -> list[float]:
    return [abs(p90_s / TRUE_P90_S - 1) for p90_s in fleets]


@pytest.mark.parametrize(("count", "limit"), [(5, 0.15), (20, 0.10), (40, 0.10)])
@pytest.mark.parametrize("prior", [RIGHT, SHORT, LONG], ids=["right", "a-third", "three-times"])
def test_the_median_error_of_the_published_percentile_is_small_whatever_the_prior(prior, count, limit):
    assert median(errors(published(prior, count))) <= limit


@pytest.mark.parametrize("count", [5, 20, 40])
@pytest.mark.parametrize("prior", [RIGHT, SHORT, LONG], ids=["right", "a-third", "three-times"])
def test_the_published_percentile_covers_nine_of_ten_starts_whatever_the_prior(prior, count):
    assert 0.85 <= mean(covered(p90_s) for p90_s in published(prior, count)) <= 0.95


@pytest.mark.parametrize("sigma", [0.15, 0.4])
def test_another_spread_than_the_priors_is_learnt(sigma):
    fleets = published(RIGHT, 20, sigma=sigma)
    share = mean(covered(p90_s, sigma=sigma) for p90_s in fleets)
    assert (median(errors(fleets)) <= 0.10, 0.85 <= share <= 0.95) == (True, True)


def half_way(seed: int, *, counting_the_rest: bool) -> float:
    """The percentile when three of six that were asked for at once are ready, and the other three are as old as the third took."""
    ready = sorted(true_starts(seed, 6))[:3]
    fitted = fit(RIGHT, [(took_s, 1.0) for took_s in ready])
    return fitted.censored([ready[-1]] * 3 if counting_the_rest else []).quantile(0.9)


def test_starts_under_way_keep_the_quick_ones_from_looking_like_all():
    counting = median(half_way(seed, counting_the_rest=True) / TRUE_P90_S for seed in SEEDS)
    ignoring = median(half_way(seed, counting_the_rest=False) / TRUE_P90_S for seed in SEEDS)
    assert (0.95 <= counting <= 1.05, ignoring < 0.9) == (True, True)


HOT_P90_S, COLD_P90_S = 4.0 * math.exp(Z90 * SIGMA), 85.0 * math.exp(Z90 * SIGMA)


def mixed(seed: int, hot_ratio: float) -> ReadyLatency:
    """What twenty starts say of which so many are hot (4 s) and the others cold (85 s)."""
    chance = random.Random(seed)
    kinds = [HOT_P90_S if chance.random() < hot_ratio else COLD_P90_S for _ in range(20)]
    took_s = [true_starts(chance.randrange(2**32), 1, p90_s)[0] for p90_s in kinds]
    return fit(RIGHT, [(seconds, 1.0) for seconds in took_s]).latency


@pytest.mark.parametrize("hot_ratio", [0.3, 0.6])
def test_hot_and_cold_starts_are_told_apart_and_each_is_measured(hot_ratio):
    fleets = [latency for seed in SEEDS if (latency := mixed(seed, hot_ratio)).hot_ratio]
    apart = len(fleets) / len(SEEDS)
    hot = median(abs(latency.hot_p90_s / HOT_P90_S - 1) for latency in fleets)
    cold = median(abs(latency.p90_s / COLD_P90_S - 1) for latency in fleets)
    share = mean(
        hot_ratio * covered(p90_s, HOT_P90_S) + (1 - hot_ratio) * covered(p90_s, COLD_P90_S)
        for p90_s in (latency.quantile(0.9) for latency in fleets)
    )
    assert (apart > 0.98, hot <= 0.15, cold <= 0.15, 0.85 <= share <= 0.95) == (True, True, True, True)
