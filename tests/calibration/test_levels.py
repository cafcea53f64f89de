"""Runs become the levels of one sweep, or are refused together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.calibration import Results, Setup, assemble
from scaler.calibration.runs import Latency, Lengths, Load, LoadKind
from scaler.errors import ConfigError
from tests.calibration.made import latency, results, run

NOTHING = Setup("")


def faults(*runs, given=NOTHING):
    with pytest.raises(ConfigError) as caught:
        assemble(results(*runs), given)
    return list(caught.value.faults)


def test_levels_ascend_and_runs_of_one_load_are_one_level():
    sweep = assemble(results(run(8, file="b"), run(2), run(8, ttft_s=0.6, file="a")), NOTHING)
    assert [(level.load.value, [one.file for one in level.runs]) for level in sweep.levels] == [
        (2.0, ["c2.json"]),
        (8.0, ["a", "b"]),
    ]


def test_a_level_of_several_runs_counts_all_their_requests():
    first, second = (
        run(8, requests=100, failed=1, rate_per_s=10.0),
        run(8, requests=300, failed=None, rate_per_s=20.0, file="b"),
    )
    (level,) = assemble(results(first, second), NOTHING).levels
    assert (level.completed, level.failed, level.rate_per_s, level.ttft.n) == (400, 1, 16.0, 400)


def test_rates_are_ordered_among_concurrencies_by_their_requests_in_flight():
    rated = run(1, load=Load(LoadKind.RATE, 5.0), rate_per_s=5.0, e2e_mean_s=0.8, file="rate")
    sweep = assemble(results(run(8), rated, run(2)), NOTHING)
    assert [round(level.concurrency, 1) for level in sweep.levels] == [2.0, 4.0, 8.0]


def test_a_rate_at_which_every_request_failed_stands_above_the_lower_rates():
    made = [
        run(1, load=Load(LoadKind.RATE, rate), rate_per_s=rate, e2e_mean_s=0.5, file=f"r{rate}") for rate in (4.0, 2.0)
    ]
    dead: dict[str, Any] = {"rate_per_s": 0.0, "e2e_mean_s": None, "requests": 0, "failed": 500}
    made += [run(1, load=Load(LoadKind.RATE, rate), file=f"r{rate}", **dead) for rate in (8.0, 3.0, 1.0)]
    sweep = assemble(results(*made), NOTHING)
    assert [level.load.value for level in sweep.levels] == [1.0, 2.0, 3.0, 4.0, 8.0]


def test_a_run_that_stands_in_two_files_is_counted_once_and_the_file_that_says_more_is_kept():
    summary = run(8, file="sweep.json", setup=Setup("vllm bench serve"))
    sweep = assemble(results(summary, run(8), run(2)), NOTHING)
    assert [one.file for level in sweep.levels for one in level.runs] == ["c2.json", "c8.json"]
    assert sweep.notes == ("1 of the runs are counted once though they stand in two files (sweep.json is in c8.json)",)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("model", ("a", "b")),
        ("tool", ("aiperf profile", "guidellm run")),
        ("tool_version", ("0.12.0", "0.13.0")),
        ("engine_version", ("0.31.0", "0.32.0")),
        ("gpu", ("A100", "H100")),
        ("max_num_seqs", (128.0, 256.0)),
        ("kv_tokens", (1.0, 2.0)),
    ],
)
def test_runs_of_different_setups_are_refused_together(field, values):
    low, high = (
        replace(made, setup=replace(Setup("vllm bench serve"), **{field: value}))
        for made, value in zip((run(2), run(8)), values, strict=True)
    )
    assert faults(low, high) == [
        f"{field}: {values[0]} in c2.json and {values[1]} in c8.json; a profile describes one setup, so calibrate each by itself"
    ]


def test_what_the_command_line_says_must_not_contradict_the_files():
    told = run(2, setup=Setup("vllm bench serve", engine_version="0.32.0"))
    assert faults(told, given=Setup("", engine_version="0.31.0", gpu="H100")) == [
        "engine_version: 0.31.0 in the command line and 0.32.0 in c2.json; a profile describes one setup, so calibrate each by itself"
    ]


def test_what_one_file_or_the_command_line_says_holds_for_all():
    sweep = assemble(
        results(run(2), run(8, setup=Setup("vllm bench serve", gpu="H100"))), Setup("", engine_version="0.32.0")
    )
    assert sweep.setup == Setup("vllm bench serve", model="org/Tiny-7B", engine_version="0.32.0", gpu="H100")


def test_prompts_of_different_lengths_are_different_tests():
    assert faults(run(2), run(8, prompts=Lengths(1300.0, 100.0))) == [
        (
            "length of prompts: 1000 tokens in c2.json, 1300 in c8.json; a safe concurrency holds for one mix of lengths, "
            "so calibrate each by itself"
        )
    ]


def test_outputs_of_different_lengths_are_different_tests():
    assert faults(run(2), run(8, outputs=Lengths(100.0, 10.0)))[0].startswith(
        "length of outputs: 100 tokens in c8.json, 200"
    )


def test_lengths_that_differ_by_chance_are_alike():
    widely = [
        run(2, requests=60, prompts=Lengths(1000.0, 1000.0)),
        run(8, requests=60, prompts=Lengths(1500.0, 1500.0)),
    ]
    assert len(assemble(results(*widely), NOTHING).levels) == 2


def test_without_a_level_there_is_nothing_to_calibrate():
    with pytest.raises(ConfigError, match="no level in these files: only warm-ups or summaries"):
        assemble([Results("summary.json", "", ())], NOTHING)


def test_first_tokens_that_come_sooner_under_more_load_come_from_a_warm_cache():
    warm = run(2, ttft=latency(0.3, 400))
    sweep = assemble(results(run(1, ttft=latency(0.5, 400)), warm), NOTHING)
    assert sweep.warm is not None
    assert sweep.warm.text == (
        "the prefix cache was warm: nine of ten first tokens within 0.27 s in c2.json, while half of them take longer than 0.35 s in "
        "c1.json under no more load. Repeat it with another --seed for each run, or an emptied prefix cache; if production's prompts are "
        "found in the cache as well, say --shared-prefix"
    )


def test_the_second_run_of_a_level_may_find_what_the_first_left_in_the_cache():
    again = run(1, ttft=latency(0.1, 400), file="again.json")
    assert assemble(results(run(1), again), NOTHING).warm is not None


def test_a_cache_that_production_has_as_well_is_no_fault():
    files = results(run(1), run(2, ttft=latency(0.1, 400)))
    assert assemble(files, NOTHING, shared_prefix=True).warm is None


@given(st.permutations([run(level, 0.1 * level, file=f"{level}-{part}") for level in (1, 2, 4) for part in (1, 2)]))
def test_the_order_of_the_files_changes_nothing(runs):
    ordered = sorted(runs, key=lambda one: one.file)
    assert assemble(results(*runs), NOTHING) == assemble(results(*ordered), NOTHING)


def test_a_median_that_nobody_tells_is_no_sign_of_a_warm_cache():
    vague = Latency(400, None, ((0.95, 1.0),))
    assert assemble(results(run(1, ttft=vague), run(2, ttft=latency(0.3, 400))), NOTHING).warm is None
