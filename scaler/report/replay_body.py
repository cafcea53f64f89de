"""A replay as a JSON object."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from scaler.core.plain import Json, plain
from scaler.report.replay_words import facts, sentences
from scaler.sim.outcome import Replay, Row


def body(found: Replay) -> Json:
    """Everything: what was played, what limits all, and each law's runs with its course."""
    return plain(
        {
            "sentences": list(sentences(found)),
            "facts": facts(found),
            "subject": asdict(found.subject),
            "bears": asdict(found.bears),
            "limits": asdict(found.limits),
            "laws": [_row(found, row) for row in found.rows],
        }
    )


def _row(found: Replay, row: Row) -> dict[str, Any]:
    best = found.clairvoyant
    return {
        "name": row.name,
        "side": row.side.value,
        "kept_ratio": row.kept,
        "gpu_hours": row.gpu_hours,
        "kept_above_bound": row.kept - found.limits.reactive_ratio,
        "kept_above_clairvoyant": row.kept - best.kept,
        "gpu_hours_over_clairvoyant": found.hours_ratio(row),
        "runs": [{"seed": run.seed, **asdict(run.worth)} for run in row.runs],
        "course": None if row.course is None else asdict(row.course),
        "recorded": None if row.agreement is None else asdict(row.agreement),
    }
