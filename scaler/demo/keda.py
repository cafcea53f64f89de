"""Stand-in for KEDA's operator and the HPA controller, as seen by a scaler: the same calls in the same order, for real.

What is imitated was observed on KEDA 2.20 and Kubernetes 1.36:

* a new ScaledObject: GetMetricSpec (the HPA is made of it), a poll at once, GetMetricSpec again, then StreamIsActive held
  open;
* a poll, each polling interval: GetMetricSpec, GetMetrics, IsActive;
* an HPA sync, each sync period: the same three, then the HPA's arithmetic, then the scale;
* an error is tried once more at once and then left until the next turn; the HPA holds its count meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from scaler.api.keda_client import AioKedaClient, MetricSpec, MetricValue, RpcFailed, ScaledObject
from scaler.control.ports import Clock
from scaler.core.hpa import SHIPPED_BEHAVIOR, SHIPPED_TOLERANCE, Hpa, HpaState, ScaleStatus, quantize, sync

FIRST_RETRY_S, LONGEST_RETRY_S = 0.005, 1000.0
"""How often the creation of an HPA is tried while GetMetricSpec fails: controller-runtime's backoff."""
REOPEN_S, LONGEST_REOPEN_S = 2.0, 60.0
"""How soon a push stream is opened again; the pause doubles, and only a stream that ended with OK takes it back."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The intervals of a ScaledObject and of the controller, in seconds, and the bounds of the HPA."""

    polling_s: float
    sync_s: float
    min_replicas: int
    max_replicas: int


@dataclass(frozen=True, slots=True)
class Failure:
    """An RPC that was not answered, and when, in seconds. ``cold``: before the first value ever, when refusing is right."""

    at_s: float
    rpc: str
    code: str
    cold: bool


@dataclass(slots=True)
class Calls:
    """What was asked and how it went. One owner; others read."""

    answered: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    pushed: int = 0


class Scalable(Protocol):
    """The scale subresource of what the ScaledObject names."""

    def scale_status(self) -> ScaleStatus | None:
        """Wanted, existing and ready replicas; None while they are not known."""
        ...

    async def scale(self, wanted: int) -> None:
        """Ask for that many replicas."""
        ...


class Keda:
    """One ScaledObject's life with the scaler. ``run`` never ends by itself."""

    def __init__(self, client: AioKedaClient, scaled_object: ScaledObject, rhythm: Rhythm, clock: Clock) -> None:
        """The object is created when ``run`` starts."""
        self.calls = Calls()
        self._client = client
        self._object = scaled_object
        self._rhythm = rhythm
        self._clock = clock
        self._valued = False

    async def run(self, target: Scalable) -> None:
        """Create the ScaledObject, then poll, sync and listen."""
        spec = await self._create()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._poll())
            group.create_task(self._sync(target, spec))
            group.create_task(self._listen())

    async def ask(self) -> float | None:
        """The three calls of a poll or a sync: the value, None when one of them failed twice."""
        try:
            spec = await self._twice(self._spec)
            return await self._twice(lambda: self._value(spec))
        except RpcFailed:
            return None

    async def _create(self) -> MetricSpec:
        pause_s = FIRST_RETRY_S
        while True:
            try:
                spec = await self._twice(self._spec)
                await self.ask()
                await self._twice(self._spec)
                return spec
            except RpcFailed:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_RETRY_S)

    async def _poll(self) -> None:
        """What it answers decides about zero replicas only, of which there are never any here."""
        while True:
            await asyncio.sleep(self._rhythm.polling_s)
            await self.ask()

    async def _sync(self, target: Scalable, spec: MetricSpec) -> None:
        rhythm, state = self._rhythm, HpaState()
        hpa = Hpa(
            min_replicas=rhythm.min_replicas,
            max_replicas=rhythm.max_replicas,
            behavior=SHIPPED_BEHAVIOR,
            tolerance=SHIPPED_TOLERANCE,
            target=spec.target,  # read at creation and never again, as KEDA does
            sync_s=rhythm.sync_s,
        )
        while True:
            value, status = await self.ask(), target.scale_status()
            if status is not None:
                arrived = None if value is None else quantize(value)
                state, result = sync(hpa, state, arrived, status, self._clock())
                if result.desired != status.spec:
                    await target.scale(result.desired)
            await asyncio.sleep(rhythm.sync_s)

    async def _listen(self) -> None:
        pause_s = REOPEN_S
        while True:
            try:
                async for _ in self._client.stream_is_active(self._object):
                    self.calls.pushed += 1
                pause_s = REOPEN_S
            except RpcFailed as failure:
                self._failed("StreamIsActive", failure)
                pause_s = min(2 * pause_s, LONGEST_REOPEN_S)
            await asyncio.sleep(pause_s)

    async def _spec(self) -> MetricSpec:
        return await self._counted("GetMetricSpec", self._client.metric_spec(self._object))

    async def _value(self, spec: MetricSpec) -> float:
        """GetMetrics and then IsActive, whose answer is not used but whose failure counts."""
        found: MetricValue = await self._counted("GetMetrics", self._client.metrics(self._object, spec.name))
        await self._counted("IsActive", self._client.is_active(self._object))
        self._valued = True
        return found.value

    async def _twice(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        try:
            return await call()
        except RpcFailed:
            return await call()

    async def _counted(self, rpc: str, call: Awaitable[Answer]) -> Answer:
        try:
            answer = await call
        except RpcFailed as failure:
            self._failed(rpc, failure)
            raise
        self.calls.answered[rpc] += 1
        return answer

    def _failed(self, rpc: str, failure: RpcFailed) -> None:
        self.calls.failures.append(Failure(self._clock(), rpc, failure.code.name, cold=not self._valued))
