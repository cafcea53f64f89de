"""``slo-scaler calibrate`` as it is called: files, folders and patterns in, an answer and an exit code out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scaler.calibration.profile import WRITTEN_BY
from scaler.cli.commands import app
from scaler.errors import ConfigError
from scaler.settings.file import parse_configuration

DATA = Path(__file__).resolve().parents[1] / "data" / "load-tests"
HEADER = "concurrency,requests,failed,requests_per_s,e2e_mean_s,ttft_p50_s,ttft_p95_s,ttft_p99_s,tpot_p95_s,tpot_p99_s,model\n"
ROWS = {
    1: "1,400,0,1,1,0.05,0.1,0.12,0.01,0.012,org/Tiny\n",
    8: "8,400,0,6,1.33,0.2,0.4,0.5,0.03,0.035,org/Tiny\n",
    16: "16,400,0,8,2,1.2,2.4,2.6,0.05,0.055,org/Tiny\n",
    32: "32,400,0,8,4,3,5,6,0.05,0.055,org/Tiny\n",
}


def call(*arguments):
    return CliRunner().invoke(app, ["calibrate", *map(str, arguments), "--ttft", "2", "--tpot", "0.1"])


def csv(folder, name, *levels):
    (folder / name).write_text(HEADER + "".join(ROWS[level] for level in levels))
    return folder / name


def faults(result):
    assert isinstance(result.exception, ConfigError)
    return list(result.exception.faults)


def test_the_answer_comes_first_then_the_levels_then_what_to_do_with_it(tmp_path):
    result = call(csv(tmp_path, "sweep.csv", 1, 8, 16, 32))
    lines = result.stdout.splitlines()
    assert (result.exit_code, lines[0]) == (
        0,
        "safe concurrency 8: 6 requests/s a replica; the scaler aims at 7.2 (headroom 0.1)",
    )
    places = [
        next(number for number, line in enumerate(lines) if line.startswith(text))
        for text in (
            "test next: ",
            "in flight",
            "concurrency 32: the first 32 of 400 requests find an empty engine",
            "profiles:",
            "apiVersion: keda.sh/v1alpha1",
        )
    ]
    assert places == sorted(places)


def test_the_chart_draws_each_level_against_its_objective(tmp_path):
    lines = call(csv(tmp_path, "sweep.csv", 1, 8, 16, 32)).stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("in flight"))
    assert [line.rstrip() for line in lines[start : start + 5]] == [
        "in flight  requests  requests/s  P95 time to first token ≤ 2 s  P95 time per output token ≤ 0.1 s",
        "        1       400           1          │    0.1 (≤ 0.12)      █       │    0.01 (≤ 0.012)        passes",
        "        8       400           6  ██      │    0.4 (≤ 0.5)       ██░     │    0.03 (≤ 0.035)        passes ◂ safe",
        "       16       400           8  ████████│█   2.4 (≤ 2.6)       ████    │    0.05 (≤ 0.055)        fails",
        "       32       400           8  ████████│██▸ 5 (≤ 6)           ████    │    0.05 (≤ 0.055)        not usable",
    ]


def test_the_profile_is_written_and_loads(tmp_path):
    output = tmp_path / "profile.yaml"
    result = call(csv(tmp_path, "sweep.csv", 1, 8, 16), "-o", output, "--gpu", "H100", "--name", "tiny")
    assert (result.exit_code, "profiles:" in result.stdout, f"written to {output}" in result.stderr) == (0, False, True)
    profile = parse_configuration(output.read_text()).catalog.profiles["tiny"]
    assert (profile.safe_concurrency, profile.safe_rate_per_s, profile.unloaded_ttft_s) == (8, 6, 0.05)


def test_a_profile_is_replaced_and_what_somebody_wrote_is_not(tmp_path):
    sweep, output = csv(tmp_path, "sweep.csv", 1, 8, 16), tmp_path / "profile.yaml"
    output.write_text(f"{WRITTEN_BY} 0.0.1\n")
    assert call(sweep, "-o", output).exit_code == 0
    output.write_text("profiles: {}\n")
    result = call(sweep, "-o", output)
    assert faults(result) == [f"--output: {output} exists and was not written by this command; give another name"]
    assert output.read_text() == "profiles: {}\n"


def test_the_levels_are_drawn_into_a_file_also_when_none_is_safe(tmp_path):
    plot = tmp_path / "levels.html"
    answers = [call(csv(tmp_path, "sweep.csv", *levels), "--plot", plot) for levels in ((1, 8, 16), (16,))]
    assert [answer.exit_code for answer in answers] == [0, 1]
    assert f"drawn in {plot}" in answers[1].stderr
    assert "infeasible: " in plot.read_text(encoding="utf-8")


def test_a_page_that_somebody_wrote_is_not_replaced(tmp_path):
    plot = tmp_path / "levels.html"
    plot.write_text("<!doctype html><title>mine</title>")
    result = call(csv(tmp_path, "sweep.csv", 1, 8, 16), "--plot", plot)
    assert faults(result) == [f"--plot: {plot} exists and was not written by this command; give another name"]
    assert "mine" in plot.read_text()


def test_without_a_safe_level_it_is_exit_code_1_and_nothing_is_written(tmp_path):
    output = tmp_path / "profile.yaml"
    result = call(csv(tmp_path, "sweep.csv", 16), "-o", output)
    assert (result.exit_code, output.exists(), "ScaledObject" in result.stdout) == (1, False, False)
    assert result.stdout.startswith(
        "infeasible: the lowest tested level, concurrency 16, fails: P95 time to first token 2.4 s"
    )


def test_json_is_the_whole_answer(tmp_path):
    answer = json.loads(call(csv(tmp_path, "sweep.csv", 1, 8, 16), "--json").stdout)
    assert {key: answer[key] for key in ("outcome", "safe_concurrency", "confidence", "next")} == {
        "outcome": "safe",
        "safe_concurrency": 8,
        "confidence": "high",
        "next": {"load": "concurrency 11", "requests": 240, "how": "your CSV a row with concurrency 11, requests 240"},
    }
    assert answer["profiles"]["tiny"]["safe_concurrency"] == 8
    assert [level["verdict"] for level in answer["levels"]] == ["passes", "passes", "fails"]


def test_files_folders_and_patterns_are_one_test_whatever_their_order(tmp_path):
    inner = tmp_path / "deep" / "er"
    inner.mkdir(parents=True)
    files = [csv(inner, "low.csv", 1), csv(tmp_path, "mid.csv", 8), csv(tmp_path, "high.csv", 16)]
    ways = [files, files[::-1], [tmp_path], [tmp_path / "*.csv", tmp_path / "deep"], [*files, tmp_path]]
    answers = {call(*way, "--json").stdout for way in ways}
    assert len(answers) == 1


def test_what_is_no_result_is_passed_over_in_a_folder_and_said(tmp_path):
    csv(tmp_path, "sweep.csv", 1, 8, 16)
    (tmp_path / "inputs.json").write_text('{"data": []}')
    (tmp_path / "README.txt").write_text("not looked at")
    result = call(tmp_path)
    assert result.exit_code == 0
    assert f"passed over: {tmp_path / 'inputs.json'}: not a load test's result: it holds data;" in result.stdout


def test_the_other_files_that_aiperf_leaves_are_passed_over(tmp_path):
    for name in ("c04-profile_export_aiperf.json", "c08-profile_export_aiperf.json"):
        (tmp_path / name).write_bytes((DATA / "aiperf" / name).read_bytes())
    alone = json.loads(call(tmp_path, "--json").stdout)
    (tmp_path / "profile_export_aiperf.csv").write_text("Metric,avg,min\nRequest Latency (ms),1,2\n")
    (tmp_path / "server_metrics_export.json").write_text(
        '{"aiperf_version": "0.13.0", "metrics": {}, "input_config": {}}'
    )
    (tmp_path / "inputs.json").write_text('{"data": []}')
    answer = json.loads(call(tmp_path, "--json").stdout)
    assert (answer["levels"], len(answer["passed_over"])) == (alone["levels"], 3)


def test_what_is_named_must_be_a_result_and_all_faults_are_told_at_once(tmp_path):
    (tmp_path / "inputs.json").write_text('{"data": []}')
    (tmp_path / "bad.csv").write_text("concurrency,requests\n1,\n")
    result = call(tmp_path / "inputs.json", tmp_path / "bad.csv")
    told = faults(result)
    assert [fault.split(":")[0] for fault in told] == [str(tmp_path / "inputs.json"), f"{tmp_path / 'bad.csv'}, row 1"]


NOWHERE = "nowhere: no such file or folder; name the load tester's result files, or the folder that holds them"


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["nowhere"], NOWHERE),
        ([DATA, "-o", "nowhere/profile.yaml"], "--output: there is no folder nowhere"),
        ([DATA, "-o", DATA], f"--output: {DATA} is no file; give another name"),
        ([DATA, "--plot", "/dev/zero"], "--plot: /dev/zero is no file; give another name"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(arguments, fault):
    assert faults(call(*arguments)) == [fault]


def test_an_empty_folder_says_what_is_looked_for(tmp_path):
    assert faults(call(tmp_path)) == ["no .json or .csv file there; name the load tester's result files"]


def test_a_name_that_no_profile_can_have_is_refused(tmp_path):
    assert faults(call(csv(tmp_path, "sweep.csv", 1, 8, 16), "--name", "a b")) == [
        "--name: a name has letters, digits and -, _ or . between them"
    ]


def test_an_objective_that_the_file_says_nothing_about_is_asked_for_by_field_and_option(tmp_path):
    (tmp_path / "sweep.csv").write_text("concurrency,requests,requests_per_s,ttft_p95_s,ttft_max_s\n1,400,1,0.1,0.2\n")
    assert faults(call(tmp_path / "sweep.csv")) == [
        (
            f"{tmp_path / 'sweep.csv'}, row 1: tpot_p95_s: missing, and no higher percentile is there; your CSV writes it with "
            "columns tpot_p95_s, tpot_p99_s, tpot_max_s"
        )
    ]


@pytest.mark.parametrize(
    ("folder", "outcome"),
    [("vllm-bench", "not enough samples"), ("aiperf", "not usable"), ("guidellm", "at least")],
)
def test_the_real_results_get_an_honest_answer(folder, outcome):
    """Tests of 12 to 64 requests are too short; AIPerf miscounted tokens; GuideLLM's mock server never got slow enough."""
    assert json.loads(call(DATA / folder, "--json").stdout)["outcome"] == outcome


def test_two_load_testers_are_no_one_test():
    assert faults(call(DATA))[0].startswith("tool: aiperf profile in ")


def test_a_wrong_call_of_the_program_is_exit_code_2_with_a_line_for_each_fault():
    done = subprocess.run(
        [sys.executable, "-m", "scaler", "calibrate", "nowhere", "--ttft", "2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"slo-scaler: {NOWHERE}\n")


def test_help_shows_an_example():
    assert (
        "Example: slo-scaler calibrate runs/ --ttft 2 --tpot 0.1 -o profile.yaml"
        in CliRunner().invoke(app, ["calibrate", "--help"]).stdout
    )
