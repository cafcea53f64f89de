"""The commands, and the options of them all."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Annotated, NoReturn

import typer

from scaler import __version__
from scaler.cli.calibrate import calibrate
from scaler.cli.check import check
from scaler.cli.completion import completion, prepare
from scaler.cli.demo import demo
from scaler.cli.explain import explain
from scaler.cli.fit import fit
from scaler.cli.plan import plan
from scaler.cli.replay import replay
from scaler.cli.serve import serve
from scaler.errors import ConfigError

UNREAD = 128 + signal.SIGPIPE

app = typer.Typer(
    name="slo-scaler",
    help="Replicas for KEDA and GREEN, YELLOW or RED for gateways, from what vLLM reports.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - the signature of an eager option's callback
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of every command."""


for command in (serve, demo, explain, calibrate, fit, replay, plan, check, completion):
    app.command()(command)


def run() -> NoReturn:
    """Read the command line, do what it says, and end: a configuration error is exit code 2 with one line for each fault."""
    # As the first process of a container it would otherwise not be stopped by the signal before `serve` has its own handler.
    signal.signal(signal.SIGTERM, _stopped)
    prepare()
    try:
        app()
    except ConfigError as error:
        for fault in error.faults:
            typer.echo(f"slo-scaler: {fault}", err=True)
        sys.exit(2)
    except SystemExit as end:
        # Typer makes a 1 of it, which means that a check failed.
        _leave(UNREAD if isinstance(end.__context__, BrokenPipeError) else end.code)
    raise RuntimeError("a command line ends by SystemExit")


def _leave(code: int | str | None) -> NoReturn:
    """End with that code, and silently where nobody reads what is still to be written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = UNREAD
    if code == UNREAD:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    # What the interpreter tidies up now is nobody's work any more.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)


def _stopped(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
