"""A run of the demo, replayed in virtual time: the same arrivals, replicas, start times and trigger, with a gateway's dice of its own."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from random import Random

from scaler.core.model import GateMode
from scaler.demo import scenario as numbers
from scaler.demo.gateway import POLL_S
from scaler.demo.scenario import KEY, Scenario
from scaler.demo.scenario import arrivals as demo_arrivals
from scaler.demo.traffic import PATIENCE_S
from scaler.settings import parse_configuration
from scaler.sim.actuators import Keda
from scaler.sim.clients import Sdk
from scaler.sim.cluster import Platform
from scaler.sim.gateways import Dice, Open
from scaler.sim.laws.ours import Ours
from scaler.sim.play import Play
from scaler.sim.presets import Preset
from scaler.sim.stage import Setting, Source
from scaler.sim.traffic import Arrival
from scaler.workload import parse_workload

TRIED_ONCE = Sdk("tried once", retries=0)
Course = tuple[tuple[float, int], ...]
"""What was desired, by seconds from the beginning of traffic, in order of time."""


@dataclass
class _AsRecorded:
    """The start times of the demo's fleet, which draws one for each replica that it creates, also for those that need none."""

    chance: Random

    @classmethod
    def of(cls, scenario: Scenario) -> _AsRecorded:
        """After the first replicas."""
        starts = cls(Random(scenario.seed))
        for _ in range(numbers.MIN_REPLICAS):
            starts(starts.chance)
        return starts

    def __call__(self, chance: Random) -> float:
        """One start, seconds."""
        return numbers.START_S * self.chance.lognormvariate(0.0, numbers.START_SIGMA)


def replayed(scenario: Scenario) -> Course:
    """What the law desires of the simulated fleet, tick by tick."""
    spec = parse_workload(KEY, scenario.metadata, parse_configuration(numbers.CONFIGURATION, numbers.TICK_S).catalog)
    platform = Platform(
        Preset(numbers.COEFFICIENTS, numbers.LIMITS, 1),
        numbers.MIN_REPLICAS,
        numbers.MAX_REPLICAS,
        _AsRecorded.of(scenario),
    )
    follows = Keda(sync_s=numbers.SYNC_S, poll_s=numbers.POLLING_S, pushes=True)
    gateway = Dice(scenario.seed, POLL_S, counts=True) if scenario.gate is GateMode.ENFORCE else Open()
    load = [
        Arrival(one.at_s, spec.classes[0].name, one.prompt_tokens, one.output_tokens, TRIED_ONCE)
        for one in demo_arrivals(scenario)
    ]
    setting = Setting(spec, platform, Source(look_s=0.01), seed=scenario.seed)
    run = Play(setting, gateway, Ours(follows=follows)).until(scenario.seconds + PATIENCE_S, load)
    return tuple((one.decided_at, one.desired) for one in run.decisions)


def at_syncs(recorded: Course, simulated: Course) -> list[tuple[float, int, int]]:
    """At every sync of the HPA while the run was watched: when, and what was desired in the one and in the other."""
    count = int(recorded[-1][0] / numbers.SYNC_S)
    syncs = [numbers.SYNC_S * number for number in range(1, count + 1)]
    return [(sync, _then(recorded, sync), _then(simulated, sync)) for sync in syncs]


def _then(course: Course, at: float) -> int:
    return course[bisect_right(course, (at, float("inf"))) - 1][1]
