"""Demand that never reached an engine, as a gateway's own counters tell it, by an operator's PromQL."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import inf

from scaler.control.ports import Clock
from scaler.core.model import WorkloadKey
from scaler.errors import SourceError
from scaler.sources.prometheus_api import STALE_INTERVALS, PrometheusApi
from scaler.sources.promql import Template

FORGET_INTERVALS, FORGET_AFTER_S = 4, 60.0


@dataclass(frozen=True, slots=True)
class _Told:
    """The two numbers of one workload, each with the time of its answer."""

    refused: tuple[float, float] | None = None
    queued: tuple[float, float] | None = None


class PrometheusDemand:
    """The ``Demand`` port: ``run`` asks each interval for the workloads that were asked about lately, answers come from memory.

    ``refused`` is PromQL for a cumulative counter, ``queued`` for a gauge, both with ``{namespace}`` and ``{name}``
    and one number as result. No number, several, a partial answer or one that is too old is unknown: None, never zero.
    Raises ConfigError for a placeholder outside of a string.
    """

    def __init__(
        self, api: PrometheusApi, clock: Clock, *, refused: str | None = None, queued: str | None = None
    ) -> None:
        """Knows nothing yet. Closing ``api`` is for whoever opened it."""
        self._api = api
        self._clock = clock
        self._refused = None if refused is None else Template(refused)
        self._queued = None if queued is None else Template(queued)
        self._asked: dict[WorkloadKey, float] = {}
        self._told: dict[WorkloadKey, _Told] = {}
        self._faults: dict[WorkloadKey, str] = {}
        self._new = asyncio.Event()

    @property
    def faults(self) -> Mapping[WorkloadKey, str]:
        """Why the newest query of a workload gave no number, in one phrase."""
        return self._faults

    def refused_total(self, key: WorkloadKey) -> float | None:
        """First attempts refused so far, cumulative; None when unknown."""
        return self._fresh(self._told_of(key).refused)

    def queued(self, key: WorkloadKey) -> float | None:
        """Requests held upstream of the engines now; None when unknown."""
        return self._fresh(self._told_of(key).queued)

    async def run(self) -> None:
        """Ask for ever."""
        while True:
            self._new.clear()
            await self.poll()
            try:
                async with asyncio.timeout(self._api.settings.interval_s):
                    await self._new.wait()
            except TimeoutError:
                pass

    async def poll(self) -> None:
        """Ask once for every workload that is still asked about."""
        oldest = self._clock() - max(FORGET_AFTER_S, FORGET_INTERVALS * self._api.settings.interval_s)
        self._asked = {key: at for key, at in self._asked.items() if at >= oldest}
        self._told = {key: told for key, told in self._told.items() if key in self._asked}
        self._faults = {key: why for key, why in self._faults.items() if key in self._asked}
        keys, deadline = tuple(self._asked), self._clock() + self._api.settings.timeout_s
        await asyncio.gather(*(self._poll(key, deadline) for key in keys))

    async def _poll(self, key: WorkloadKey, deadline: float) -> None:
        before, faults = self._told.get(key, _Told()), list[str]()
        refused = await self._number(self._refused, key, deadline, faults)
        queued = await self._number(self._queued, key, deadline, faults)
        self._told[key] = _Told(refused or before.refused, queued or before.queued)
        if faults:
            self._faults[key] = "; ".join(faults)
        else:
            self._faults.pop(key, None)

    async def _number(
        self, template: Template | None, key: WorkloadKey, deadline: float, faults: list[str]
    ) -> tuple[float, float] | None:
        if template is None:
            return None
        asked_at = self._clock()
        try:
            query = partial(self._api.query, template.filled(key.namespace, key.name), deadline)
            answer = await self._api.off_loop(query, deadline)
        except SourceError as error:
            faults.append(f"Prometheus: {error}")
            return None
        values = [sample.value for sample in answer.samples]
        if answer.partial:
            faults.append(f"partial answer: {answer.partial}")
        elif len(values) != 1:
            faults.append(f"{len(values)} series instead of one number")
        elif not 0.0 <= values[0] < inf:
            faults.append("no finite number")
        else:
            return asked_at, values[0]
        return None

    def _told_of(self, key: WorkloadKey) -> _Told:
        if key not in self._asked:
            self._new.set()
        self._asked[key] = self._clock()
        return self._told.get(key, _Told())

    def _fresh(self, told: tuple[float, float] | None) -> float | None:
        """The number, as long as it counts: what was held at the gateway a minute ago says nothing of now."""
        if told is None:
            return None
        at, value = told
        return value if self._clock() - at <= STALE_INTERVALS * self._api.settings.interval_s else None
