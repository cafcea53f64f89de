"""One workload that is followed: what is known of it, and the loop that asks how many replicas its platform is asked for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random

from scaler.cluster.api import Api, ApiError
from scaler.cluster.lives import Memory
from scaler.cluster.nodes import Nodes
from scaler.cluster.reflector import Pace
from scaler.cluster.scale import Scale, ScalePaths, scale_of
from scaler.cluster.scaled_objects import NamedWorkload, TargetRef
from scaler.cluster.waiting import happened
from scaler.control.ports import Clock

ASK_EVERY_S = (30.0, 60.0)
"""The HPA and the pods tell when to ask again; this is for who changes the count by hand. Spread, so that not all ask at once."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 60.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """What all that looks at one cluster shares. ``offset_s`` is wall time minus ``clock``, taken once; ``lanes`` bounds the calls."""

    api: Api
    clock: Clock
    offset_s: float
    pace: Pace
    rng: Random
    lanes: asyncio.Semaphore
    paths: ScalePaths
    nodes: Nodes


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers whose change says that the scale may have changed: the pods alive, and what the HPA saw and wants."""

    alive: int
    desired: int
    current: int


class Following:
    """Owned by its namespace, which tells it what the pods and the HPA show."""

    def __init__(self, named: NamedWorkload, cluster: Cluster) -> None:
        """Nothing is known yet."""
        self.named = named
        self.scale: Scale | None = None
        self.scale_at = self.asked_since = cluster.clock()
        self.why = ""
        self.asked = False
        self.memory = Memory()
        self._cluster = cluster
        self._counts: Counts | None = None
        self._nudged = asyncio.Event()

    def edit(self, named: NamedWorkload) -> None:
        """Take what the ScaledObject says now. Of another target nothing is known."""
        if named.target != self.named.target:
            self.scale, self.why, self.asked, self.memory = None, "", False, Memory()
            self._nudged.set()
        self.named = named

    def counted(self, counts: Counts) -> None:
        """Ask for the scale soon if these numbers differ from the last ones."""
        if self._counts is not None and counts != self._counts:
            self._nudged.set()
        self._counts = counts

    async def run(self, told: asyncio.Event) -> None:
        """Ask for the scale for ever; ``told`` is set after each answer. What a failed ask leaves unknown stands as it was."""
        pause = FIRST_PAUSE_S
        while True:
            self._nudged.clear()
            target = self.named.target
            self._take(target, await self._ask(target))
            told.set()
            if self.why:
                await happened(self._nudged, self._cluster.rng.uniform(pause / 2, pause))
                pause = min(LONGEST_PAUSE_S, 2 * pause)
            else:
                pause = FIRST_PAUSE_S
                await happened(self._nudged, self._cluster.rng.uniform(*ASK_EVERY_S))

    async def _ask(self, target: TargetRef) -> Scale | ApiError:
        cluster = self._cluster
        try:
            async with cluster.lanes:
                path = await cluster.paths.path(self.named.key.namespace, target)
                return scale_of(await cluster.api.get(path), target)
        except ApiError as error:
            return error

    def _take(self, target: TargetRef, answer: Scale | ApiError) -> None:
        if target != self.named.target:  # edited meanwhile
            return
        self.asked = True
        if isinstance(answer, ApiError):
            self.why = str(answer)
            return
        if self.scale is not None and self.scale.selector != answer.selector:
            self.memory = Memory()  # other pods, of whose lives nothing was seen
        now = self._cluster.clock()
        if self.scale is None or self.scale.replicas != answer.replicas:
            self.asked_since = now
        self.scale, self.scale_at, self.why = answer, now, ""
