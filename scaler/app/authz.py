"""The port on which Envoy asks for a verdict a request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc.aio

from scaler.api.certificates import Certificates
from scaler.api.doors import cannot_open, probe, shown
from scaler.api.keda_server import MOST_CONNECTIONS
from scaler.backpressure.ext_authz import MOST_CALLS, OPTIONS, Authorization, mount

NAME = "AUTHZ"


@dataclass(frozen=True, slots=True)
class Door:
    """Where to listen, for how many seconds calls may go on after a stop, TLS if the port speaks that, and the most connections."""

    host: str
    port: int
    grace_s: float
    certificates: Certificates | None = None
    most: int = 1024


@asynccontextmanager
async def authorizing(servicer: Authorization, door: Door) -> AsyncIterator[int]:
    """Answer while the context is open; the port. Raises ConfigError when it cannot be opened."""
    options = (*OPTIONS, (MOST_CONNECTIONS, door.most))
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=MOST_CALLS)
    await mount(server, servicer)
    try:
        await probe(door.host, door.port)
        address = shown(door.host, door.port)
        if door.certificates is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, door.certificates.grpc_credentials(lambda: None))
    except OSError as error:
        raise cannot_open(door.host, door.port, NAME, error) from None
    except RuntimeError as error:
        raise cannot_open(door.host, door.port, NAME, OSError(0, "gRPC refused it")) from error
    await server.start()
    try:
        yield port
    finally:
        await server.stop(door.grace_s)
