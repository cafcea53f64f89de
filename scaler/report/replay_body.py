"""A replay as a JSON object."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from scaler.core.cost import Bill
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
            "price_per_gpu_hour": found.price,
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
        "cost": _cost(row.bill(found.price)),
        "runs": [{"seed": run.seed, **asdict(run.worth)} for run in row.runs],
        "course": None if row.course is None else asdict(row.course),
        "recorded": None if row.agreement is None else asdict(row.agreement),
    }


def _cost(bill: Bill) -> dict[str, Any]:
    """The mean of the runs. What only a price list with several products can say is left out."""
    return {
        "starting_ratio": bill.starting_ratio,
        "tokens_per_gpu_s": bill.tokens_per_gpu_s,
        "cost_per_million_tokens": bill.cost_per_million_tokens,
        "cost_per_million_generated": bill.cost_per_million_generated,
    }
