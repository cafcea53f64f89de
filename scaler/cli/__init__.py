"""The command line: one module a command. Exit codes: 0 ok, 1 the check failed, 2 usage or configuration."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Annotated, NoReturn

import typer

from scaler import __version__
from scaler.cli.calibrate import calibrate
from scaler.cli.check import check
from scaler.cli.demo import demo
from scaler.cli.explain import explain
from scaler.cli.fit import fit
from scaler.cli.plan import plan
from scaler.cli.replay import replay
from scaler.cli.serve import serve
from scaler.errors import ConfigError

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


for command in (serve, demo, explain, calibrate, fit, replay, plan, check):
    app.command()(command)


def _stopped(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def main() -> None:
    """The entry point: a configuration error is exit code 2 with one line for each fault."""
    # As the first process of a container it would otherwise not be stopped by the signal before `serve` has its own handler.
    signal.signal(signal.SIGTERM, _stopped)
    try:
        app()
    except ConfigError as error:
        for fault in error.faults:
            typer.echo(f"slo-scaler: {fault}", err=True)
        sys.exit(2)
