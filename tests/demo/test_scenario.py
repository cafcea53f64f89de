"""The demo's traffic and trigger."""

from dataclasses import replace

import pytest

from scaler.core.model import GateMode
from scaler.demo.scenario import COMPRESSIONS, CONFIGURATION, KEY, LIMITS, SAFE_CONCURRENCY, TICK_S, Scenario, arrivals
from scaler.settings import parse_configuration
from scaler.sim.clients import SDKS
from scaler.workload import parse_workload


def test_a_seed_decides_every_arrival() -> None:
    assert arrivals(Scenario(seed=3)) == arrivals(Scenario(seed=3))
    assert arrivals(Scenario(seed=3)) != arrivals(Scenario(seed=4))


def test_clients_who_come_back_send_the_same_and_use_every_library() -> None:
    once, again = arrivals(Scenario(seed=3)), arrivals(Scenario(seed=3, retries=True))
    assert tuple(replace(arrival, sdk=None) for arrival in again) == once
    assert {arrival.sdk for arrival in again} == set(SDKS)


@pytest.mark.parametrize("seconds", [45.0, 90.0, 600.0])
def test_phases_follow_each_other_and_fill_the_time(seconds) -> None:
    phases = Scenario(seconds=seconds).phases
    assert [phase.start_s for phase in phases] == [0.0, *(phase.end_s for phase in phases[:-1])]
    assert phases[-1].end_s == seconds


def test_arrivals_come_in_order_and_as_often_as_their_phase_says() -> None:
    scenario = Scenario(seconds=3600.0)
    times = [arrival.at_s for arrival in arrivals(scenario)]
    assert times == sorted(times)
    for phase in scenario.phases:
        length_s = phase.end_s - phase.start_s
        expected = length_s * (phase.from_per_s + phase.to_per_s) / 2
        found = sum(phase.start_s <= at < phase.end_s for at in times)
        assert found == pytest.approx(expected, abs=4 * expected**0.5)


def test_no_phase_brings_more_than_two_cores_can_emulate() -> None:
    assert max(max(phase.from_per_s, phase.to_per_s) for phase in Scenario().phases) <= 12.0


@pytest.mark.parametrize("gate", list(GateMode))
def test_the_trigger_is_one_that_the_scaler_takes(gate) -> None:
    configuration = parse_configuration(CONFIGURATION, TICK_S)
    spec = parse_workload(KEY, replace(Scenario(), gate=gate).metadata, configuration.catalog)
    assert spec.gate is gate
    assert spec.warnings == ()
    assert spec.profile.safe_concurrency == SAFE_CONCURRENCY <= LIMITS.max_num_seqs


def test_every_compression_says_how_much() -> None:
    assert all(compression.factor > 1 for compression in COMPRESSIONS)
