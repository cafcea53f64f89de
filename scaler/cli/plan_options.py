"""The options of ``slo-scaler plan`` beside those of ``replay``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from scaler.cli.replay_options import PLACE

WISH = "What is wanted"
"""A heading."""


class Gate(StrEnum):
    """Whether a gateway sheds what would come too late."""

    NONE = "none"
    IN_PATH = "in-path"


Attain = Annotated[
    float,
    typer.Option(
        min=0.5,
        max=1.0,
        help="The share of all requests that are to be served within the objectives.",
        rich_help_panel=WISH,
    ),
]
MostWarm = Annotated[
    int,
    typer.Option("--most-warm", min=0, max=100, help="Warm replicas to try, at most.", rich_help_panel=WISH),
]
Gating = Annotated[
    Gate | None,
    typer.Option(
        "--gate",
        help="Whether a gateway asks for each request and refuses what would come too late.",
        show_default="in-path where the workload enforces, else none",
        rich_help_panel=PLACE,
    ),
]
Price = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="Of a GPU-hour.",
        show_default="that of the replica's GPU in the configuration's prices, else none",
        rich_help_panel=PLACE,
    ),
]
Edges = Annotated[
    bool,
    typer.Option(
        "--edges/--no-edges",
        help="Also try other edges of GREEN and RED, and another set-point, in an overload of the replica.",
        rich_help_panel=WISH,
    ),
]
Clock = Annotated[
    str,
    typer.Option(
        "--clock",
        metavar="HH:MM",
        help="The time of day (UTC) at which the history begins, for a floor by the hour.",
        rich_help_panel=PLACE,
    ),
]
