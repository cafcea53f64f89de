"""``slo-scaler replay`` as it is called: traffic in, scores, sentences and an exit code out."""

from __future__ import annotations

import json
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs

import pytest
from typer.testing import CliRunner

from scaler.cli.commands import app
from scaler.cli.replay_place import starts
from scaler.errors import ConfigError
from scaler.sim.presets import STARTS
from scaler.sim.starts import Fixed, Measured, Normal

LOG = Path(__file__).resolve().parent / "data" / "traces" / "decisions.jsonl"
STEP = "step:low_per_s=4,high_per_s=24,begins_at_s=30,duration_s=90"
QUICK = (
    "--ttft",
    2,
    "--tpot",
    0.1,
    "--seeds",
    1,
    "--jobs",
    1,
    "--gate",
    "in-path",
    "--cold-start",
    "40±5",
    "--output-tokens",
    60,
)


@cache
def answered(*arguments):
    return CliRunner().invoke(app, ["replay", *map(str, (*arguments, *QUICK))])


def faults(*arguments):
    result = CliRunner().invoke(app, ["replay", *map(str, arguments)])
    assert isinstance(result.exception, ConfigError)
    return list(result.exception.faults)


def test_the_answer_comes_first_then_what_was_played_the_scores_and_what_nobody_could_do():
    result = answered(STEP, "--laws", "ours,gke-waiting")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0, result.output
    assert lines[0].startswith("ours: ")
    places = [
        next(number for number, line in enumerate(lines) if line.startswith(text))
        for text in (
            "traffic: ",
            "promised: P95 TTFT 2 s, TPOT 0.1 s",
            "law ",
            "ours  ",
            "gke-waiting ",
            "clairvoyant ",
            "best static ",
        )
    ]
    assert places == sorted(places)
    assert any(line.startswith(("Bound: ", "No law that only reacts")) for line in lines)


def test_a_class_that_the_workload_has_not_is_its_default_as_at_a_gate():
    result = answered(LOG.with_name("plain.csv"), "--laws", "ours")
    assert result.exit_code == 0, result.output
    assert [line for line in result.stdout.splitlines() if "is taken as" in line or "are taken as" in line] == [
        "note: 1 of class agent are taken as default: the workload has no such class",
        "note: 1 of class chat are taken as default: the workload has no such class",
    ]


def test_json_has_every_score_and_its_regret():
    answer = json.loads(answered(STEP, "--laws", "ours,gke-waiting", "--json").stdout)
    laws = {law["name"]: law for law in answer["laws"]}
    best = next(name for name in laws if name.startswith("best static"))
    clairvoyant = laws["clairvoyant"]
    assert set(laws) >= {"ours", "gke-waiting", "clairvoyant", best}
    for law in laws.values():
        (run,) = law["runs"]
        assert run["offered"] == answer["subject"]["offered"]
        assert law["kept_above_clairvoyant"] == pytest.approx(run["kept_ratio"] - clairvoyant["kept_ratio"])
        assert law["kept_above_bound"] == pytest.approx(run["kept_ratio"] - answer["limits"]["reactive_ratio"])
        assert law["course"]["points"]
    assert laws["ours"]["runs"][0]["surprised_ratio"] is not None
    assert laws["gke-waiting"]["runs"][0]["surprised_ratio"] is None


def test_runs_in_processes_give_the_same_as_runs_one_by_one(tmp_path):
    arguments = (STEP, "--laws", "gke-waiting", "--json")
    together = CliRunner().invoke(app, ["replay", *map(str, (*arguments, *QUICK, "--jobs", 2))])
    assert together.stdout == answered(*arguments).stdout


def test_a_recorded_log_is_played_and_compared_at_every_sync():
    result = answered("--recorded", LOG, "--workload", "prod/llama", "--laws", "ours", "--json")
    answer = json.loads(result.stdout)
    (ours,) = [law for law in answer["laws"] if law["name"] == "ours"]
    assert ours["recorded"]["syncs"] == 12
    assert any("against the recorded desired" in sentence for sentence in answer["sentences"])
    assert "1 of 4 lines were blind; the load before them was held" in answer["subject"]["notes"]


def test_the_report_is_written_beside_the_answer(tmp_path):
    report = tmp_path / "replay.html"
    result = answered(STEP, "--laws", "ours", "--html", report)
    assert (result.exit_code, f"written to {report}" in result.stderr) == (0, True)
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_what_somebody_wrote_is_not_replaced(tmp_path):
    report = tmp_path / "replay.html"
    report.write_text("mine")
    told = f"--html: {report} exists and was not written by this command; give another name"
    assert faults(STEP, "--ttft", 2, "--html", report) == [told]


