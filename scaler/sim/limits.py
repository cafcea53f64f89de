"""What limits every law on some traffic, before any has been tried."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scaler.sim.bound import DETECTION_S, Fluid, Load, fixed, load, reactive, served, surges, warm_needed
from scaler.sim.saturation import Saturation
from scaler.sim.stage import Setting
from scaler.sim.starts import quantile_s
from scaler.sim.traffic import Arrival

BUSIEST_S = 60.0


@dataclass(frozen=True, slots=True)
class Warm:
    """Replicas kept ready above what the load has shown to be needed: how many, what then can be attained, and what they cost."""

    replicas: int
    ratio: float
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class Limits:
    """What traffic, start times and the maximum allow.

    ``dead_s``: from a load to the replica that is started for it. ``reactive_ratio``: the most that a law can attain which only reacts,
    ``most_ratio`` with the maximum ready all the time, ``static_ratios`` with 1, 2, … replicas. ``returning_ratio``: likewise as the first
    where the refused come back when they are told to, for as long as clients do. ``surges`` went beyond what could be ready for longer than
    a request may wait, and ``brief`` of them were over before a replica could come. ``warm`` is what it takes to attain ``wanted_ratio``,
    None where the maximum does not do.
    """

    dead_s: float
    ceiling_per_s: float
    mean_per_s: float
    busiest_per_s: float
    reactive_ratio: float
    returning_ratio: float
    most_ratio: float
    wanted_ratio: float
    surges: int
    brief: int
    warm: Warm | None
    static_ratios: tuple[float, ...]

    @property
    def reachable(self) -> bool:
        """Whether a law that only reacts can attain what was promised."""
        return self.reactive_ratio >= self.wanted_ratio


def limits(setting: Setting, bears: Saturation, arrivals: Sequence[Arrival], duration_s: float) -> Limits:
    """For a fleet that begins as the setting says. The budget is that of the strictest class; without one, nothing waits too long."""
    spec, platform = setting.spec, setting.platform
    offered = load((one.at for one in arrivals), duration_s)
    budget_s = spec.budget_s or spec.deadline_s or duration_s
    fleet = Fluid(
        bears.ceiling_per_s, bears.ceiling_concurrency, budget_s, platform.replicas, spec.scaling.max_replicas
    )
    started_s = quantile_s(platform.starts, 0.5)
    dead_s = (started_s if math.isfinite(started_s) else duration_s) + DETECTION_S
    static = tuple(_static(offered, fleet))
    best = reactive(offered, fleet, dead_s)
    patient = replace(fleet, budget_s=budget_s + min(duration_s, _come_back_s(arrivals)))
    beyond = [one for one in surges(offered, fleet, best) if one.seconds > budget_s]
    return Limits(
        dead_s=dead_s,
        ceiling_per_s=bears.ceiling_per_s,
        mean_per_s=offered.total / offered.seconds,
        busiest_per_s=busiest_per_s(offered),
        reactive_ratio=best.ratio,
        returning_ratio=served(offered, patient, best.replicas).ratio,
        most_ratio=static[-1],
        wanted_ratio=spec.slo_quantile,
        surges=len(beyond),
        brief=sum(one.seconds < dead_s for one in beyond),
        warm=_warm(offered, fleet, dead_s, (spec.slo_quantile, platform.preset.gpus)),
        static_ratios=static,
    )


def _static(offered: Load, fleet: Fluid) -> Iterator[float]:
    """What each size attains; once one serves all, larger ones do."""
    ratio = 0.0
    for count in range(1, fleet.most + 1):
        ratio = ratio if ratio >= 1 else fixed(offered, fleet, count).ratio
        yield ratio


def _come_back_s(arrivals: Sequence[Arrival]) -> float:
    """How long the most patient client comes back for when it is told to wait."""
    return max((sdk.retries * sdk.honours_s for sdk in {one.sdk for one in arrivals}), default=0.0)


def busiest_per_s(offered: Load) -> float:
    """Requests a second in the busiest minute."""
    width = max(1, round(BUSIEST_S / offered.bin_s))
    sums = [0]
    for count in offered.counts:
        sums.append(sums[-1] + count)
    width = min(width, len(offered.counts))
    return max(sums[index + width] - sums[index] for index in range(len(sums) - width)) / (width * offered.bin_s)


def _warm(offered: Load, fleet: Fluid, dead_s: float, wanted: tuple[float, int]) -> Warm | None:
    ratio, gpus = wanted
    count = warm_needed(offered, fleet, dead_s, ratio)
    if count is None:
        return None
    attained = reactive(offered, fleet, dead_s, count).ratio
    return Warm(count, attained, count * gpus * offered.seconds / 3600)
