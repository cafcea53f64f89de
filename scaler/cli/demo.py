"""``slo-scaler demo``: the whole loop on this machine, in a minute and a half, without a GPU or a cluster."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scaler.errors import ConfigError

if TYPE_CHECKING:
    from scaler.demo.scenario import Scenario
    from scaler.demo.screen import Look, Play, Seen
    from scaler.settings import Ports

NAME = "slo-scaler"
SHORTEST_S, LONGEST_S = 30.0, 600.0
PAIR_S = 60.0
"""How long traffic lasts by default with --gate: the difference is seen by then."""
INTERRUPTED = 130
"""What a shell reports of a program that Ctrl-C ended."""


@dataclass(frozen=True, slots=True)
class _Options:
    as_json: bool
    keep: bool


def demo(  # noqa: PLR0913 - the options of a command
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only the summary, as JSON; progress goes to stderr.")
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option(min=SHORTEST_S, max=LONGEST_S, help="How long traffic lasts.", show_default="90, with --gate 60"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides arrivals, lengths, start times and the gateway's dice.")] = 1,
    gate: Annotated[
        bool,
        typer.Option("--gate", help="Two fleets side by side: the same burst with the gate and without it, compared."),
    ] = False,
    observe: Annotated[
        bool, typer.Option("--observe", help="One fleet, whose gateway only counts what it would refuse.")
    ] = False,
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

    Example: slo-scaler demo

    Example: slo-scaler demo --gate --seconds 60

    Example: slo-scaler demo --keep
    """
    from scaler.core.model import GateMode
    from scaler.demo.cluster import DemoFailed
    from scaler.demo.scenario import Scenario

    if gate and observe:
        raise ConfigError("--observe: --gate shows both, with the gate and without it; give one or the other")
    lasts_s = seconds or (PAIR_S if gate else Scenario().seconds)
    scenario = Scenario(lasts_s, seed, GateMode.OBSERVE if observe else GateMode.ENFORCE)
    options = _Options(as_json, keep)
    try:
        ok = asyncio.run(_both(scenario, options) if gate else _one(scenario, options))
    except DemoFailed as error:
        typer.echo(f"slo-scaler demo: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if not ok:
        raise typer.Exit(1)


async def _one(scenario: Scenario, options: _Options) -> bool:
    from scaler.demo.run import staged
    from scaler.demo.screen import look

    async with staged(scenario, _ports(options)) as stage:
        return await _played(stage, look(scenario, stage.at), options)


async def _both(scenario: Scenario, options: _Options) -> bool:
    from scaler.demo.columns import look
    from scaler.demo.pair import paired

    async with paired(scenario, _ports(options)) as pair:
        return await _played(pair, look(scenario, pair.at, pair.ungated.at), options)


def _ports(options: _Options) -> Ports:
    from scaler.demo.addresses import FREE_PORTS, usual_ports

    ports, notices = usual_ports() if options.keep else (FREE_PORTS, ())
    for notice in notices:
        typer.echo(f"slo-scaler demo: {notice}", err=True)
    return ports


async def _played(play: Play[Seen], look: Look[Seen], options: _Options) -> bool:
    from scaler.demo.addresses import commands

    try:
        with _shown(look, to_stderr=options.as_json) as show:
            await play.play(show)
    finally:  # also when Ctrl-C has cut it short
        closing = play.closing()
        if closing is not None:
            typer.echo(json.dumps(closing.json, indent=2) if options.as_json else closing.text)
    ok = closing is not None and closing.ok
    if not ok:
        typer.echo(f"The end of the scaler's log:\n{play.log}", err=True)
    if options.keep:
        typer.echo(f"\n{commands(play.at, _program())}", err=options.as_json)
        await asyncio.Event().wait()
    return ok


def _program() -> str:
    """How to call this program again from where it was called."""
    called = Path(sys.argv[0])
    if called.name != NAME:
        return f"{shlex.quote(sys.executable)} -m scaler"
    return NAME if shutil.which(NAME) == str(called) else shlex.quote(str(called))


@contextmanager
def _shown(look: Look[Seen], *, to_stderr: bool) -> Iterator[Callable[[Seen], None]]:
    from rich.console import Console
    from rich.live import Live

    from scaler.demo.screen import Lines, Picture

    console = Console(stderr=to_stderr)
    # Once, and not as a part of the picture: one that is taller than the terminal leaves copies of its top behind.
    console.print(look.title, style="bright_black", highlight=False, markup=False, soft_wrap=True)
    if not console.is_terminal:
        yield Lines(console, look.line).show
        return
    with Live(console=console, auto_refresh=True) as live:  # it must be over before anything else is printed
        yield Picture(live, look.picture).show
