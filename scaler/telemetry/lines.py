"""Lines to a stream whose reader may stall: a pipe that nobody empties must not stop the process that writes to it."""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TextIO

WAITING_LINES = 4096
"""What is kept for a reader that has fallen behind: at about 4 KB a decision some 16 MB, four ticks of a thousand workloads."""


class Lines(Protocol):
    """Where lines go. Neither call blocks for longer than it says, and neither raises."""

    def write(self, line: str) -> None:
        """Take one line, without its end."""
        ...

    def close(self, within_s: float) -> None:
        """Take no more, and write what waits for at most that many seconds."""
        ...


def lines_to(stream: TextIO, lost: Callable[[], None], most: int = WAITING_LINES) -> Lines:
    """Lines to that stream; ``lost`` is told of each that could not be written, from any thread.

    What has a file descriptor may stall, so a thread writes there, and ``most`` lines wait for it. What lives in memory
    cannot, and its lines are there as soon as they are written.
    """
    try:
        descriptor = stream.fileno()
        stream.flush()
    except (OSError, ValueError):
        return _Direct(stream, lost)
    return _Waiting(descriptor, lost, most)


class _Direct:
    """Writes at once."""

    def __init__(self, stream: TextIO, lost: Callable[[], None]) -> None:
        self._stream, self._lost = stream, lost

    def write(self, line: str) -> None:
        try:
            self._stream.write(f"{line}\n")
            self._stream.flush()
        except (OSError, ValueError):
            self._lost()

    def close(self, within_s: float) -> None:
        """Nothing waits."""


class _Waiting:
    """Hands lines to a thread, which ends with the process whatever the reader does.

    The thread writes to the descriptor and not to the stream: whoever holds a stream's lock when the interpreter ends,
    because the write does not, takes the whole process down with a fatal error.
    """

    def __init__(self, descriptor: int, lost: Callable[[], None], most: int) -> None:
        self._descriptor = os.dup(descriptor)  # ours until the thread ends, whoever closes the stream
        self._lost, self._most = lost, most
        self._lines: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._torn = False
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        with self._changed:
            if taken := not self._closed and len(self._lines) < self._most:
                self._lines.append(f"{line}\n".encode(errors="backslashreplace"))
                self._changed.notify()
        if not taken:
            self._lost()

    def close(self, within_s: float) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(within_s)

    def _run(self) -> None:
        while (line := self._next()) is not None:
            try:
                self._put(b"\n" + line if self._torn else line)
            except OSError:
                self._lost()
        os.close(self._descriptor)

    def _next(self) -> bytes | None:
        with self._changed:
            while not self._lines:
                if self._closed:
                    return None
                self._changed.wait()
            return self._lines.popleft()

    def _put(self, line: bytes) -> None:
        """The whole line. Where it breaks off (a full disk), the next one begins on a line of its own."""
        rest = memoryview(line)
        while rest:
            with suppress(BlockingIOError):  # somebody who shares the stream has made it so
                rest = rest[os.write(self._descriptor, rest) :]
                self._torn = bool(rest)
                continue
            waiting = select.poll()
            waiting.register(self._descriptor, select.POLLOUT)
            waiting.poll()