def test_a_workload_of_the_configuration_says_what_is_promised_and_within_which_bounds(tmp_path):
    config = tmp_path / "slo-scaler.yaml"
    config.write_text(
        "profiles: {p: {safe_concurrency: 30, safe_rate_per_s: 9}}\n"
        "workloads: {prod/llama: {metadata: {profile: p, ttftSloSeconds: 2, tpotSloSeconds: 0.1, maxReplicas: 3, minReplicas: 2}}}\n"
    )
    told = (
        "--config",
        config,
        "--laws",
        "ours",
        "--json",
        "--seeds",
        1,
        "--jobs",
        1,
        "--gate",
        "none",
        "--output-tokens",
        60,
    )
    answer = json.loads(CliRunner().invoke(app, ["replay", *map(str, (STEP, *told))]).stdout)
    assert answer["facts"]["the laws are told"] == "safe concurrency 30, 9 requests/s"
    assert answer["facts"]["replicas"] == "2 at first, 2 to 3, 4 GPUs each"
    assert answer["facts"]["promised"] == "P95 TTFT 2 s, TPOT 0.1 s"


PER_S = {"num_requests_waiting": 0.0, "_sum": 6000.0, "generation_tokens": 360.0, "_count": 6.0}
"""What a Prometheus says to a query that holds such a word, the first of them."""


class Remembering(BaseHTTPRequestHandler):
    """A Prometheus to which all hours were alike."""

    def do_POST(self):
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        begins, ends, step = (float(form[key][0]) for key in ("start", "end", "step"))
        value = next(value for word, value in PER_S.items() if word in form["query"][0])
        values = [[begins + index * step, str(value)] for index in range(int((ends - begins) / step) + 1)]
        told = {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}, "values": values}]}}
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Quiet."""


@pytest.fixture
def remembering(tmp_path):
    """A configuration that names it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Remembering) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        config = tmp_path / "slo-scaler.yaml"
        config.write_text(f"prometheus: {{default: {{url: 'http://127.0.0.1:{server.server_port}'}}}}\n")
        yield config
        server.shutdown()
        thread.join()


def test_a_prometheus_tells_the_load_of_then(remembering):
    then = (
        "--from",
        "2026-01-31T08:00",
        "--to",
        "2026-01-31T08:02:00+00:00",
        "--namespace",
        "prod",
        "--model-name",
        "llama",
    )
    answer = json.loads(
        answered("--from-prometheus", "default", "--config", remembering, *then, "--laws", "ours", "--json").stdout
    )
    assert answer["subject"]["traffic"] == "prod/llama (a Prometheus)"
    assert answer["subject"]["offered"] == pytest.approx(6 * 120, abs=1)
    assert answer["limits"]["mean_per_s"] == pytest.approx(6.0, abs=0.1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "--ttft: needed"),
        (("--ttft", 2), "TRACE: name a file or a shape"),
        (("nowhere.csv", "--ttft", 2), "nowhere.csv: no such file, and no shape; name a trace, or a shape: step, pulse"),
        ((STEP, "--recorded", LOG, "--ttft", 2), "TRACE: name a file or a shape"),
        (("step:low_pers=1", "--ttft", 2), "step: low_pers: unknown, did you mean low_per_s?"),
        ((STEP, "--ttft", 2, "--clip", "a:b"), "--clip: write it as A:B"),
        ((STEP, "--ttft", 2, "--preset", "abacus"), "--preset: no such kind of replica; there are llama-3.1-8b-h100"),
        ((STEP, "--ttft", 2, "--cold-start", "soon"), "--cold-start: write seconds such as 180 or 180±30"),
        ((STEP, "--ttft", 2, "--laws", "theirs"), "--laws: theirs: no such law; there are ours"),
        ((STEP, "--ttft", 2, "--gate", "ajar"), "--gate: there are none, polled, in-path"),
        ((STEP, "--ttft", 2, "--set", "ray-serve.speed=2"), "--set: ray-serve has "),
        ((STEP, "--ttft", 2, "--set", "ray-serve.look_back_s=long"), "--set: ray-serve.look_back_s: a number is needed, or safe"),
        ((STEP, "--ttft", 2, "--laws", "ours", "--set", "ray-serve.look_back_s=2"), "--set: ray-serve does not play"),
        ((STEP, "--ttft", 2, "--safe-rate", 3), "--safe-rate: give --safe-concurrency with it"),
        ((STEP, "--ttft", 2, "--tpot", 0.0001), "ttft, tpot: a replica of this kind keeps the objectives for no load"),
        (("--from-prometheus", "default", "--ttft", 2), "--from-prometheus: no such Prometheus in the --config; there are none"),
        ((STEP, "--workload", "a/b", "--profile", "p", "--ttft", 2), "--profile: no such profile in the --config; there are none"),
    ],
)  # fmt: skip
def test_what_cannot_be_played_is_told_by_its_option(arguments, told):
    assert faults(*arguments)[0].startswith(told)


def test_start_times_are_seconds_seconds_with_a_spread_a_preset_or_measured_ones(tmp_path):
    measured = tmp_path / "starts.txt"
    measured.write_text("61\n75.5, 90\n")
    given = ("180", "180±30", "180+-30", "8b-cached", str(measured))
    assert [starts(text) for text in given] == [
        Fixed(180.0),
        Normal(180.0, 30.0),
        Normal(180.0, 30.0),
        STARTS["8b-cached"],
        Measured((61.0, 75.5, 90.0)),
    ]
