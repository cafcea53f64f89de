"""``slo-scaler plan``: how many replicas to keep, from a history of traffic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from scaler.cli import plan_options as own
from scaler.cli import replay_options as options

if TYPE_CHECKING:
    from scaler.cli.plan_run import Planned

WIDTH = 160
"""Of the table where the output is no terminal."""
INTERRUPTED = 130
"""What a shell reports of a program that Ctrl-C ended."""


def plan(  # noqa: PLR0913 - the options of a command
    history: options.Trace = None,
    *,
    ttft: options.Ttft = None,
    tpot: options.Tpot = None,
    attain: own.Attain = 0.99,
    most_warm: own.MostWarm = 4,
    edges: own.Edges = True,
    config: options.Config = None,
    workload: options.Workload = None,
    profile: options.Profile = None,
    safe_concurrency: options.SafeConcurrency = None,
    safe_rate: options.SafeRate = None,
    percentile: options.Percentile = None,
    max_replicas: options.MaxReplicas = None,
    preset: options.PresetName = "llama-3.1-70b-4xh100",
    cold_start: options.ColdStart = "180±30",
    gate: own.Gating = None,
    price: own.Price = None,
    clock: own.Clock = "00:00",
    recorded: options.RecordedLog = None,
    scale: options.Scale = 1.0,
    clip: options.Clip = None,
    input_tokens: options.InputTokens = None,
    output_tokens: options.OutputTokens = None,
    seeds: options.Seeds = 2,
    from_prometheus: options.From = None,
    namespace: options.Namespace = None,
    model_name: options.ModelName = None,
    begins: options.Begins = None,
    ends: options.Ends = None,
    as_json: options.AsJson = False,
    jobs: options.Jobs = None,
) -> None:
    """Find the fewest minimum and warm replicas with which our law keeps a promise on a history, and what each choice costs.

    Says whether scaling to zero contradicts the promise, whether a floor by the hour of the day would pay, and whether other edges of
    GREEN and RED would serve more. The whole history goes through a fluid model, and its worst stretch is played request by request.

    Example: slo-scaler plan trace.csv.gz --ttft 2 --attain 0.99

    Example: slo-scaler plan rates.csv --config slo-scaler.yaml -w prod/llama --cold-start 240±60 --attain 0.995 --clock 00:00
    """
    from scaler.cli.plan_run import Wish, clock_s, planned
    from scaler.sim.forecast import Aim

    past = options.PastWish(from_prometheus, namespace, model_name, begins, ends)
    wish = Wish(
        options.LoadWish(history, recorded, scale, clip, input_tokens, output_tokens, past),
        options.SpecWish(
            config, workload, profile, safe_concurrency, safe_rate, ttft, tpot, percentile, None, max_replicas
        ),
        options.PlaceWish(None, preset, cold_start),
        gate,
        price,
        Aim(attain, most_warm, clock_s(clock)),
        seeds,
        jobs,
        edges,
    )
    try:
        found = planned(wish)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    _tell(found, as_json=as_json)


def _tell(found: Planned, *, as_json: bool) -> None:
    from rich.console import Console

    from scaler.cli.plan_body import body
    from scaler.cli.plan_words import answer, facts, sentences, table

    if as_json:
        typer.echo(json.dumps(body(found), indent=2, ensure_ascii=False))
        return
    typer.echo("\n".join([answer(found), "", *(f"{name}: {told}" for name, told in facts(found).items()), ""]))
    console = Console()
    Console(width=console.width if console.is_terminal else WIDTH).print(table(found))
    typer.echo("\n".join(["", *sentences(found)]))
