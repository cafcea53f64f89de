"""What stabilization is told of a tick: the law's side of it, and what the platform and its people say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scaler.core.floor import count_of, standing
from scaler.core.model import Pressure
from scaler.core.stabilize import Moment
from scaler.core.target import whole

if TYPE_CHECKING:
    from scaler.core.decision import Estimate, Recommendation
    from scaler.core.model import ReplicaSet
    from scaler.core.stabilize import StabilizeSpec


def moment_of(spec: StabilizeSpec, believed: Estimate, recommendation: Recommendation, worst: Pressure) -> Moment:
    """The tick as the law sees it."""
    return Moment(
        now=believed.at,
        recommended=recommendation.replicas,
        current=believed.current,
        min_replicas=recommendation.inputs.min_replicas,
        max_replicas=recommendation.inputs.max_replicas,
        start_floor=whole(believed.ongoing / believed.capacity.target),
        busy=believed.ongoing > 0 or believed.offered_per_s > 0 or believed.missing > 0,
        red=worst is Pressure.RED,
        pressed=worst in {Pressure.YELLOW, Pressure.RED},
        blind=False,
        down_s=spec.down_s(believed.replica_ready_s),
        unsure=recommendation.inputs.deadline_s is None and believed.unsure,
    )


def told(moment: Moment, replicas: ReplicaSet | None, *, shadow: bool) -> Moment:
    """With what the platform and its people say. Nobody follows a shadow."""
    held = replicas is not None and (replicas.held or shadow) and not moment.blind
    return replace(moment, held=held, floor=count_of(standing(replicas, moment.now)))
