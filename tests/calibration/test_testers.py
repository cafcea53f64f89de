"""The command lines of the load testers. Both were run as they stand here: AIPerf 0.13.0 and vLLM 0.32.0."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.calibration.advice import NextTest
from scaler.calibration.runs import Load, LoadKind
from scaler.calibration.testers import TESTERS, Traffic, command, public, reserved
from scaler.calibration.testers.command import HIDDEN, Turn
from scaler.cli.calibrate_options import Tool

TRAFFIC = Traffic("http://llama:8000", "llama", "org/Llama", input_tokens=1000, output_tokens=200)
TURN = Turn(NextTest(Load(LoadKind.CONCURRENCY, 8.0), 240), 7, "out")
AIPERF, VLLM = TESTERS["aiperf"], TESTERS["vllm"]


def words(tester, **changes):
    return " ".join(command(tester, replace(TRAFFIC, **changes), TURN))


def test_aiperf_is_given_a_new_prompt_for_each_request():
    assert words(AIPERF) == (
        "aiperf profile --model llama --url http://llama:8000 --streaming --concurrency 8 --request-count 240 --random-seed 7 "
        "--artifact-dir out --endpoint-type chat --num-dataset-entries 243 --isl 1000 --osl 200 --extra-inputs ignore_eos:true "
        "--tokenizer org/Llama --use-server-token-count --warmup-request-count 3 --request-timeout-seconds 600 "
        "--failed-request-threshold 0.1 --no-gpu-telemetry --ui none --export-level summary"
    )


def test_vllm_saves_the_latency_of_every_request():
    assert words(VLLM) == (
        "vllm bench serve --model llama --base-url http://llama:8000 --max-concurrency 8 --num-prompts 240 --seed 7 --save-result "
        "--save-detailed --result-dir out --result-filename result.json --backend openai-chat --endpoint /v1/chat/completions "
        "--dataset-name random --random-input-len 1000 --random-output-len 200 --ignore-eos --tokenizer org/Llama "
        "--percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,95,96,97,98,99 --disable-tqdm"
    )


@pytest.mark.parametrize(
    ("extra", "gone"),
    [
        (("--endpoint-type", "completions"), "--endpoint-type chat"),
        (("--endpoint-type=completions",), "--endpoint-type chat"),
        (("--synthetic-input-tokens-mean", "50"), "--isl 1000 "),
    ],
)
def test_an_option_of_the_persons_replaces_ours_by_any_of_its_names(extra, gone):
    """AIPerf refuses an option that is given twice."""
    before, after = words(AIPERF), words(AIPERF, extra=extra)
    assert (gone in before, gone in after, after.endswith(" ".join(extra))) == (True, False, True)


def test_a_data_set_brings_its_own_lengths():
    line = words(AIPERF, input_tokens=None, output_tokens=None, extra=("--public-dataset", "sharegpt"))
    assert [option for option in ("--isl", "--osl", "--num-dataset-entries", "ignore_eos") if option in line] == []


@pytest.mark.parametrize(
    ("tester", "extra", "taken"),
    [
        (AIPERF, ("--concurrency", "4"), "--concurrency"),
        (AIPERF, ("--num-requests=4",), "--num-requests=4"),
        (VLLM, ("--ignore-eos", "--port", "8000"), "--port"),
        (VLLM, ("--concurrency", "4"), None),
    ],
)
def test_what_the_sweep_decides_is_no_option_for_anybody_else(tester, extra, taken):
    assert reserved(tester, replace(TRAFFIC, extra=extra), TURN) == taken


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("--api-key secret --isl 5", f"--api-key {HIDDEN} --isl 5"),
        ("--api-key=secret", f"--api-key={HIDDEN}"),
        ("-H Authorization:secret --header X:secret", f"-H {HIDDEN} --header {HIDDEN}"),
        ("--extra-inputs a=b", "--extra-inputs a=b"),
    ],
)
def test_a_secret_is_not_written_down(written, shown):
    assert " ".join(public(written.split())) == shown


@given(st.sampled_from(sorted(TESTERS)), st.text("abc123", min_size=1))
def test_a_key_never_shows_in_what_is_written_down(name, key):
    traffic = replace(TRAFFIC, api_key=f"sk-{key}")
    assert not any(f"sk-{key}" in word for word in public(command(TESTERS[name], traffic, TURN)))


def test_the_command_line_offers_every_load_tester_aiperf_first():
    assert [tool.value for tool in Tool] == list(TESTERS)
