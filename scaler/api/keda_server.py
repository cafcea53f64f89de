"""The gRPC server on KEDA's port: the external scaler, health and reflection, and goodbyes that KEDA does not mind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from scaler.api.certificates import Certificates
from scaler.api.doors import EVERY_FAMILY, cannot_open, probe, shown
from scaler.api.keda import KedaServicer
from scaler.api.refs import LONGEST_MESSAGE_BYTES
from scaler.pb import externalscaler_pb2 as pb
from scaler.pb import externalscaler_pb2_grpc as pb_grpc

PORT = 6000
OPTIONS: tuple[tuple[str, int], ...] = (
    # KEDA never pings: without ours a connection that died silently would keep its streams for ever.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # A second process on the same port is a mistake; sharing it would show every other caller an empty scaler.
    ("grpc.so_reuseport", 0),
    # A trigger is a few hundred bytes.
    ("grpc.max_receive_message_length", LONGEST_MESSAGE_BYTES),
    # KEDA has one stream for each ScaledObject, all on the same connection. One that is opened and says nothing costs 20 KiB.
    ("grpc.max_concurrent_streams", 8192),
    # Whoever has no call open that long is sent away in good order; KEDA polls more often, or connects again when it does.
    ("grpc.max_connection_idle_ms", 300_000),
    # Whoever connects says who it is at once; gRPC's own patience is two minutes, and each takes a file descriptor.
    ("grpc.server_handshake_timeout_ms", 10_000),
)
MOST_CALLS = 10_000
"""At the same time, streams among them: more than one process has workloads. Beyond it a call is refused, and KEDA holds what there is."""
MOST_CONNECTIONS = "grpc.max_allowed_incoming_connections"
ALIVE, READY = "liveness", "readiness"
FIRST_CALL_S = 10.0
"""Whoever connects to a KEDA port does so to call, at once."""
NO_CALL = (
    "clients connected to the KEDA port and made no call: without TLS (enableTLS), without a certificate (tlsClientCert, "
    "tlsClientKey), with an expired one or with another CA (caCert) it looks like this; gRPC's own line on stderr says which"
)
SERVICE = pb.DESCRIPTOR.services_by_name["ExternalScaler"].full_name


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen, and for how many seconds calls may go on after a stop. Port 0 takes any free one.

    With ``certificates`` the port speaks TLS only. ``first_call_s`` is how long a TLS client may take to its first call before
    we tell what probably keeps it from calling. ``most`` connections are held; KEDA itself needs two or three.
    """

    port: int = PORT
    host: str = EVERY_FAMILY
    grace_s: float = 5.0
    certificates: Certificates | None = None
    first_call_s: float = FIRST_CALL_S
    most: int = 2048


class KedaServer:
    """One server with the scaler, health and reflection on one port."""

    def __init__(self, servicer: KedaServicer, shutdown: asyncio.Event, listen: Listen = Listen()) -> None:
        """A server that does not listen yet. ``shutdown`` is the servicer's."""
        self._servicer, self._shutdown, self._listen = servicer, shutdown, listen
        self._health = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None
        self._renewing = asyncio.Lock()

    async def start(self) -> int:
        """Listen; the port. Raises ConfigError when it cannot be opened."""
        callers = (
            None
            if self._listen.certificates is None
            else _Callers(self._listen.certificates, self._listen.first_call_s)
        )
        options = (*OPTIONS, (MOST_CONNECTIONS, self._listen.most))
        server = grpc.aio.server(
            options=options,
            interceptors=() if callers is None else (callers,),
            maximum_concurrent_rpcs=MOST_CALLS,
        )
        pb_grpc.add_ExternalScalerServicer_to_server(self._servicer, server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
        port = await self._open(server, callers)
        await server.start()
        self._server, self._listen = server, replace(self._listen, port=port)
        for name in ("", ALIVE, READY):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        return port

    async def _open(self, server: grpc.aio.Server, callers: _Callers | None) -> int:
        host, port = self._listen.host, self._listen.port
        address = shown(host, port)
        try:
            await probe(host, port)  # gRPC would not say why, and would write a line of its own
            if callers is None:
                return server.add_insecure_port(address)
            return server.add_secure_port(address, callers.certificates.grpc_credentials(callers.opened))
        except OSError as error:
            raise cannot_open(host, port, "KEDA", error) from None
        except RuntimeError as error:
            raise cannot_open(host, port, "KEDA", OSError(0, "gRPC refused it")) from error

    async def stop(self) -> None:
        """Send callers elsewhere, end the streams with OK, and wait for calls that are under way. Safe to call twice."""
        for name in ("", READY):  # still alive: a failing liveness probe would cut the goodbye short
            await self._health.set(name, health_pb2.HealthCheckResponse.NOT_SERVING)
        self._shutdown.set()
        async with self._renewing:
            await self._send_away()

    async def renew(self) -> None:
        """Send callers elsewhere and listen again. A connection outlives the Service that led it here: KEDA never leaves by itself."""
        async with self._renewing:
            if self._shutdown.is_set():
                return
            await self._send_away()
            await self.start()

    async def _send_away(self) -> None:
        self._servicer.end_streams()
        if self._server is not None:
            await self._server.stop(self._listen.grace_s)
            self._server = None


class _Callers(grpc.aio.ServerInterceptor):
    """Notices connections after which nobody calls.

    That is all that can be known here of a failed handshake: gRPC ends it below Python. One caller that gets through hides
    the others, but the usual case is that none does.
    """

    def __init__(self, certificates: Certificates, patience_s: float) -> None:
        self.certificates = certificates
        self._patience_s = patience_s
        self._loop = asyncio.get_running_loop()
        self._calls = 0
        self._waiting = False

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Count a call."""
        self._calls += 1
        return await continuation(handler_call_details)

    def opened(self) -> None:
        """A connection was accepted; called in a thread of gRPC's."""
        with suppress(RuntimeError):  # the loop may have ended, and the server's last connections with it
            self._loop.call_soon_threadsafe(self._wait_for_a_call)

    def _wait_for_a_call(self) -> None:
        if not self._waiting:
            self._waiting = True
            self._loop.call_later(self._patience_s, self._has_called, self._calls)

    def _has_called(self, before: int) -> None:
        self._waiting = False
        if self._calls == before:
            self.certificates.refused("connected_without_a_call", NO_CALL)
