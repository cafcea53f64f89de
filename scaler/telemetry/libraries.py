"""What libraries have to say: they write to stderr what strangers send them, as often as those like. Here it is told seldom.

Of an error only its type and the places in the code that it passed are kept. Its message, and that of the record, may hold
a request line with a secret in it.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from types import TracebackType
from typing import Any

FRAMES = 4


@dataclass(frozen=True, slots=True)
class LibraryError:
    """One complaint: who made it (the name of a logger), its level, the error's type if there is one, and where it happened."""

    library: str
    level: str
    error: str
    places: tuple[str, ...]


Tell = Callable[[LibraryError], None]


@contextmanager
def listened_to(tell: Tell, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Whatever libraries log, and what goes wrong in the loop where nobody waits for it, is told instead of written to stderr.

    ``tell`` is called from any thread. Warnings and worse, as far as the loggers' own levels let them through.
    """
    root, handler, before = logging.getLogger(), _Handler(tell), loop.get_exception_handler()
    root.addHandler(handler)
    loop.set_exception_handler(lambda _, context: tell(_of_loop(context)))
    try:
        yield
    finally:
        loop.set_exception_handler(before)
        root.removeHandler(handler)


class _Handler(logging.Handler):
    def __init__(self, tell: Tell) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        said_at = f"{record.filename}:{record.lineno}"
        places = _places(error.__traceback__) if error is not None else ()
        level = "error" if record.levelno >= logging.ERROR else "warning"
        self._tell(LibraryError(record.name, level, _name(error), (*places, said_at)))


def _of_loop(context: dict[str, Any]) -> LibraryError:
    """The loop's own words about it hold representations of what was under way, and those what a stranger has sent."""
    error = context.get("exception")
    places = _places(error.__traceback__) if isinstance(error, BaseException) else ()
    return LibraryError("asyncio", "error", _name(error), places)


def _name(error: object) -> str:
    return "" if error is None else type(error).__name__


def _places(trace: TracebackType | None) -> tuple[str, ...]:
    frames = traceback.extract_tb(trace)[-FRAMES:]
    return tuple(f"{PurePath(frame.filename).name}:{frame.lineno}" for frame in frames)
