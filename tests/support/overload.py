"""The overloads that the evidence of backpressure is measured in: two replicas of a 70B model, and clients as they are installed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from scaler.core.capacity import Profile
from scaler.core.model import GateMode, Objective, RequestClass, WorkloadKey
from scaler.core.pressure import PressureSpec, RedRule
from scaler.core.ready_latency import ReadyLatency
from scaler.core.stabilize import StabilizeSpec
from scaler.core.step import WorkloadSpec
from scaler.core.target import ScalingSpec
from scaler.sim import PRESETS
from scaler.sim.clients import SDKS
from scaler.sim.cluster import Platform
from scaler.sim.gateways import Dice, Gateway, InPath, Open, RedBit
from scaler.sim.play import Play, Run
from scaler.sim.score import Window
from scaler.sim.stage import Setting, Source
from scaler.sim.starts import Fixed
from scaler.sim.traffic import Lengths, Rates, Stream, arrivals, surge

PRESET, REPLICAS, USUAL = PRESETS["llama-3.1-70b-4xh100"], 2, 0.7
CHAT = RequestClass("chat", ttft_s=2.0, tpot_s=0.1, floor_ratio=0.02)
AGENT = RequestClass("agent", ttft_s=5.0, order=1, floor_ratio=0.05)
BATCH = RequestClass("batch", objective=Objective.COMPLETION, deadline_s=600.0, order=2)
SPEC = WorkloadSpec(
    WorkloadKey("prod", "llama"),
    # a closed-loop load test of that replica with 100 requests in flight: TTFT P95 0.34 s, TPOT P95 60 ms
    Profile(safe_concurrency=100.0, safe_rate_per_s=8.9, unloaded_ttft_s=0.1),
    (CHAT,),
    scaling=ScalingSpec(max_replicas=REPLICAS),
    gate=GateMode.ENFORCE,
    tick_s=1.0,  # a reaction of 2 s
)


@dataclass(frozen=True)
class Scene:
    """Where an overload takes place; ``shares`` are those of the classes in the load, by name."""

    setting: Setting
    lengths: Lengths = Lengths()
    shares: tuple[tuple[str, float], ...] = ((CHAT.name, 1.0),)

    @property
    def spec(self) -> WorkloadSpec:
        return self.setting.spec

    @property
    def capacity_per_s(self) -> float:
        """What the replicas that are there can safely do."""
        return self.setting.platform.replicas * (self.spec.profile.safe_rate_per_s or math.nan)

    def with_setting(self, **changes) -> Scene:
        return replace(self, setting=replace(self.setting, **changes))

    def play(self, gateway: Gateway, rates: Rates, until: float) -> Run:
        """That load, in multiples of the capacity."""
        streams = [
            Stream(name, tuple((at, times * share * self.capacity_per_s) for at, times in rates), self.lengths, SDKS)
            for name, share in self.shares
        ]
        return Play(self.setting, gateway).until(until, arrivals(streams, until, self.setting.seed))


AT_MOST = Scene(Setting(SPEC, Platform(PRESET, REPLICAS, REPLICAS)))
"""The fleet cannot grow. The truth is over a minute then, so nobody is told to come back."""
BY_PROMETHEUS = AT_MOST.with_setting(spec=replace(SPEC, tick_s=15.0), source=Source(scrape_s=15.0))
"""The same, read every 15 s."""
THREE_CLASSES = replace(
    AT_MOST.with_setting(spec=replace(SPEC, classes=(CHAT, AGENT, BATCH))),
    shares=((CHAT.name, 0.5), (AGENT.name, 0.3), (BATCH.name, 0.2)),
)
TPOT_BOUND = replace(
    AT_MOST.with_setting(
        # the same test with short prompts and long answers, 180 in flight: TPOT P95 23.9 ms
        spec=replace(SPEC, profile=Profile(180.0, 18.4, 0.05), classes=(replace(CHAT, tpot_s=0.025),))
    ),
    lengths=Lengths(prompt_tokens=50, output_tokens=400),
)
"""More in flight than the load test had would break TPOT, and nothing waits before it does."""
PROMISED = Scene(
    Setting(
        replace(SPEC, scaling=ScalingSpec(max_replicas=40), latency=ReadyLatency(60.0, origin="configuration")),
        Platform(PRESET, REPLICAS, 40, Fixed(math.inf)),
        resize_s=15.0,
    )
)
"""More replicas are begun and never get ready, as when there are no GPUs left: clients are told when to come back, and do."""
GROWING = Scene(
    Setting(
        replace(
            SPEC,
            scaling=ScalingSpec(max_replicas=20),
            stabilize=StabilizeSpec(downscale_delay_s=60.0),
            latency=ReadyLatency(60.0, origin="configuration"),
        ),
        Platform(PRESET, REPLICAS, 20),
        resize_s=15.0,
    )
)
"""Replicas are ready a minute after they were asked for."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to act on pressure: what the gateway does, and which rule says RED."""

    gateway: Callable[[int], Gateway]
    rule: RedRule = RedRule.PROJECTED


WAYS: Mapping[str, Way] = {
    "none": Way(lambda _: Open()),
    "on/off": Way(RedBit),
    "literal": Way(RedBit, RedRule.BUDGET),
    "polled": Way(Dice),
    "counted": Way(lambda seed: Dice(seed, counts=True)),
    "in path": Way(InPath),
}
RUSH = Window(30.0, 210.0)
AFTERWARDS_S = 100.0


def rushed(scene: Scene, way: Way, times: float, rush: Window = RUSH, afterwards_s: float = AFTERWARDS_S) -> Run:
    """A load of so many times the capacity for a while, with the usual one before and after."""
    spec = replace(scene.spec, pressure=PressureSpec(red_rule=way.rule))
    rates = surge(USUAL, times, rush.begins_at, rush.ends_at)
    return scene.with_setting(spec=spec).play(way.gateway(scene.setting.seed), rates, rush.ends_at + afterwards_s)
