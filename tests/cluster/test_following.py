"""How often the scale of a workload is asked for, in virtual time."""

import asyncio
import random
from itertools import pairwise

import pytest

from scaler.cluster.api import Unreachable
from scaler.cluster.following import Cluster, Counts, Following
from scaler.cluster.lives import Memory
from scaler.cluster.nodes import Nodes
from scaler.cluster.reflector import Pace
from scaler.cluster.scale import ScalePaths
from scaler.cluster.scaled_objects import Service, named_workload
from tests.support.cluster_objects import scale, scaled_object
from tests.support.parts import passing
from tests.support.unasked import Unasked

pytestmark = pytest.mark.looptime


class Scales(Unasked):
    """An API server with one scale; remembers when it was asked, and how many asked at once."""

    def __init__(self, took_s: float = 0.0) -> None:
        self.replicas, self.selector, self.away, self.took_s = 1, "app=llama", False, took_s
        self.asked: list[float] = []
        self.under_way = self.most = 0

    async def get(self, path):
        self.asked.append(asyncio.get_running_loop().time())
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await passing(self.took_s)
        self.under_way -= 1
        if self.away:
            raise Unreachable("cannot get: no answer in time")
        return scale(self.replicas, self.selector)


def cluster(scales: Scales) -> Cluster:
    clock, rng, lanes = asyncio.get_running_loop().time, random.Random(1), asyncio.Semaphore(8)
    return Cluster(scales, clock, 0.0, Pace(clock, rng), rng, lanes, ScalePaths(scales), Nodes(scales, lanes, clock))


def following(scales: Scales, name: str = "llama") -> Following:
    named = named_workload(scaled_object(name), frozenset({Service("slo-scaler", "keda")}))
    assert named is not None
    return Following(named, cluster(scales))


async def followed(one: Following, seconds: float) -> None:
    """Follow for that long."""
    task = asyncio.create_task(one.run(asyncio.Event()))
    await passing(seconds)
    task.cancel()


def gaps(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


async def test_while_nothing_happens_the_scale_is_asked_for_every_half_to_whole_minute():
    scales = Scales()
    await followed(following(scales), 3600)

    assert len(scales.asked) > 60
    assert all(30 <= gap <= 60 for gap in gaps(scales.asked))


async def test_numbers_that_change_ask_at_once_and_those_that_do_not_never():
    scales = Scales()
    one = following(scales)
    task = asyncio.create_task(one.run(asyncio.Event()))
    for counts in (Counts(1, 1, 1), Counts(1, 1, 1), Counts(1, 2, 1), Counts(1, 2, 1), Counts(2, 2, 2)):
        await passing(1)
        one.counted(counts)
    await passing(1)
    task.cancel()

    assert scales.asked == [0.0, 3.0, 5.0]


async def test_an_answer_that_fails_leaves_what_was_known_and_is_asked_for_ever_less_often():
    scales = Scales()
    one = following(scales)
    task = asyncio.create_task(one.run(asyncio.Event()))
    await passing(1)
    scales.away, scales.replicas = True, 9
    await passing(1800)
    task.cancel()
    failed = gaps(scales.asked)[1:]

    assert one.scale is not None
    assert (one.scale.replicas, one.why) == (1, "cannot get: no answer in time")
    assert all(gap <= 60 for gap in failed)
    assert all(gap >= 30 for gap in failed[6:])


async def test_an_answer_about_a_target_that_was_exchanged_meanwhile_is_dropped():
    scales = Scales(took_s=5.0)
    one = following(scales)
    task = asyncio.create_task(one.run(asyncio.Event()))
    await passing(1)
    other = named_workload(scaled_object(scaleTargetRef={"name": "other"}), frozenset({Service("slo-scaler", "keda")}))
    assert other is not None
    one.edit(other)
    await passing(5)
    after_the_first = one.scale, one.asked
    await passing(5)
    task.cancel()

    assert (after_the_first, one.asked, scales.asked) == ((None, False), True, [0.0, 5.0])


async def test_of_pods_that_another_selector_chooses_nothing_is_remembered():
    scales = Scales()
    one = following(scales)
    task = asyncio.create_task(one.run(asyncio.Event()))
    await passing(1)
    one.memory = Memory(known_at=1.0)
    await passing(60)
    same = one.memory
    scales.selector = "app=llama-2"
    await passing(60)
    task.cancel()

    assert (same, one.memory) == (Memory(known_at=1.0), Memory())


async def test_a_thousand_workloads_are_asked_about_eight_at_a_time():
    scales = Scales(took_s=0.1)
    shared = cluster(scales)
    many = [Following(following(scales, f"llama-{n}").named, shared) for n in range(1000)]
    tasks = [asyncio.create_task(one.run(asyncio.Event())) for one in many]
    await passing(13)
    for task in tasks:
        task.cancel()

    assert (scales.most, all(one.asked for one in many)) == (8, True)
