"""``slo-scaler fit``: recorded runs and load tests as the fit needs them."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scaler.calibration import Objectives, Setup
from scaler.calibration.levels import Level
from scaler.cli.load_tests import Judging
from scaler.errors import ConfigError
from scaler.sim.fit import Held, Seen

GZIP = b"\x1f\x8b"
PLAIN = ("arrived_at", "first_token_at", "finished_at", "prompt_tokens", "output_tokens")
"""The heading of a CSV of ours, and the keys of JSON lines."""
ENGINE = ("arrival_time", "first_token_ts", "last_token_ts", "input_toks", "output_toks")
"""LLMServingSim's records of vLLM: arrivals are on the wall clock, tokens on the engine's, on which ``queued_ts`` is, too."""
QUEUED = "queued_ts"
ANY = Objectives(ttft_s=1.0)
"""No level is judged here."""


def recorded(path: Path) -> list[Seen] | None:
    """The requests of a recorded run in order of arrival, None if the file is no such run. Raises ConfigError."""
    if not path.is_file():
        return None
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data.startswith(GZIP) else data).decode("utf-8")
    except UnicodeDecodeError:
        return None
    except (OSError, EOFError) as error:
        raise ConfigError(f"{path}: unreadable: {error}; name the file that the load tester saved") from None
    rows = list(_rows(text))
    if not rows:
        return None
    for names in (PLAIN, ENGINE):
        if all(name in rows[0] for name in names):
            try:
                return _seen(rows, names)
            except (KeyError, TypeError, ValueError) as error:
                raise ConfigError(f"{path}: a row without a usable number: {error}") from None
    return None


def levels(files: Sequence[str]) -> list[Held]:
    """The levels of a load test. Raises ConfigError where they do not tell enough."""
    judged, _ = Judging(ANY, Setup(""), shared_prefix=False).of(files)
    found = [held for level in judged.sweep.levels if (held := _held(level)) is not None]
    if not found:
        raise ConfigError("fit: no steady level there tells median TTFT, median TPOT and mean lengths")
    return found


def _rows(text: str) -> Iterator[Mapping[str, Any]]:
    lines = text.splitlines()
    if lines and lines[0].startswith("{"):
        try:
            found = [json.loads(line) for line in lines if line.strip()]
        except json.JSONDecodeError:
            return  # one JSON document over many lines: a load test
        yield from (row for row in found if isinstance(row, dict))
    elif lines and lines[0].startswith(PLAIN[0]):
        yield from csv.DictReader(lines)


def _seen(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[Seen]:
    arrival, first, last, prompt, output = names
    begins = min(float(row[arrival]) for row in rows)
    # the quickest hand-over from the API to the engine tells the two clocks apart
    engine = min(float(row[QUEUED]) - (float(row[arrival]) - begins) for row in rows) if QUEUED in rows[0] else begins
    found = [
        Seen(
            float(row[arrival]) - begins,
            float(row[first]) - engine,
            float(row[last]) - engine,
            int(row[prompt]),
            int(row[output]),
        )
        for row in rows
    ]
    return sorted(found, key=lambda one: one.arrived_at)


def _held(level: Level) -> Held | None:
    ttft, tpot = level.ttft.estimate(0.5), level.tpot.estimate(0.5)
    prompt, output = level.prompts.mean, level.outputs.mean
    if ttft is None or tpot is None or prompt is None or output is None or not tpot > 0:
        return None
    if any(run.saturated for run in level.runs):
        return None  # sent faster than it serves: there is no number at once that it was held at
    return Held(max(1, round(level.concurrency)), ttft, tpot, max(1, round(prompt)), max(2, round(output)))
