"""A rush of chat on a fleet that can grow, for laws to be tried in: short, and the same each time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

from scaler.core.capacity import Profile
from scaler.core.model import RequestClass, WorkloadKey
from scaler.core.ready_latency import ReadyLatency
from scaler.core.step import WorkloadSpec
from scaler.core.target import ScalingSpec
from scaler.sim import PRESETS
from scaler.sim.cluster import Platform
from scaler.sim.gateways import Open
from scaler.sim.play import Play, Run
from scaler.sim.stage import Law, Setting
from scaler.sim.starts import Fixed
from scaler.sim.traffic import Stream, arrivals, surge

END = 300.0
PRESET = PRESETS["llama-3.1-70b-4xh100"]
SPEC = WorkloadSpec(
    WorkloadKey("prod", "llama"),
    Profile(safe_concurrency=100.0, safe_rate_per_s=8.9, unloaded_ttft_s=0.1),
    (RequestClass("chat", ttft_s=2.0, tpot_s=0.1),),
    scaling=ScalingSpec(min_replicas=1, max_replicas=12),
    latency=ReadyLatency(30.0, origin="configuration"),
)
BUSY = Setting(SPEC, Platform(PRESET, 1, 12, Fixed(30.0)))
CHAT = tuple(arrivals([Stream("chat", surge(5.0, 20.0, 60.0, 240.0))], END, 1))


@dataclass(frozen=True)
class Replayed:
    """What became of it."""

    run: Run

    @cached_property
    def most(self) -> int:
        """Replicas."""
        return max(second.existing for second in self.run.seconds)

    @cached_property
    def in_time_ratio(self) -> float:
        """First tokens within the objective, of all requests."""
        return sum(call.ttft_s is not None and call.ttft_s <= 2.0 for call in self.run.calls) / len(self.run.calls)

    @cached_property
    def refused_ratio(self) -> float:
        """Of all attempts."""
        return sum(not attempt.admitted for attempt in self.run.attempts) / len(self.run.attempts)

    @cached_property
    def replica_s(self) -> float:
        """How long replicas had their GPUs."""
        return sum(life.seconds(END) for life in self.run.replicas)


@cache
def replayed(law: Law, setting: Setting = BUSY) -> Replayed:
    """That rush under a law, and no gate."""
    return Replayed(Play(setting, Open(), law).until(END, CHAT))


def with_bounds(least: int, most: int) -> Setting:
    """The same within other bounds."""
    return replace(BUSY, spec=replace(SPEC, scaling=ScalingSpec(least, most)))
