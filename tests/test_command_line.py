"""The command line's manners: examples that parse, and completion by the shell itself."""

import gzip
import os
import pty
import shlex
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path
from shutil import which
from typing import IO

import pytest
import typer.main
from typer.core import TyperGroup
from typer.testing import CliRunner

from scaler.cli.commands import app
from scaler.errors import ConfigError

ROOT = Path(__file__).parents[1]
GROUP = typer.main.get_command(app)
assert isinstance(GROUP, TyperGroup)
COMMANDS = GROUP.commands
EXAMPLES = [
    line.partition("Example: ")[2]
    for command in COMMANDS.values()
    for line in (command.help or "").splitlines()
    if "Example: slo-scaler" in line
]


COMPLETED = pytest.mark.parametrize(
    ("words", "found"), [("slo-scaler ex", "explain"), ("slo-scaler completion z", "zsh")]
)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_help_is_a_command_that_parses(example):
    _, name, *arguments = shlex.split(example.partition(" > ")[0])
    context = COMMANDS[name].make_context(name, arguments)
    assert context.info_name == name


@COMPLETED
def test_bash_completes_with_the_script_that_is_printed(words, found, tmp_path):
    asked = f"source <(slo-scaler completion bash); COMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}; "
    asked += '_slo_scaler_completion slo-scaler; echo "${COMPREPLY[@]}"'
    assert _shell("bash", "-c", asked, home=tmp_path) == [found]


def _shell(name: str, *asked: str, home: Path) -> list[str]:
    shell = which(name)
    if shell is None:
        pytest.skip(f"there is no {name}")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(home)}
    return subprocess.run(
        [shell, *asked], capture_output=True, text=True, check=True, env=environment
    ).stdout.splitlines()


@COMPLETED
def test_zsh_completes_with_the_script_that_is_printed(words, found, tmp_path):
    asked = "compdef() {}; _arguments() { print -r -- $@ }; source <(slo-scaler completion zsh); "
    asked += f"words=({words}); CURRENT={len(words.split())}; _slo_scaler_completion"
    (said,) = _shell("zsh", "-f", "-c", asked, home=tmp_path)
    assert said.startswith("*: :((")
    assert found in said


@COMPLETED
def test_fish_completes_with_the_script_that_is_printed(words, found, tmp_path):
    asked = f"slo-scaler completion fish | source; complete -C '{words}'"
    assert [line.partition("\t")[0] for line in _shell("fish", "-c", asked, home=tmp_path)] == [found]


IMPATIENT = """
import os, signal, sys
class Impatient:
    def find_spec(self, name, *rest):
        if name == MODULE:
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
MODULE, sys.argv[1:] = sys.argv[1], sys.argv[2:]
sys.meta_path.insert(0, Impatient())
from scaler.cli import main
main()
"""
"""Ctrl-C at the moment at which a module is asked for."""


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("typer", "check manifests/examples"),
        ("scaler.cli.plan", "check manifests/examples"),
        ("scaler.cli.check_screen", "check manifests/examples"),
        ("scaler.app.serving", "serve"),
        ("scaler.settings", "serve --schema"),
    ],
)
def test_control_c_ends_a_command_at_any_moment_and_says_nothing(module, command):
    asked = [sys.executable, "-c", IMPATIENT, module, *command.split()]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, "Traceback" in done.stderr, done.stdout) == (130, False, "")


@pytest.mark.parametrize(
    "command", ["check manifests/examples --workload prod/llama", "serve --schema", "--version", "plan -h"]
)
def test_who_stops_reading_ends_a_command_and_hears_nothing(command):
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as unread:
        done = subprocess.run(
            [sys.executable, "-m", "scaler", *command.split()],
            check=False,
            stdout=unread,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
    assert done.returncode == 141
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_serve_at_a_terminal_says_where_it_is_asked_and_how_to_ask_why():
    terminal, theirs = pty.openpty()
    free = {f"SLO_SCALER_{name}_PORT": "0" for name in ("KEDA", "AUTHZ", "GATE", "OPS")}
    with subprocess.Popen(
        [sys.executable, "-m", "scaler", "serve"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**os.environ, **free},
    ) as serving:
        os.close(theirs)
        line_of(serving.stdout)
        serving.send_signal(signal.SIGINT)
        serving.communicate()
    said = os.read(terminal, 4096).decode().splitlines()
    os.close(terminal)
    assert ([line.partition(" ")[0] for line in said], "explain NAMESPACE/NAME" in said[1]) == (
        ["slo-scaler:"] * 2,
        True,
    )


def line_of(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def test_serve_elsewhere_logs_and_says_nothing_else():
    free = {f"SLO_SCALER_{name}_PORT": "0" for name in ("KEDA", "AUTHZ", "GATE", "OPS")}
    with subprocess.Popen(
        [sys.executable, "-m", "scaler", "serve"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **free},
    ) as serving:
        line_of(serving.stdout)
        serving.send_signal(signal.SIGINT)
        said = serving.communicate()[1]
    assert (serving.returncode, said) == (0, "")


WRONG = {
    "missing": lambda path: None,
    "a folder": Path.mkdir,
    "empty": Path.touch,
    "binary": lambda path: path.write_bytes(bytes(range(256)) * 4),
    "cut short": lambda path: path.write_bytes(gzip.compress(b"t_s,in_tokens,out_tokens\n" * 99)[:-9]),
    "something else": lambda path: path.write_text('{"a": 1}'),
    "prose": lambda path: path.write_text("hello, world"),
}
TAKES = {
    "calibrate": ("calibrate", "{}", "--ttft", "2"),
    "fit": ("fit", "{}", "--kv-tokens", "100000"),
    "replay": ("replay", "{}", "--ttft", "2"),
    "plan": ("plan", "{}", "--ttft", "2"),
    "replay --config": ("replay", "tests/data/traces/plain.csv", "--ttft", "2", "--config", "{}"),
    "explain --log": ("explain", "prod/llama", "--log", "{}"),
}
NEXT = ("name ", "give ", "readable are", "known are", "needed", "write ", "copy it again")


@pytest.mark.parametrize(
    ("command", "wrong"),
    # An empty configuration is one.
    [pair for pair in product(TAKES, WRONG) if pair != ("replay --config", "empty")],
)
def test_an_input_that_cannot_be_used_is_an_error_that_says_what_to_do_next(command, wrong, tmp_path):
    path = tmp_path / "input"
    WRONG[wrong](path)
    done = CliRunner().invoke(app, [part.format(path) for part in TAKES[command]])
    assert isinstance(done.exception, ConfigError)
    assert [fault for fault in done.exception.faults if not any(word in fault for word in NEXT)] == []
