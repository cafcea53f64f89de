"""What is around every call: errors become status codes, and telemetry is told how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import grpc
import grpc.aio

from scaler.api.refs import details
from scaler.control.supervisor import TooManyWorkloads
from scaler.errors import ConfigError, NotAllowed, NotReady, ScalerError, UnknownWorkload

if TYPE_CHECKING:
    from scaler.control.ports import Clock

CODES: Mapping[type[ScalerError], grpc.StatusCode] = MappingProxyType(
    {
        ConfigError: grpc.StatusCode.INVALID_ARGUMENT,
        UnknownWorkload: grpc.StatusCode.NOT_FOUND,
        NotReady: grpc.StatusCode.UNAVAILABLE,
        NotAllowed: grpc.StatusCode.PERMISSION_DENIED,
        TooManyWorkloads: grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)
"""What each error is on the wire. Whatever else is raised is a bug of ours: INTERNAL, and its text stays here."""


class RpcTelemetry(Protocol):
    """Is told about RPCs. Must not block and must not raise."""

    def handled(self, method: str, code: grpc.StatusCode, took_s: float) -> None:
        """One RPC has ended; CANCELLED is how most streams end."""
        ...

    def failed(self, method: str, error: Exception) -> None:
        """A handler raised something unexpected, of which the caller learns nothing but that it happened."""
        ...


class Handling:
    """Around every handler: errors become status codes, and telemetry is told how it ended."""

    def __init__(
        self, telemetry: RpcTelemetry, clock: Clock, method: str, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        """Nothing is measured before it is entered."""
        self._telemetry, self._clock, self._method, self._context = telemetry, clock, method, context

    async def __aenter__(self) -> None:
        self._started = self._clock()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        code, text = status_of(error)
        if isinstance(error, Exception) and code is grpc.StatusCode.INTERNAL:
            self._telemetry.failed(self._method, error)
        self._telemetry.handled(self._method, code, self._clock() - self._started)
        if isinstance(error, Exception):
            await self._context.abort(code, text)


def status_of(error: BaseException | None) -> tuple[grpc.StatusCode, str]:
    """The status that an error is answered with. Not an Exception: the call was cancelled, and nobody is left to be told."""
    if error is None:
        return grpc.StatusCode.OK, ""
    if not isinstance(error, Exception):
        return grpc.StatusCode.CANCELLED, ""
    for kind, code in CODES.items():
        if isinstance(error, ScalerError) and isinstance(error, kind):
            return code, details(error)
    return grpc.StatusCode.INTERNAL, "internal error of the scaler, described in its log"
