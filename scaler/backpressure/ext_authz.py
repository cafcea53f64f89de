"""One verdict a request over Envoy's ext_authz, for Envoy and the gateways that are made of it.

A verdict is always a response and never an error of the call: what errors mean is up to the gateway, and has changed with its versions.
The workload and the class come from the route (``context_extensions``), where no client can write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from scaler.backpressure.asked import BYTES, TIMEOUTS, Trust, answer_body, answer_headers, request_of
from scaler.core.gate import Verdict, Why
from scaler.core.model import WorkloadKey
from scaler.core.retry import CONTENDED, NO_CAPACITY, shed_status
from scaler.pb import ext_authz_pb2 as pb
from scaler.pb import ext_authz_pb2_grpc as pb_grpc

if TYPE_CHECKING:
    from scaler.control.gate import Gates

PORT = 6001
SERVICE = pb.DESCRIPTOR.services_by_name["Authorization"].full_name
METHOD = f"/{SERVICE}/Check"
OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.so_reuseport", 0),
    # All headers of a request come, and with with_request_body what it configures of the body, which is dropped unread.
    ("grpc.max_receive_message_length", 1 << 20),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.server_handshake_timeout_ms", 10_000),
    # A verdict takes less than a millisecond: nobody has that many open who waits for the answers.
    ("grpc.max_concurrent_streams", 1024),
    ("grpc.max_connection_idle_ms", 300_000),
)
MOST_CALLS = 8192
"""At the same time, of all connections. One that is opened and says nothing costs 20 KiB, and beyond it calls are refused."""
WORKLOAD, CLASS = "workload", "class"
"""What a route says in its context extensions: ``namespace/name``, and optionally a request class."""
HEADER_TIMEOUTS: Mapping[str, float] = {**TIMEOUTS, "x-envoy-expected-rq-timeout-ms": 0.001}
"""In a request's own headers the latter is what an Envoy before this one gives it."""
OK = 0
REFUSED: Mapping[int, int] = {
    CONTENDED: grpc.StatusCode.RESOURCE_EXHAUSTED.value[0],
    NO_CAPACITY: grpc.StatusCode.UNAVAILABLE.value[0],
}


@dataclass(frozen=True, slots=True)
class CheckParts:
    """What verdicts are made from.

    ``handled`` is told of every call: its method, its code and the seconds it took. ``failed`` is told of what raised something unexpected;
    ``trust`` is that of the moment. ``may`` says whether a gateway with this metadata may ask for a namespace: one that may not gets the
    answer of an unknown workload.
    """

    gates: Gates
    handled: Callable[[str, str, float], None]
    failed: Callable[[str, Exception], None]
    trust: Callable[[], Trust] = Trust
    may: Callable[[Mapping[str, str], str], bool] = lambda _metadata, _namespace: True


class Authorization(pb_grpc.AuthorizationServicer):
    """``envoy.service.auth.v3.Authorization``."""

    def __init__(self, parts: CheckParts) -> None:
        """A servicer that asks these gates."""
        self._parts = parts

    async def Check(
        self,
        request: pb.CheckRequest,
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> pb.CheckResponse:
        """One verdict. What we got wrong is let through."""
        parts, started = self._parts, self._parts.gates.clock()
        try:
            verdict = self._verdict(request, context)
        except Exception as error:  # noqa: BLE001 - our own bug must not stop somebody's traffic
            parts.failed(METHOD, error)
            verdict = parts.gates.unknown(Why.ERROR)
        parts.handled(METHOD, grpc.StatusCode.OK.name, parts.gates.clock() - started)
        return _response(verdict, started)

    def _verdict(self, request: pb.CheckRequest, context: grpc.aio.ServicerContext[Any, Any]) -> Verdict:
        said = request.attributes.context_extensions
        namespace, _, name = said.get(WORKLOAD, "").partition("/")
        if not self._parts.may(_metadata(context), namespace):
            return self._parts.gates.unknown(Why.UNKNOWN_WORKLOAD)
        headers = _headers(request.attributes.request.http)
        asked = request_of(headers, self._parts.trust(), said.get(CLASS), HEADER_TIMEOUTS)
        return self._parts.gates.ask(WorkloadKey(namespace, name), asked)


async def mount(server: grpc.aio.Server, servicer: Authorization) -> None:
    """Put the servicer on a server, with health and reflection beside it."""
    alive = health.aio.HealthServicer()
    await alive.set("", health_pb2.HealthCheckResponse.SERVING)
    pb_grpc.add_AuthorizationServicer_to_server(servicer, server)
    health_pb2_grpc.add_HealthServicer_to_server(alive, server)
    reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)


def _metadata(context: grpc.aio.ServicerContext[Any, Any]) -> dict[str, str]:
    """What the gateway itself sends along (``initial_metadata``), without what is no text."""
    return {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}


def _headers(http: pb.AttributeContext.HttpRequest) -> Mapping[str, str]:
    if not http.HasField("header_map"):
        return http.headers
    return {one.key.lower(): one.value or one.raw_value.decode(errors=BYTES) for one in http.header_map.headers}


def _response(verdict: Verdict, now: float) -> pb.CheckResponse:
    told = [
        pb.HeaderValueOption(header=pb.HeaderValue(key=name.lower(), value=value))
        for name, value in answer_headers(verdict, now).items()
    ]
    if verdict.admit or verdict.decision is None:
        admitted = pb.OkHttpResponse(response_headers_to_add=told)
        return pb.CheckResponse(status=pb.Status(code=OK), ok_response=admitted)
    told.append(pb.HeaderValueOption(header=pb.HeaderValue(key="content-type", value="application/json")))
    status = CONTENDED if verdict.why is Why.TENANT else shed_status(verdict.decision, verdict.decision.shed)
    denied = pb.DeniedHttpResponse(status=pb.HttpStatus(code=status), headers=told, body=answer_body(verdict))
    return pb.CheckResponse(status=pb.Status(code=REFUSED[status]), denied_response=denied)
