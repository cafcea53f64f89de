"""Coefficients from what an engine was seen to do: the model's own times give them back, and real runs give ones that reproduce them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.cli.fit_files import recorded
from scaler.errors import ConfigError
from scaler.sim.fit import Held, Seen, _held, _ran, fit_levels, fit_run
from scaler.sim.least_squares import fitted, solved
from scaler.sim.presets import PRESETS
from scaler.sim.values import Coefficients, EngineLimits
from tests.support.shared_data import shared_data

LIMITS = EngineLimits(64, 2048, 200_000)
TRUE = Coefficients(12e-3, 60e-6, 70e-6, 120e-9, 0.0)
H100 = PRESETS["llama-3.1-8b-h100"]


def requests(count, rate_per_s=6.0):
    chance, at = Random(1), 0.0
    for _ in range(count):
        at += chance.expovariate(rate_per_s)
        yield Seen(at, 0.0, 0.0, chance.randint(50, 2000), chance.randint(20, 120))


def seen_of(made, count=80):
    asked = list(requests(count))
    ran = _ran(asked, made, LIMITS)
    return [
        Seen(one.arrived_at, first, last, one.prompt_tokens, one.output_tokens)
        for one, (first, last) in zip(asked, ran, strict=True)
    ]


def test_the_models_own_run_gives_its_times_back():
    found = fit_run(seen_of(TRUE), LIMITS)
    assert found.error_ratio < 0.01
    assert found.coefficients.a_s == pytest.approx(TRUE.a_s, rel=0.1)
    assert found.coefficients.c_s == pytest.approx(TRUE.c_s, rel=0.1)


def test_the_models_own_levels_give_its_slopes_back_and_the_batch_is_not_fitted():
    asked = [Held(count, 1.0, 1.0, 1000, 60) for count in (1, 8, 32)]
    levels = [Held(one.concurrency, *_held(one, H100.coefficients, H100.limits), 1000, 60) for one in asked]
    found = fit_levels(levels, H100.limits)
    assert found.error_ratio < 0.02
    assert found.coefficients.a_s == pytest.approx(H100.coefficients.a_s, rel=0.05)
    assert found.unsure[0] == "b_s"


def test_too_little_is_refused_with_what_is_needed():
    with pytest.raises(ConfigError, match="30 are needed"):
        fit_run(seen_of(TRUE, 5), LIMITS)
    with pytest.raises(ConfigError, match="--kv-tokens"):
        fit_run(seen_of(TRUE, 30), EngineLimits(64, 2048, 100))
    with pytest.raises(ConfigError, match="within --max-num-seqs"):
        fit_levels([Held(count, 1.0, 0.1, 100, 10) for count in (1, 2, 128)], LIMITS)


def test_a_real_run_that_preempts_is_reproduced_and_what_it_does_not_tell_is_said():
    path = shared_data("traces/vllm_runs/RTX4090_Llama-3.1-8B_requests.jsonl.gz")
    found = fit_run(recorded(path) or [], EngineLimits(256, 2048, 41_408))
    assert found.error_ratio < 0.03
    assert "b_s" in found.unsure


@given(st.lists(st.floats(0.5, 5.0), min_size=3, max_size=3), st.lists(st.floats(-3.0, 3.0), min_size=3, max_size=3))
def test_equations_are_solved(diagonal, right):
    matrix = [[diagonal[row] + 3.0 if row == at else 1.0 for at in range(3)] for row in range(3)]
    found = solved(matrix, right)
    assert found is not None
    for row, value in zip(matrix, right, strict=True):
        assert sum(a * b for a, b in zip(row, found, strict=True)) == pytest.approx(value, abs=1e-9)
    assert solved([[1.0, 1.0], [1.0, 1.0]], [1.0, 2.0]) is None


@settings(deadline=None)
@given(st.floats(0.1, 50.0), st.floats(0.1, 50.0))
def test_an_exact_curve_is_found_from_afar(height, rate):
    def residuals(values):
        return [values[0] + values[1] * x - (height + rate * x) for x in (0.0, 1.0, 2.0, 5.0)]

    found = fitted(residuals, (1.0, 1.0))
    assert found.rms < 0.05 * (height + rate)


def test_two_parameters_that_do_the_same_make_up_for_each_other_and_one_that_does_nothing_is_unknown():
    near = fitted(
        lambda v: [v[0] * x + v[1] * (x + 0.1 * (x > 2)) - 3 * x - 0.1 * (x % 2) for x in (1.0, 2.0, 3.0)], (1.0, 1.0)
    )
    assert near.correlations[0][1] < -0.9
    assert fitted(lambda v: [v[0] - 2.0, 0.1], (1.0, 1.0)).errors[1] == float("inf")
