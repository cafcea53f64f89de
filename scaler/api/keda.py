"""KEDA's side: the external scaler service, answered from memory.

One decision answers every call, so that GetMetrics and IsActive of one poll agree. Three facts about KEDA shape this file:

* An error freezes the replicas, while 0, NaN and ``false`` shrink them: what is not known is an error, never a value.
* KEDA's ``fallback`` acts only while GetMetricSpec succeeds, and the HPA takes the target from it only when the
  ScaledObject is reconciled: the spec is a constant and needs nothing to be known.
* KEDA sets no deadline, and a hung call stops every ScaledObject behind it: unary handlers never wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from scaler.api.callers import Callers
from scaler.api.handling import Handling, RpcTelemetry
from scaler.api.parsed import Parse, Parsed
from scaler.api.refs import checked
from scaler.core.decision import Decision, Pending
from scaler.core.model import WorkloadKey
from scaler.core.shadow import ShadowRole
from scaler.errors import ConfigError, NotReady, UnknownWorkload
from scaler.pb import externalscaler_pb2 as pb
from scaler.pb import externalscaler_pb2_grpc as pb_grpc

if TYPE_CHECKING:
    from scaler.control.board import Board
    from scaler.control.ports import Clock
    from scaler.control.supervisor import Supervisor

METRIC_NAME = "desired-replicas"
"""A path segment of the external metrics API, which knows lower case only and no slash."""
TARGET = 1
"""With metricType AverageValue and target 1 the HPA lands on the value itself, whatever number of pods is ready."""
MISSING_NAMED = 3
UNREAD = (
    "it is a shadow by configuration, and its ScaledObject cannot be read here: neither its replicas nor 0 would be safe to answer. "
    "Take the trigger out of the ScaledObject, or shadow out of the configuration"
)

_Context = grpc.aio.ServicerContext[Any, Any]


class Unvouched(NotReady):
    """Nobody but the caller knows the workload: it is not introduced."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often an open stream says again that a workload is active, in seconds.

    KEDA drops a message at times (while its status lacks our metric), so saying it once is not enough. Each one costs
    KEDA a write to the ScaledObject's status: rare while replicas exist, frequent only while a lost one would keep a
    workload at zero.
    """

    repeat_s: float = 10.0
    without_replicas_s: float = 3.0


@dataclass(frozen=True, slots=True)
class KedaParts:
    """What the servicer works with.

    Once ``shutdown`` is set a new stream ends at once, with OK. ``shadow`` is what a workload is if it is one, else None. ``callers`` says
    who may call. ``vouch`` says why a call may not introduce a workload, empty when it may.
    """

    board: Board
    supervisor: Supervisor
    parse: Parse
    clock: Clock
    telemetry: RpcTelemetry
    shutdown: asyncio.Event
    shadow: Callable[[WorkloadKey], ShadowRole | None] = lambda _: None
    callers: Callers = Callers()
    vouch: Callable[[WorkloadKey], str] = lambda _: ""


class KedaServicer(pb_grpc.ExternalScalerServicer):
    """``externalscaler.ExternalScaler``. Reads the board; the one thing it may change is which workloads run."""

    def __init__(self, parts: KedaParts, pace: Pace = Pace()) -> None:
        """A servicer that has parsed nothing yet."""
        self._parts = parts
        self._pace = pace
        self._parsed = Parsed(parts.parse, parts.supervisor)
        self._open_streams = 0
        self._ending = asyncio.Event()

    @property
    def open_streams(self) -> int:
        """How many StreamIsActive calls are held open now."""
        return self._open_streams

    def forget_parsed(self) -> None:
        """Parse all metadata anew when it next comes: what its names refer to (profiles, classes) was edited."""
        self._parsed.clear()

    def end_streams(self) -> None:
        """End every open stream with OK: KEDA then opens it again within 2 s, after an error within 60 s."""
        self._ending.set()
        self._ending = asyncio.Event()

    async def GetMetricSpec(self, request: pb.ScaledObjectRef, context: _Context) -> pb.GetMetricSpecResponse:
        """The constant metric. Errors: INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, PERMISSION_DENIED.

        Served also of a workload that nobody vouches for yet: KEDA asks within moments of a ScaledObject's creation, and up to 2.19 an HPA
        that is made without our metric stays without it.
        """
        async with self._handling("GetMetricSpec", context):
            with suppress(Unvouched):
                self._resolve(request, context)
            spec = pb.MetricSpec(metricName=METRIC_NAME, targetSize=TARGET, targetSizeFloat=TARGET)
            return pb.GetMetricSpecResponse(metricSpecs=[spec])

    async def GetMetrics(self, request: pb.GetMetricsRequest, context: _Context) -> pb.GetMetricsResponse:
        """The desired replicas as the one value. Errors: INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, UNAVAILABLE."""
        async with self._handling("GetMetrics", context):
            if request.metricName != METRIC_NAME:
                raise ConfigError(f"metricName must be {METRIC_NAME}")
            key = self._resolve(request.scaledObjectRef, context)
            desired = self._told(key)
            # KEDA before 2.17 reads the integer only, later ones prefer the float when it is above 0.
            value = pb.MetricValue(metricName=METRIC_NAME, metricValue=desired, metricValueFloat=desired)
            return pb.GetMetricsResponse(metricValues=[value])

    async def IsActive(self, request: pb.ScaledObjectRef, context: _Context) -> pb.IsActiveResponse:
        """Whether replicas are wanted at all. Errors: INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, UNAVAILABLE.

        Ignorance is UNAVAILABLE and not ``true``: KEDA then holds what there is, at zero and above, whereas ``true``
        would start a GPU at zero replicas for no reason that anybody could name.
        """
        async with self._handling("IsActive", context):
            key = self._resolve(request, context)
            if self._parts.shadow(key) is not None:
                return pb.IsActiveResponse(result=self._told(key) > 0)
            decision = self._decision(key)
            # The count may be held for a while, `false` may not: KEDA answers it by going to zero in one step.
            if not decision.active and (decision.blind or self._age_s(decision) > decision.valid_s):
                raise NotReady(_too_old(decision, self._age_s(decision)))
            return pb.IsActiveResponse(result=decision.active)

    # A coroutine that writes, where the stub expects a generator: cancelling it runs its cleanup at once.
    async def StreamIsActive(self, request: pb.ScaledObjectRef, context: _Context) -> None:  # type: ignore[override]
        """``true`` at once, on every change and repeatedly while active. Errors: INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED.

        Silent while inactive or unknown: KEDA before 2.18 obeys a ``false``, whatever other triggers say.
        """
        async with self._handling("StreamIsActive", context):
            key = self._resolve(request, context)
            self._open_streams += 1
            try:
                await self._stream(key, context)
            finally:
                self._open_streams -= 1

    async def StreamMetricSpec(self, _: pb.ScaledObjectRef, context: _Context) -> None:  # type: ignore[override]
        """Never needed for a constant. UNIMPLEMENTED makes KEDA keep to GetMetricSpec for good."""
        self._parts.telemetry.handled("StreamMetricSpec", grpc.StatusCode.UNIMPLEMENTED, 0.0)
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "the metric spec is a constant, ask GetMetricSpec")

    def _resolve(self, ref: pb.ScaledObjectRef, context: _Context) -> WorkloadKey:
        """The workload that a ref means, running if it comes with metadata. Without, a person looks and changes nothing."""
        self._parts.callers.check(context)
        key = checked(ref)
        role = self._parts.shadow(key)
        if role is ShadowRole.UNREAD:
            raise ConfigError(f"{key}: {UNREAD}")
        if ref.scalerMetadata and role is None:
            spec = self._parsed.spec(key, dict(ref.scalerMetadata))
            if key not in self._parts.supervisor and (why := self._parts.vouch(key)):
                raise Unvouched(why)
            self._parts.supervisor.ensure(spec)
        elif key in self._parts.supervisor:
            self._parts.supervisor.touch(key)
        elif role is None:
            raise UnknownWorkload(f"{key} is not known; the call must carry the trigger's metadata to introduce it")
        return key

    def _told(self, key: WorkloadKey) -> int:
        """The value that KEDA gets. A shadow must not move anything: alone it says what there is, beside others what never counts."""
        role = self._parts.shadow(key)
        if role is ShadowRole.BESIDE:
            return 0
        decision = self._decision(key)
        return _desired(decision) if role is None else decision.estimate.current

    def _decision(self, key: WorkloadKey) -> Decision:
        """The decision to answer from. Judged here and by its age, so that a dead loop cannot keep an old one alive."""
        outcome = self._parts.board.latest(key)
        if outcome is None:
            raise NotReady(f"{key}: no decision yet")
        if isinstance(outcome, Pending):
            raise NotReady(f"{key}: {outcome.why}")
        if self._age_s(outcome) > outcome.hold_s:
            raise NotReady(_too_old(outcome, self._age_s(outcome)))
        return outcome

    def _age_s(self, decision: Decision) -> float:
        return self._parts.clock() - decision.observed_at

    async def _stream(self, key: WorkloadKey, context: _Context) -> None:
        ending = self._ending
        stopped = asyncio.ensure_future(ending.wait())
        try:
            while not (ending.is_set() or self._parts.shutdown.is_set()):
                # Listens before it reads the board, so that no change falls in between.
                changed = asyncio.ensure_future(self._parts.board.activity(key).wait())
                try:
                    active, pause_s = self._pulse(key)
                    if active:
                        await context.write(pb.IsActiveResponse(result=True))
                    await asyncio.wait((stopped, changed), timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
        finally:
            stopped.cancel()

    def _pulse(self, key: WorkloadKey) -> tuple[bool, float]:
        """Whether to say ``true`` now, and after how many seconds to look again."""
        self._parts.supervisor.touch(key)  # an open stream is somebody who asks
        if self._parts.shadow(key) is not None:
            return False, self._pace.repeat_s
        try:
            decision = self._decision(key)
        except NotReady:
            return False, self._pace.without_replicas_s
        pause_s = self._pace.repeat_s if decision.estimate.ready else self._pace.without_replicas_s
        return decision.active, pause_s

    def _handling(self, method: str, context: _Context) -> Handling:
        return Handling(self._parts.telemetry, self._parts.clock, method, context)


def _desired(decision: Decision) -> int:
    if decision.desired < 0:  # KEDA reads it as 0 and scales to the minimum; an error holds
        raise ValueError(f"desired is {decision.desired}")
    return decision.desired


def _too_old(decision: Decision, age_s: float) -> str:
    """Why a decision no longer counts: how old its newest reading is, and which replicas are silent."""
    named = [f"{missing.replica} ({missing.why})" for missing in decision.missing[:MISSING_NAMED]]
    more = len(decision.missing) - len(named)
    silent = f"; no reading from {', '.join(named)}" if named else ""
    return f"{decision.key}: the last observation is {age_s:.0f} s old{silent}" + (f" and {more} more" if more else "")
