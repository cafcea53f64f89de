"""A fleet of simulated replicas in virtual time, read every tick by the real law."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from scaler.core.decision import Decision, Pending
from scaler.core.model import Observation, ReplicaSet
from scaler.core.step import State, WorkloadSpec, step
from scaler.sim import PRESETS, Preset, Replica, Request


@dataclass(frozen=True, slots=True)
class Chat:
    """Gamma-distributed lengths (shape 2) around their means, at least one token."""

    prompt_tokens: int = 1155
    output_tokens: int = 211

    def draw(self, chance: random.Random) -> tuple[int, int]:
        prompt, output = (chance.gammavariate(2.0, mean / 2.0) for mean in (self.prompt_tokens, self.output_tokens))
        return max(1, round(prompt)), max(1, round(output))


@dataclass
class VirtualFleet:
    """``replicas`` replicas of one preset; requests go to the one with the fewest ongoing."""

    preset: Preset = PRESETS["llama-3.1-70b-4xh100"]
    replicas: int = 1
    seed: int = 1
    mix: Chat = field(default_factory=Chat)
    now: float = 0.0
    engines: list[Replica] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.engines = [Replica(self.preset.coefficients, self.preset.limits) for _ in range(self.replicas)]

    def offer(self, rate_per_s: Callable[[float], float], until: float) -> None:
        """Poisson arrivals at a rate that may change over time, up to ``until``."""
        at = self.now
        while True:
            at += self.chance.expovariate(max(1e-9, rate_per_s(at)))
            if at >= until:
                break
            self._send(at)
        for engine in self.engines:
            engine.advance(until)
        self.now = until

    def observe(self) -> Observation:
        names = tuple(f"replica-{index}" for index in range(len(self.engines)))
        readings = tuple(engine.reading(name, self.now) for name, engine in zip(names, self.engines, strict=True))
        return Observation(self.now, ReplicaSet(names, (), len(names), self.now), readings)

    def _send(self, at: float) -> None:
        prompt, output = self.mix.draw(self.chance)
        for engine in self.engines:
            engine.advance(at)
        engine = min(self.engines, key=lambda one: one.running + one.waiting)
        engine.submit(Request(self.sent, at, prompt, output), at)
        self.sent += 1


def decisions(
    fleet: VirtualFleet, spec: WorkloadSpec, rate_per_s: Callable[[float], float], seconds: float
) -> Iterator[Decision | Pending]:
    """What the law says at every tick while the fleet serves that traffic."""
    state, end = State(), fleet.now + seconds
    while fleet.now < end:
        fleet.offer(rate_per_s, fleet.now + spec.tick_s)
        state, outcome = step(spec, state, fleet.observe())
        yield outcome
