"""``slo-scaler plan --json``."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from scaler.cli.plan_run import Planned
from scaler.sim.forecast import Scored
from scaler.sim.plan import Judged


def body(plan: Planned) -> dict[str, Any]:
    """Everything, in numbers; null where something is unknown or infinite."""
    stretch, edges = plan.stretch, plan.edges
    return {
        "wanted_ratio": plan.wish.aim.kept_ratio,
        "history": {"file": plan.trace.file, "requests": plan.offered.total, "seconds": plan.offered.seconds},
        "gate": "in-path" if plan.pool.sheds else "none",
        "ready_p90_s": _finite(plan.pool.ready_s),
        "price_per_gpu_hour": plan.price,
        "played": None
        if stretch is None
        else {"begins_s": stretch.begins_at, "ends_s": stretch.ends_at, "seeds": plan.wish.seeds},
        "best": None if plan.found.best is None else _judged(plan, plan.found.best),
        "tried": [_judged(plan, one) for one in plan.found.tried],
        "at_maximum": {"replicas": plan.pool.max_replicas, "kept_ratio": plan.most.ratio},
        "scale_to_zero": {
            **asdict(plan.zero),
            "budget_s": _finite(plan.zero.budget_s),
            "contradicts": plan.zero.contradicts,
        },
        "forecast": {
            "learnt_days": plan.forecasts.learnt_days,
            "scored_days": plan.forecasts.scored_days,
            "laws": [
                _scored(one)
                for one in (plan.forecasts.reactive, plan.forecasts.trend, plan.forecasts.seasonal)
                if one is not None
            ],
            "saves_ratio": plan.forecasts.saves_ratio,
            "pays": plan.forecasts.pays,
            "floor": [asdict(block) for block in plan.forecasts.blocks],
        },
        "edges": None
        if not plan.wish.edges
        else {
            "best_scale": edges.best.scale,
            "tried": [
                {
                    "scale": one.scale,
                    "green": one.green,
                    "set_point": one.set_point,
                    "red": one.red,
                    "kept_ratios": kept,
                }
                for one, kept in edges.first.kept.items()
            ],
        },
        "notes": [*plan.trace.notes, *plan.place.notes],
    }


def _judged(plan: Planned, one: Judged) -> dict[str, Any]:
    return {
        **asdict(one.choice),
        "kept_ratio": one.kept_ratio,
        "played_ratio": one.played_ratio,
        "played_spread": one.spread,
        "fluid_ratio_of_played": one.fluid_ratio,
        "gpu_hours": one.gpu_hours,
        "gpu_hours_a_day": one.gpu_hours / plan.days,
        "price_a_day": plan.money(one.gpu_hours / plan.days),
        "tokens": plan.tokens(one),
        "tokens_per_gpu_s": plan.tokens_per_gpu_s(one),
        "cost_per_million_tokens": plan.cost_per_million(one),
        "attains": one.kept_ratio >= plan.wish.aim.kept_ratio,
    }


def _scored(one: Scored) -> dict[str, Any]:
    choice = None if one.choice is None else asdict(one.choice)
    return {"name": one.name, "choice": choice, "kept_ratio": one.kept_ratio, "gpu_hours": _finite(one.gpu_hours)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
