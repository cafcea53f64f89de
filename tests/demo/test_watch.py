"""What is noted of the running demo."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest

from scaler.control.board import Board
from scaler.core.model import GateMode, Pressure, WorkloadKey
from scaler.demo.cluster import FleetReplicas
from scaler.demo.gateway import Gateway, Told
from scaler.demo.watch import Sights, Watch

KEY = WorkloadKey("demo", "llm")


@dataclass
class Hand:
    """A clock that is set by hand."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as found:
        yield found


def watch(gateway: Gateway, clock: Hand, session: aiohttp.ClientSession) -> Watch:
    replicas = FleetReplicas(KEY, "http://nowhere", session, clock)
    return Watch(Sights(Board(), gateway, replicas, clock), 100.0, lambda _: None)


@pytest.mark.parametrize("gate", [GateMode.OBSERVE, GateMode.ENFORCE])
async def test_all_rates_are_of_the_same_two_seconds(gate, session) -> None:
    clock = Hand()
    gateway = Gateway(KEY, tuple, enforce=gate is GateMode.ENFORCE, seed=1)
    gateway.hear(Told(0.25), clock.now)
    watching = watch(gateway, clock, session)
    rates = [watching.look()]
    for _ in range(8):
        for _ in range(10):
            gateway.ask(0, clock.now)
        clock.now += 0.5
        rates.append(watching.look())
    assert (rates[0].offered_per_s, rates[0].admitted_per_s) == (0.0, 0.0), "nothing can be said of no time"
    for seen in rates[1:]:
        refused = 0.0 if gate is GateMode.OBSERVE else seen.offered_per_s - seen.admitted_per_s
        assert seen.offered_per_s == pytest.approx(20.0)
        assert seen.admitted_per_s + refused == pytest.approx(seen.offered_per_s)
        assert (seen.would_refuse_per_s > 0) is (gate is GateMode.OBSERVE)


async def test_before_the_first_decision_nothing_is_known(session) -> None:
    seen = watch(Gateway(KEY, tuple, enforce=True, seed=1), Hand(), session).look()
    assert (seen.state, seen.state_because) == (Pressure.UNKNOWN, "UNKNOWN: no decision yet")
