"""The law against simulated replicas whose engine batches far beyond the safe concurrency instead of queueing."""

from __future__ import annotations

import pytest

from scaler.core.capacity import Profile
from scaler.core.decision import Decision
from scaler.core.model import Pressure, RequestClass, WorkloadKey
from scaler.core.step import WorkloadSpec
from tests.support.virtual_fleet import Chat, VirtualFleet, decisions

# Short prompts and long answers on a 70B preset (engine cap 1024): what limits it is TPOT, 25 ms at about 100 sequences.
SAFE_CONCURRENCY, SAFE_RATE_PER_S = 100.0, 12.3
MIX = Chat(prompt_tokens=50, output_tokens=400)
CHAT = RequestClass("chat", ttft_s=2.0, tpot_s=0.025)
SPEC = WorkloadSpec(WorkloadKey("prod", "llama"), Profile(SAFE_CONCURRENCY, SAFE_RATE_PER_S, 0.05), (CHAT,))
SEEDS = [pytest.param(seed, id=f"seed {seed}") for seed in (1, 2, 3)]


def decided(fleet: VirtualFleet, rate_per_s, seconds: float) -> list[Decision]:
    return [outcome for outcome in decisions(fleet, SPEC, rate_per_s, seconds) if isinstance(outcome, Decision)]


@pytest.mark.parametrize("seed", SEEDS)
def test_green_is_left_within_15_s_of_running_passing_the_safe_concurrency_though_hardly_anything_waits(seed):
    fleet = VirtualFleet(seed=seed, mix=MIX)
    run = decided(fleet, lambda at: 1.5 * SAFE_RATE_PER_S if at > 60 else 0.5 * SAFE_RATE_PER_S, 180)
    passed = next(d.decided_at for d in run if d.estimate.running > SAFE_CONCURRENCY)
    left = next(d for d in run if d.state is not Pressure.GREEN)
    waited = max(d.estimate.waiting for d in run if d.decided_at <= left.decided_at)
    assert (left.decided_at - passed <= 15, waited <= 2) == (
        True,
        True,
    )  # one engine step admits what came in during the one before


@pytest.mark.parametrize("seed", SEEDS)
def test_an_hour_at_four_fifths_of_the_safe_rate_is_green_throughout(seed):
    run = decided(VirtualFleet(seed=seed, mix=MIX), lambda _: 0.8 * SAFE_RATE_PER_S, 3600)
    assert {d.state for d in run} == {Pressure.GREEN}


def test_overload_raises_desired_while_the_fleet_is_red_and_never_lowers_it():
    run = decided(VirtualFleet(replicas=2, mix=MIX), lambda at: 40.0 if at > 60 else 6.0, 240)
    red = [d.desired for d in run if d.state is Pressure.RED]
    assert red == sorted(red)
    assert red[-1] >= 40.0 / SAFE_RATE_PER_S


def test_the_same_traffic_twice_gives_the_same_decisions():
    first, second = (decided(VirtualFleet(seed=7, mix=MIX), lambda _: 9.0, 120) for _ in range(2))
    assert first == second
