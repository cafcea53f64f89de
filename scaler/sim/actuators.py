"""How what a law asks for becomes replicas: at once, or through KEDA and the HorizontalPodAutoscaler (HPA)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from scaler.core.hpa import (
    SHIPPED_BEHAVIOR,
    SHIPPED_TOLERANCE,
    Behavior,
    Hpa,
    HpaState,
    KedaGeneration,
    ScaleStatus,
    Tolerance,
    quantize,
    sync,
)
from scaler.core.target import whole
from scaler.sim.stage import Asked, Asking, Stage

KEDA_POLL_S, KEDA_COOLDOWN_S, HPA_SYNC_S = 30.0, 300.0, 15.0
"""KEDA's pollingInterval and cooldownPeriod and Kubernetes' --horizontal-pod-autoscaler-sync-period where nobody sets them."""


@dataclass(frozen=True, slots=True)
class Direct:
    """The controller owns the fleet: every ``every_s`` seconds there are to be as many replicas as it asks for, within bounds.

    ``phase_s`` is when it does so first; None leaves that to the dice.
    """

    every_s: float = HPA_SYNC_S
    phase_s: float | None = None

    def start(self, stage: Stage, asking: Asking) -> None:
        """Follow what is asked."""
        first = stage.dice("actuator").uniform(0.0, self.every_s) if self.phase_s is None else self.phase_s
        stage.agenda.every(self.every_s, first, partial(self._follow, stage, asking))

    def _follow(self, stage: Stage, asking: Asking, now: float) -> None:
        value, scaling = asking.value(now), stage.setting.spec.scaling
        if value is not None:
            stage.fleet.resize(max(scaling.min_replicas, min(scaling.max_replicas, whole(value))), now)
        stage.asked.append(Asked(now, value, stage.fleet.existing))


class MetricType(StrEnum):
    """What the HPA does with a value and its target.

    AverageValue: the replicas are the value over the target. Value: the ready replicas are multiplied by the value over the target.
    """

    AVERAGE_VALUE = "AverageValue"
    VALUE = "Value"


@dataclass(frozen=True, slots=True)
class Keda:
    """A ScaledObject with one trigger, and the HPA that KEDA makes of it. Bounds are those of the workload; a minimum of 0 is KEDA's doing.

    The defaults are those that our manifests set for our own scaler. Every ``sync_s`` the HPA asks and applies ``core.hpa``; at zero
    replicas only KEDA looks, every ``poll_s``, unless the trigger ``pushes``. Both have phases by the dice, the HPA's its own.
    """

    target: float = 1.0
    metric: MetricType = MetricType.AVERAGE_VALUE
    behavior: Behavior | None = SHIPPED_BEHAVIOR
    tolerance: Tolerance = SHIPPED_TOLERANCE
    sync_s: float = HPA_SYNC_S
    poll_s: float = KEDA_POLL_S
    cooldown_s: float = KEDA_COOLDOWN_S
    pushes: bool = False
    keda: KedaGeneration = KedaGeneration.NEW

    def start(self, stage: Stage, asking: Asking) -> None:
        """Poll and sync."""
        dice, controller = stage.dice("actuator"), _Controller(self, stage, asking)
        stage.agenda.every(self.sync_s, dice.uniform(0.0, self.sync_s), controller.sync)
        if stage.setting.spec.scaling.min_replicas == 0:
            stage.agenda.every(self.poll_s, dice.uniform(0.0, self.poll_s), controller.poll)
            if self.pushes:
                stage.agenda.every(PUSH_S, 0.0, controller.push)


PUSH_S = 1.0
"""How soon a push reaches KEDA: our own loop looks that often when somebody waits at zero replicas."""


class _Controller:
    """KEDA's and the HPA's memory."""

    def __init__(self, keda: Keda, stage: Stage, asking: Asking) -> None:
        scaling = stage.setting.spec.scaling
        by_value = keda.metric is MetricType.VALUE
        self._keda = keda
        self._hpa = Hpa(
            min_replicas=max(1, scaling.min_replicas),
            max_replicas=max(1, scaling.max_replicas),
            behavior=keda.behavior,
            tolerance=replace(keda.tolerance, up=0.0, down=0.0) if by_value else keda.tolerance,
            target=keda.target,
            sync_s=keda.sync_s,
        )
        self._stage = stage
        self._asking = asking
        self._state = HpaState()
        self._active_at = -math.inf

    def sync(self, now: float) -> None:
        """One pass of the HPA's controller, which does nothing at zero replicas."""
        fleet = self._stage.fleet
        status = ScaleStatus(fleet.existing, fleet.existing, fleet.ready(now))
        if status.spec == 0:
            return
        value = self._asking.value(now)
        arrived = None if value is None else self._arrives(quantize(value, self._keda.keda), status)
        self._state, result = sync(self._hpa, self._state, arrived, status, now)
        if result.desired != status.spec:
            fleet.resize(result.desired, now)
        self._stage.asked.append(Asked(now, value, fleet.existing))

    def poll(self, now: float) -> None:
        """One turn of KEDA's scale loop, which alone goes to zero, and in one step."""
        if self._asking.active(now):
            self._activate(now)
        elif self._stage.fleet.existing and now - self._active_at >= self._keda.cooldown_s:
            self._stage.fleet.resize(0, now)
            self._stage.asked.append(Asked(now, 0.0, 0))

    def push(self, now: float) -> None:
        """Only ``true`` is ever heard."""
        if self._asking.active(now):
            self._activate(now)

    def _activate(self, now: float) -> None:
        self._active_at = now
        if not self._stage.fleet.existing:
            self._stage.fleet.resize(1, now)
            self._stage.asked.append(Asked(now, self._asking.value(now), 1))

    def _arrives(self, value: float, status: ScaleStatus) -> float:
        """The value as AverageValue that has the effect of one of type Value: no ready replica, no replicas."""
        if self._keda.metric is MetricType.AVERAGE_VALUE:
            return value
        ratio = value / self._keda.target
        count = status.spec if self._keda.tolerance.holds(ratio) else math.ceil(ratio * status.ready)
        return count * self._keda.target
