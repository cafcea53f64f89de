"""One workload's loop, in virtual time with in-memory ports."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest

from scaler.control.loop import ControlLoop
from scaler.control.ports import Scrape
from scaler.core.counted import ClassCounted, Counted
from scaler.core.decision import Decision, Pending
from scaler.core.model import GateMode
from scaler.core.stabilize import StabilizeSpec
from scaler.core.target import ScalingSpec
from tests.support.builders import KEY, reading, spec
from tests.support.parts import parts, passing, silent, steady

pytestmark = pytest.mark.looptime


def published(shared) -> Decision:
    latest = shared.board.latest(KEY)
    assert isinstance(latest, Decision), latest
    return latest


@asynccontextmanager
async def running(loop: ControlLoop):
    task = asyncio.create_task(loop.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_it_publishes_what_every_tick_decides_and_tells_telemetry():
    shared = parts()
    await ControlLoop(spec(), shared).tick()
    latest = published(shared)
    assert shared.telemetry.ticks == [latest]


async def test_it_keeps_a_fixed_beat_for_an_hour():
    shared = parts()
    async with running(ControlLoop(spec(), shared)):
        await passing(3600.0)
    asked = shared.inputs.asked_at[1:]  # the first look does not wait for the beat
    gaps = {round(b - a, 3) for a, b in pairwise(asked)}
    assert (gaps, shared.inputs.asked_at[0] - asked[0] <= 1.0) == ({2.0}, True)
    assert len(shared.inputs.asked_at) in {1799, 1800}


async def test_a_nudge_brings_the_next_tick_forward_but_not_below_a_second():
    shared = parts()
    loop = ControlLoop(spec(), shared)
    async with running(loop):
        await passing(4.0)
        before = len(shared.inputs.asked_at)
        loop.nudge()
        await passing(1.1)
        asked = shared.inputs.asked_at[before - 1 :]
    assert asked[1] - asked[0] == pytest.approx(1.0, abs=0.2) or asked[1] - asked[0] >= 1.0


async def test_a_hundred_nudges_in_one_second_make_one_early_tick():
    shared = parts()
    loop = ControlLoop(spec(), shared)
    async with running(loop):
        for _ in range(100):
            loop.nudge()
            await passing(0.1)
    gaps = [b - a for a, b in pairwise(shared.inputs.asked_at)]
    assert min(gaps) >= 1.0 - 1e-6


async def test_without_a_list_of_replicas_there_is_no_decision_and_the_reason_is_published():
    shared = parts(names=None)
    await ControlLoop(spec(), shared).tick()
    assert shared.board.latest(KEY) == Pending(KEY, "no list of replicas yet")


@pytest.mark.fault("bug in a tick")
async def test_a_tick_that_raises_is_told_once_each_time_and_tried_again_ever_more_slowly():
    def broken(now, targets):
        raise RuntimeError("a bug")

    shared = parts(broken)
    async with running(ControlLoop(spec(), shared)):
        await passing(40.0)
    gaps = [round(b - a) for a, b in pairwise(shared.inputs.asked_at)]
    assert gaps == [1, 2, 4, 8, 16]
    assert len(shared.telemetry.crashes) == 6


@pytest.mark.fault("bug in a tick")
async def test_a_workload_whose_tick_raises_keeps_its_number_and_is_blind():
    failing = {"now": False}

    def script(now, targets):
        if failing["now"]:
            raise RuntimeError("a bug")
        return steady(now, targets)

    shared = parts(script, names=("a", "b", "c"))
    async with running(ControlLoop(spec(), shared)):
        await passing(4.0)
        before = published(shared)
        failing["now"] = True
        await passing(4.0)
        during = published(shared)
        failing["now"] = False
        await passing(60.0)
        after = published(shared)
    assert (before.desired, during.desired, after.desired) == (3, 3, 3)
    assert (before.blind, during.blind, after.blind) == (False, True, False)


async def test_an_edited_spec_is_used_by_the_next_tick_and_does_not_lower_the_number_by_itself():
    def busy(now, targets):
        return Scrape(tuple(reading(t.replica, at=now, running=300.0) for t in targets), ())

    shared = parts(busy)
    loop = ControlLoop(spec(), shared)
    await loop.tick()
    high = published(shared).desired
    loop.spec = spec(safe_concurrency=1000.0, stabilize=StabilizeSpec(downscale_delay_s=1.0))
    await passing(2.0)
    await loop.tick()
    assert (high, published(shared).desired) == (4, 4)


@pytest.mark.fault("whole fleet is unreachable")
async def test_silence_holds_the_number_however_long_it_lasts():
    answers: dict[str, Any] = {"script": steady}

    def script(now, targets):
        return answers["script"](now, targets)

    shared = parts(script, names=("a", "b", "c"))
    async with running(ControlLoop(spec(), shared)):
        await passing(4.0)
        answers["script"] = silent
        await passing(3600.0)
    latest = published(shared)
    assert (latest.desired, latest.blind) == (3, True)


async def test_after_a_crash_the_last_number_stands_until_there_is_a_new_decision():
    now: dict[str, Any] = {"script": steady}

    def script(at, targets):
        return now["script"](at, targets)

    def broken(at, targets):
        raise RuntimeError("a bug")

    def half(at, targets):
        return steady(at, targets[:1])

    shared = parts(script, names=("a", "b", "c"))
    async with running(ControlLoop(spec(), shared)):
        await passing(4.0)
        now["script"] = broken
        await passing(2.5)
        now["script"] = half
        await passing(4.0)
    latest = published(shared)
    assert (type(latest), latest.desired, latest.blind) == (Decision, 3, True)


@pytest.mark.parametrize(
    ("gate", "polls", "applied"),
    [
        pytest.param(GateMode.ENFORCE, 3, True, id="a gateway that polls and acts"),
        pytest.param(GateMode.ENFORCE, 2, False, id="a person who looked twice"),
        pytest.param(GateMode.OBSERVE, 3, True, id="a gateway that polls and refuses nothing"),
    ],
)
async def test_the_fraction_counts_as_applied_while_somebody_polls_it_steadily(gate, polls, applied):
    shared = parts()
    loop = ControlLoop(spec(gate=gate), shared)
    await loop.tick()
    for _ in range(polls):
        await passing(2.0)
        loop.polled()
    seen = await loop._look()
    await passing(60.0)
    later = await loop._look()
    assert (seen.applied_ratio, later.applied_ratio) == (1.0 if applied else None, None)


@dataclass
class Counting:
    """A gate that counted this at each tick."""

    counted: list[Counted]

    def drain(self, key) -> Counted:
        return self.counted.pop(0) if self.counted else Counted()


def refused(first: int, again: int = 0) -> Counted:
    return Counted((ClassCounted("default", refused=first + again, refused_retries=again),))


async def test_what_our_own_gate_refused_for_the_first_time_is_offered_and_what_was_tried_again_is_not():
    shared = replace(parts(), gate=Counting([refused(0)] + [refused(20, again=80)] * 30))
    async with running(ControlLoop(spec(), shared)):
        await passing(50.0)
    assert published(shared).estimate.refused_per_s == pytest.approx(10.0, rel=0.1)


async def test_requests_that_wait_for_a_first_replica_are_demand():
    gate = Counting([Counted((ClassCounted("default"),), wanted=3)] * 30)
    shared = replace(parts(names=()), gate=gate)
    async with running(ControlLoop(spec(scaling=ScalingSpec(min_replicas=0)), shared)):
        await passing(20.0)
    assert (published(shared).active, published(shared).desired) == (True, 1)
