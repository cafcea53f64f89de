"""Hand-made observations for the law: replicas whose counters a test moves, and a driver that feeds `step` over time."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from scaler.core.capacity import Profile
from scaler.core.model import (
    Floor,
    Histogram,
    Missing,
    Observation,
    Reading,
    ReplicaSet,
    RequestClass,
    Starting,
    WorkloadKey,
)
from scaler.core.step import State, WorkloadSpec, step

KEY = WorkloadKey("prod", "llama")
EDGES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
TICK_S = 2.0
PROFILE = Profile(100.0, 8.0)
CHAT = RequestClass("chat", ttft_s=5.0)


def workload(profile: Profile = PROFILE, classes: tuple[RequestClass, ...] = (CHAT,), **rest) -> WorkloadSpec:
    return WorkloadSpec(KEY, profile, classes, **rest)


def near(value: float, **rest) -> Any:
    """A number within rounding; may stand in a typed value."""
    return pytest.approx(value, **rest)


def tick(spec: WorkloadSpec, state: State, seen: Observation) -> tuple[State, Any]:
    """One step of the law, whose outcome the test knows to be a decision or not."""
    return step(spec, state, seen)


def histogram(*observed: tuple[float, float], edges: tuple[float, ...] = EDGES) -> Histogram:
    """A histogram of (value, how often) pairs."""
    counts, total = [0.0] * len(edges), 0.0
    for value, often in observed:
        total += often
        for index in range(bisect_left(edges, value), len(edges)):
            counts[index] += often
    return Histogram(edges, (*counts, total), sum(value * often for value, often in observed))


@dataclass
class Engine:
    """A replica as its page shows it: gauges, and counters that only `emit` moves. `silent` gives no reading.

    `off` is how much more its count of first tokens shows than there were; with `lacks` the page has no such histogram.
    """

    name: str = "a"
    running: float = 0.0
    waiting: float = 0.0
    kv: float = 0.0
    awake: bool = True
    silent: bool = False
    rejections: float = 0.0
    preemptions: float = 0.0
    generation: float | None = None
    off: float = 0.0
    lacks: bool = False
    edges: tuple[float, ...] = EDGES
    ttft: dict[float, float] = field(default_factory=dict)
    tpot: dict[float, float] = field(default_factory=dict)

    def emit(self, first_tokens: float, ttft_s: float = 0.05, tpot_s: float = 0.05) -> None:
        self.ttft[ttft_s] = self.ttft.get(ttft_s, 0.0) + first_tokens
        self.tpot[tpot_s] = self.tpot.get(tpot_s, 0.0) + first_tokens

    def restart(self) -> None:
        self.running = self.waiting = self.rejections = self.preemptions = 0.0
        self.ttft, self.tpot = {}, {}

    def read(self, at: float) -> Reading:
        return Reading(
            self.name,
            at,
            running=self.running,
            waiting=self.waiting,
            kv_usage_ratio=self.kv,
            awake=self.awake,
            rejections_total=self.rejections,
            preemptions_total=self.preemptions,
            generation_tokens_total=self.generation,
            ttft=None if self.lacks else histogram(*self.ttft.items(), (0.05, self.off), edges=self.edges),
            tpot=histogram(*self.tpot.items()),
            absent=("ttft",) if self.lacks else (),
        )


def observe(
    at: float,
    engines: Iterable[Engine] = (),
    *,
    starting: tuple[Starting, ...] = (),
    current: int | None = None,
    max_replicas: int | None = None,
    refused_total: float | None = None,
    floor: Floor | None = None,
) -> Observation:
    """What one tick sees of these engines; `current` is as many as there are, unless said otherwise."""
    engines = tuple(engines)
    count = len(engines) + len(starting) if current is None else current
    return Observation(
        at,
        ReplicaSet(tuple(engine.name for engine in engines), starting, count, at, max_replicas, floor=floor),
        tuple(engine.read(at) for engine in engines if not engine.silent),
        tuple(Missing(engine.name, "timeout") for engine in engines if engine.silent),
        refused_total,
    )


@dataclass
class Law:
    """A workload under test: its state, its spec, its clock and all that was decided."""

    spec: WorkloadSpec
    state: State = field(default_factory=State)
    now: float = 0.0
    decisions: list[Any] = field(default_factory=list)

    def see(self, *engines: Engine, **rest) -> Any:
        """One tick."""
        self.state, outcome = step(self.spec, self.state, observe(self.now, engines, **rest))
        self.decisions.append(outcome)
        self.now += self.spec.tick_s
        return outcome

    def steady(self, for_s: float, *engines: Engine, rate_per_s: float = 0.0, **rest) -> Any:
        """Ticks for a while; each engine gives `rate_per_s` first tokens."""
        until, outcome = self.now + for_s, None
        while outcome is None or self.now < until:
            for engine in engines:
                engine.emit(rate_per_s * self.spec.tick_s)
            outcome = self.see(*engines, **rest)
        return outcome

    def edit(self, **changes) -> None:
        self.spec = replace(self.spec, **changes)
