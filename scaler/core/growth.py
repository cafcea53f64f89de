"""How much more will be offered when a replica that is asked for now is ready."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scaler.core.ready_latency import PLANNING_QUANTILE

if TYPE_CHECKING:
    from scaler.core.history import History
    from scaler.core.ready_latency import ReadyLatency

GROWTH_WINDOW_S = 60.0
GROWTH_SIGMAS, GROWTH_VARIANCE, GROWTH_SHARE, GROWTH_DAMPING, GROWTH_LIMIT = 3.0, 4.0, 0.25, 0.5, 1.25
GROWTH_HORIZON_S = 120.0


def growth(history: History, now: float, latency: ReadyLatency, offered_per_s: float) -> float:
    """How much more will be offered when a replica asked for now is ready: upwards only, and only when the rise is no noise."""
    rates = [
        history.offered.rate_between(now - windows * GROWTH_WINDOW_S, now - (windows - 1) * GROWTH_WINDOW_S)
        for windows in (2, 1)
    ]
    if rates[0] is None or rates[1] is None or offered_per_s <= 0:
        return 1.0
    if history.rejoined_at is not None and now - history.rejoined_at < 2 * GROWTH_WINDOW_S:
        return 1.0  # what a replica does that was silent before is no rise
    early, late = max(0.0, rates[0]) * GROWTH_WINDOW_S, rates[1] * GROWTH_WINDOW_S
    noise = GROWTH_SIGMAS * math.sqrt(GROWTH_VARIANCE * (early + max(0.0, late)))
    if late - early <= noise or late <= (1 + GROWTH_SHARE) * early:
        return 1.0
    rise_per_s2 = (late - early) / GROWTH_WINDOW_S**2
    ahead_s = min(latency.quantile(PLANNING_QUANTILE), GROWTH_HORIZON_S)
    return min(GROWTH_LIMIT, 1 + GROWTH_DAMPING * rise_per_s2 * ahead_s / offered_per_s)
