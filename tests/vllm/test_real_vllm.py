"""The scaler beside a real vLLM 0.32 on this machine's CPU: forty streams on four slots, and engines that freeze, die, drain and come back.

``make test-vllm`` builds the engine's environment (2.5 GB) in ``.venv-vllm`` and runs this. The lock asks for torch 2.13.0; where the
package index has no CPU build of it, pip fetches the CUDA build, which works and is several GB larger.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from scaler.core.decision import Decision
from scaler.core.explain import explain
from scaler.core.model import Pressure
from tests.support.real_vllm import BUDGET_S, TICK_S, Engine, Engines, clients, scaler

STREAMS, FEW = 40, 3

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def engines(tmp_path_factory) -> Iterator[Engines]:
    made = Engines(tmp_path_factory.mktemp("vllm"))
    yield made
    made.end()


@pytest.fixture(scope="module")
def engine(engines) -> Engine:
    """One that every test leaves as it was."""
    return engines.started()


def say(what: str, decision: Decision, begun: float) -> None:
    print(
        f"{what}: after {decision.decided_at - begun:.1f} s {decision.state}, desired {decision.desired}, {codes(decision)}"
    )


def codes(decision: Decision) -> set[str]:
    return {finding.code for finding in decision.findings}


def idle(decision: Decision) -> bool:
    return not decision.blind and decision.state is Pressure.GREEN and decision.estimate.ongoing == 0


async def test_forty_streams_leave_green_in_time_raise_desired_and_recover(engine):
    clock = asyncio.get_running_loop().time
    async with scaler([engine.address]) as seen:
        before = await seen.until(idle)
        begun = clock()
        async with clients(engine.address, STREAMS) as streams:
            left = await seen.until(lambda d: d.state is not Pressure.GREEN)
            say("left GREEN", left, begun)
            print(explain(left, left.decided_at).binding.text)
            chunks = await asyncio.gather(*streams)
        back = await seen.until(lambda d: d.decided_at > left.decided_at and d.state is Pressure.GREEN)
        say("GREEN again", back, begun)
        down = await seen.until(lambda d: d.decided_at >= back.decided_at and d.desired == 1)
        say("one again", down, begun)
    assert min(chunks) > 0
    assert (before.desired, left.desired > 1) == (1, True)
    # the promise in the engine's own time, not a speed of this machine
    assert left.decided_at - begun <= BUDGET_S + 2 * TICK_S


async def test_an_engine_that_freezes_with_work_is_pressure_and_named_and_costs_no_replica(engine):
    clock = asyncio.get_running_loop().time
    async with scaler([engine.address]) as seen, clients(engine.address, 2 * STREAMS) as streams:
        busy = await seen.until(lambda d: d.estimate.waiting > 0 and d.desired > 1)
        frozen = engine.core_pid
        os.kill(frozen, signal.SIGSTOP)
        begun = clock()
        try:
            stalled = await seen.until(lambda d: "stalled_replica" in codes(d))
            say("a frozen engine is named", stalled, begun)
            pressed = await seen.until(lambda d: d.decided_at > begun and d.state is Pressure.RED)
            say("and is RED", pressed, begun)
        finally:
            os.kill(frozen, signal.SIGCONT)
        while_frozen = seen.since(busy)
        await asyncio.gather(*streams)
        back = await seen.until(idle)
        say("calm again", back, begun)
    assert min(d.desired for d in while_frozen) >= busy.desired
    assert "stalled_replica" not in codes(back)


async def test_an_engine_that_dies_is_missing_and_not_idle_and_its_restart_is_no_burst(engines):
    clock = asyncio.get_running_loop().time
    engine = engines.started()
    async with scaler([engine.address]) as seen:
        await seen.until(idle)
        async with clients(engine.address, STREAMS) as streams:
            busy = await seen.until(lambda d: d.desired > 1)
            os.kill(engine.core_pid, signal.SIGKILL)
            begun = clock()
            await asyncio.gather(*streams)
        blind = await seen.until(lambda d: d.blind)
        say("nothing is known of the dead one", blind, begun)
        await asyncio.to_thread(engine.end)
        await asyncio.to_thread(engine.start)
        back = await seen.until(lambda d: d.sequence > blind.sequence and not d.blind)
        say("it is read again", back, begun)
        calm = await seen.until(idle)
        say("calm", calm, begun)
        until_back = [d for d in seen.since(busy) if d.sequence <= back.sequence]
        after = seen.since(back)
    assert min(d.desired for d in until_back) >= busy.desired
    assert max(d.estimate.offered_per_s for d in after) == 0
    assert max(d.desired for d in after) <= max(d.desired for d in until_back)


async def test_of_two_replicas_a_dead_one_counts_as_full_while_the_other_serves(engine, engines):
    clock = asyncio.get_running_loop().time
    other = engines.started(core=1)
    async with scaler([engine.address, other.address], minReplicas="1") as seen:
        both = await seen.until(lambda d: len(d.readings) == 2)
        other.end()
        begun = clock()
        async with clients(engine.address, STREAMS) as streams:
            alone = await seen.until(lambda d: len(d.missing) == 1 and len(d.readings) == 1)
            say("one is missing", alone, begun)
            chunks = await asyncio.gather(*streams)
        served_at = clock()
        last = await seen.until(lambda d: d.decided_at > served_at)
        say("and stays so", last, begun)
        decisions = seen.since(alone)
    assert min(chunks) > 0
    assert both.desired <= 2
    assert not any(d.blind for d in decisions)
    assert {d.missing[0].replica for d in decisions} == {other.address}
    assert min(d.desired for d in decisions) >= 1
    busy = [d for d in decisions if d.estimate.ongoing > 0]
    assert min(d.desired for d in busy) >= 2, "what is silent may be full"


async def test_an_engine_that_drains_is_read_to_its_end_and_is_then_no_zero(engines):
    clock = asyncio.get_running_loop().time
    engine = engines.started(flags=("--shutdown-timeout", "60"))
    async with scaler([engine.address]) as seen:
        await seen.until(idle)
        async with clients(engine.address, 2 * FEW, tokens=600) as streams:
            busy = await seen.until(lambda d: d.estimate.running > 0)
            os.kill(engine.pid, signal.SIGTERM)
            begun = clock()
            draining = await seen.until(lambda d: d.decided_at > begun and not d.blind)
            say("it drains and is read", draining, begun)
            chunks = await asyncio.gather(*streams)
        gone = await seen.until(lambda d: d.blind)
        say("it is gone", gone, begun)
        decisions = seen.since(busy)
    assert min(chunks) > 0
    assert all(d.active and d.desired >= 1 for d in decisions)
    assert {d.state for d in decisions} <= {Pressure.GREEN, Pressure.YELLOW, Pressure.RED}
