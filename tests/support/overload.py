"""The overload that the evidence of backpressure is measured in: two replicas of a 70B model, chat, and clients as they are installed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from scaler.core.capacity import Profile
from scaler.core.model import GateMode, RequestClass, WorkloadKey
from scaler.core.pressure import PressureSpec, RedRule
from scaler.core.ready_latency import ReadyLatency
from scaler.core.step import WorkloadSpec
from scaler.core.target import ScalingSpec
from scaler.sim import PRESETS
from scaler.sim.clients import SDKS
from scaler.sim.cluster import Platform
from scaler.sim.gateways import Dice, Gateway, InPath, Open, RedBit
from scaler.sim.loop import Setting
from scaler.sim.play import Play, Run
from scaler.sim.score import Window
from scaler.sim.traffic import Stream, arrivals, surge

# A closed-loop load test of that replica at 100 requests in flight: 8.9 a second, TTFT P95 0.34 s, TPOT P95 60 ms.
PRESET = PRESETS["llama-3.1-70b-4xh100"]
REPLICAS, SAFE_CONCURRENCY, SAFE_RATE_PER_S, ALONE_S = 2, 100.0, 8.9, 0.1
CAPACITY_PER_S = REPLICAS * SAFE_RATE_PER_S
USUAL = 0.7
CHAT = RequestClass("chat", ttft_s=2.0, tpot_s=0.1, floor_ratio=0.02)
SPEC = WorkloadSpec(
    WorkloadKey("prod", "llama"),
    Profile(SAFE_CONCURRENCY, SAFE_RATE_PER_S, ALONE_S),
    (CHAT,),
    scaling=ScalingSpec(max_replicas=REPLICAS),
    gate=GateMode.ENFORCE,
    tick_s=1.0,  # so a reaction of 2 s
)
AT_MOST = Setting(SPEC, Platform(PRESET, REPLICAS, REPLICAS))
"""The fleet cannot grow, so nobody is told to come back."""
PROMISED = Setting(
    replace(SPEC, scaling=ScalingSpec(max_replicas=40), latency=ReadyLatency(60.0, origin="configuration")),
    Platform(PRESET, REPLICAS, 40, lambda: math.inf),
    resize_s=15.0,
)
"""More replicas are begun and never get ready, as when there are no GPUs left: clients are told when to come back, and do."""
RUSH = Window(60.0, 180.0)
AFTERWARDS_S = 100.0


@dataclass(frozen=True, slots=True)
class Way:
    """One way to act on pressure."""

    gateway: Callable[[int], Gateway]
    rule: RedRule = RedRule.PROJECTED


WAYS: Mapping[str, Way] = {
    "none": Way(lambda _: Open()),
    "on/off": Way(RedBit),
    "literal": Way(RedBit, RedRule.BUDGET),
    "polled": Way(Dice),
    "in path": Way(InPath),
}


def rushed(setting: Setting, way: Way, times: float, rush: Window = RUSH) -> Run:
    """A load of so many times the capacity for a while, and the usual one before and after."""
    setting = replace(setting, spec=replace(setting.spec, pressure=PressureSpec(red_rule=way.rule)))
    end = rush.ends_at + AFTERWARDS_S
    rates = surge(USUAL * CAPACITY_PER_S, times * CAPACITY_PER_S, rush.begins_at, rush.ends_at)
    streams = [Stream(CHAT.name, rates, sdks=SDKS)]
    return Play(setting, way.gateway(setting.seed)).until(end, arrivals(streams, end, setting.seed))
