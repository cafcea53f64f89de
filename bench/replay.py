"""What it costs to replay a load under each law. The aim: an hour of chat at 44 requests a second in 5 CPU-seconds, a day at 2 in 10."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from scaler.cli.over_cores import RARELY
from scaler.core.capacity import Profile
from scaler.core.model import RequestClass, WorkloadKey
from scaler.core.step import WorkloadSpec
from scaler.core.target import ScalingSpec
from scaler.sim import PRESETS
from scaler.sim.cluster import Platform
from scaler.sim.gateways import Open
from scaler.sim.laws import LAWS, tuned
from scaler.sim.play import Play
from scaler.sim.stage import Law, Setting
from scaler.sim.starts import Normal
from scaler.sim.traffic import Arrival, Stream, arrivals

PRESET, TTFT_S = PRESETS["llama-3.1-70b-4xh100"], 2.0
SPEC = WorkloadSpec(
    WorkloadKey("prod", "llama"),
    Profile(safe_concurrency=100.0, safe_rate_per_s=8.9, unloaded_ttft_s=0.1),
    (RequestClass("chat", ttft_s=TTFT_S, tpot_s=0.1),),
    scaling=ScalingSpec(max_replicas=32),
)
SETTING = Setting(SPEC, Platform(PRESET, 4, 32, Normal(180.0, 30.0)))
HOUR = (((0.0, 38.0), (900.0, 58.0), (1800.0, 34.0), (2700.0, 46.0)), 3500.0)
"""The mean and the spread of the Azure 2023 chat trace, eight times."""
DAY = (((0.0, 0.8), (28_800.0, 3.2), (72_000.0, 0.8)), 86_400.0)


def run() -> list[str]:
    """A row a law: CPU-seconds, then what became of the load, so that a faster law that does something else is seen."""
    static, ours = tuned(LAWS["static"], {"replicas": 6}), LAWS["ours"]
    hour = tuple(arrivals([Stream("chat", HOUR[0])], HOUR[1], 1))
    day = tuple(arrivals([Stream("chat", DAY[0])], DAY[1], 1))
    laws = {name: tuned(law, {"target": 100.0}) if name == "kserve-running" else law for name, law in LAWS.items()}
    slow = replace(SETTING, spec=replace(SPEC, tick_s=15.0), platform=replace(SETTING.platform, replicas=1))
    return [
        f"an hour of chat, {len(hour):,} requests",
        *_rows(SETTING, {**laws, "static": static}.items(), hour, HOUR[1]),
        f"a day at 2 requests a second, {len(day):,} requests, our law on a beat of 2 s",
        *_rows(replace(slow, spec=SPEC), [("ours", ours)], day, DAY[1]),
        "on a beat of 15 s, as a Prometheus gives it",
        *_rows(slow, [("ours", ours), ("kserve-running", laws["kserve-running"])], day, DAY[1]),
    ]


def _rows(setting: Setting, laws: Iterable[tuple[str, Law]], load: Sequence[Arrival], end: float) -> list[str]:
    return [_row(setting, name, law, load, end) for name, law in laws]


def _row(setting: Setting, name: str, law: Law, load: Sequence[Arrival], end: float) -> str:
    gc.collect()
    gc.freeze()  # as the command does in each of its processes
    gc.set_threshold(*RARELY)
    began = time.process_time()
    seen = Play(setting, Open(), law).until(end, load)
    took_s = time.process_time() - began
    in_time = sum(call.ttft_s is not None and call.ttft_s <= TTFT_S for call in seen.calls) / len(seen.calls)
    gpu_hours = sum(life.seconds(end) for life in seen.replicas) * PRESET.gpus / 3600
    most = max(second.existing for second in seen.seconds)
    return (
        f"{name:26s} {took_s:5.1f} CPU-s {len(load) / took_s:9,.0f} requests per CPU-second"
        f"   TTFT in time {in_time:6.1%} {gpu_hours:7.1f} GPU-hours, at most {most:2d} replicas"
    )
