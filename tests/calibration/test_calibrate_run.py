"""``slo-scaler calibrate --run``: real processes of a load tester that is made for this, against an endpoint that only lists its model."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread

import pytest
import yaml
from typer.testing import CliRunner

from scaler.calibration.testers import TESTERS
from scaler.cli.commands import app
from scaler.cli.sweep import COMMAND, WORKING
from scaler.errors import ConfigError

FAKE = Path(__file__).with_name("fake_aiperf.py")
MIX = ["--input-tokens", "1000", "--output-tokens", "200"]
OBJECTIVES = ["--ttft", "0.3", "--tpot", "0.1"]
# A test run in the background ignores SIGINT, and its children would inherit that.
INTERRUPTIBLE = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "runpy.run_module('scaler', run_name='__main__', alter_sys=True)"
)
PATIENCE_S = 30
INTERRUPTED = 130


@dataclass
class Endpoint:
    """A replica that lists its models, or does not, and hears what the load tester says."""

    url: str = ""
    heard: Queue[str] = field(default_factory=Queue)
    status: int = 200
    body: bytes = b'{"data": [{"id": "llama"}]}'


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            made.heard.put(self.path)
            self.send_response(made.status)
            self.send_header("Content-Length", str(len(made.body)))
            self.end_headers()
            self.wfile.write(made.body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_port}"
        serving = Thread(target=server.serve_forever)
        serving.start()
        yield made
        server.shutdown()
        serving.join()


@pytest.fixture
def path(tmp_path) -> str:
    """A PATH with our load tester on it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "aiperf"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(FAKE))} "$@"\n')
    program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@dataclass
class Caller:
    """Calls the command as a person would: the same words, in the same place, with another environment."""

    endpoint: Endpoint
    environment: dict[str, str]
    folder: Path

    @property
    def words(self) -> list[str]:
        return [
            "calibrate",
            "--run",
            self.endpoint.url,
            "--model",
            "llama",
            *MIX,
            *OBJECTIVES,
            "--results",
            str(self.folder),
        ]

    def __call__(self, *more, **environment):
        return CliRunner().invoke(app, [*self.words, *map(str, more)], env=self.environment | environment)

    def results(self) -> list[str]:
        return sorted(file.stem for file in self.folder.glob("*.json"))


@pytest.fixture
def call(endpoint, path, tmp_path) -> Caller:
    environment = {"PATH": path, "KNEE": "3", "WATCHER": endpoint.url, "OPENAI_API_KEY": ""}
    return Caller(endpoint, environment, tmp_path / "runs")


def faults(result):
    assert isinstance(result.exception, ConfigError), result.output
    return list(result.exception.faults)


ALL = ["concurrency-1", "concurrency-2", "concurrency-3", "concurrency-4"]


def test_it_goes_up_level_by_level_until_the_knee_is_passed(call):
    result = call()
    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        0,
        "safe concurrency 3: 3 requests/s a replica; the scaler aims at 2.7 (headroom 0.1)",
    )
    assert [line.partition(":")[0] for line in result.stderr.splitlines()] == [
        f"concurrency {level}" for level in (1, 2, 4, 3)
    ]
    assert call.results() == ALL


def test_the_folder_gives_the_same_answer_by_itself_and_holds_nothing_half_done(call):
    ran = call("--json")
    read = CliRunner().invoke(app, ["calibrate", str(call.folder), *OBJECTIVES, "--json"])
    assert json.loads(ran.stdout) == json.loads(read.stdout)
    logs = [f"{name}.log" for name in ALL]
    assert {file.name for file in call.folder.iterdir()} == {*logs, *(f"{name}.json" for name in ALL), COMMAND}


def test_a_level_whose_result_is_there_is_not_tested_again(call):
    call()
    for level in (3, 4):
        (call.folder / f"concurrency-{level}.json").unlink()
    kept = {file: file.stat().st_mtime_ns for file in call.folder.glob("*.json")}
    result = call()
    assert [line.rpartition("concurrency ")[0] for line in result.stderr.splitlines()] == ["kept: "] * 2 + [""] * 2
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    assert call.results() == ALL


def test_a_finished_sweep_is_only_read_even_when_the_replica_is_gone(call):
    first = call("--json")
    call.endpoint.url = "http://127.0.0.1:9"
    again = call("--json")
    assert (again.exit_code, json.loads(again.stdout)) == (0, json.loads(first.stdout))


def test_each_run_has_prompts_of_its_own(call, tmp_path):
    """Else the second level finds those of the first in the prefix cache."""
    spy = tmp_path / "bin" / "aiperf"
    spy.write_text(spy.read_text().replace("exec ", f'echo "$@" >> {shlex.quote(str(tmp_path / "calls"))}\nexec ', 1))
    call()
    calls = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    assert len({words[words.index("--random-seed") + 1] for words in calls}) == len(ALL)


