"""``slo-scaler calibrate``: the safe concurrency of one replica, from the files of a load test or from a test that it runs itself."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from scaler.cli import calibrate_options as options
from scaler.errors import ConfigError

if TYPE_CHECKING:
    from scaler.calibration import Calibration

BY, BEGINNING = "Written by slo-scaler calibrate", 1000
"""What stands among the first characters of every file that this command writes."""
WIDTH = 120
"""Of the table where the output is no terminal."""


def calibrate(  # noqa: PLR0913 - the options of a command
    context: typer.Context,
    results: options.Results = None,
    *,
    ttft: options.Ttft,
    tpot: options.Tpot = None,
    percentile: options.Percentile = 95.0,
    output: options.Output = None,
    plot: options.Plot = None,
    name: options.Name = None,
    gpu: options.Gpu = None,
    engine_version: options.EngineVersion = None,
    max_num_seqs: options.MaxNumSeqs = None,
    kv_tokens: options.KvTokens = None,
    shared_prefix: options.SharedPrefix = False,
    as_json: options.AsJson = False,
    run: options.Url = None,
    model: options.Model = None,
    input_tokens: options.InputTokens = None,
    output_tokens: options.OutputTokens = None,
    tokenizer: options.Tokenizer = None,
    tool: options.ToolName = None,
    tool_args: options.ToolArgs = "",
    requests: options.Fewest = None,
    folder: options.Folder = None,
    print_job: options.JobImage = None,
) -> None:
    """Find the highest tested concurrency at which one replica keeps its objectives, from a load test.

    Reads vllm bench serve and sweep, GuideLLM, AIPerf, inference-perf and plain CSV; the format is told by the content. A level passes
    when the 95 % bound of each latency's percentile is within its objective and all lower levels pass too. Nothing is interpolated.
    With --run it drives AIPerf or vllm bench serve itself: concurrency 1, 2, 4 … until the objectives break, then one level between.
    Exit code 1 when no level is shown to be safe, or when the load tester failed.

    Example: slo-scaler calibrate runs/ --ttft 2 --tpot 0.1 -o profile.yaml --plot levels.html

    Example: slo-scaler calibrate --run http://llama:8000 --model llama --input-tokens 1000 --output-tokens 200 --ttft 2 --tpot 0.1
    """
    from scaler.calibration import Objectives, Setup
    from scaler.cli.load_tests import Judging

    told = _told(Told(name, output, plot, as_json))
    given = Setup(tool="", engine_version=engine_version, gpu=gpu, max_num_seqs=max_num_seqs, kv_tokens=kv_tokens)
    judging = Judging(Objectives(ttft, tpot, percentile), given, shared_prefix)
    if run is None:
        named = _named(context, results)
    elif results:
        raise ConfigError("RESULTS: --run makes them itself; give one or the other")
    else:
        from scaler.cli.calibrate_run import Wish, job_of, swept

        wish = Wish(run, model, input_tokens, output_tokens, tokenizer, tool, tool_args, requests, folder)
        if print_job is not None:
            typer.echo(job_of(context, wish, judging, print_job), nl=False)
            return
        named = swept(wish, judging)
    _answer(*judging.of(named), told)


@dataclass(frozen=True, slots=True)
class Told:
    """How the answer is told: under which name, into which files, and whether as JSON."""

    name: str | None
    output: Path | None
    plot: Path | None
    as_json: bool


LEGEND = "Beside each level: as measured (≤ its 95 % bound, which must be within the objective; ?: too few requests)"


def _told(wish: Told) -> Told:
    """The same, once it is known that it can be done: a load test takes long. Raises ConfigError."""
    if wish.name is not None:
        _checked(wish.name)
    for option, file in (("--output", wish.output), ("--plot", wish.plot)):
        _writable(option, file)
    return wish


def _named(context: typer.Context, results: list[str] | None) -> list[str]:
    """What to read. Raises ConfigError where there is nothing, and for options that change nothing."""
    idle = [name for name in options.OF_RUN if context.params[name]]
    if idle:
        raise ConfigError(f"--{idle[0].replace('_', '-')}: means nothing without --run")
    if not results:
        raise ConfigError("RESULTS: name a load test's files or folders, or have one made with --run URL --model NAME")
    return results


def _answer(found: Calibration, passed_over: list[str], told: Told) -> None:
    from scaler import __version__
    from scaler.calibration.profile import profile_name, profile_of, profile_yaml
    from scaler.calibration.report import body
    from scaler.report.calibration_page import page

    called = _checked(told.name or profile_name(found.sweep.setup.model))
    profiles = {} if found.safe is None else {called: profile_of(found, __version__)}
    # First, so that they are there even if whoever reads what is printed stops early.
    if told.plot is not None:
        told.plot.write_text(page(found, f"{BY} {__version__}"), encoding="utf-8")
    if told.output is not None and profiles:
        told.output.write_text(profile_yaml(profiles, __version__), encoding="utf-8")
    if told.as_json:
        answer = {**body(found), "profiles": profiles, "passed_over": passed_over}
        typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        _tell(found, passed_over)
        _show(found, profiles, shown=told.output is None)
    if told.plot is not None:
        typer.echo(f"\ndrawn in {told.plot}", err=True)
    if told.output is not None:
        outcome = (
            f"\nwritten to {told.output}" if profiles else f"{told.output} is left alone: no level is shown to be safe"
        )
        typer.echo(outcome, err=True)
    if not profiles:
        raise typer.Exit(1)


def _writable(option: str, file: Path | None) -> None:
    """Replace nothing that somebody wrote by hand."""
    if file is None:
        return
    if not file.parent.is_dir():
        raise ConfigError(f"{option}: there is no folder {file.parent}")
    if file.exists() and not file.is_file():
        raise ConfigError(f"{option}: {file} is no file; give another name")
    if file.exists() and BY not in file.read_text(encoding="utf-8", errors="replace")[:BEGINNING]:
        raise ConfigError(f"{option}: {file} exists and was not written by this command; give another name")


def _checked(name: str) -> str:
    from scaler.settings.sections import NAME, SHAPES

    if re.fullmatch(NAME, name) is None:
        raise ConfigError(f"--name: {SHAPES[NAME]}")
    return name


def _tell(found: Calibration, passed_over: list[str]) -> None:
    """The answer, and the levels that it comes from."""
    from rich.console import Console

    from scaler.calibration.report import hints, sentences
    from scaler.report.levels_table import levels_table

    typer.echo("\n".join([*sentences(found), *(f"passed over: {fault}" for fault in passed_over), ""]))
    console = Console()
    width = console.width if console.is_terminal else WIDTH
    Console(width=width).print(levels_table(found, width))
    typer.echo(LEGEND)
    if told := list(hints(found)):
        typer.echo("\n".join(["", *told]))


def _show(found: Calibration, profiles: Mapping[str, Any], *, shown: bool) -> None:
    """What to do with the answer: the profile, unless it goes to a file, and a ScaledObject that uses it."""
    from scaler import __version__
    from scaler.calibration.profile import profile_yaml, scaled_object

    for name in profiles:
        if shown:
            typer.echo(f"\n{profile_yaml(profiles, __version__)}---", nl=False)
        typer.echo(f"\n{scaled_object(found, name)}", nl=False)
