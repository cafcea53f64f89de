"""The classes of nodes: a start is quicker on one kind of machine than on another, and a profile holds for one kind of GPU."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from math import inf

from scaler.cluster.api import Api, ApiError, Forbidden, Json, NotFound
from scaler.cluster.fields import strings
from scaler.control.ports import Clock

GPU_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
CLASS_LABELS = (*GPU_LABELS, "node.kubernetes.io/instance-type")
"""Labels that tell kinds of nodes apart, the most telling first."""
MOST_REMEMBERED = 10_000
"""Autoscaled nodes have ever new names."""
LABELLED_S = 30.0
"""A node may join without the label of its GPU: a pod of the vendor's finds that out, and begins on it like any other pod."""
DENIED_S = 30.0
"""For how long nothing is asked after a refusal that a person must lift."""


def node_class(item: Json) -> str:
    """The class of a node from its JSON, empty when no label tells it."""
    labels = strings(item, "metadata", "labels")
    return next((labels[label] for label in CLASS_LABELS if label in labels), "")


class Nodes:
    """Reads each node once, when it is first asked for, and once more if it had no label of a GPU then.

    ``fault`` says why classes are not known, empty while they are.
    """

    def __init__(self, api: Api, lanes: asyncio.Semaphore, clock: Clock) -> None:
        """``lanes`` bounds how many reads are under way, here and elsewhere."""
        self._api, self._lanes, self._clock = api, lanes, clock
        self._denied_until = -inf
        self._classes: dict[str, str] = {}
        self._bare: dict[str, float] = {}
        self._wanted: set[str] = set()
        self._asked = asyncio.Event()
        self.fault = ""

    def class_of(self, node: str) -> str | None:
        """The class of a node by its name; None while it is not known."""
        return self._classes.get(node)

    def settled(self, node: str) -> bool:
        """Whether the class of a node is known, or will not be known soon."""
        if node not in self._classes:
            return bool(self.fault)
        return self._clock() - self._bare.get(node, -inf) >= LABELLED_S

    def want(self, nodes: Iterable[str]) -> None:
        """Have these nodes read soon, unless they are known or were refused just now."""
        now = self._clock()
        if now < self._denied_until:
            return
        self._wanted.update(
            node
            for node in nodes
            if node and (node not in self._classes or now - self._bare.get(node, inf) >= LABELLED_S)
        )
        if self._wanted:
            self._asked.set()

    async def read(self) -> None:
        """Read once what is wanted. What could not be read is read when it is wanted again."""
        wanted, self._wanted = self._wanted, set()
        if len(self._classes) > MOST_REMEMBERED:
            self._classes.clear()
            self._bare.clear()
        await asyncio.gather(*(self._read(node) for node in wanted))

    async def run(self) -> None:
        """Read what is wanted, for ever."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self.read()

    async def _read(self, node: str) -> None:
        try:
            async with self._lanes:
                item = await self._api.get(f"/api/v1/nodes/{node}")
            self._bare.pop(node, None)
            if node not in self._classes and strings(item, "metadata", "labels").keys().isdisjoint(GPU_LABELS):
                self._bare[node] = self._clock()
            self._classes[node], self.fault = node_class(item), ""
        except NotFound:
            self._classes[node] = ""
        except Forbidden as error:
            self._denied_until, self.fault = self._clock() + DENIED_S, str(error)
        except ApiError:
            return
