"""The options of ``slo-scaler replay``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

LOAD, PLACE, LAWS, PAST = "The traffic", "What is promised, and where", "The laws", "The traffic from a Prometheus"
"""Headings."""

Trace = Annotated[
    str | None,
    typer.Argument(
        metavar="TRACE",
        help="A file (Azure, BurstGPT, Mooncake, rates by window, plain CSV, our decision log; gzipped or not), or a shape such as "
        "step:low_per_s=15,high_per_s=60,begins_at_s=600,duration_s=3000.",
        show_default="none",
    ),
]
RecordedLog = Annotated[
    Path | None,
    typer.Option(
        "--recorded",
        help="Our own decision log as the trace: what was desired is compared with what is simulated.",
        show_default="none",
        rich_help_panel=LOAD,
    ),
]
Scale = Annotated[float, typer.Option(help="So many times the requests.", rich_help_panel=LOAD)]
Clip = Annotated[
    str | None,
    typer.Option(metavar="A:B", help="Only from second A to B.", show_default="all", rich_help_panel=LOAD),
]
InputTokens = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Mean length of the prompts where the trace does not tell.",
        show_default="1155",
        rich_help_panel=LOAD,
    ),
]
OutputTokens = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Mean length of the outputs where the trace does not tell.",
        show_default="211",
        rich_help_panel=LOAD,
    ),
]
Seeds = Annotated[
    int, typer.Option(min=1, max=100, help="Runs of each law, each with other dice.", rich_help_panel=LOAD)
]

Config = Annotated[
    Path | None,
    typer.Option(help="Configuration file: its workload's objectives, profile and bounds.", rich_help_panel=PLACE),
]
Workload = Annotated[
    str | None,
    typer.Option(
        "--workload",
        "-w",
        metavar="NAMESPACE/NAME",
        help="Of the configuration, or of a decision log with several.",
        show_default="the only one",
        rich_help_panel=PLACE,
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(help="A profile of the configuration.", show_default="the workload's", rich_help_panel=PLACE),
]
SafeConcurrency = Annotated[
    float | None,
    typer.Option(
        min=0.1,
        help="What the laws are told: requests at once for which a replica keeps its objectives.",
        show_default="that of the simulated replica",
        rich_help_panel=PLACE,
    ),
]
SafeRate = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        help="Likewise: requests a second served then.",
        show_default="that of the simulated replica",
        rich_help_panel=PLACE,
    ),
]
Ttft = Annotated[
    float | None,
    typer.Option(min=0.001, help="Objective for the time to the first token, seconds.", rich_help_panel=PLACE),
]
Tpot = Annotated[
    float | None,
    typer.Option(min=0.0001, help="Objective for the time per output token, seconds.", rich_help_panel=PLACE),
]
Percentile = Annotated[
    float | None,
    typer.Option(min=50, max=99.9, help="Of both objectives.", show_default="95", rich_help_panel=PLACE),
]
MinReplicas = Annotated[
    int | None, typer.Option(min=0, help="Bound of every law.", show_default="1", rich_help_panel=PLACE)
]
MaxReplicas = Annotated[
    int | None,
    typer.Option(
        min=1, help="Likewise.", show_default="twice what the busiest minute needs, at least 4", rich_help_panel=PLACE
    ),
]
Replicas = Annotated[
    int | None,
    typer.Option(
        min=0, help="Ready at first.", show_default="what the first minute needs, or as recorded", rich_help_panel=PLACE
    ),
]
PresetName = Annotated[str, typer.Option("--preset", help="The kind of replica to simulate.", rich_help_panel=PLACE)]
ColdStart = Annotated[
    str,
    typer.Option(
        help="How long a start takes: 180 or 180±30 (also 180+-30) seconds, a file of measured seconds, or one of the presets.",
        rich_help_panel=PLACE,
    ),
]

Laws = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME",
        help="Which laws, beside the references.",
        show_default="ours and all rivals",
        rich_help_panel=LAWS,
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="LAW.PARAMETER=VALUE",
        help="A law's parameter; the value 'safe' is the safe concurrency.",
        show_default="as its documents say",
        rich_help_panel=LAWS,
    ),
]
Gates = Annotated[
    str,
    typer.Option(
        "--gate",
        metavar="KIND,KIND",
        help="How a gateway acts on our decisions: in-path, polled, none.",
        rich_help_panel=LAWS,
    ),
]

From = Annotated[
    str | None,
    typer.Option(
        "--from-prometheus",
        metavar="NAME",
        help="A prometheus of the configuration instead of TRACE.",
        show_default="none",
        rich_help_panel=PAST,
    ),
]
Namespace = Annotated[
    str | None, typer.Option(help="The pods' namespace.", show_default="the workload's", rich_help_panel=PAST)
]
ModelName = Annotated[
    str | None, typer.Option(help="The model's name in the metrics.", show_default="any", rich_help_panel=PAST)
]
Begins = Annotated[
    str | None,
    typer.Option("--from", help="When it begins, such as 2026-01-31T08:00:00+00:00.", rich_help_panel=PAST),
]
Ends = Annotated[str | None, typer.Option("--to", help="When it ends.", rich_help_panel=PAST)]

AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
Html = Annotated[
    Path | None,
    typer.Option("--html", help="Write the report to this file, which needs nothing else.", show_default="no file"),
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Runs at once, each in a process.", show_default="the cores")]


@dataclass(frozen=True, slots=True)
class LoadWish:
    """The options about the traffic, as given."""

    trace: str | None
    recorded: Path | None
    scale: float
    clip: str | None
    input_tokens: int | None
    output_tokens: int | None
    past: PastWish


@dataclass(frozen=True, slots=True)
class PastWish:
    """Those about a Prometheus."""

    prometheus: str | None
    namespace: str | None
    model_name: str | None
    begins: str | None
    ends: str | None


@dataclass(frozen=True, slots=True)
class SpecWish:
    """Those about what is promised. None: as configured, or the default."""

    config: Path | None
    workload: str | None
    profile: str | None
    safe_concurrency: float | None
    safe_rate: float | None
    ttft: float | None
    tpot: float | None
    percentile: float | None
    min_replicas: int | None
    max_replicas: int | None


@dataclass(frozen=True, slots=True)
class PlaceWish:
    """Those about the fleet."""

    replicas: int | None
    preset: str
    cold_start: str


@dataclass(frozen=True, slots=True)
class LawWish:
    """Those about the laws."""

    laws: str | None
    sets: tuple[str, ...]
    gates: str