def test_where_the_endpoint_refuses_requests_the_sweep_ends_and_says_so(call):
    result = call(REFUSED_AT="4")
    assert call.results() == ["concurrency-1", "concurrency-2", "concurrency-4"]
    assert "concurrency 4 fails: 120 of 240 requests failed" in result.stdout


def test_a_load_tester_that_fails_is_quoted_and_what_was_tested_stays(call):
    result = call(BREAKS_AT="4")
    assert (result.exit_code, call.results()) == (1, ["concurrency-1", "concurrency-2"])
    log = call.folder / "concurrency-4.log"
    assert result.stderr.splitlines()[2:] == [
        f"slo-scaler: aiperf left no result at concurrency 4 (exit code 1); its last lines, the rest is in {log}:",
        "  ERROR All 240 inference request(s) failed",
        f"What was tested is in {call.folder}; the same command goes on from there.",
    ]
    assert call().exit_code == 0


def test_a_result_that_cannot_be_read_is_not_kept_and_the_same_command_goes_on(call):
    result = call(TORN_AT="4")
    assert (result.exit_code, call.results()) == (1, ["concurrency-1", "concurrency-2"])
    assert "aiperf left a result at concurrency 4 that cannot be used: profile_export_aiperf.json: " in result.stderr
    assert call().exit_code == 0


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_ended_early_it_leaves_a_folder_that_can_be_gone_on_with_and_no_process(call, endpoint, told):
    environment = os.environ | call.environment | {"HANGS_AT": "4"}
    command = [sys.executable, "-c", INTERRUPTIBLE, *call.words]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as sweep:
        while not (heard := endpoint.heard.get(timeout=PATIENCE_S)).startswith("/hangs/"):
            pass
        sweep.send_signal(told)
        _, said = sweep.communicate(timeout=PATIENCE_S)
    assert (sweep.returncode, call.results(), (call.folder / WORKING).exists()) == (
        INTERRUPTED,
        ["concurrency-1", "concurrency-2"],
        False,
    )
    assert f"what was tested is in {call.folder}, and the same command goes on from there" in said
    with pytest.raises(ProcessLookupError):
        os.kill(int(heard.rpartition("/")[2]), 0)
    assert call().stderr.count("kept: ") == 2


def test_the_leftovers_of_a_sweep_that_was_killed_do_no_harm(call):
    (call.folder / WORKING).mkdir(parents=True)
    (call.folder / WORKING / "profile_export_aiperf.json").write_text("{")
    assert (call().exit_code, (call.folder / WORKING).exists()) == (0, False)


def test_a_folder_in_which_another_sweep_runs_is_left_to_it(call, endpoint):
    environment = os.environ | call.environment | {"HANGS_AT": "4"}
    command = [sys.executable, "-c", INTERRUPTIBLE, *call.words]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as sweep:
        while not endpoint.heard.get(timeout=PATIENCE_S).startswith("/hangs/"):
            pass
        told, working = faults(call()), (call.folder / WORKING).exists()
        sweep.send_signal(signal.SIGINT)
        sweep.communicate(timeout=PATIENCE_S)
    assert (told, working, call().exit_code) == (
        [f"--results: {call.folder}: another sweep runs there; wait for its end, or give another folder"],
        True,
        0,
    )


def test_a_folder_of_another_test_is_refused_before_anything_runs(call):
    call()
    result = call("--tool-args", "--isl-stddev 100")
    assert [fault.partition(";")[0] for fault in faults(result)] == [
        f"--results: {call.folder} holds another test, so give another folder"
    ]
    assert call.results() == ALL


def test_what_else_is_in_the_folder_does_no_harm(call):
    (call.folder / "other").mkdir(parents=True)
    for place in ("package.json", "other/levels.csv"):
        (call.folder / place).write_text("{}")
    assert call().exit_code == 0


def test_a_call_that_tested_nothing_leaves_the_folder_to_the_next(call):
    assert faults(call("--model", "typo"))[0].startswith("--model: ")
    assert call().exit_code == 0


