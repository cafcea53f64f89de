"""One list and one watch for the pods of all workloads in a namespace, while workloads come and go."""

import asyncio
import random
from contextlib import suppress

import pytest

from scaler.cluster.api import Event, Page
from scaler.cluster.pod_watch import PodWatch, PodWatches
from scaler.cluster.reflector import Pace
from scaler.cluster.selectors import Selector, selector_of
from tests.support.unasked import Unasked

LIST_S = 3.5


async def waited(seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)


class Large(Unasked):
    """A namespace that takes a while to list."""

    async def page(self, path, *, selector="", token=""):
        await waited(LIST_S)
        return Page((), "1")

    async def watch(self, path, resource_version, *, selector=""):
        await asyncio.Event().wait()
        yield Event("BOOKMARK", {})


def workload(number: int) -> Selector:
    return selector_of(f"app=llama-{number}")


async def joining(watches: PodWatches, seen: list[list[int]]) -> None:
    """Another workload joins each second. Which of them are listed then is ``seen``."""
    async with asyncio.TaskGroup() as group:
        for second in range(11):
            watches.switch()
            watches.cover(frozenset(map(workload, range(second + 1))), group)
            seen.append([number for number in range(11) if watches.covering(workload(number))])
            await waited(1.0)


@pytest.mark.looptime
async def test_workloads_that_join_one_a_second_do_not_keep_the_first_from_being_listed():
    pace, seen = Pace(asyncio.get_running_loop().time, random.Random(1)), list[list[int]]()
    watches = PodWatches(lambda wanted: PodWatch(Large(), pace, "prod", wanted, asyncio.Event()))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(joining(watches, seen), 12.0)
    assert (seen[3], seen[4], seen[8]) == ([], [0], [0, 1, 2, 3, 4])
