"""``slo-scaler demo``: the whole loop on this machine, in a minute and a half, without a GPU or a cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from scaler.demo.run import Played
    from scaler.demo.scenario import Scenario
    from scaler.demo.screen import Screen

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
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running afterwards, until Ctrl-C.")] = False,
) -> None:
    """Watch the scaler drive an emulated vLLM fleet through a burst, over real sockets on loopback.

    A stand-in for KEDA and the HPA asks over gRPC, a gateway follows the state over HTTP, clients stream from replicas that
    take a while to start. Times are compressed; the screen says by how much. Exit code 1 when the loop did not work.

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
    from scaler.demo.run import played
    from scaler.demo.screen import summary_text

    with ExitStack() as shown:
        screen = shown.enter_context(_screen(scenario, to_stderr=as_json))
        async with played(scenario, screen.show) as demo_played:
            shown.close()  # the picture must not be redrawn over what follows
            summary = demo_played.summary
            typer.echo(json.dumps(summary.as_json(), indent=2) if as_json else summary_text(summary))
            if not summary.ok:
                typer.echo(f"The end of the scaler's log:\n{demo_played.log.text()}", err=True)
            if keep:
                await _keep(demo_played)
    return summary.ok


async def _keep(demo_played: Played) -> None:
    bound = demo_played.bound
    typer.echo(
        f"Still running: page http://127.0.0.1:{bound.ops_port}/, gate http://127.0.0.1:{bound.gate_port}/v1/state, "
        f"KEDA 127.0.0.1:{bound.keda_port}. Ctrl-C ends it.",
        err=True,
    )
    await asyncio.Event().wait()


@contextmanager
def _screen(scenario: Scenario, *, to_stderr: bool) -> Iterator[Screen]:
    from rich.console import Console
    from rich.live import Live

    from scaler.demo.screen import Lines, Picture

    console = Console(stderr=to_stderr)
    if not console.is_terminal:
        yield Lines(console, scenario)
        return
    with Live(console=console, auto_refresh=True) as live:
        yield Picture(live, scenario)
