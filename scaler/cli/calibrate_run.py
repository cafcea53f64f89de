"""``slo-scaler calibrate --run``: what a person wishes becomes a sweep, or the Job that runs it in a cluster."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import typer
from rich.console import Console

from scaler.calibration.job import FOLDER, job
from scaler.calibration.profile import profile_name
from scaler.calibration.testers import TESTERS, Tester, Traffic, public
from scaler.cli.calibrate_options import Tool
from scaler.cli.endpoint import base_url
from scaler.cli.load_tests import Judging
from scaler.cli.sweep import Sweep, TesterFailed, drive
from scaler.cli.sweep_screen import Screen
from scaler.core.evidence import least_samples
from scaler.errors import ConfigError

INTERRUPTED = 130
"""What a shell reports of a program that Ctrl-C ended."""
KEY = "OPENAI_API_KEY"
HERE_ALONE = frozenset({"results", "folder", "output", "plot", "print_job"})
"""Parameters that mean nothing in a pod."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The options of --run as given."""

    url: str
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    tokenizer: str | None
    tool: Tool | None
    tool_args: str
    fewest: int | None
    folder: Path | None


def swept(wish: Wish, judging: Judging) -> list[str]:
    """Run the sweep, and name the files of its results. Raises ConfigError, and typer.Exit when the load tester or the person ended it."""
    traffic = _traffic(wish, judging)
    folder = wish.folder or Path(f"load-test-{profile_name(traffic.model)}")
    sweep = Sweep(_tester(wish.tool), traffic, judging, folder, wish.fewest)
    try:
        drive(sweep, Screen(Console(stderr=True)))
    except TesterFailed as failure:
        typer.echo(f"slo-scaler: {failure}", err=True)
        typer.echo(f"What was tested is in {folder}; the same command goes on from there.", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo(f"\nended early; what was tested is in {folder}, and the same command goes on from there", err=True)
        raise typer.Exit(INTERRUPTED) from None
    return sweep.results()


def job_of(context: typer.Context, wish: Wish, judging: Judging, image: str) -> str:
    """The manifest of the Job that does the same. Raises ConfigError."""
    traffic = _traffic(wish, judging)
    if public(traffic.extra) != traffic.extra:
        raise ConfigError(
            "--tool-args: a key would stand in the Job for all to read; leave it out, and make the Job's Secret"
        )
    return job(profile_name(traffic.model), image, [*_arguments(context), "--results", FOLDER])


def _arguments(context: typer.Context) -> Iterator[str]:
    """The options that were given, again as words."""
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.name in HERE_ALONE or value in {None, False, parameter.default}:
            continue
        yield parameter.opts[0]
        if value is not True:
            yield str(value.value if isinstance(value, Enum) else value)


def _tester(tool: Tool | None) -> Tester:
    wanted = [TESTERS[tool.value]] if tool is not None else list(TESTERS.values())
    for tester in wanted:
        if shutil.which(tester.program):
            return tester
    names = " or ".join(tester.program for tester in wanted)
    raise ConfigError(
        f"--run: there is no {names} on the PATH; install one in an environment of its own, such as pip install aiperf"
    )


def _traffic(wish: Wish, judging: Judging) -> Traffic:
    faults = list(_faults(wish, judging))
    if faults or wish.model is None:
        raise ConfigError(*faults)
    return Traffic(
        url=base_url(wish.url),
        model=wish.model,
        tokenizer=wish.tokenizer,
        input_tokens=wish.input_tokens,
        output_tokens=wish.output_tokens,
        api_key=os.environ.get(KEY) or None,
        extra=tuple(shlex.split(wish.tool_args)),
    )


def _faults(wish: Wish, judging: Judging) -> Iterator[str]:
    if wish.model is None:
        yield "--model: missing; name the model as the replica serves it"
    try:
        extra = shlex.split(wish.tool_args)
    except ValueError as error:
        yield f"--tool-args: not the words of a command line ({error})"
        extra = [""]
    if not extra and (wish.input_tokens is None or wish.output_tokens is None):
        yield (
            "--input-tokens, --output-tokens: name the lengths that production has, as a safe concurrency holds for one mix; "
            "or name a data set with --tool-args"
        )
    least = least_samples(judging.objectives.share)
    if wish.fewest is not None and wish.fewest < least:
        yield f"--requests: fewer than {least} bound no P{judging.objectives.percentile:g}"
