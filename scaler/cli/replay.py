"""``slo-scaler replay``: what would have become of some traffic under our law, and under others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from scaler.cli import replay_options as options
from scaler.cli.plan_options import Price
from scaler.cli.replay_options import LawWish, LoadWish, PastWish, PlaceWish, SpecWish
from scaler.errors import ConfigError

if TYPE_CHECKING:
    from scaler.core.step import WorkloadSpec
    from scaler.sim.outcome import Replay
    from scaler.sim.traces import Trace
    from scaler.sim.traffic import Arrival

BY, BEGINNING = "Written by slo-scaler replay", 1000
"""What stands among the first characters of a report."""
WIDTH = 160
"""Of the table where the output is no terminal."""
INTERRUPTED = 130
"""What a shell reports of a program that Ctrl-C ended."""


def replay(  # noqa: PLR0913 - the options of a command
    trace: options.Trace = None,
    *,
    ttft: options.Ttft = None,
    tpot: options.Tpot = None,
    percentile: options.Percentile = None,
    config: options.Config = None,
    workload: options.Workload = None,
    profile: options.Profile = None,
    safe_concurrency: options.SafeConcurrency = None,
    safe_rate: options.SafeRate = None,
    min_replicas: options.MinReplicas = None,
    max_replicas: options.MaxReplicas = None,
    replicas: options.Replicas = None,
    preset: options.PresetName = "llama-3.1-70b-4xh100",
    price: Price = None,
    cold_start: options.ColdStart = "180±30",
    recorded: options.RecordedLog = None,
    scale: options.Scale = 1.0,
    clip: options.Clip = None,
    input_tokens: options.InputTokens = None,
    output_tokens: options.OutputTokens = None,
    seeds: options.Seeds = 3,
    laws: options.Laws = None,
    sets: options.Sets = None,
    gate: options.Gates = "in-path,polled,none",
    from_prometheus: options.From = None,
    namespace: options.Namespace = None,
    model_name: options.ModelName = None,
    begins: options.Begins = None,
    ends: options.Ends = None,
    as_json: options.AsJson = False,
    html: options.Html = None,
    jobs: options.Jobs = None,
) -> None:
    """Play traffic to a simulated fleet under our law and under others, and score them beside what nobody could have beaten.

    The law is the one that serves, in virtual time, with replicas that start late, engines that batch as vLLM does, clients that come
    back when they are refused, KEDA and the HPA. Attainment is of all requests that were offered.

    Example: slo-scaler replay trace.csv.gz --ttft 2

    Example: slo-scaler replay trace.csv.gz --config slo-scaler.yaml -w prod/llama --cold-start 240±60 --scale 2 --html replay.html
    """
    _writable(html)
    past = PastWish(from_prometheus, namespace, model_name, begins, ends)
    wish = Wish(
        LoadWish(trace, recorded, scale, clip, input_tokens, output_tokens, past),
        SpecWish(
            config, workload, profile, safe_concurrency, safe_rate, ttft, tpot, percentile, min_replicas, max_replicas
        ),
        PlaceWish(replicas, preset, cold_start),
        LawWish(laws, tuple(sets or ()), gate),
        price,
    )
    try:
        found = replayed(wish, seeds, jobs)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    _tell(found, html, as_json=as_json)


@dataclass(frozen=True, slots=True)
class Wish:
    """All options about what is played."""

    load: LoadWish
    spec: SpecWish
    place: PlaceWish
    laws: LawWish
    price: float | None = None


def replayed(wish: Wish, seeds: int, jobs: int | None) -> Replay:
    """Play it all. Raises ConfigError."""
    from scaler.cli.price import price_of_gpu_hour
    from scaler.cli.replay_load import loaded
    from scaler.cli.replay_place import configuration, placed, promised
    from scaler.cli.replay_run import CLAIRVOYANT, FIRST_SEED, Known, Work, entries, rows
    from scaler.sim.contest import Contest, Gating, arrivals
    from scaler.sim.limits import limits
    from scaler.sim.outcome import Replay, Subject
    from scaler.sim.traces import Assumed

    entries(wish.laws, Known())  # a wrong name is told before anything is played
    configured = configuration(wish.spec.config)
    spec = promised(wish.spec, configured)
    trace = loaded(wish.load, Assumed(spec.classes[0].name, workload=wish.spec.workload), configured)
    coming = tuple(trace.traffic.arrivals(FIRST_SEED))
    place = placed(spec, (wish.spec, wish.place), trace, coming)
    contest = Contest(place.setting, trace.traffic, trace.recorded)
    fitting = arrivals(contest, FIRST_SEED)
    safe_rate = place.setting.spec.profile.safe_rate_per_s or place.bears.safe_rate_per_s
    limited = limits(place.setting, place.bears, fitting, trace.traffic.duration_s)
    warm = limited.warm.replicas if limited.warm is not None else 0
    laws = replace(wish.laws, gates=Gating.NONE) if place.setting.spec.profile.learnt else wish.laws
    wanted = entries(laws, Known(place.setting.spec.profile.safe_concurrency, safe_rate, warm))
    played = rows(contest, wanted, limited.static_ratios, Work(seeds, jobs))
    subject = Subject(
        traffic=_called(wish.load, trace),
        replica=wish.place.preset,
        starts=wish.place.cold_start,
        duration_s=trace.traffic.duration_s,
        offered=len(fitting),
        notes=(*trace.notes, *place.notes, *_foreign(coming, spec), *_left_out(len(coming) - len(fitting))),
    )
    return Replay(
        subject,
        place.setting,
        place.bears,
        limited,
        tuple(played),
        next(row for row in played if row.name == CLAIRVOYANT),
        price_of_gpu_hour(wish.price, configured, place.setting.spec, wish.place.preset),
    )


def _called(wish: LoadWish, trace: Trace) -> str:
    clip = "" if wish.clip is None else f", seconds {wish.clip}"
    times = "" if wish.scale == 1 else f", ×{wish.scale:g}"
    name = Path(trace.file).name if Path(trace.file).is_file() else trace.file
    return f"{name} ({trace.kind}){clip}{times}"


def _foreign(coming: Sequence[Arrival], spec: WorkloadSpec) -> list[str]:
    known, default = {one.name for one in spec.classes}, spec.classes[0].name
    found = Counter(one.request_class for one in coming if one.request_class not in known)
    return [
        f"{count:,} of class {name} are taken as {default}: the workload has no such class"
        for name, count in sorted(found.items())
    ]


def _left_out(count: int) -> list[str]:
    return [f"{count:,} requests are longer than such a replica can hold; they are left out"] if count else []


def _writable(html: Path | None) -> None:
    """Replace nothing that somebody wrote by hand; told before anything is played, which takes long."""
    if html is None:
        return
    if not html.parent.is_dir():
        raise ConfigError(f"--html: there is no folder {html.parent}")
    if html.exists() and BY not in html.read_text(encoding="utf-8", errors="replace")[:BEGINNING]:
        raise ConfigError(f"--html: {html} exists and was not written by this command; give another name")


def _tell(found: Replay, html: Path | None, *, as_json: bool) -> None:
    from rich.console import Console

    from scaler import __version__
    from scaler.report.replay_body import body
    from scaler.report.replay_page import page
    from scaler.report.replay_table import scores
    from scaler.report.replay_words import facts, sentences

    if html is not None:
        html.write_text(page(found, f"{BY} {__version__}"), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(body(found), indent=2, ensure_ascii=False))
    else:
        answer, *rest = sentences(found)
        typer.echo("\n".join([answer, "", *(f"{name}: {told}" for name, told in facts(found).items()), ""]))
        console = Console()
        width = console.width if console.is_terminal else WIDTH
        Console(width=width).print(scores(found, width))
        typer.echo("\n".join(["", *rest]))
    if html is not None:
        typer.echo(f"\nwritten to {html}", err=True)
