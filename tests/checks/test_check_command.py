"""``slo-scaler check`` as it is called: files in, lines or JSON and an exit code out."""

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress

import pytest
from typer.testing import CliRunner

from scaler.cli.commands import app
from scaler.errors import ConfigError
from tests.checks.good import EXAMPLES, launch

COLD = "the HPA multiplies it by the ready pods, so a cold start pulls the fleet to its minimum"


def call(*arguments, **rest):
    return CliRunner().invoke(app, ["check", *map(str, arguments)], **rest)


def faults(result):
    assert isinstance(result.exception, ConfigError)
    return list(result.exception.faults)


def test_a_good_workload_is_exit_code_zero_and_its_counts_come_first(tmp_path):
    result = call(launch().write(tmp_path))
    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        0,
        "prod/llama: 0 fail, 0 warn, 13 cannot tell, 30 pass",
    )


def test_a_fail_is_exit_code_one_and_stands_first_with_its_remedy(tmp_path):
    result = call(launch(lambda m: m.trigger.update(metricType="Value")).write(tmp_path))
    assert (result.exit_code, result.stdout.splitlines()[1:4]) == (
        1,
        [
            "fail",
            f"T03     metricType is AverageValue: Value: {COLD} (verified)",
            "        → metricType: AverageValue, or leave it out (docs/keda.md)",
        ],
    )


def test_a_warning_alone_is_exit_code_zero(tmp_path):
    assert call(launch(lambda m: m.budget.clear()).write(tmp_path)).exit_code == 0


def test_json_has_every_finding_with_all_that_is_known_of_it(tmp_path):
    result = call(launch(lambda m: m.metadata.update(maxQueuedRequests="5000")).write(tmp_path), "--json")
    (workload,) = json.loads(result.stdout)["workloads"]
    assert (result.exit_code, workload["workload"], len(workload["findings"]), workload["findings"][0]) == (
        1,
        "prod/llama",
        43,
        {
            "code": "SC06",
            "title": "The queue is bounded by what can be started within the budget",
            "verdict": "fail",
            "evidence": "maxQueuedRequests 5000; within 2 s the least fleet starts 16, the largest 320",
            "number": 5000.0,
            "basis": "inferred",
            "remedy": "leave maxQueuedRequests out: the default is what the ready replicas start within the budget",
            "docs": "docs/law.md",
        },
    )


def test_the_shipped_examples_of_a_deployment_and_its_scaledobject_pass_as_they_are():
    result = call(*(EXAMPLES / f"{name}.yaml" for name in ("deployment", "scaledobject", "slo-scaler")))
    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        0,
        "prod/llama: 0 fail, 0 warn, 15 cannot tell, 28 pass",
    )


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)]
)
def test_at_a_terminal_findings_have_colours_unless_the_person_wants_none(environment, coloured):
    terminal, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR"}}
    command = [sys.executable, "-m", "scaler", "check", str(EXAMPLES / "scaledobject.yaml")]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=kept | environment):
        os.close(theirs)
        said = "".join(_until_closed(terminal))
    os.close(terminal)
    assert ("prod/llama: " in said, "\x1b[" in said) == (True, coloured)


def _until_closed(terminal):
    with suppress(OSError):  # what Linux answers when the other side is closed
        while more := os.read(terminal, 65536):
            yield more.decode(errors="replace")


def test_a_folder_with_two_of_one_name_says_which_is_looked_at():
    result = call(EXAMPLES)
    twice = (f"{EXAMPLES}/kserve-inferenceservice.yaml", f"{EXAMPLES}/scaledobject.yaml")
    assert (result.exit_code, result.stderr) == (
        0,
        f"slo-scaler check: prod/llama has {len(twice)} ScaledObjects with our trigger, in {', '.join(twice)}; the last one is looked at\n",
    )


def test_a_workload_of_the_configuration_alone_is_checked_for_what_that_tells(tmp_path):
    (tmp_path / "slo-scaler.yaml").write_text(
        "workloads: {prod/llama: {targets: ['10.0.0.7:8000'], metadata: {safeConcurrency: 100, ttftSloSeconds: 2}}}"
    )
    assert call(tmp_path).stdout.startswith("prod/llama: 0 fail, 3 warn")


def test_a_configmap_is_the_configuration_that_it_holds(tmp_path):
    made = launch()
    made.more.append(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "slo-scaler"},
            "data": {"slo-scaler.yaml": json.dumps(made.configuration)},
        }
    )
    result = call(made.write(tmp_path, configured=False))
    assert result.stdout.splitlines()[0] == "prod/llama: 0 fail, 0 warn, 13 cannot tell, 30 pass"


@pytest.mark.parametrize(
    ("written", "arguments", "fault"),
    [
        ("a: [", (), "{folder}/x.yaml: not YAML in line 1"),
        (
            "a: 2026-13-45",
            (),
            "{folder}/x.yaml: a value that YAML takes for a date or a number is none; put it in quotes",
        ),
        (
            "kind: Service\napiVersion: v1",
            (),
            "PATHS: no ScaledObject there has a trigger of type external; name one, or --workload NAMESPACE/NAME",
        ),
        ("profiles: {a: {safe_concurency: 1}}", (), "{folder}/x.yaml: profiles.a.safe_concurrency: Field required"),
        ("{}", ("--workload", "llama"), "--workload: write it as NAMESPACE/NAME, such as prod/llama"),
        ("{}", ("--cluster",), "--workload: required with --cluster: NAMESPACE/NAME of the ScaledObject"),
        ("{}", ("-w", "a/b", "--ops", "ftp://x"), "--ops: HOST:PORT, or an http:// or https:// address"),
        (
            "{}",
            ("-w", "a/b", "--drill", "x:80", "--yes"),
            "--drill: an address that begins with http:// or https:// is needed",
        ),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(written, arguments, fault, tmp_path):
    (tmp_path / "x.yaml").write_text(written)
    assert faults(call(tmp_path, *arguments))[0] == fault.format(folder=tmp_path)


def test_nothing_to_look_at_is_an_error():
    assert faults(call()) == ["PATHS: name files or folders, or look with --cluster or --ops HOST:PORT"]


def test_a_secret_in_the_wrong_place_is_named_by_its_key_only(tmp_path):
    result = call(launch(lambda m: m.metadata.update(tlsClientKey="hunter2")).write(tmp_path))
    assert (result.exit_code, "tlsClientKey" in result.stdout, "hunter2" in result.stdout) == (1, True, False)
