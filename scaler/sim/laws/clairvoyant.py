"""What somebody would do who knows all that will come."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from scaler.core.target import whole
from scaler.sim.actuators import Direct
from scaler.sim.stage import Follows, Stage
from scaler.sim.starts import quantile_s


@dataclass(frozen=True, slots=True)
class Clairvoyant:
    """As many replicas as the safe rate demands of the requests around each instant, begun in time, and kept where a gap is too short.

    The requests of ``window_s`` around an instant are a rate. ``rate_per_s`` is what one replica bears, None: the safe rate of the
    workload. ``lead_s`` is how long before a replica is asked for, None: the 95th percentile of the starts. A replica that would be
    needed again within that time stays: to begin it anew costs as much. No law can know this; it is what others are measured against.
    """

    window_s: float = 30.0
    rate_per_s: float | None = None
    lead_s: float | None = None
    step_s: float = 5.0

    @property
    def follows(self) -> Follows:
        """On the beat of its plan."""
        return Direct(self.step_s, phase_s=self.step_s)

    def start(self, stage: Stage) -> Plan:
        """Plan all, and let stand at first what is needed then."""
        spec, platform = stage.setting.spec, stage.setting.platform
        rate_per_s = self.rate_per_s or spec.profile.safe_rate_per_s or math.nan
        lead_s = quantile_s(platform.starts, 0.95) if self.lead_s is None else self.lead_s
        needed = self.needed([arrival.at for arrival in stage.arrivals], rate_per_s)
        plan = Plan(self.step_s, ahead(needed, math.ceil((lead_s if math.isfinite(lead_s) else 0.0) / self.step_s)))
        stage.fleet.stand(max(spec.scaling.min_replicas, min(spec.scaling.max_replicas, whole(plan.value(0.0)))))
        return plan

    def needed(self, arrived_at: list[float], rate_per_s: float) -> list[int]:
        """The replicas that each step needs."""
        steps = 1 + int((arrived_at[-1] if arrived_at else 0.0) / self.step_s)
        half_s = self.window_s / 2
        return [
            whole(_count(arrived_at, at - half_s, at + half_s) / min(self.window_s, at + half_s) / rate_per_s)
            for at in (step * self.step_s for step in range(steps))
        ]


class Plan:
    """The replicas asked for in each step of so many seconds; after the last as in it."""

    def __init__(self, step_s: float, replicas: list[int]) -> None:
        """It never changes."""
        self._step_s = step_s
        self._replicas = replicas

    def value(self, now: float) -> float:
        """As planned."""
        return float(self._replicas[min(len(self._replicas) - 1, int(now / self._step_s))])

    def active(self, now: float) -> bool:
        """Whether any is planned."""
        return self.value(now) > 0

    def nudge(self, now: float) -> None:
        """It knew."""


def ahead(needed: list[int], steps: int) -> list[int]:
    """The most that is needed from now on for so many steps: the earliest that can still be begun, and no gap that is shorter."""
    return [max(needed[index : index + steps + 1]) for index in range(len(needed))]


def _count(ascending: list[float], after: float, until: float) -> int:
    return bisect_right(ascending, until) - bisect_left(ascending, after)
