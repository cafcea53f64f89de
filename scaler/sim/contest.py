"""Laws beside each other on the same traffic, each in the same place with the same dice."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from scaler.core.model import GateMode
from scaler.core.step import WorkloadSpec
from scaler.sim.course import Course, course
from scaler.sim.gateways import Dice, Gateway, InPath, Open
from scaler.sim.laws import LAWS, tuned
from scaler.sim.laws.ours import Ours
from scaler.sim.play import Play, Run
from scaler.sim.stage import Asked, Law, Setting
from scaler.sim.traces.values import Recorded
from scaler.sim.traffic import Arrival, Traffic
from scaler.sim.worth import Worth, worth

TAIL_S = 120.0
"""For how long a run goes on without new requests, so that those of its end can be served."""
NEAR_RATIO = 0.005
"""A fleet that attains so little less than the largest is as good."""


class Gating(StrEnum):
    """What a gateway does with our law's decisions: nothing, throw dice by the fraction that it polls, or ask for each request."""

    NONE = "none"
    POLLED = "polled"
    IN_PATH = "in-path"


@dataclass(frozen=True, slots=True)
class Contender:
    """A law, and how the gateway listens to it; only ours says anything to a gateway, and keeps ``warm`` replicas more than configured."""

    name: str
    law: Law
    gating: Gating = Gating.NONE
    warm: int = 0


@dataclass(frozen=True, slots=True)
class Contest:
    """What all have in common. The seed of the setting is replaced by that of each run."""

    setting: Setting
    traffic: Traffic
    recorded: tuple[Recorded, ...] = ()

    @property
    def fits(self) -> int:
        """The most tokens that a request may have: longer ones no replica could hold, and they are left out."""
        return self.setting.platform.preset.limits.kv_tokens


@dataclass(frozen=True, slots=True)
class Agreement:
    """Desired as it was recorded against desired as it was simulated, at each sync of the HPA."""

    syncs: int
    equal: int
    within_one: int
    most_apart: int


@dataclass(frozen=True, slots=True)
class Played:
    """One run of one contender. ``course`` is there for the first seed only."""

    name: str
    seed: int
    worth: Worth
    course: Course | None = None
    agreement: Agreement | None = None


def played(contest: Contest, contender: Contender, seed: int, *, drawn: bool = False) -> Played:
    """One run."""
    run = ran(contest, contender, seed)
    setting, ends_at = contest.setting, contest.traffic.duration_s
    return Played(
        contender.name,
        seed,
        worth(run, setting.spec, setting.platform.preset.gpus, ends_at),
        course(run, ends_at) if drawn else None,
        agreement(run.asked, contest.recorded) if isinstance(contender.law, Ours) and contest.recorded else None,
    )


def ran(contest: Contest, contender: Contender, seed: int) -> Run:
    """All that happens."""
    setting = replace(contest.setting, seed=seed, spec=_gated(contest, contender))
    return Play(setting, _gateway(contender.gating, seed), contender.law).until(
        contest.traffic.duration_s + TAIL_S, arrivals(contest, seed)
    )


@lru_cache(maxsize=1)
def arrivals(contest: Contest, seed: int) -> tuple[Arrival, ...]:
    """The requests of a seed, without those that no replica could hold."""
    most = contest.fits
    return tuple(one for one in contest.traffic.arrivals(seed) if one.prompt_tokens + one.output_tokens <= most)


def best_static(contest: Contest, seed: int, attainable: Sequence[float]) -> Contender:
    """The smallest fleet that never changes and attains what the largest does, to half a point. It is known only afterwards.

    ``attainable`` is what fleets of 1, 2, … replicas cannot exceed.
    """
    most = contest.setting.spec.scaling.max_replicas

    def kept(replicas: int) -> float:
        return played(contest, static(replicas), seed).worth.kept_ratio

    enough = kept(most) - NEAR_RATIO
    low, step = sum(ratio < enough for ratio in attainable[: most - 1]), 1
    while low + step < most and kept(low + step) < enough:
        low, step = low + step, 2 * step
    high = min(most, low + step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if kept(middle) >= enough else (middle, high)
    return static(high)


def static(replicas: int) -> Contender:
    """A fleet that stays as it is."""
    return Contender(f"static {replicas}", tuned(LAWS["static"], {"replicas": replicas}))


def agreement(asked: Sequence[Asked], recorded: Sequence[Recorded]) -> Agreement:
    """At each sync within what was recorded: the last that was recorded by then, and what was asked for."""
    times = [one.at for one in recorded]
    pairs = [
        (recorded[bisect_right(times, one.at) - 1].desired, math.ceil(one.value))
        for one in asked
        if one.value is not None and times[0] <= one.at <= times[-1]
    ]
    apart = [abs(was - would) for was, would in pairs]
    return Agreement(len(apart), apart.count(0), sum(one <= 1 for one in apart), max(apart, default=0))


def _gateway(gating: Gating, seed: int) -> Gateway:
    match gating:
        case Gating.NONE:
            return Open()
        case Gating.POLLED:
            return Dice(seed)
        case Gating.IN_PATH:
            return InPath(seed)


def _gated(contest: Contest, contender: Contender) -> WorkloadSpec:
    spec = contest.setting.spec
    if not isinstance(contender.law, Ours):
        return spec
    gate = GateMode.OBSERVE if contender.gating is Gating.NONE else GateMode.ENFORCE
    scaling = replace(spec.scaling, warm_replicas=spec.scaling.warm_replicas + contender.warm)
    return replace(spec, gate=gate, scaling=scaling, classes=tuple(replace(one, gate=None) for one in spec.classes))
