"""Where the law's decisions are judged: 70B on 4xH100, C 100, 8 requests a second, TTFT 2 s, starts of 180 +- 30 s, 4 replicas at first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from random import Random

import pytest

from scaler.core.capacity import Profile
from scaler.core.memory import recall, remember
from scaler.core.model import Reading, ReplicaSet, RequestClass, WorkloadKey
from scaler.core.step import WorkloadSpec
from scaler.core.target import ScalingSpec
from scaler.sim import PRESETS, Replica
from scaler.sim.bound import DETECTION_S, Fluid, load, reactive
from scaler.sim.cluster import Platform
from scaler.sim.contest import Contest, arrivals
from scaler.sim.laws.ours import Loop, Ours
from scaler.sim.saturation import Bench, saturation
from scaler.sim.score import Window
from scaler.sim.shapes import Surges
from scaler.sim.stage import Setting, Source, Stage
from scaler.sim.starts import Normal, StartTimes, quantile_s
from scaler.sim.traces import Assumed, read
from scaler.sim.traffic import Lengths, Rated, Rates, Stream, Traffic, surge
from scaler.sim.values import Finished, Request
from tests.support.shared_data import shared_data

PRESET, STARTS = PRESETS["llama-3.1-70b-4xh100"], Normal(180.0, 30.0)
CHAT, CODE = RequestClass("chat", ttft_s=2.0, tpot_s=0.1), RequestClass("code", ttft_s=2.0, tpot_s=0.5)
SPEC = WorkloadSpec(
    WorkloadKey("prod", "llama"), Profile(100.0, 8.0, 0.1), (CHAT,), scaling=ScalingSpec(max_replicas=32)
)
CODE_SPEC = replace(SPEC, classes=(CODE,), profile=Profile(25.0, 6.0, 0.15))
CHAT_LENGTHS, CODE_LENGTHS = Lengths(), Lengths(2048, 28)
"""The means of the Azure 2023 traces."""
FIRST, FEW = 4, 4
"""Replicas at first, and as many where there can be no more."""
SETTLED_S = 30.0
HELD = 3000


@dataclass(frozen=True, slots=True)
class Scene:
    """One load and the place that it comes to. ``contest`` makes both for a seed, None where its trace is not here.

    ``before``: the replicas of a reactive law when the load changes, None: the first ones. ``needs``: those that its highest rate needs
    at the law's own target. ``window`` is what is looked at closely, and ``levels`` how often the load changes.
    """

    contest: Callable[[int], Contest | None]
    before: int | None = None
    needs: int | None = None
    window: Window | None = None
    levels: int = 0


def needed(rate_per_s: float, spec: WorkloadSpec = SPEC) -> int:
    """The replicas that the law asks for at a steady rate."""
    return math.ceil(rate_per_s / ((spec.profile.safe_rate_per_s or math.nan) * (1 - spec.headroom_ratio)))


def rated(rates: Rates, until: float, starts: StartTimes = STARTS, most: int = 32, first: int = FIRST) -> Contest:
    """Chat at these rates."""
    spec = replace(SPEC, scaling=ScalingSpec(max_replicas=most))
    traffic = Rated((Stream(CHAT.name, rates, CHAT_LENGTHS),), until)
    return Contest(Setting(spec, Platform(PRESET, first, most, starts)), traffic)


def bursts(seed: int, until: float = 3600.0) -> Contest:
    """Ten times within three minutes, again and again, as the Azure 2023 code trace has it."""
    rates = Surges(mean_per_s=15.0, duration_s=until).rates(seed)
    traffic = Rated((Stream(CODE.name, rates, CODE_LENGTHS),), until)
    return Contest(Setting(CODE_SPEC, Platform(PRESET, FIRST, 32, STARTS)), traffic)


@cache
def conversations() -> Traffic | str:
    """The Azure 2023 chat trace, eight times; why it is not here."""
    try:
        path = shared_data("traces/azure2023_conv.csv.gz")
    except pytest.skip.Exception as absent:
        return str(absent)
    return read(path.name, path.read_bytes(), Assumed(CHAT.name)).traffic.scaled(8.0)


def chat(_: int) -> Contest | None:
    """That trace."""
    traffic = conversations()
    return None if isinstance(traffic, str) else Contest(Setting(SPEC, Platform(PRESET, FIRST, 32, STARTS)), traffic)


class OneStuck:
    """The first start never ends; the others are as usual. Mutable, for one run."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(f"stuck {seed}")
        self._stuck = False

    def __call__(self, _: Random | None = None) -> float:
        if not self._stuck:
            self._stuck = True
            return math.inf
        return STARTS(self._chance)


STEP, PULSE, RUSH = (15.0, 60.0, 600.0, 1800.0), (15.0, 60.0, 600.0, 690.0), Window(120.0, 420.0)
LEVELS = ((0.0, 15.0), (900.0, 30.0), (1800.0, 20.0), (2700.0, 45.0), (3600.0, 10.0))
GROWS = ((0.0, 25.0), (300.0, 40.0))
IDLE = Window(300.0, 3900.0)


