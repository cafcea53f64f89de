"""The gate in the path before simulated replicas: ten times what they can serve, from one moment to the next."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from scaler.core.capacity import Profile
from scaler.core.decision import Decision
from scaler.core.gate import GateState, Request, ask
from scaler.core.gate_plan import GatePlan, gate_plan
from scaler.core.model import GateMode, Observation, RequestClass, WorkloadKey
from scaler.core.step import State, WorkloadSpec, step
from tests.support.virtual_fleet import VirtualFleet

BUDGET_S, SAFE_RATE_PER_S, REPLICAS = 2.5, 8.0, 2
SPEC = WorkloadSpec(
    WorkloadKey("prod", "llama"),
    Profile(100.0, SAFE_RATE_PER_S, 0.1),
    (RequestClass("chat", ttft_s=BUDGET_S),),
    gate=GateMode.ENFORCE,
)
SAFE_PER_S = SAFE_RATE_PER_S * REPLICAS


@dataclass
class GatedFleet(VirtualFleet):
    """A fleet whose every request asks the gate first; without a decision all are let in."""

    plan: GatePlan | None = None
    gate: GateState = GateState()
    law: State = field(default_factory=State)
    coins: random.Random = field(default_factory=lambda: random.Random(5))
    refused: int = 0

    def _send(self, at: float) -> None:
        if self.plan is not None:
            self.gate, verdict = ask(self.gate, self.plan, Request(), at, self.coins.random())
            if not verdict.admit:
                self.refused += 1
                return
        super()._send(at)

    def observe(self) -> Observation:
        return replace(super().observe(), refused_total=float(self.refused))

    def served(self) -> tuple[float, float]:
        """First tokens so far, and those within the budget."""
        pages = [engine.reading("", self.now).ttft for engine in self.engines]
        within = sum(page.counts[page.edges.index(BUDGET_S)] for page in pages if page is not None)
        return sum(page.count for page in pages if page is not None), within


def run(fleet: GatedFleet, load: float, seconds: float, tick_s: float) -> None:
    """Traffic of so many times the safe rate, with a decision every tick."""
    spec, end = replace(SPEC, tick_s=tick_s), fleet.now + seconds
    while fleet.now < end:
        fleet.offer(lambda _: load * SAFE_PER_S, fleet.now + tick_s)
        fleet.law, outcome = step(spec, fleet.law, fleet.observe())
        if isinstance(outcome, Decision):
            fleet.plan = gate_plan(outcome, spec)


@pytest.mark.parametrize("tick_s", [pytest.param(2.0, id="scraped"), pytest.param(15.0, id="from a Prometheus")])
@pytest.mark.parametrize("load", [2.0, 10.0])
def test_a_surge_costs_neither_capacity_nor_latency(load, tick_s):
    fleet = GatedFleet(replicas=REPLICAS)
    run(fleet, 0.6, 60.0, tick_s)
    before = fleet.served()
    run(fleet, load, 120.0, tick_s)
    started, within = (now - then for now, then in zip(fleet.served(), before, strict=True))
    assert within >= 0.95 * SAFE_PER_S * 120.0
    assert within >= 0.98 * started


@pytest.mark.parametrize("tick_s", [2.0, 15.0])
def test_half_an_hour_at_four_fifths_of_the_safe_rate_is_admitted_whole(tick_s):
    fleet = GatedFleet(replicas=REPLICAS)
    run(fleet, 0.8, 1800.0, tick_s)
    assert fleet.refused == 0
