"""The whole demo as a user starts it."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

# A test run in the background ignores SIGINT, and its children would inherit that.
INTERRUPTIBLE = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "runpy.run_module('scaler', run_name='__main__', alter_sys=True)"
)
INTERRUPTED = 130


@pytest.mark.e2e
@pytest.mark.timeout(150)
def test_the_demo_shows_pressure_growth_and_relief() -> None:
    command = [sys.executable, "-m", "scaler", "demo", "--json", "--seconds", "45"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=140)
    assert done.returncode == 0, done.stderr[-4000:]
    summary = json.loads(done.stdout)
    states = [entered["state"] for entered in summary["states"]]
    assert states[0] == "GREEN"
    assert states.index("GREEN") < states.index("RED") < len(states) - 1 - states[::-1].index("GREEN")
    assert summary["requests"]["failed"] == 0
    assert summary["requests"]["refused"] > 0
    assert "Times are compressed" in done.stderr


@pytest.mark.e2e
@pytest.mark.timeout(120)
def test_two_fleets_get_the_same_traffic_and_only_one_of_them_refuses() -> None:
    command = [sys.executable, "-m", "scaler", "demo", "--gate", "--json", "--seconds", "45"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    gated, ungated = found["with_gate"], found["without_gate"]
    assert gated["offered"] == ungated["offered"] > 0
    assert gated["failed"] == ungated["failed"] == ungated["refused"] == 0
    assert gated["refused"] >= gated["came_back"] > 0
    assert gated["ttft_p99_s"] < ungated["ttft_p99_s"]
    assert found["says"].startswith("The gate ")
    assert "with the gate: " in done.stderr


@pytest.mark.e2e
@pytest.mark.timeout(120)
def test_a_demo_that_stays_up_answers_what_it_says_can_be_pasted() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        _free_port() as gate,
        _demo("--keep", "--seconds", "30", keda=taken.getsockname()[1], gate=gate) as demo,
    ):
        number, out = taken.getsockname()[1], _lines(demo.stdout)
        said = _until(out, "Still running")
        told = _until(out, "/v1/backpressure/").replace("\\\n", "")
        explained, state, code = (_pasted(command) for command in told.splitlines()[2:5])
        demo.send_signal(signal.SIGINT)
        assert demo.wait(20) == INTERRUPTED
        complaints = demo.stderr.read() if demo.stderr else ""
    assert f"port {number} for KEDA cannot be had" in complaints
    assert f"Gate http://127.0.0.1:{gate}/v1/state/demo/llm" in said
    assert said.index("Gate http") < said.index("Times are compressed") < said.index("Result")
    assert "replicas" in explained
    assert json.loads(state)["name"] == "llm"
    assert code.strip() in {"200", "429"}


@pytest.mark.e2e
@pytest.mark.parametrize(("options", "seen"), [((), "last 2 s"), (("--gate",), "so far")], ids=["one", "both"])
def test_a_demo_that_is_interrupted_tells_what_it_has_seen(options, seen) -> None:
    with _demo("--seconds", "30", *options) as demo:
        out = _lines(demo.stdout)
        said = _until(out, seen) + _until(out, seen)
        demo.send_signal(signal.SIGINT)
        rest = "".join(out)
        assert demo.wait(20) == INTERRUPTED
    assert "cut short after" in rest
    assert "Traceback" not in rest
    assert (said + rest).count("slo-scaler demo: ") == 1


@contextmanager
def _demo(*options: str, keda: int = 0, gate: int = 0) -> Iterator[subprocess.Popen[str]]:
    ports = {"KEDA": keda, "GATE": gate, "OPS": 0, "AUTHZ": 0}
    given = os.environ | {f"SLO_SCALER_{name}_PORT": str(port) for name, port in ports.items()}
    command = [sys.executable, "-c", INTERRUPTIBLE, "demo", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=given) as demo:
        try:
            yield demo
        finally:
            demo.kill()


@contextmanager
def _free_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port: int = door.getsockname()[1]
    yield port


def _lines(stream: IO[str] | None) -> Iterator[str]:
    assert stream is not None
    yield from stream


def _until(lines: Iterator[str], part: str) -> str:
    """Everything up to the next line with that in it."""
    said = ""
    for line in lines:
        said += line
        if part in line:
            return said
    raise AssertionError(f"never said {part!r}: {said}")


def _pasted(command: str) -> str:
    return subprocess.run(shlex.split(command), capture_output=True, text=True, check=True, timeout=20).stdout