def over(times: float) -> Callable[[int], Contest]:
    """So many times the safe rate of a fleet that is at its maximum."""
    rates = surge(0.7 * 8.0 * FEW, times * 8.0 * FEW, RUSH.begins_at, RUSH.ends_at)
    return lambda _: rated(rates, RUSH.ends_at + 180.0, most=FEW)


SCENES: Mapping[str, Scene] = {
    "chat": Scene(chat),
    "step": Scene(lambda _: rated(surge(*STEP), 3000.0), before=needed(15.0), needs=needed(60.0), levels=2),
    "pulse": Scene(lambda _: rated(surge(*PULSE), 1500.0), before=needed(15.0), needs=needed(60.0), levels=2),
    "2x at max": Scene(over(2.0), window=RUSH, levels=2),
    "5x at max": Scene(over(5.0), window=RUSH, levels=2),
    "bursts": Scene(bursts),
    "levels": Scene(lambda _: rated(LEVELS, 4500.0), levels=len(LEVELS) - 1),
    "grows": Scene(lambda _: rated(GROWS, 1800.0), levels=1),
    "grows, one pod stuck": Scene(lambda seed: rated(GROWS, 1800.0, OneStuck(seed)), levels=1),
    "idle": Scene(lambda _: rated(((0.0, 0.3), (IDLE.begins_at, 0.0)), IDLE.ends_at, first=1), window=IDLE),
}
"""By name. Of a step and a pulse the load before them leaves three replicas, whatever there was at first."""


def lengths_of(contest: Contest) -> Lengths:
    """What its requests are like."""
    return CODE_LENGTHS if contest.setting.spec.classes[0] == CODE else CHAT_LENGTHS


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a law that only reacts can attain: ``safe`` with no more in a replica than the load test found safe, and from the replicas that
    the load before leaves; ``ceiling`` with whatever serves most, and never one of the first replicas less.
    """

    safe: float
    ceiling: float


def bounds(scene: Scene, contest: Contest, seed: int) -> Bounds:
    """For the requests of this seed."""
    spec, traffic, first = contest.setting.spec, contest.traffic, contest.setting.platform.replicas
    bench = Bench(PRESET, lengths_of(contest), spec.classes[0])
    bears, safe = saturation(bench), spec.profile.safe_concurrency
    offered = load((one.at for one in arrivals(contest, seed)), traffic.duration_s)
    budget_s, most = spec.budget_s or math.inf, spec.scaling.max_replicas
    dead_s = quantile_s(contest.setting.platform.starts, 0.5) + DETECTION_S
    usual = Fluid(held_per_s(bench, round(safe)), safe, budget_s, scene.before or first, most)
    best = Fluid(bears.ceiling_per_s, bears.ceiling_concurrency, budget_s, first, most)
    return Bounds(*(reactive(offered, fleet, dead_s).ratio for fleet in (usual, best)))


@lru_cache
def held_per_s(bench: Bench, concurrency: int) -> float:
    """What one replica ends a second while so many requests are always under way."""
    chance, engine = Random(f"held {concurrency}"), Replica(bench.preset.coefficients, bench.preset.limits)
    for number in range(concurrency):
        engine.submit(Request(number, 0.0, *bench.mix.draw(chance)), 0.0)
    ended: list[float] = []
    while len(ended) < HELD and (at := engine.next_event_at()) is not None:
        for event in engine.advance(at):
            if isinstance(event, Finished):
                ended.append(event.at)
                engine.submit(Request(concurrency + len(ended), at, *bench.mix.draw(chance)), at)
    return (HELD - concurrency) / (ended[-1] - ended[concurrency - 1])


@dataclass(frozen=True, slots=True)
class Restarted(Ours):
    """Our law in a process that is killed again and again, and is away for ``away_s``; what it remembers is a text."""

    every_s: float = 300.0
    away_s: float = 10.0

    def start(self, stage: Stage) -> RestartedLoop:
        """Look at 0, and then at every beat."""
        return RestartedLoop(stage, self.source or stage.setting.source, self)


class RestartedLoop(Loop):
    """Mutable, one owner."""

    def __init__(self, stage: Stage, source: Source, law: Restarted) -> None:
        """It looks at 0, and then at every beat."""
        super().__init__(stage, source)
        self._law = law
        self._text: str | None = None
        first = stage.dice("killer").uniform(0.0, law.every_s)  # or it would always fall on a change of the load
        stage.agenda.every(law.every_s, first, self._kill)

    def _kill(self, now: float) -> None:
        self._text, self._back_at = remember(self._state, now, now), now + self._law.away_s

    def _decide(self, replicas: ReplicaSet, pages: tuple[Reading, ...], now: float) -> None:
        if self._text is not None:
            if now < self._back_at:
                return
            self._state, self._text = recall(self._text, self._spec, now, now).state, None
        super()._decide(replicas, pages, now)
