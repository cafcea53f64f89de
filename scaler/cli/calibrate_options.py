"""The options of ``slo-scaler calibrate``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

RUN = "Run the load test"
"""The heading of the options that need --run."""

OF_RUN = ("model", "input_tokens", "output_tokens", "tokenizer", "tool", "tool_args", "requests", "folder", "print_job")
"""The parameters that need --run."""


LONGEST_S = 1e7
"""The longest objective that a trigger takes."""


class Tool(StrEnum):
    """The load testers that can be driven, by the name of their program."""

    AIPERF = "aiperf"
    VLLM = "vllm"


Results = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RESULTS",
        help="Files of the load test, folders, or patterns such as 'runs/*.json'.",
        show_default="none, with --run",
    ),
]
Ttft = Annotated[
    float, typer.Option(min=0.001, max=LONGEST_S, help="Objective for the time to the first token, seconds.")
]
Tpot = Annotated[
    float | None,
    typer.Option(
        min=0.0001, max=LONGEST_S, help="Objective for the time per output token, seconds.", show_default="none"
    ),
]
Percentile = Annotated[float, typer.Option(min=50, max=99.9, help="The percentile of both objectives.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the profile to this file.", show_default="print it")
]
Plot = Annotated[
    Path | None,
    typer.Option(help="Draw the levels into this HTML file, which needs nothing else.", show_default="no file"),
]
Name = Annotated[str | None, typer.Option(help="The profile's name.", show_default="from the model")]
Gpu = Annotated[str | None, typer.Option(help="The GPU of the replica, for the profile.", show_default="unknown")]
EngineVersion = Annotated[
    str | None, typer.Option(help="The engine's version, where the files do not tell.", show_default="unknown")
]
MaxNumSeqs = Annotated[
    int | None,
    typer.Option(
        min=1, help="The engine's cap on running requests: levels above it are refused.", show_default="unknown"
    ),
]
KvTokens = Annotated[
    int | None,
    typer.Option(
        min=1, help="Tokens that the KV cache holds: levels that may not fit are refused.", show_default="unknown"
    ),
]
SharedPrefix = Annotated[
    bool,
    typer.Option("--shared-prefix", help="Production's prompts are found in the prefix cache as the test's were."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the whole answer as JSON.")]

Url = Annotated[
    str | None,
    typer.Option(
        "--run",
        metavar="URL",
        help="Test the replica at this address, level by level until its objectives break, with a load tester that is installed.",
        show_default="only read RESULTS",
        rich_help_panel=RUN,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(help="The model's name, as the replica serves it.", show_default="none", rich_help_panel=RUN),
]
InputTokens = Annotated[
    int | None,
    typer.Option(min=1, help="Length of the prompts, as in production.", show_default="none", rich_help_panel=RUN),
]
OutputTokens = Annotated[
    int | None,
    typer.Option(min=2, help="Length of the outputs, as in production.", show_default="none", rich_help_panel=RUN),
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        help="The tokenizer to make prompts with, a folder or a name.", show_default="the model's", rich_help_panel=RUN
    ),
]
ToolName = Annotated[
    Tool | None,
    typer.Option("--tool", help="The load tester.", show_default="the first on the PATH", rich_help_panel=RUN),
]
ToolArgs = Annotated[
    str,
    typer.Option(
        help="Options for the load tester, such as those of a data set; each replaces what it is given otherwise.",
        show_default="none",
        rich_help_panel=RUN,
    ),
]
Fewest = Annotated[
    int | None,
    typer.Option(
        "--requests",
        min=1,
        help="How many requests a low level is given; a high one needs 20 for each in flight.",
        show_default="240 for P95",
        rich_help_panel=RUN,
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--results",
        metavar="DIR",
        help="Where the results go; a level whose result is there is not tested again.",
        show_default="load-test-MODEL",
        rich_help_panel=RUN,
    ),
]
JobImage = Annotated[
    str | None,
    typer.Option(
        "--print-job",
        metavar="IMAGE",
        help="Print the Kubernetes Job that does this in a cluster, in an image that has the load tester and slo-scaler.",
        show_default="no job",
        rich_help_panel=RUN,
    ),
]
