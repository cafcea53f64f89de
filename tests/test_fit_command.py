"""``slo-scaler fit`` as it is called: a run or a load test in, a preset file out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scaler.cli.commands import app
from scaler.cli.preset_file import preset_named, written
from scaler.errors import ConfigError
from scaler.sim.presets import PRESETS
from tests.sim.test_fit import LIMITS, TRUE, seen_of

LOAD_TEST = Path(__file__).resolve().parent / "data" / "load-tests" / "vllm-bench"
ENGINE = ("--kv-tokens", "200000", "--max-num-seqs", "64", "--token-budget", "2048")


def invoked(*arguments):
    return CliRunner().invoke(app, ["fit", *map(str, arguments)])


def run_file(folder):
    path = folder / "run.csv"
    rows = [
        f"{one.arrived_at},{one.first_token_at},{one.finished_at},{one.prompt_tokens},{one.output_tokens}\n"
        for one in seen_of(TRUE)
    ]
    path.write_text("arrived_at,first_token_at,finished_at,prompt_tokens,output_tokens\n" + "".join(rows))
    return path


def test_a_recorded_run_becomes_a_preset_that_can_be_read_again(tmp_path):
    preset_file = tmp_path / "mine.yaml"
    result = invoked(run_file(tmp_path), *ENGINE, "--gpus", 2, "-o", preset_file)
    assert result.exit_code == 0, result.output
    assert "requests that were not fitted" in result.output
    preset = preset_named(str(preset_file))
    assert (preset.limits, preset.gpus) == (LIMITS, 2)
    assert preset.coefficients.a_s == pytest.approx(TRUE.a_s, rel=0.1)
    assert invoked(run_file(tmp_path), *ENGINE, "-o", preset_file).exit_code == 0


def test_a_load_test_says_what_it_does_not_tell():
    answer = json.loads(invoked(LOAD_TEST, "--kv-tokens", 100000, "--max-num-seqs", 4, "--json").stdout)
    assert "b_s" in answer["unsure"]
    assert answer["standard_error_ratios"][1] is None
    assert answer["error_of"] == "TTFT and TPOT of 3 levels, all of them fitted"


def test_a_file_of_somebody_else_is_not_replaced(tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text("mine: true\n")
    result = invoked(run_file(tmp_path), *ENGINE, "-o", other)
    assert isinstance(result.exception, ConfigError)
    assert other.read_text() == "mine: true\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("coefficients: {a_s: 0, b_s: 0, c_s: 0, d_s: 0}", "coefficients.a_s", id="no time passes"),
        pytest.param("nothing: 1", "nothing", id="unknown key"),
        pytest.param("[", "unreadable", id="no YAML"),
        pytest.param(
            "coefficients: {a_s: 1, b_s: 0, c_s: 0, d_s: 0}\nlimits: {max_num_seqs: 9, token_budget: 1, kv_tokens: 1}",
            "token_budget",
            id="a budget below the sequences",
        ),
    ],
)
def test_a_preset_file_that_cannot_be_is_refused_by_its_place(tmp_path, text, fault):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        preset_named(str(path))
    assert any(fault in one for one in raised.value.faults)


@pytest.mark.parametrize("name", PRESETS)
def test_each_shipped_preset_survives_a_file(tmp_path, name):
    path = tmp_path / "preset.yaml"
    path.write_text(written(PRESETS[name]))
    assert preset_named(str(path)) == preset_named(name) == PRESETS[name]


def test_a_file_that_is_none_is_named_with_what_there_is():
    with pytest.raises(ConfigError, match="llama-3"):
        preset_named("abacus")
