"""Every file of every load tester gives the numbers that stand in it; a file that does not says what is missing and how to get it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from scaler.calibration import FORMATS, NoResult, read
from scaler.calibration.document import parse
from scaler.calibration.runs import Defect, Load, LoadKind, Setup
from scaler.errors import ConfigError
from tests.support.shared_data import shared_data

DATA = Path(__file__).resolve().parents[1] / "data" / "load-tests"
VLLM = json.loads((DATA / "vllm-bench" / "vllm-0.32.0-c04.json").read_text())
AIPERF = json.loads((DATA / "aiperf" / "c04-profile_export_aiperf.json").read_text())
SWEEP = json.loads((DATA / "aiperf" / "profile_export_aiperf_sweep.json").read_text())
GUIDELLM = json.loads(gzip.decompress((DATA / "guidellm" / "guidellm-0.8.1-concurrent.json.gz").read_bytes()))
STAGE: dict[str, Any] = {  # as inference-perf writes it, shortened
    "load_summary": {"count": 600, "send_duration": 59.9, "requested_rate": 10.0, "achieved_rate": 10.0},
    "successes": {
        "count": 600,
        "latency": {
            "request_latency": {"mean": 2.0},
            "time_to_first_token": {"mean": 0.1, "min": 0.05, "median": 0.09, "p95": 0.2, "p99": 0.3, "max": 0.4},
            "time_per_output_token": {
                "mean": 0.01,
                "min": 0.005,
                "median": 0.009,
                "p95": 0.02,
                "p99": 0.03,
                "max": 0.04,
            },
        },
        "throughput": {"requests_per_sec": 9.7},
        "prompt_tokens": {"mean": 100.0, "median": 90.0, "p95": 200.0, "total": 60000.0, "cached": 15000.0},
        "output_len": {"mean": 50.0, "median": 45.0, "p95": 90.0},
    },
    "failures": {"count": 3},
}


def runs_of(content, name="result.json"):
    return read(name, content if isinstance(content, bytes) else json.dumps(content).encode()).runs


def only(content, name="result.json"):
    (run,) = runs_of(content, name)
    return run


def told(run):
    """What calibration goes by, of one run."""
    return (
        run.load.value,
        run.completed,
        run.failed,
        round(run.rate_per_s, 4),
        round(run.little, 2),
        *(round(value, 5) for value in (run.ttft.at(0.5), run.ttft.at(0.95), run.tpot.at(0.5), run.tpot.at(0.95))),
        round(run.prompts.mean, 2),
        round(run.outputs.mean, 2),
    )


def fault(content, name="result.json"):
    with pytest.raises(ConfigError) as caught:
        runs_of(content, name)
    return str(caught.value)


# vllm bench serve ------------------------------------------------------------------------------------------------------


def test_vllm_bench_serve_by_value():
    files = sorted((DATA / "vllm-bench").glob("*.json"))
    assert [told(only(file.read_bytes())) for file in files] == [
        (1.0, 12, 0, 0.9057, 1.0, 0.05737, 0.12003, 0.01551, 0.02221, 64.75, 64.0),
        (2.0, 12, 0, 1.1034, 1.98, 0.10554, 0.20085, 0.02608, 0.03192, 65.17, 64.0),
        (4.0, 24, 0, 2.1772, 3.97, 0.18991, 0.27623, 0.02445, 0.03589, 64.96, 64.0),
        (8.0, 48, 0, 2.8749, 7.69, 1.42352, 1.92488, 0.01917, 0.0264, 64.96, 64.0),
        (16.0, 64, 0, 3.4989, 14.37, 3.38878, 3.76213, 0.01644, 0.0194, 65.05, 64.0),
    ]


def test_vllm_up_to_0_11_says_failed_by_leaving_it_out():
    old = {key: value for key, value in VLLM.items() if key not in {"failed", "latencies"}} | {"num_prompts": 26}
    assert only(old).failed == 2


@pytest.mark.parametrize(
    ("absent", "little"),
    [((), 3.97), (("mean_e2el_ms",), 3.97), (("mean_e2el_ms", "latencies"), 3.97)],
)
def test_requests_in_flight_are_told_from_the_best_that_vllm_wrote(absent, little):
    result = {key: value for key, value in VLLM.items() if key not in absent}
    assert only(result).little == pytest.approx(little, rel=0.01)


def test_vllm_with_a_rate_is_rate_driven_and_its_max_concurrency_a_limit():
    assert only(VLLM | {"request_rate": 2.5, "max_concurrency": 256}).load == Load(LoadKind.RATE, 2.5)


def test_vllm_without_any_limit_sends_all_at_once():
    assert only(VLLM | {"max_concurrency": None}).load == Load(LoadKind.CONCURRENCY, 24.0)


def test_the_peak_that_vllm_reports_is_never_the_concurrency():
    assert VLLM["max_concurrent_requests"] == 8
    assert only(VLLM).concurrency == 4.0


def test_what_metadata_adds_is_read_as_the_setup():
    metadata = {
        "engine_version": "0.32.0",
        "gpu": "H100",
        "max_num_seqs": "256",
        "kv_tokens": "448000",
        "preemptions": "3",
    }
    run = only(VLLM | metadata)
    assert run.setup == Setup(
        tool="vllm bench serve",
        model="tiny",
        engine_version="0.32.0",
        gpu="H100",
        max_num_seqs=256.0,
        kv_tokens=448000.0,
    )
    assert (run.preemptions, run.tested_on) == (3.0, "2026-11-30")


def test_saved_requests_give_samples_without_the_first_that_find_an_empty_engine():
    detailed = {
        "start_times": [0.0, 0.0, 2.0, 2.1, 3.0],
        "ttfts": [0.9, 0.8, 0.2, 0.0, 0.4],
        "latencies": [2.0, 2.1, 1.2, 0.0, 1.0],
        "input_lens": [10, 20, 30, 40, 50],
        "output_lens": [11, 11, 11, 0, 1],
        "errors": ["", "", "", "timeout", ""],
    }
    run = only(VLLM | detailed | {"max_concurrency": 2, "completed": 4, "failed": 1, "num_prompts": 5})
    assert (run.ttft.samples, run.tpot.samples, run.from_empty) == ((0.2, 0.4), (pytest.approx(0.1),), False)
    assert (run.prompts.mean, run.prompts.p50, run.outputs.mean) == (27.5, 25.0, 8.5)


def test_several_appended_results_are_several_runs():
    lines = "\n".join(json.dumps(VLLM | {"max_concurrency": level}) for level in (1, 2))
    found = runs_of(lines.encode())
    assert [(run.file, run.load.value) for run in found] == [
        ("result.json, result 1", 1.0),
        ("result.json, result 2", 2.0),
    ]


def test_a_sweeps_summary_is_its_runs_and_its_warm_up_is_none():
    summary = [VLLM | {"run_number": number, "max_num_seqs": 128} for number in (0, 1)]
    assert [run.setup.max_num_seqs for run in runs_of(summary)] == [128.0, 128.0]
    assert runs_of(VLLM | {"run_number": -1}) == ()


def test_a_rate_that_rises_while_it_is_measured_is_a_defect():
    run = only(VLLM | {"request_rate": 5, "ramp_up_strategy": "linear"})
    assert run.defects == (
        Defect("the rate was raised while it was measured; run vllm bench serve without --ramp-up-strategy"),
    )


def test_values_that_are_no_numbers_are_unknown_and_not_zero():
    text = json.dumps(VLLM).replace(str(VLLM["p95_ttft_ms"]), "NaN").replace(str(VLLM["p99_ttft_ms"]), "Infinity")
    assert (only(text.encode()).ttft.at(0.95), only(text.encode()).ttft.at(0.99)) == (None, None)


def test_a_run_in_which_every_request_failed_has_no_latency():
    broken = VLLM | {"completed": 0, "failed": 24, "request_throughput": 0.0, "total_input_tokens": 0}
    run = only(broken)
    assert (run.completed, run.failed, run.ttft.count, run.prompts.mean) == (0, 24, 0, None)


# AIPerf ----------------------------------------------------------------------------------------------------------------

AIPERF_LEVELS = [
    (1.0, 48, 0, 0.7019, 0.93, 0.09082, 0.26698, 0.01083, 0.01477, 64.0, 64.0),
    (2.0, 48, 0, 1.1397, 1.86, 0.13345, 0.48202, 0.0124, 0.01904, 64.0, 64.0),
    (4.0, 48, 0, 2.6555, 3.35, 0.18834, 0.82247, 0.00927, 0.01375, 64.0, 64.0),
    (8.0, 48, 0, 2.6896, 7.13, 1.30925, 2.39744, 0.01029, 0.01668, 64.0, 64.0),
    (16.0, 48, 0, 1.9853, 14.28, 5.05477, 9.66252, 0.01391, 0.0498, 64.0, 64.0),
]


def test_aiperf_by_value():
    assert [told(only(file.read_bytes())) for file in sorted((DATA / "aiperf").glob("c*.json"))] == AIPERF_LEVELS


def test_an_aiperf_sweep_is_its_levels():
    assert [told(run) for run in runs_of(SWEEP)] == AIPERF_LEVELS


def test_aiperf_tells_version_model_and_day():
    run = only(AIPERF)
    assert (run.setup, run.tested_on) == (Setup("aiperf profile", "0.13.0", "tiny"), "2026-11-30")


def test_tokens_that_aiperf_counts_otherwise_than_the_server_make_its_tpot_a_defect():
    told = "TPOT is too small: AIPerf counted 111 output tokens where the server says 64"
    assert only(AIPERF).defects == (Defect(f"{told}; run aiperf profile with --use-server-token-count", about="tpot"),)


def test_aiperf_leaves_out_the_count_of_errors_when_there_are_none():
    assert only(AIPERF | {"error_request_count": {"avg": 2.0}}).failed == 2
    assert only(AIPERF).failed == 0


def test_aiperf_tells_what_the_prefix_cache_held():
    assert only(AIPERF | {"usage_prompt_cache_read_tokens": {"avg": 16.0}}).cached_ratio == 0.25


def test_an_old_aiperf_names_the_load_otherwise():
    assert only(AIPERF | {"input_config": {"loadgen": {"concurrency": 4}}}).load == Load(LoadKind.CONCURRENCY, 4.0)


def test_a_rate_of_aiperf_is_rate_driven_and_its_concurrency_a_limit():
    phases = [{"name": "profiling", "type": "poisson", "rate": 2.5, "concurrency": 100}]
    assert only(AIPERF | {"input_config": {"phases": phases}}).load == Load(LoadKind.RATE, 2.5)


def test_a_cancelled_aiperf_run_is_a_defect():
    assert only(AIPERF | {"was_cancelled": True}).defects[0] == Defect(
        "the run was cancelled before its end; let it finish"
    )


def test_means_of_percentiles_are_refused():
    repeated = SWEEP | {"metadata": {"num_trials_per_value": 3}}
    assert fault(repeated) == (
        "result.json: metadata.num_trials_per_value: a mean of percentiles is none; give the profile_export_aiperf.json of each trial"
    )


def test_an_aiperf_sweep_of_more_than_the_load_is_refused():
    mixed = SWEEP | {"per_combination_metrics": [{"parameters": {"concurrency": 1, "isl": 64}, "metrics": AIPERF}]}
    assert fault(mixed) == (
        "result.json: per_combination_metrics[0].parameters.concurrency, isl: a sweep of --concurrency or --request-rate alone is needed"
    )


# GuideLLM --------------------------------------------------------------------------------------------------------------

GUIDELLM_LEVELS = [
    (1.0, 45, 0, 3.75, 0.96, 0.02109, 0.02676, 0.00745, 0.00791, 128.0, 32.0),
    (4.0, 135, 0, 11.25, 3.79, 0.0236, 0.06861, 0.00841, 0.01508, 128.0, 32.0),
    (8.0, 209, 0, 17.3333, 7.53, 0.03194, 0.14475, 0.01041, 0.01917, 128.0, 32.0),
    (16.0, 406, 0, 33.3333, 15.33, 0.03471, 0.09466, 0.01298, 0.01629, 128.0, 32.0),
    (32.0, 550, 0, 45.75, 30.29, 0.04609, 0.17578, 0.01902, 0.02113, 128.0, 32.0),
    (64.0, 641, 0, 53.3333, 59.64, 0.30807, 0.445, 0.0251, 0.02985, 128.0, 32.0),
]


@pytest.mark.parametrize("file", ["guidellm-0.8.1-concurrent.json.gz", "guidellm-0.8.1-concurrent.csv.gz"])
def test_guidellm_by_value(file):
    found = runs_of((DATA / "guidellm" / file).read_bytes())
    assert [told(run) for run in found] == GUIDELLM_LEVELS
    assert [run.cut_off for run in found] == [1, 4, 7, 8, 31, 58]
    assert {run.setup for run in found} == {Setup("guidellm run", "0.8.1", "mock-model")}


def benchmark(**changes):
    return GUIDELLM | {"benchmarks": [GUIDELLM["benchmarks"][1] | changes]}


def strategy(**told):
    return benchmark(config={"strategy": told})


@pytest.mark.parametrize(
    ("told", "load"),
    [
        ({"type_": "synchronous", "max_concurrency": 1}, Load(LoadKind.CONCURRENCY, 1.0)),
        ({"type_": "concurrent", "streams": 4, "max_concurrency": 512}, Load(LoadKind.CONCURRENCY, 4.0)),
        ({"type_": "constant", "rate": 11.5, "max_concurrency": 10240}, Load(LoadKind.RATE, 11.5)),
        ({"type_": "poisson", "rate": 11.5}, Load(LoadKind.RATE, 11.5)),
    ],
)
def test_the_limit_of_a_guidellm_strategy_is_not_its_load(told, load):
    assert only(strategy(**told)).load == load


def test_a_guidellm_strategy_that_holds_no_load_is_a_defect():
    run = only(strategy(type_="throughput", max_concurrency=512))
    assert round(run.load.value, 2) == 3.79
    assert run.defects == (
        Defect("the strategy throughput holds no load constant; use --profile kind=concurrent,streams=N"),
    )


def test_guidellm_up_to_0_3_keeps_the_strategy_elsewhere():
    old = benchmark(config={}, args={"strategy": {"type_": "concurrent", "streams": 4}})
    assert only(old | {"metadata": None}).load == Load(LoadKind.CONCURRENCY, 4.0)


def test_a_guidellm_warm_up_leaves_out_the_first_requests():
    assert (only(benchmark()).from_empty, only(benchmark(warmup_duration=3.0)).from_empty) == (True, False)


def test_guidellm_requests_tell_what_the_prefix_cache_held():
    requests = {"successful": [{"input_metrics": {"cached_tokens": 32, "total_tokens": 128}}]}
    assert only(benchmark(requests=requests)).cached_ratio == 0.25


# inference-perf ---------------------------------------------------------------------------------------------------------


def test_inference_perf_by_value():
    folder = shared_data("load-tests/inference-perf")
    found = [only(file.read_bytes()) for file in sorted(folder.glob("*stage_*.json"))]
    assert [(*told(run), run.saturated) for run in found] == [
        (1.0, 60, 0, 1.0172, 0.49, 0.03103, 0.03624, 0.00347, 0.00352, 204.1, 63.15, False),
        (31.4, 1884, 0, 31.1559, 17.03, 0.02931, 0.03819, 0.00398, 0.00424, 204.12, 62.36, False),
        (61.79, 3707, 0, 61.2419, 41.62, 0.03346, 0.04875, 0.00491, 0.00575, 204.1, 62.39, False),
        (92.19, 5531, 0, 91.3573, 93.3, 0.04452, 0.08024, 0.00741, 0.00938, 204.1, 62.33, False),
        (122.59, 7355, 0, 101.232, 389.14, 3.0356, 3.1872, 0.00956, 0.00968, 204.1, 62.4, True),
        (152.98, 9178, 0, 101.4602, 422.19, 3.03454, 3.28096, 0.00954, 0.00965, 204.1, 62.33, True),
        (183.38, 11002, 0, 103.078, 427.05, 2.88655, 3.32432, 0.00932, 0.00946, 204.1, 62.39, True),
    ]


def test_an_inference_perf_stage_in_seconds():
    run = only(STAGE)
    assert told(run) == (10.0, 600, 3, 9.7, 19.4, 0.09, 0.2, 0.009, 0.02, 100.0, 50.0)
    assert (run.load.kind, run.cached_ratio, run.prompts.p95) == (LoadKind.RATE, 0.25, 200.0)


def test_an_inference_perf_stage_of_a_concurrency():
    stage = STAGE | {"load_summary": {"count": 600, "concurrency": 20}}
    assert only(stage).load == Load(LoadKind.CONCURRENCY, 20.0)


def test_the_summary_of_all_stages_is_no_level():
    assert runs_of(STAGE | {"load_summary": {"count": 38717}}) == ()


def test_a_test_that_ends_with_its_last_answer_is_not_saturated_for_that():
    short = STAGE | {"successes": STAGE["successes"] | {"throughput": {"requests_per_sec": 600 / 62}}}
    behind = STAGE | {"successes": STAGE["successes"] | {"throughput": {"requests_per_sec": 600 / 68}}}
    assert (only(short).saturated, only(behind).saturated) == (False, True)


# A CSV of one's own ------------------------------------------------------------------------------------------------------


def test_a_plain_csv_by_value():
    text = (
        "concurrency,requests,failed,requests_per_s,e2e_mean_s,ttft_p50_ms,ttft_p95_ms,ttft_max_s,tpot_p50_s,tpot_p95_s,"
        "input_mean,output_mean,input_p95,gpu,kv_tokens\n"
        "4,400,1,2.0,1.9,100,250,0.9,0.01,0.02,500,100,900,H100,100000\n"
        "8,800,,3.5,2.2,NaN,500,,0.01,0.03,500,100,,,\n"
    )
    first, second = runs_of(text.encode(), "mine.csv")
    assert told(first) == (4.0, 400, 1, 2.0, 3.8, 0.1, 0.25, 0.01, 0.02, 500.0, 100.0)
    assert (first.ttft.at(1.0), first.prompts.p95, first.setup) == (
        0.9,
        900.0,
        Setup("your CSV", gpu="H100", kv_tokens=100000.0),
    )
    assert (second.file, second.failed, second.ttft.at(0.5), second.setup.gpu) == ("mine.csv, row 2", None, None, None)


def test_a_plain_csv_of_rates():
    assert only(b"rate_per_s,requests,requests_per_s\n2.5,100,2.4\n").load == Load(LoadKind.RATE, 2.5)


# Faults -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            VLLM | {"request_throughput": None},
            "result.json: request_throughput: missing; save it with vllm bench serve --save-result",
        ),
        (VLLM | {"p95_ttft_ms": [1]}, "result.json: p95_ttft_ms: a number is needed here"),
        (VLLM | {"completed": -1}, "result.json: completed: a whole number, not below zero, is needed here"),
        (
            VLLM | {"request_throughput": 0},
            "result.json: 24 requests succeeded at 0 requests/s; the file contradicts itself",
        ),
        (
            VLLM | {"max_concurrency": 0},
            "result.json: concurrency 0 is no load; test with --max-concurrency 1 --num-prompts 240 and more",
        ),
        (
            AIPERF | {"input_config": {}},
            "result.json: input_config.phases: no load that was held constant; run aiperf profile with --concurrency",
        ),
        (
            AIPERF | {"request_throughput": {}},
            "result.json: request_throughput.avg: missing; give the profile_export_aiperf.json of a finished run",
        ),
        (
            benchmark(metrics={}),
            "result.json: benchmarks[0].metrics.request_totals.successful: missing; save the report with --output kind=json",
        ),
        (
            strategy(type_="concurrent"),
            "result.json: benchmarks[0].config.strategy.streams: missing; use --profile kind=concurrent,streams=N",
        ),
        (
            STAGE | {"successes": {}},
            (
                "result.json: successes.count: missing; give the stage_*_lifecycle_metrics.json that "
                "report.request_lifecycle.per_stage: true writes"
            ),
        ),
        (
            b"concurrency,ttft_p95\n1,2\n",
            "result.json: ttft_p95: unknown column, did you mean ttft_p95_s?",
        ),
        (
            b"concurrency,requests_per_s\n1,2\n",
            "result.json, row 1: requests: missing; write how many requests succeeded",
        ),
        (
            b"concurrency,ttft_p950_s\n1,2\n",
            "result.json: ttft_p950_s: unknown column, did you mean ttft_p95_s?",
        ),
        (
            b"concurrency,requests,requests\n1,2,3\n",
            "result.json: requests: the column stands twice; keep one",
        ),
        (
            b"concurrency,requests,requests_per_s,ttft_p95_s,ttft_p95_ms\n1,240,1,9,200\n",
            "result.json: ttft_p95_ms: ttft_p95_s says the same; keep one",
        ),
        (
            b"concurrency,requests,requests_per_s,ttft_max_s\n1,240,1,0,2\n",
            "result.json, row 1: 5 cells under 4 columns; was the file cut short, or is a decimal comma in it?",
        ),
        (
            b"concurrency,requests,requests_per_s,ttft_max_s\n1,240,1,0.2\n2,240,2\n",
            "result.json, row 2: 3 cells under 4 columns; was the file cut short, or is a decimal comma in it?",
        ),
        (
            b"concurrency,requests,requests_per_s,ttft_max_s\n1,100000000,1,0.2\n",
            "result.json, row 1: 100000000 requests are more than any load test sends; the file is damaged",
        ),
        (
            b"concurrency,requests,requests_per_s,input_mean\n1,240,1,-5\n",
            "result.json, row 1: a length, a count, a time or a share below zero; the file is damaged",
        ),
        (
            b"concurrency,rate_per_s,requests\n1,2,3\n",
            "result.json, row 1: concurrency: give either concurrency or rate_per_s",
        ),
    ],
)
def test_a_file_that_cannot_be_used_names_the_field_and_what_would_supply_it(content, text):
    assert fault(content) == text


INSTEAD = "run the test with vllm bench serve, AIPerf, GuideLLM or inference-perf, or write the levels into a CSV (docs/calibration.md)"


@pytest.mark.parametrize(
    ("content", "tool"),
    [
        ({"aggregated_metrics": {"num_concurrency": 1}}, "genai-bench"),
        ({"results_ttft_s_quantiles_p95": 1.0}, "llmperf"),
        (
            {"backend": "sglang", "concurrency": 3.9, "mean_e2e_latency_ms": 900, "max_concurrency": 4},
            "sglang.bench_serving",
        ),
        (
            {"aiperf_version": "0.13.0", "metadata": {"aggregation_type": "confidence"}, "metrics": {}},
            "AIPerf that sums up others",
        ),
    ],
)
def test_a_tool_that_cannot_be_read_is_named_with_what_to_do_instead(content, tool):
    assert fault(content) == f"result.json: a result of {tool}, which cannot be read; {INSTEAD}"


@pytest.mark.parametrize("file", ["mock_run_data.json", "mock_experiment_data.json"])
def test_genai_bench_is_refused_clearly(file):
    assert "a result of genai-bench" in fault(shared_data(f"load-tests/genai-bench/{file}").read_bytes())


def test_the_csv_of_aiperf_does_not_hold_the_load():
    content = b"Metric,avg,min,max\nRequest Latency (ms),1,2,3\n"
    assert fault(content) == "result.json: AIPerf's CSV does not hold the load; give profile_export_aiperf.json"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (
            b'{"a": 1, "b": 2}',
            "not a load test's result: it holds a, b; readable are AIPerf, GuideLLM, inference-perf, vllm bench serve, a plain CSV",
        ),
        (
            b"[]",
            "not a load test's result: it holds nothing; readable are AIPerf, GuideLLM, inference-perf, vllm bench serve, a plain CSV",
        ),
        (b'{"completed": ', "not JSON (Expecting value in line 1); was the load test cut short?"),
        (b"api:\n  type: completion\n", "neither JSON nor CSV; give the file that the load tester saved"),
        (b"\x00\xff\xfe", "not text; give the JSON or CSV that the load tester saved"),
        (b"\x1f\x8bnonsense", "a damaged gzip file; copy it again"),
        (gzip.compress(b"concurrency,requests\n" * 99, mtime=0)[:-9], "a damaged gzip file; copy it again"),
        (b"[" * 100_000, "not a load-test result, it is nested too deeply"),
        (b'{"completed": ' + b"9" * 5000 + b"}", "not a load-test result, it holds a number of thousands of digits"),
    ],
)
def test_a_file_that_is_no_result_says_what_it_is(content, why):
    with pytest.raises(NoResult) as caught:
        read("some.json", content)
    assert str(caught.value) == f"some.json: {why}"


def test_a_gzipped_file_that_unpacks_to_too_much_is_refused():
    bomb = gzip.compress(b"0" * (2**28 + 1), compresslevel=1)
    with pytest.raises(ConfigError, match="larger than 256 MB"):
        read("big.json.gz", bomb)


def test_gzipped_files_that_were_put_together_are_read_to_the_end():
    rows = (b"concurrency,requests,requests_per_s\n1,240,1\n", b"2,240,2\n")
    runs = read("two.csv.gz", b"".join(map(gzip.compress, rows))).runs
    assert [run.load.value for run in runs] == [1.0, 2.0]


def test_every_real_file_is_of_exactly_one_format():
    files = [file for file in DATA.rglob("*") if file.suffix in {".json", ".gz"}]
    found = {
        file.name: [form.name for form in FORMATS if form.recognises(parse(file.name, file.read_bytes()))]
        for file in files
    }
    assert found == {
        name: ["GuideLLM" if "guidellm" in name else "AIPerf" if "aiperf" in name else "vllm bench serve"]
        for name in found
    }
