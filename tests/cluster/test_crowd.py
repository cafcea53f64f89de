"""A namespace full of strangers, and whatever happens in it."""

import asyncio
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.cluster.api import Event, Page
from scaler.cluster.discovery import Discovery, DiscoverySettings, Means
from scaler.cluster.reflector import Pace
from scaler.core.model import WorkloadKey
from tests.support.cluster_objects import WALL, loading, scale, scaled_object, serving
from tests.support.discovery import LLAMA, SERVICES, Told, World, discovering, put_llama, put_pod
from tests.support.parts import passing
from tests.support.unasked import Unasked

STRANGERS = 100_000
STRANGER = serving("stranger", {"app": "stranger"})


class Crowd(Unasked):
    """An API server with two workloads that no one selector joins, one pod of each, and a hundred thousand others' pods."""

    def __init__(self) -> None:
        self.selectors: list[str] = []

    async def get(self, path):
        await passing(0.1 if "llama" in path else 0.2)
        return scale(1, "app=llama" if "llama" in path else "model=mistral")

    async def page(self, path, *, selector="", token=""):
        if path.endswith("/scaledobjects"):
            return Page((scaled_object("llama"), scaled_object("mistral")), "1")
        if not path.endswith("/pods"):
            return Page((), "1")
        self.selectors.append(selector)
        left = int(token or STRANGERS) - 250
        ours = (serving("llama-0"), serving("mistral-0", {"model": "mistral"})) if not token else ()
        return Page((STRANGER,) * 250 + ours, "1", str(left) if left else "")

    async def watch(self, path, resource_version, *, selector=""):
        await asyncio.Event().wait()
        yield Event("BOOKMARK", {})


@pytest.mark.looptime
async def test_a_hundred_thousand_strangers_are_dropped_at_arrival():
    crowd, clock = Crowd(), asyncio.get_running_loop().time
    means = Means(crowd, clock, lambda: WALL, Pace(clock, random.Random(1)), random.Random(2))
    discovery = Discovery(means, DiscoverySettings(SERVICES), Told())
    task = asyncio.create_task(discovery.run())
    await passing(1)
    found = [discovery.snapshot(WorkloadKey("prod", name)) for name in ("llama", "mistral")]
    task.cancel()

    assert [one and one.replicas.ready for one in found] == [("llama-0",), ("mistral-0",)]
    assert set(crowd.selectors) == {""}


CHANGES: dict[str, Callable[[World], object]] = {
    "a pod loads": lambda world: put_pod(world.api, loading("llama-0")),
    "a pod serves": lambda world: put_pod(world.api, serving("llama-0")),
    "another serves": lambda world: put_pod(world.api, serving("llama-1")),
    "a stranger serves": lambda world: put_pod(world.api, serving("x", {"app": "x"})),
    "a pod is labelled away": lambda world: put_pod(world.api, serving("llama-1", {"app": "x"})),
    "a neighbour joins": lambda world: put_llama(world.api, serving("mistral-0", {"app": "mistral"}), name="mistral"),
    "connections break": lambda world: world.api.reset(),
    "history is forgotten": lambda world: world.api.compact(),
    "watches end": lambda world: world.api.end_watches(),
    "the server is out of order": lambda world: world.api.refuse(503),
    "the server recovers": lambda world: world.api.recover(),
    "time passes": lambda world: setattr(world.clocks, "now", world.clocks.now + 30),
    "the wall clock jumps": lambda world: setattr(world.clocks, "wall", world.clocks.wall + 3600),
}


def truth(world: World) -> tuple[list[str], list[str]]:
    """Ready and starting replicas, straight from the objects."""
    found: tuple[list[str], list[str]] = ([], [])
    for name in ("llama-0", "llama-1"):
        item = world.api.get(f"/api/v1/namespaces/prod/pods/{name}")
        if item is not None and item["metadata"]["labels"] == {"app": "llama"}:
            found[
                "Ready=True" not in {f"{one['type']}={one['status']}" for one in item["status"]["conditions"]}
            ].append(name)
    return found


async def looked_at(world: World) -> None:
    """Let things happen for a moment, in which the replicas are known each time."""
    looks = iter((False, False, True))
    await world.api.until(lambda: world.replicas().current == 1 and next(looks))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(sorted(CHANGES)), max_size=10))
def test_whatever_happens_the_replicas_are_never_unknown_again_and_in_the_end_they_are_the_true_ones(changes):
    async def story() -> None:
        async with discovering(prepare=lambda api: put_llama(api, serving("llama-0"))) as world:
            await world.until_known()
            for change in changes:
                CHANGES[change](world)
                await looked_at(world)
            world.api.recover()
            await world.until(
                lambda replicas: (list(replicas.ready), [s.replica for s in replicas.starting]) == truth(world)
            )

            assert all(start.since <= world.clocks.now for start in world.replicas().starting)
            assert world.discovery.why(LLAMA) == ""

    asyncio.run(story())
