"""Name resolution in threads of its own.

The system's resolver blocks its thread, for half a minute where a name server does not answer. In the event loop's shared pool
a few such names would hold up everything else that is done there, and at the end the process itself, which waits for its pool.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult

TIMEOUT_S = 2.0
LANES = 32
"""How many lookups may be under way. One that hangs keeps its lane until the system gives it up."""
Info: TypeAlias = tuple[int, int, int, str, tuple[Any, ...]]
Look = Callable[..., "Iterable[Any]"]
"""``socket.getaddrinfo``."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the system's resolver. Who asks the same while it thinks shares the answer."""

    host: str
    port: int
    family: int = 0
    flags: int = 0


class Lookups:
    """Asks the system's resolver, for each name once at a time. Belongs to one event loop."""

    def __init__(self, look: Look = socket.getaddrinfo, *, timeout_s: float = TIMEOUT_S, lanes: int = LANES) -> None:
        """``timeout_s`` is how long an answer is waited for; the lookup may go on, and its answer serves who asks meanwhile."""
        self._look, self._timeout_s = look, timeout_s
        self._lanes = asyncio.Semaphore(lanes)
        self._asked: dict[Question, asyncio.Task[list[Info]]] = {}

    async def infos(self, question: Question) -> list[Info]:
        """What getaddrinfo returns. Raises OSError, TimeoutError among them, and UnicodeError for what cannot be a name."""
        asked = self._asked.get(question)
        if asked is None:
            asked = self._asked[question] = asyncio.create_task(self._answer(question))
            asked.add_done_callback(lambda done: self._answered(question, done))
        async with asyncio.timeout(self._timeout_s):
            return await asyncio.shield(asked)

    def _answered(self, question: Question, done: asyncio.Task[list[Info]]) -> None:
        self._asked.pop(question, None)
        if not done.cancelled():
            done.exception()  # nobody may be left to hear of it

    async def _answer(self, question: Question) -> list[Info]:
        async with self._lanes:
            answer: asyncio.Future[list[Info]] = asyncio.get_running_loop().create_future()
            # A daemon: the process must be able to end while the resolver does not.
            threading.Thread(target=self._ask, args=(question, answer), name="lookup", daemon=True).start()
            return await answer

    def _ask(self, question: Question, answer: asyncio.Future[list[Info]]) -> None:
        given: list[Info] | OSError | UnicodeError
        try:
            given = list(
                self._look(
                    question.host, question.port, family=question.family, type=socket.SOCK_STREAM, flags=question.flags
                )
            )
        except (OSError, UnicodeError) as error:
            given = error
        with suppress(RuntimeError):  # the loop may have ended
            answer.get_loop().call_soon_threadsafe(_settle, answer, given)


def _settle(answer: asyncio.Future[list[Info]], given: list[Info] | OSError | UnicodeError) -> None:
    if answer.done():  # cancelled
        return
    if isinstance(given, OSError | UnicodeError):
        answer.set_exception(given)
    else:
        answer.set_result(given)


class Resolver(AbstractResolver):
    """The same for an aiohttp session."""

    def __init__(self, lookups: Lookups | None = None) -> None:
        """Needs a running loop."""
        self._lookups = lookups or Lookups()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of the host. Raises OSError and UnicodeError."""
        infos = await self._lookups.infos(Question(host, port, family, socket.AI_ADDRCONFIG))
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=str(at[0]), port=int(at[1]), family=kind, proto=proto, flags=flags)
            for kind, _, proto, _, at in infos
        ]

    async def close(self) -> None:
        """Nothing is held."""
