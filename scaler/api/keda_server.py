"""The gRPC server on KEDA's port: the external scaler, health and reflection, and a stop that KEDA does not mind."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from scaler.api.keda import KedaServicer
from scaler.errors import ConfigError
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
)
ALIVE, READY = "liveness", "readiness"
SERVICE = pb.DESCRIPTOR.services_by_name["ExternalScaler"].full_name


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen, and for how many seconds calls may go on after a stop. Port 0 takes any free one."""

    port: int = PORT
    host: str = "[::]"
    grace_s: float = 5.0


class KedaServer:
    """One server with the scaler, health and reflection on one plaintext port."""

    def __init__(self, servicer: KedaServicer, shutdown: asyncio.Event, listen: Listen = Listen()) -> None:
        """A server that does not listen yet. ``shutdown`` is the servicer's."""
        self._servicer, self._shutdown, self._listen = servicer, shutdown, listen
        self._health = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None

    async def start(self) -> int:
        """Listen; the port. Raises ConfigError when it cannot be opened."""
        server = grpc.aio.server(options=OPTIONS)
        pb_grpc.add_ExternalScalerServicer_to_server(self._servicer, server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
        try:
            port = server.add_insecure_port(f"{self._listen.host}:{self._listen.port}")
        except RuntimeError as error:
            raise ConfigError(f"port {self._listen.port} for KEDA cannot be opened; is it in use?") from error
        await server.start()
        self._server = server
        for name in ("", ALIVE, READY):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        return port

    async def stop(self) -> None:
        """Send callers elsewhere, end the streams with OK, and wait for calls that are under way. Safe to call twice."""
        for name in ("", READY):  # still alive: a failing liveness probe would cut the goodbye short
            await self._health.set(name, health_pb2.HealthCheckResponse.NOT_SERVING)
        self._shutdown.set()
        if self._server is not None:
            await self._server.stop(self._listen.grace_s)
