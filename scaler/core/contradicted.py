"""Whether live latency says that the load test was too kind."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from scaler.core.capacity import DERATE_SAMPLES, SATURATED_RATIO
from scaler.core.model import Pressure, known
from scaler.core.pressure import ENTER_RATIO

if TYPE_CHECKING:
    from scaler.core.decision import Decision, Estimate
    from scaler.core.model import RequestClass


def contradicted(classes: tuple[RequestClass, ...], before: Decision | None, believed: Estimate) -> bool:
    """Whether measured latency is over its objective though the model said GREEN under real load: the profile is too good to be true.

    Slow tokens colour the state themselves, so for them the model's word is a short queue below the safe concurrency. While a replica is
    silent nobody knows how full it is, and nothing is contradicted.
    """
    if before is None or believed.missing or believed.saturation_ratio < SATURATED_RATIO:
        return False
    green, budget = before.state is Pressure.GREEN, _strictest(one.ttft_s for one in classes)
    calm = believed.saturation_ratio <= 1 and (believed.queue_wait.by_drain_s or 0.0) < ENTER_RATIO * budget
    ttft, tpot = known(believed.ttft_s), known(believed.tpot_s)
    slow_first = ttft is not None and believed.ttft_samples >= DERATE_SAMPLES and ttft > budget
    tpot_budget = _strictest(one.tpot_s for one in classes)
    slow_tokens = tpot is not None and believed.tpot_samples >= DERATE_SAMPLES and tpot > tpot_budget
    return (green and slow_first) or ((green or calm) and slow_tokens)


def _strictest(objectives_s: Iterable[float | None]) -> float:
    return min((one for one in objectives_s if one is not None), default=math.inf)
