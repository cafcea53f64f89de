"""``slo-scaler demo``: the whole loop on this machine, in a minute and a half, without a GPU or a cluster."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from scaler.demo.run import Stage
    from scaler.demo.scenario import Scenario
    from scaler.demo.screen import Screen
    from scaler.demo.summary import Summary

NAME = "slo-scaler"
SHORTEST_S, LONGEST_S = 30.0, 600.0
INTERRUPTED = 130
"""What a shell reports of a program that Ctrl-C ended."""


class Gate(StrEnum):
    """What the demo's gateway does with the fraction that it is told."""

    OBSERVE = "observe"
    ENFORCE = "enforce"


def demo(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only the summary, as JSON; progress goes to stderr.")
    ] = False,
    seconds: Annotated[float, typer.Option(min=SHORTEST_S, max=LONGEST_S, help="How long traffic lasts.")] = 90.0,
    seed: Annotated[int, typer.Option(help="Decides arrivals, lengths, start times and the gateway's dice.")] = 1,
    gate: Annotated[
        Gate, typer.Option(help="Whether the gateway refuses, or only counts what it would refuse.")
    ] = Gate.ENFORCE,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Listen on the ports of `serve`, and leave everything running afterwards, until Ctrl-C."
        ),
    ] = False,
) -> None:
    """Watch the scaler drive an emulated vLLM fleet through a burst, over real sockets on loopback.

    A stand-in for KEDA and the HPA asks over gRPC, a gateway follows the state over HTTP, clients stream from replicas that
    take a while to start. Times are compressed; the screen says by how much. Ctrl-C prints what was seen until then.
    Exit code 1 when the loop did not work.

    Example: slo-scaler demo --gate observe
    """
    from scaler.core.model import GateMode
    from scaler.demo.cluster import DemoFailed
    from scaler.demo.scenario import Scenario

    scenario = Scenario(seconds, seed, GateMode(gate.value))
    try:
        ok = asyncio.run(_run(scenario, as_json=as_json, keep=keep))
    except DemoFailed as error:
        typer.echo(f"slo-scaler demo: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if not ok:
        raise typer.Exit(1)


async def _run(scenario: Scenario, *, as_json: bool, keep: bool) -> bool:
    from scaler.demo.addresses import FREE_PORTS, commands, usual_ports
    from scaler.demo.run import staged

    ports, notices = usual_ports() if keep else (FREE_PORTS, ())
    for notice in notices:
        typer.echo(f"slo-scaler demo: {notice}", err=True)
    async with staged(scenario, ports) as stage:
        try:
            with _screen(stage, to_stderr=as_json) as screen:
                await stage.play(screen.show)
        finally:  # also when Ctrl-C has cut it short
            summary = stage.summary()
            if summary is not None:
                _tell(summary, as_json=as_json)
        ok = summary is not None and summary.ok
        if not ok:
            typer.echo(f"The end of the scaler's log:\n{stage.log.text()}", err=True)
        if keep:
            typer.echo(f"\n{commands(stage.at, _program())}", err=as_json)
            await asyncio.Event().wait()
    return ok


def _tell(summary: Summary, *, as_json: bool) -> None:
    from scaler.demo.closing import summary_text

    typer.echo(json.dumps(summary.as_json(), indent=2) if as_json else summary_text(summary))


def _program() -> str:
    """How to call this program again from where it was called."""
    called = Path(sys.argv[0])
    if called.name != NAME:
        return f"{shlex.quote(sys.executable)} -m scaler"
    return NAME if shutil.which(NAME) == str(called) else shlex.quote(str(called))


@contextmanager
def _screen(stage: Stage, *, to_stderr: bool) -> Iterator[Screen]:
    from rich.console import Console
    from rich.live import Live

    from scaler.demo.screen import Lines, Picture, title

    console = Console(stderr=to_stderr)
    # Once, and not as a part of the picture: one that is taller than the terminal leaves copies of its top behind.
    console.print(title(stage.scenario, stage.at), style="bright_black", highlight=False, markup=False, soft_wrap=True)
    if not console.is_terminal:
        yield Lines(console, stage.scenario)
        return
    with Live(console=console, auto_refresh=True) as live:  # it must be over before anything else is printed
        yield Picture(live, stage.scenario)
