"""Talking to the stand-in for the API server: a client of it, and a reflector at work."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from scaler.cluster.api import ApiError
from scaler.cluster.client import Bounds, Client
from scaler.cluster.reflector import Pace, Reflector
from tests.support.kubernetes_api import KubernetesApi, kubernetes
from tests.support.kubernetes_objects import Json

PODS = "/api/v1/namespaces/prod/pods"
LLAMA = {"metadata": {"labels": {"app": "llama"}}}
PATIENT = Bounds()


@asynccontextmanager
async def talking(bounds: Bounds = PATIENT) -> AsyncIterator[tuple[KubernetesApi, Client]]:
    async with kubernetes() as api, aclosing(Client.at(api.url, random.Random(7), bounds)) as client:
        yield api, client


async def refused(asking) -> ApiError:
    """The error that a call ends with."""
    with pytest.raises(ApiError) as caught:
        await asking
    return caught.value


async def collected(client: Client, version: int, **selection) -> list[tuple[str, str]]:
    """The events until the end of the watch: the kind, and the name or the version of a bookmark."""
    events = [event async for event in client.watch(PODS, str(version), **selection)]
    return [(e.kind, e.item["metadata"].get("name") or e.item["metadata"]["resourceVersion"]) for e in events]


def version_of(item: Json) -> str:
    """What a mirror keeps, unless told otherwise."""
    return item["metadata"]["resourceVersion"]


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Mirror:
    """A reflector at work: the sizes of its mapping whenever it said that it changed."""

    api: KubernetesApi
    reflector: Reflector[str]
    clock: Clock
    sizes: list[int] = field(default_factory=list)

    @property
    def live(self) -> bool:
        """Time moves on with each look: only what is in contact now keeps up with it."""
        self.clock.now += 0.001
        return self.reflector.contact_at == self.clock.now

    async def until_live(self) -> None:
        await self.api.until(lambda: self.live)

    async def until_mirrored(self) -> None:
        await self.api.until(lambda: self.live and dict(self.reflector.items) == existing(self.api))


def existing(api: KubernetesApi) -> dict[str, str]:
    """What the stand-in has of the pods a to d, as a mirror keeps it."""
    paths = [f"{PODS}/{name}" for name in "abcd"]
    found = [item for path in paths if (item := api.get(path)) is not None]
    return {f"prod/{item['metadata']['name']}": version_of(item) for item in found}


@asynccontextmanager
async def mirroring(
    *, keep: Callable = version_of, bounds: Bounds = PATIENT, path: str = PODS, selector: str = "", pods: str = ""
) -> AsyncIterator[Mirror]:
    async with talking(bounds) as (api, client):
        for name in pods:
            api.put(f"{PODS}/{name}", LLAMA)
        clock = Clock()
        pace = Pace(clock, random.Random(7), first_s=0.02, longest_s=0.05, denied_s=0.03)
        sizes: list[int] = []
        reflector: Reflector = Reflector(
            client, path, keep, pace, selector=selector, changed=lambda: sizes.append(len(reflector.items))
        )
        running = asyncio.create_task(reflector.run())
        try:
            yield Mirror(api, reflector, clock, sizes)
        finally:
            running.cancel()
            await asyncio.wait([running])
            assert running.cancelled()
