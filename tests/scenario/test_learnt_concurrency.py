"""`safeConcurrency: auto` on simulated engines with known limits, by traffic that rises over them and falls again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from scaler.core.capacity import AUTO
from scaler.core.decision import Decision
from scaler.core.model import RequestClass
from scaler.core.shown import FIRST_CONCURRENCY, STEP_RATIO
from scaler.core.step import WorkloadSpec
from scaler.sim import PRESETS, EngineLimits, Preset
from scaler.sim.values import Coefficients
from tests.support.law import workload
from tests.support.virtual_fleet import Chat, VirtualFleet, decisions

SEEDS, LASTS_S = 3, 3600.0
SLOW = PRESETS["llama-3.1-8b-l40s"]


@dataclass(frozen=True, slots=True)
class Case:
    """An engine, its objectives, the rate at the top of the traffic, and up to which concurrency a closed-loop test keeps them."""

    preset: Preset
    objectives: RequestClass
    top_per_s: float
    knee: float

    @property
    def spec(self) -> WorkloadSpec:
        return workload(AUTO, (self.objectives,), tick_s=5.0)


def engine(sequence_s: float, slots: int) -> Preset:
    return replace(
        SLOW, coefficients=Coefficients(0.04, sequence_s, 1e-5, 1e-8), limits=EngineLimits(slots, 8192, 400_000)
    )


CASES = {
    "tokens come slower": Case(engine(0.0015, 256), RequestClass("chat", 2.0, 0.1), 3.6, 38.0),
    "places run out": Case(engine(0.0005, 24), RequestClass("chat", 1.0, 0.1), 3.2, 24.0),
}


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", CASES)
def test_what_is_learnt_never_exceeds_the_knee_by_more_than_a_step_and_is_more_than_was_begun_with(name, seed):
    case = CASES[name]
    fleet = VirtualFleet(preset=case.preset, seed=seed, mix=Chat(400, 200))
    learnt = [
        decision.estimate.capacity.safe_concurrency
        for decision in decisions(
            fleet, case.spec, lambda at: 0.15 + 2 * case.top_per_s * min(at, LASTS_S - at) / LASTS_S, LASTS_S
        )
        if isinstance(decision, Decision)
    ]
    assert FIRST_CONCURRENCY < max(learnt) <= case.knee * STEP_RATIO
