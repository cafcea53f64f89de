"""``slo-scaler calibrate``: the safe concurrency of one replica, from the files of a load test."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scaler.errors import ConfigError

if TYPE_CHECKING:
    from scaler.calibration import Calibration, Results

SUFFIXES = (".json", ".csv", ".gz")
"""What is looked at in a folder; a file that is named is always looked at."""
WIDTH = 120
"""Of the chart where the output is no terminal."""


def calibrate(  # noqa: PLR0913, PLR0917 - the options of a command
    results: Annotated[
        list[str],
        typer.Argument(help="Files of the load test, folders, or patterns such as 'runs/*.json'."),
    ],
    ttft: Annotated[float, typer.Option(min=0.001, help="Objective for the time to the first token, seconds.")],
    tpot: Annotated[
        float | None,
        typer.Option(min=0.0001, help="Objective for the time per output token, seconds.", show_default="none"),
    ] = None,
    percentile: Annotated[float, typer.Option(min=50, max=99.9, help="The percentile of both objectives.")] = 95.0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the profile to this file.", show_default="print it")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The profile's name.", show_default="from the model")] = None,
    gpu: Annotated[
        str | None, typer.Option(help="The GPU of the replica, for the profile.", show_default="unknown")
    ] = None,
    engine_version: Annotated[
        str | None, typer.Option(help="The engine's version, where the files do not tell.", show_default="unknown")
    ] = None,
    max_num_seqs: Annotated[
        int | None,
        typer.Option(
            min=1, help="The engine's cap on running requests: levels above it are refused.", show_default="unknown"
        ),
    ] = None,
    kv_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, help="Tokens that the KV cache holds: levels that may not fit are refused.", show_default="unknown"
        ),
    ] = None,
    shared_prefix: Annotated[
        bool,
        typer.Option("--shared-prefix", help="Production's prompts are found in the prefix cache as the test's were."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole answer as JSON.")] = False,
) -> None:
    """Find the highest tested concurrency at which one replica keeps its objectives, from a load test.

    Reads vllm bench serve and sweep, GuideLLM, AIPerf, inference-perf and plain CSV; the format is told by the content. A level passes
    when the 95 % bound of each latency's percentile is within its objective and all lower levels pass too. Nothing is interpolated.
    Exit code 1 when no level is shown to be safe.

    Example: slo-scaler calibrate runs/ --ttft 2 --tpot 0.1 -o profile.yaml
    """
    from scaler import __version__
    from scaler.calibration import Objectives, Setup, assemble
    from scaler.calibration import calibrate as choose
    from scaler.calibration.profile import profile_name, profile_of, profile_yaml
    from scaler.calibration.report import body

    _writable(output)
    read, passed_over = _read(_files(results))
    given = Setup(tool="", engine_version=engine_version, gpu=gpu, max_num_seqs=max_num_seqs, kv_tokens=kv_tokens)
    sweep = assemble(read, given, shared_prefix=shared_prefix)
    found = choose(sweep, Objectives(ttft, tpot, percentile), shared_prefix=shared_prefix)
    called = _checked(name or profile_name(sweep.setup.model))
    profiles = {} if found.safe is None else {called: profile_of(found, __version__)}
    if as_json:
        answer = {**body(found), "profiles": profiles, "passed_over": passed_over}
        typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        _tell(found, passed_over)
        _show(found, profiles, shown=output is None)
    if not profiles:
        if output is not None:
            typer.echo(f"{output} is left alone: no level is shown to be safe", err=True)
        raise typer.Exit(1)
    if output is not None:
        output.write_text(profile_yaml(profiles, __version__), encoding="utf-8")
        typer.echo(f"\nwritten to {output}", err=True)


def _files(results: list[str]) -> list[tuple[Path, bool]]:
    """The files, each once, and whether it was named itself. Raises ConfigError where there is none."""
    found: dict[Path, tuple[Path, bool]] = {}
    for result in results:
        matching = [result] if Path(result).exists() else glob.glob(result, recursive=True)  # noqa: PTH207 - patterns may be absolute
        if not matching:
            raise ConfigError(f"{result}: no such file or folder")
        for path in map(Path, sorted(matching)):
            for file in _inside(path) if path.is_dir() else [path]:
                found.setdefault(file.resolve(), (file, file == path))
    return list(found.values())


def _inside(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.suffix in SUFFIXES and file.is_file())


def _read(files: list[tuple[Path, bool]]) -> tuple[list[Results], list[str]]:
    """What the files hold, and what was passed over in folders. Raises ConfigError with the faults of all files."""
    from scaler.calibration import NoResult, read

    found: list[Results] = []
    passed_over: list[str] = []
    faults: list[str] = []
    for path, named in files:
        try:
            found.append(read(str(path), path.read_bytes()))
        except OSError as error:
            faults.append(f"{path}: {error.strerror or 'unreadable'}")
        except NoResult as error:
            (faults if named else passed_over).extend(error.faults)
        except ConfigError as error:
            faults += error.faults
    if not found and not faults:
        faults = passed_over or ["no .json or .csv file there; name the load tester's result files"]
    if faults:
        raise ConfigError(*faults)
    return found, passed_over


def _writable(output: Path | None) -> None:
    """Replace nothing that somebody wrote by hand."""
    from scaler.calibration.profile import WRITTEN_BY

    if output is None:
        return
    if not output.parent.is_dir():
        raise ConfigError(f"--output: there is no folder {output.parent}")
    if output.exists() and not output.read_text(encoding="utf-8", errors="replace").startswith(WRITTEN_BY):
        raise ConfigError(
            f"--output: {output} exists and was not written by this command; give another name, and copy the profile over"
        )


def _checked(name: str) -> str:
    from scaler.settings.sections import NAME, SHAPES

    if re.fullmatch(NAME, name) is None:
        raise ConfigError(f"--name: {SHAPES[NAME]}")
    return name


def _tell(found: Calibration, passed_over: list[str]) -> None:
    """The answer, and the levels that it comes from."""
    from rich.console import Console

    from scaler.calibration.chart import chart
    from scaler.calibration.report import hints, sentences

    typer.echo("\n".join([*sentences(found), *(f"passed over: {fault}" for fault in passed_over), ""]))
    console = Console()
    width = console.width if console.is_terminal else WIDTH
    Console(width=width).print(chart(found, width))
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
