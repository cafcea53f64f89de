"""Listening sockets: what is said when one cannot be opened, and how many connections one may hold.

A stranger can open connections without number and say nothing on them. Each takes a file descriptor, and a process without one
reads no engine and answers no probe. So each door has a cap of its own, and beyond it the connection that asked longest ago
makes way: whoever asks now is answered, and a gateway that asks every few seconds is not among the silent. A head that comes byte by byte
asks nothing before its end. What has come of heads without an end is bounded too, in seconds and, over all connections, in bytes.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from ssl import SSLContext

from scaler.errors import ConfigError

BACKLOG = 128
BURST = 64
"""How many connections are taken in one go, before others get their turn."""
PAUSE_S = 0.5
MOST_UNASKED_BYTES = 16 << 20
"""Of requests without an end, over all connections of a listener: aiohttp alone would keep 8 MiB of headers of each."""
BODY_OF_UNKNOWN_LENGTH = 1 << 20
SWEEPS = 3
"""How often within the time that a connection has for its request it is looked at."""
HANDSHAKE_S = 10.0
EVERY_FAMILY = "::"
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


@dataclass(frozen=True, slots=True)
class ConnectionCaps:
    """How many connections each port may hold. The defaults are for a process that may open any number of files."""

    gate: int = 4096
    keda: int = 2048
    ops: int = 256
    authz: int = 1024

    @classmethod
    def within(cls, files: int) -> ConnectionCaps:
        """Caps that together take at most half of these file descriptors: scrapes and the process itself need the others."""
        most = cls()
        shares = ((files // 4, most.gate), (files // 8, most.keda), (files // 16, most.ops), (files // 16, most.authz))
        return cls(*(max(4, min(share, top)) for share, top in shares))


@dataclass(frozen=True, slots=True)
class Cap:
    """How many connections a listener may hold; ``crowded`` is told of each that had to make way for another.

    ``ask_within_s`` is how long one may take to a request, from its beginning or from its last answer: longer than the HTTP server keeps
    idle ones, which it ends in good order.
    """

    most: int
    crowded: Callable[[], None] = lambda: None
    ask_within_s: float = 45.0


def shown(host: str, port: int) -> str:
    """host:port as it is written, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def cannot_open(host: str, port: int, name: str, error: OSError) -> ConfigError:
    """What to tell of a port that cannot be opened; ``name`` is that of its variable, KEDA, GATE or OPS."""
    why = "it is in use" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
    where = shown(host, port)
    return ConfigError(f"{where} cannot be opened: {why}; change SLO_SCALER_{name}_PORT or SLO_SCALER_HOST")


