"""Strangers: connections that say little, and HTTP/2 peers that say too much and keep to nothing."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

import hpack
from hyperframe.frame import Frame, HeadersFrame, PingFrame, RstStreamFrame, SettingsFrame

BATCH = 200
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CALLS = {"keda": "/externalscaler.ExternalScaler/IsActive", "authz": "/envoy.service.auth.v3.Authorization/Check"}
"""A call of each gRPC port."""
_FRAME_HEAD = 9


async def connections(port: int, count: int, said: bytes) -> list[asyncio.StreamWriter]:
    """So many connections, each of which says that much and stays. One that is refused or hung up on is none, or says less."""
    writers = []
    for _ in range(count):
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            writer.write(said)
    return writers


class Http2Peer:
    """One connection. ``heard`` counts the frames that came by their type; ``ended`` is set once the other side has hung up."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._stream = -1
        self._reading = asyncio.create_task(self._read())
        self.heard: Counter[str] = Counter()
        self.ended, self.settled = asyncio.Event(), asyncio.Event()
        self.most_streams: int | None = None

    @classmethod
    async def of(cls, port: int) -> Http2Peer:
        """Connected, and told the other side's settings; or hung up on."""
        peer = cls(*await asyncio.open_connection("127.0.0.1", port))
        await peer._send([PREFACE, SettingsFrame(0).serialize()])
        await peer.settled.wait()
        return peer

    async def streams(
        self, path: str, count: int, *, reset: bool = False, more: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Open so many calls that say nothing, whatever number is allowed; ``reset`` takes each back at once."""
        head = self._head(path, more)
        await self._many(count, lambda: self._opened(head) + (self._taken_back() if reset else b""))

    async def message(self, path: str, size: int) -> None:
        """One call that announces a message of that many bytes, and sends the first of them."""
        sent = b"\0" + struct.pack(">I", size) + bytes(1000)
        data = struct.pack(">I", len(sent))[1:] + b"\0\0" + struct.pack(">I", self._stream + 2) + sent
        await self._send([self._opened(self._head(path, ())), data])

    async def pings(self, count: int) -> None:
        """So many PINGs."""
        await self._many(count, lambda: PingFrame(0, b"12345678").serialize())

    async def settings(self, count: int) -> None:
        """So many SETTINGS."""
        await self._many(count, lambda: SettingsFrame(0, {SettingsFrame.INITIAL_WINDOW_SIZE: 65_535}).serialize())

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        await self._reading

    def _head(self, path: str, more: Iterable[tuple[str, str]]) -> bytes:
        said = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"), ("te", "trailers")]
        never_indexed = [(name, value, True) for name, value in (*said, ("content-type", "application/grpc"), *more)]
        return hpack.Encoder().encode(never_indexed)

    def _opened(self, head: bytes) -> bytes:
        self._stream += 2
        return HeadersFrame(self._stream, head, flags=["END_HEADERS"]).serialize()

    def _taken_back(self) -> bytes:
        return RstStreamFrame(self._stream, 8).serialize()

    async def _many(self, count, frame) -> None:
        for begun in range(0, count, BATCH):
            if self.ended.is_set():
                return
            await self._send([frame() for _ in range(min(BATCH, count - begun))])

    async def _send(self, frames: list[bytes]) -> None:
        if self._writer.is_closing():
            return
        with suppress(OSError):
            self._writer.write(b"".join(frames))
            await self._writer.drain()

    async def _read(self) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame, length = Frame.parse_frame_header(memoryview(await self._reader.readexactly(_FRAME_HEAD)))
                frame.parse_body(memoryview(await self._reader.readexactly(length)))
                self.heard[type(frame).__name__] += 1
                await self._answer(frame)
        self.ended.set()
        self.settled.set()

    async def _answer(self, frame: Frame) -> None:
        """What keeps a connection alive."""
        if isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            self.most_streams = frame.settings.get(SettingsFrame.MAX_CONCURRENT_STREAMS)
            await self._send([SettingsFrame(0, flags=["ACK"]).serialize()])
            self.settled.set()
        if isinstance(frame, PingFrame) and "ACK" not in frame.flags:
            await self._send([PingFrame(0, frame.opaque_data, flags=["ACK"]).serialize()])
