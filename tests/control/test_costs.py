"""What loops add up, as they look."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from scaler.control.loop import ControlLoop
from scaler.control.ports import Scrape
from scaler.core.cost import Spent
from scaler.core.decision import Pending
from scaler.core.model import GpuPhase, GpuUse
from tests.support.builders import KEY, reading, spec
from tests.support.parts import FixedReplicas, parts, passing, silent

pytestmark = pytest.mark.looptime
USES = {GpuUse("H100", phase): 8 * (phase is GpuPhase.SERVING) for phase in GpuPhase}


@dataclass
class OnGpus(FixedReplicas):
    """One replica on eight GPUs."""

    def snapshot(self, key):
        found = super().snapshot(key)
        return None if found is None else replace(found, replicas=replace(found.replicas, gpus=USES))


def counting(now, targets):
    """A hundred tokens a second, one in five of them generated."""
    page = replace(reading(targets[0].replica, at=now), prompt_tokens_total=80 * now, generation_tokens_total=20 * now)
    return Scrape((page,), ())


async def spent_in_a_minute(script) -> tuple[Spent, bool]:
    shared = parts(script)
    shared = replace(shared, replicas=OnGpus(shared.clock))
    loop = ControlLoop(spec(), shared)
    await loop.tick()
    await passing(60.0)
    await loop.tick()
    ((key, spent),) = shared.board.costs.every()
    assert key == KEY
    return spent, isinstance(shared.board.latest(KEY), Pending)


async def test_a_loop_counts_the_gpus_and_the_tokens_that_it_sees():
    seconds = {use: count * 60.0 for use, count in USES.items()}
    assert await spent_in_a_minute(counting) == (Spent(seconds, 4800.0, 1200.0), False)


async def test_gpus_are_paid_for_while_there_is_no_decision():
    spent, pending = await spent_in_a_minute(silent)
    assert (pending, spent.gpu_s[GpuUse("H100", GpuPhase.SERVING)], spent.generation_tokens) == (True, 480.0, None)


async def test_a_workload_that_is_dropped_begins_anew():
    shared = parts(counting)
    await ControlLoop(spec(), shared).tick()
    shared.board.drop(KEY)
    assert list(shared.board.costs.every()) == []