async def opened(host: str, port: int) -> tuple[socket.socket, ...]:
    """A bound socket for each address of the host, all on one port. ``::`` takes both families. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    doors: list[socket.socket] = []
    failed: OSError | None = None
    for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
        number = doors[0].getsockname()[1] if doors else port
        try:
            doors.append(_bound(family, (address[0], number, *address[2:]), both=host == EVERY_FAMILY))
        except OSError as error:
            failed = error
            if error.errno not in _NOT_HERE:  # a name like localhost may have an address of a family that is off
                doors = _closed(doors)
                break
    if not doors:
        raise failed or OSError(errno.EADDRNOTAVAIL, "the host has no address")
    return tuple(doors)


async def probe(host: str, port: int) -> None:
    """Raises the OSError that keeps a port from being opened, for servers that do not tell it."""
    _closed(await opened(host, port))


def _closed(doors: Iterable[socket.socket]) -> list[socket.socket]:
    for door in doors:
        door.close()
    return []


def _bound(family: int, address: tuple[str | int, ...], *, both: bool) -> socket.socket:
    door = socket.socket(family, socket.SOCK_STREAM)
    try:
        door.setblocking(False)  # noqa: FBT003 - the standard library's
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            door.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
        door.bind(address)
    except OSError:
        door.close()
        raise
    return door


class Listener:
    """Takes the connections of some doors, as many at a time as the cap says, and gives each a protocol of ``factory``.

    A connection counts from the moment it is taken, so that one that never ends its TLS handshake counts, too. A lack
    of file descriptors goes to the loop's exception handler.
    """

    def __init__(
        self,
        doors: tuple[socket.socket, ...],
        factory: Callable[[], asyncio.Protocol],
        cap: Cap,
        tls: SSLContext | None = None,
    ) -> None:
        """Listens at once; needs a running loop."""
        self._doors, self._factory, self._cap, self._tls = doors, factory, cap, tls
        self._open: OrderedDict[_Connection, asyncio.Task[None]] = OrderedDict()
        self._unasked_bytes = 0
        for door in doors:
            door.listen(BACKLOG)
        self._running = [asyncio.create_task(self._accept(door)) for door in doors]
        self._running.append(asyncio.create_task(self._sweep()))

    async def close(self) -> None:
        """Take no more. What is open lives on, for the protocols to end it."""
        ending = [*self._running, *(taking for taking in self._open.values() if not taking.done())]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        _closed(self._doors)

    async def _accept(self, door: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            for _ in range(BURST):
                try:
                    accepted, _address = await loop.sock_accept(door)
                except ConnectionError:  # it went away while it waited
                    continue
                except (
                    OSError
                ) as error:  # no file descriptors, no memory: something of ours must end before the next one
                    loop.call_exception_handler({"message": "no connection can be taken", "exception": error})
                    self._make_way()
                    await asyncio.sleep(PAUSE_S)  # noqa: TID251 - nothing tells when there are descriptors again
                    continue
                self._welcome(accepted)
            await asyncio.sleep(0)  # noqa: TID251 - others' turn

    def _welcome(self, accepted: socket.socket) -> None:
        if len(self._open) >= self._cap.most:
            self._make_way()
            self._cap.crowded()
        connection = _Connection(self._factory(), self)
        self._open[connection] = asyncio.create_task(self._take(connection, accepted))

    def heard(self, connection: _Connection, size: int) -> None:
        """So many bytes have come; whoever has said most without asking is hung up on when it is too much of all."""
        if connection in self._open:
            self._unasked_bytes += connection.said(size)
            if self._unasked_bytes > MOST_UNASKED_BYTES:
                self._cap.crowded()
                self._drop(max(self._open, key=lambda one: one.unasked_bytes))

    def asked(self, connection: _Connection, body: int) -> None:
        """A whole head has come; so many bytes of a body may come now."""
        if connection in self._open:
            self._open.move_to_end(connection)
            self._unasked_bytes += connection.said(-body - connection.unasked_bytes)

    def lost(self, connection: _Connection) -> None:
        """It has ended."""
        if self._open.pop(connection, None) is not None:
            self._unasked_bytes -= max(0, connection.unasked_bytes)

    def _make_way(self) -> None:
        if self._open:
            self._drop(next(iter(self._open)))

    def _drop(self, connection: _Connection) -> None:
        taking = self._open[connection]
        self.lost(connection)
        taking.cancel()
        connection.leave()

    async def _sweep(self) -> None:
        clock, patience_s = asyncio.get_running_loop().time, self._cap.ask_within_s
        while True:
            await asyncio.sleep(patience_s / SWEEPS)  # noqa: TID251 - a timer for each request would cost more
            oldest = clock() - patience_s
            for connection in [one for one in self._open if one.owes_since < oldest]:
                self._drop(connection)

    async def _take(self, connection: _Connection, accepted: socket.socket) -> None:
        patience_s = None if self._tls is None else HANDSHAKE_S
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=self._tls, ssl_handshake_timeout=patience_s
            )
        except OSError:  # the handshake failed, and the TLS context was told
            self.lost(connection)


@contextmanager
def answering(transport: asyncio.BaseTransport | None, body: int | None) -> Iterator[None]:
    """A request that came on the transport has its whole head, and is answered meanwhile. ``body`` is its length, None if unknown."""
    protocol = None if transport is None or transport.is_closing() else transport.get_protocol()
    if not isinstance(protocol, _Connection):
        yield
        return
    protocol.asked(BODY_OF_UNKNOWN_LENGTH if body is None else body)
    try:
        yield
    finally:
        protocol.owes_since = asyncio.get_running_loop().time()


class _Connection(asyncio.Protocol):
    """Passes everything on, and tells its listener what it hears.

    ``owes_since`` is when it began to owe a request, infinite while one is answered. ``unasked_bytes`` came since the last request's head,
    less those of its body.
    """

    def __init__(self, to: asyncio.Protocol, home: Listener) -> None:
        self._to, self._home = to, home
        self._transport: asyncio.Transport | None = None
        self.owes_since = asyncio.get_running_loop().time()
        self.unasked_bytes = 0

    def said(self, size: int) -> int:
        """Count that many bytes; by how many that changes what is unasked in all."""
        before = max(0, self.unasked_bytes)
        self.unasked_bytes += size
        return max(0, self.unasked_bytes) - before

    def asked(self, body: int) -> None:
        """A whole head has come."""
        self.owes_since = inf
        self._home.asked(self, body)

    def leave(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
        self._to.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._home.heard(self, len(data))
        self._to.data_received(data)

    def eof_received(self) -> bool | None:
        return self._to.eof_received()

    def pause_writing(self) -> None:
        self._to.pause_writing()

    def resume_writing(self) -> None:
        self._to.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._home.lost(self)
        self._to.connection_lost(exc)
