"""A decision of the past, made again from its log line."""

import io
import json
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scaler.cli.commands import app
from scaler.cli.explain_log import explained
from scaler.control.board import Board
from scaler.core.decision import Decision
from scaler.core.model import Pressure
from scaler.errors import ConfigError
from scaler.telemetry import Reporter
from tests.support.decisions import blind, green, red

BEGAN = 1_790_000_000.0  # 2026-09-21T14:13:20Z


def logged(*decisions: Decision) -> list[str]:
    """The lines of decisions a minute apart."""
    minutes, stream = count(), io.StringIO()
    reporter = Reporter(Board(), lambda: 0.0, lambda: BEGAN + 60.0 * next(minutes), stream)
    for decision in decisions:
        reporter.ticked(decision, 0.01)
    reporter.close()
    return stream.getvalue().splitlines()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "scaler.log"
    lines = ["starting", *logged(green(), red(), replace(green(), state=Pressure.YELLOW)), '{"event": "decision"']
    path.write_text("\n".join(f"llama-0 {line}" for line in lines), encoding="utf-8")
    return path


def test_the_last_decision_before_a_time_is_made_again(log):
    lines = list(explained("prod/llama", log, "2026-09-21T14:14:50Z", []))
    assert lines[0] == f"prod/llama at 2026-09-21T14:14:20.000+00:00: {red().desired} replicas, RED"
    assert lines[2].split() == ["again", "the", "same", "number"]


def test_a_time_after_the_logs_end_is_remarked(log):
    lines = list(explained("prod/llama", log, "2026-09-21T18:00Z", []))
    ends = "2026-09-21T14:15:20.000+00:00"
    assert lines[:2] == [
        f"prod/llama at {ends}: {green().desired} replicas, YELLOW",
        f"  remark    the log's decisions of prod/llama end at {ends}, before the time that was asked for",
    ]


def test_a_time_within_the_log_needs_no_remark(log):
    assert not any("remark" in line for line in explained("prod/llama", log, "2026-09-21T14:14:50Z", []))


def test_without_a_time_it_is_the_last(log):
    assert "YELLOW" in next(explained("prod/llama", log, None, []))


def test_it_says_what_would_have_been_with_another_headroom(log):
    before, after = (
        next(line for line in explained("prod/llama", log, "2026-09-21T14:14:50Z", [f"headroom={h}"]) if "with" in line)
        for h in ("0", "0.9")
    )
    assert before == "  with      headroom=0: 5 replicas"
    assert after.startswith("  with      headroom=0.9: 10 replicas")


def test_without_a_wish_it_says_what_might_be_turned(log):
    assert any(line.startswith("  what if   headroom") for line in explained("prod/llama", log, None, []))


def test_a_hold_while_blind_says_that_nothing_would_have_changed_it(tmp_path):
    path = tmp_path / "scaler.log"
    path.write_text("\n".join(logged(blind())), encoding="utf-8")
    assert "  blind     the last number stood, whatever its inputs" in list(explained("prod/llama", path, None, []))


@pytest.mark.parametrize(
    ("workload", "at", "changes", "fault"),
    [
        pytest.param("prod/mistral", None, [], "--log: no decision of prod/mistral in it", id="another workload"),
        pytest.param(
            "prod/llama", "2020-01-01T00:00Z", [], "--at: the log's decisions of prod/llama are from", id="too early"
        ),
        pytest.param("prod/llama", "yesterday", [], "--at: a time such as", id="no time"),
        pytest.param(
            "prod/llama", None, ["headrom=0.3"], "--set headrom: not an input; there are headroom", id="a typo"
        ),
        pytest.param("prod/llama", None, ["headroom"], "--set headroom: write NAME=NUMBER", id="no number"),
        pytest.param("prod/llama", None, ["headroom=1"], "--set headroom: 0 to 0.9", id="out of range"),
        pytest.param("prod/llama", None, ["target=0"], "--set target: above 0", id="no target"),
        pytest.param("prod/llama", None, ["queue=-1"], "--set queue: 0 or more", id="negative"),
    ],
)
def test_what_is_wrong_is_named(log, workload, at, changes, fault):
    with pytest.raises(ConfigError, match=f"^{fault}"):
        list(explained(workload, log, at, changes))


def test_a_line_of_an_older_release_asks_for_the_target_instead(tmp_path):
    told = json.loads(logged(red())[0])
    del told["capacity"]
    path = tmp_path / "scaler.log"
    path.write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(ConfigError, match="set target, in requests a replica"):
        list(explained("prod/llama", path, None, ["headroom=0.3"]))


def test_the_command_prints_it(log):
    ran = CliRunner().invoke(app, ["explain", "prod/llama", "--log", str(log), "--set", "queue=0"])
    assert (ran.exit_code, "with      queue=0" in ran.output) == (0, True)
