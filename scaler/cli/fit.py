"""``slo-scaler fit``: a kind of replica for ``replay`` and ``plan``, from what a real engine was seen to do."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scaler.errors import ConfigError

if TYPE_CHECKING:
    from scaler.sim.fit import Fit
    from scaler.sim.presets import Preset
    from scaler.sim.values import EngineLimits

BEGINS = "Written by slo-scaler fit"
COUPLED = 0.5
MS, US, NS = 1e3, 1e6, 1e9


def fit(  # noqa: PLR0913 - the options of a command
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="One recorded run with the times of each request (JSON lines or CSV), or the result files of a load test.",
        ),
    ],
    *,
    kv_tokens: Annotated[int, typer.Option(min=1, help="Tokens that the engine's KV cache holds; its log tells.")],
    max_num_seqs: Annotated[int, typer.Option(min=1, help="The engine's cap on running requests.")] = 1024,
    token_budget: Annotated[int, typer.Option(min=1, help="The engine's max_num_batched_tokens.")] = 8192,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of a replica.")] = 1,
    overhead_s: Annotated[
        float | None,
        typer.Option(
            min=0, help="What the API server adds to a request.", show_default="0 for a recorded run, else 0.015"
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the preset to this file.", show_default="print it")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Fit the four coefficients of the replica model, for `--preset FILE` of replay and plan.

    A step of an engine takes a + b x sequences + c x prompt tokens + d x context tokens. One run seldom tells all four apart; what is
    unsure is said.

    Example: slo-scaler fit requests.jsonl.gz --kv-tokens 41408 --max-num-seqs 256 --token-budget 2048 -o my-replica.yaml

    Example: slo-scaler fit runs/*.json --kv-tokens 448000 -o my-replica.yaml
    """
    from scaler.cli.preset_file import written
    from scaler.sim.presets import Preset
    from scaler.sim.values import EngineLimits

    try:
        limits = EngineLimits(max_num_seqs, token_budget, kv_tokens)
    except ValueError as error:
        raise ConfigError(f"--max-num-seqs, --token-budget: {error}") from None
    if output is not None and output.exists() and BEGINS not in output.read_text(encoding="utf-8", errors="replace"):
        raise ConfigError(f"--output: {output} exists and was not written by this command; give another name")
    found = _fitted(files, limits, overhead_s)
    preset = Preset(found.coefficients, limits, gpus)
    file = written(preset, (BEGINS, *_sentences(found)))
    if output is not None:
        output.write_text(file, encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(_body(found, preset), indent=2))
    else:
        typer.echo("\n".join([*_sentences(found), *([] if output is not None else ["", file])]))
    if output is not None:
        typer.echo(f"written to {output}", err=True)


def _fitted(files: list[str], limits: EngineLimits, overhead_s: float | None) -> Fit:
    from scaler.cli.fit_files import levels, recorded
    from scaler.sim.fit import fit_levels, fit_run

    if len(files) == 1 and (seen := recorded(Path(files[0]))):
        return fit_run(seen, limits, overhead_s or 0.0)
    return fit_levels(levels(files), limits, 0.015 if overhead_s is None else overhead_s)


def _sentences(found: Fit) -> tuple[str, ...]:
    made = found.coefficients
    numbers = zip(
        ("a", "b", "c", "d"),
        (made.a_s * MS, made.b_s * MS, made.c_s * US, made.d_s * NS),
        ("ms a step", "ms a sequence", "us a prompt token", "ns a context token"),
        found.errors,
        strict=True,
    )
    told = [f"{name} {value:.3g} {unit} ({_sure(error)})" for name, value, unit, error in numbers]
    lines = [f"off by {found.error_ratio:.1%} (median: {found.what})", "; ".join(told)]
    if found.unsure or found.trade_off < -COUPLED:
        coupled = f"; a and d make up for each other ({found.trade_off:.2f})" if found.trade_off < -COUPLED else ""
        unsure = (
            f"these data tell little of {', '.join(name[0] for name in found.unsure)}" if found.unsure else "fitted"
        )
        lines.append(f"{unsure}{coupled}: use it for lengths and loads like these")
    return tuple(lines)


def _sure(error: float | None) -> str:
    if error is None:
        return "not fitted"
    return f"±{error:.0%}" if error < 1 else "unknown"


def _body(found: Fit, preset: Preset) -> dict[str, object]:
    return {
        "coefficients": asdict(found.coefficients),
        "limits": asdict(preset.limits),
        "gpus": preset.gpus,
        "error_ratio": found.error_ratio,
        "error_of": found.what,
        "standard_error_ratios": [None if one is None or math.isinf(one) else one for one in found.errors],
        "a_d_correlation": found.trade_off,
        "unsure": found.unsure,
    }