def test_a_key_reaches_the_load_tester_and_no_file(call, tmp_path):
    spy = tmp_path / "bin" / "aiperf"
    spy.write_text(spy.read_text().replace("exec ", f'echo "$@" >> {shlex.quote(str(tmp_path / "calls"))}\nexec ', 1))
    assert call(OPENAI_API_KEY="sk-1234").exit_code == 0
    assert "--api-key sk-1234" in (tmp_path / "calls").read_text()
    assert [file for file in call.folder.iterdir() if "sk-1234" in file.read_text()] == []


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        (["--model", "other"], "--model: {url} serves llama; give one of these"),
        (["--run", "llama:8000"], "--run: an address that begins with http:// or https:// is needed"),
        (
            ["--tool", "vllm"],
            "--run: there is no vllm on the PATH; install one in an environment of its own, such as pip install aiperf",
        ),
        (["--requests", "20"], "--requests: fewer than 59 bound no P95"),
        (["--tool-args", "--concurrency 5"], "--tool-args: --concurrency is the sweep's own; leave it out"),
        (["--tool-args", "--x '"], "--tool-args: not the words of a command line (No closing quotation)"),
        (["--name", "a b"], "--name: a name has letters, digits and -, _ or . between them"),
        (["--plot", "nowhere/levels.html"], "--plot: there is no folder nowhere"),
        (["results.json"], "RESULTS: --run makes them itself; give one or the other"),
    ],
)
def test_a_wrong_call_is_told_before_the_load_tester_starts(call, changed, fault, tmp_path):
    environment = {"PATH": str(tmp_path / "bin")} if "vllm" in changed else {}
    result = call(*changed, **environment)
    assert (faults(result), call.results()) == ([fault.format(url=call.endpoint.url)], [])


def test_an_endpoint_that_does_not_answer_is_told_at_once(call):
    call.endpoint.url = "http://127.0.0.1:9"
    assert faults(call()) == ["--run: http://127.0.0.1:9 cannot be reached: [Errno 111] Connection refused"]


@pytest.mark.parametrize("url", ["http://[::", "http://☃.invalid", "http://a..b"])
def test_an_address_that_is_none_is_told_at_once(call, url):
    call.endpoint.url = url
    assert [fault.startswith(f"--run: {url} cannot be reached: ") for fault in faults(call())] == [True]


def test_an_endpoint_that_wants_a_key_says_where_it_goes(call, endpoint):
    endpoint.status = 401
    assert faults(call()) == [f"--run: {endpoint.url} wants a key; put it into OPENAI_API_KEY"]


@pytest.mark.parametrize(
    ("status", "body"), [(404, b""), (200, b"<html>"), (200, b"[1]"), (200, b'{"data": [{"id": 5}]}')]
)
def test_an_endpoint_that_does_not_list_its_models_is_left_to_the_load_tester(call, endpoint, status, body):
    endpoint.status, endpoint.body = status, body
    assert call().exit_code == 0


@pytest.mark.parametrize("extra", ["--api-key x", "--header 'Authorization: x'"])
def test_a_key_among_the_load_testers_options_is_its_own_business(call, endpoint, extra):
    endpoint.status = 401
    assert call("--tool-args", extra).exit_code == 0


def test_the_model_and_the_mix_are_asked_for():
    result = CliRunner().invoke(app, ["calibrate", "--run", "http://llama:8000", "--ttft", "2"])
    assert [fault.partition(":")[0] for fault in faults(result)] == ["--model", "--input-tokens, --output-tokens"]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["runs", "--input-tokens", "5"], "--input-tokens: means nothing without --run"),
        (["runs", "--print-job", "image"], "--print-job: means nothing without --run"),
        ([], "RESULTS: name a load test's files or folders, or have one made with --run URL --model NAME"),
    ],
)
def test_without_run_its_options_mean_nothing(words, fault):
    assert faults(CliRunner().invoke(app, ["calibrate", *words, "--ttft", "2"])) == [fault]


def test_the_job_is_the_same_call(call):
    extra = [
        "--tool",
        "aiperf",
        "--tool-args",
        "--isl-stddev 100",
        "--percentile",
        "99",
        "--shared-prefix",
        "-o",
        "p.yaml",
    ]
    result = call(*extra, "--print-job", "registry.example/load-test:1")
    container = yaml.safe_load(result.stdout)["spec"]["template"]["spec"]["containers"][0]
    assert (result.exit_code, call.folder.exists(), container["args"]) == (
        0,
        False,
        [
            *("calibrate", "--ttft", "0.3", "--tpot", "0.1", "--percentile", "99.0", "--shared-prefix"),
            *("--run", call.endpoint.url, "--model", "llama", "--input-tokens", "1000", "--output-tokens", "200"),
            *("--tool", "aiperf", "--tool-args", "--isl-stddev 100", "--results", "/sweep/results"),
        ],
    )


def test_a_key_is_kept_out_of_the_job(call):
    result = call("--tool-args", "--api-key sk-1234", "--print-job", "image")
    assert faults(result) == [
        "--tool-args: a key would stand in the Job for all to read; leave it out, and make the Job's Secret"
    ]


def test_every_load_tester_is_looked_for_in_order(call, tmp_path):
    result = call(PATH=str(tmp_path / "nowhere"))
    assert faults(result)[0].startswith(f"--run: there is no {' or '.join(TESTERS)} on the PATH")
