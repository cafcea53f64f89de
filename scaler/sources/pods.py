"""The direct source: asks every replica for its /metrics page at the same time, within one time limit.

A replica is a stranger: it may answer late, wrongly, without end, or not at all. Whatever it does costs its own
reading and no one else's, and leaves nothing running behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from ssl import SSLContext

import aiohttp

from scaler.control.ports import Ask, Scrape, Target
from scaler.core.model import Missing, Reading
from scaler.engines.row import Engine, select
from scaler.errors import SourceError
from scaler.sources.exposition import Wanted, parse, whole

_HEADERS = {
    # Compressing a page costs the engine's own event loop more than sending it whole costs the network.
    "Accept-Encoding": "identity",
    "Accept": "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.5",
}
_OPENMETRICS = "application/openmetrics-text"
_NO_PAGES = {"text/html": "HTML", "application/xhtml+xml": "HTML", "application/json": "JSON"}
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None)  # one clock decides, around all of a request: ours
_REMEMBER_S = 60.0

# The first that fits speaks: the particular stand before the general.
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (ConnectionRefusedError, "connection refused"),
    (ConnectionResetError, "connection reset"),
    (aiohttp.ClientConnectorDNSError, "name does not resolve"),
    (aiohttp.ClientConnectorCertificateError, "TLS certificate not trusted"),
    (aiohttp.ClientSSLError, "TLS failed"),
    (aiohttp.ClientConnectorError, "cannot connect"),
    (aiohttp.ServerDisconnectedError, "connection closed without an answer"),
    (aiohttp.ClientPayloadError, "page cut short"),
    (aiohttp.ClientResponseError, "malformed HTTP answer"),
    (aiohttp.ClientOSError, "connection reset"),
    (aiohttp.ClientConnectionError, "connection lost"),
    (aiohttp.NonHttpUrlClientError, "invalid address"),
    (ValueError, "invalid address"),
)


def scrape_session(*, ssl: SSLContext | bool = True, headers: Mapping[str, str] | None = None) -> aiohttp.ClientSession:
    """A session fit for ``PodSource``, to be made in the running loop and closed by whoever made it.

    ``ssl`` as for aiohttp: True, a context with the CA to trust, or False for no verification. ``headers`` go with
    every request (a bearer token).
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0,  # the lanes of each pass are the limit: a pool of all workloads would let one starve the others
            keepalive_timeout=4.0,  # below the 5 s after which uvicorn hangs up: no request meets a closing connection
            ssl=ssl,
        ),
        headers=headers,
        trust_env=False,  # a proxy named in the environment must not stand between us and a pod
        cookie_jar=aiohttp.DummyCookieJar(),
    )


@dataclass(frozen=True, slots=True)
class _Pass:
    engine: Engine
    wanted: Wanted
    lanes: asyncio.Semaphore


class PodSource:
    """Reads the pages of replicas over HTTP.

    ``clock`` gives seconds and stamps each reading when its page has arrived. ``timeout_s`` bounds a whole pass, so
    it must be shorter than the tick. ``body_cap`` is the largest page, in bytes. ``lanes`` is how many replicas of
    one pass are asked at once: it bounds file descriptors, and how many pages can arrive in the same instant.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        clock: Callable[[], float],
        *,
        timeout_s: float = 1.5,
        body_cap: int = 4 * 1024 * 1024,
        lanes: int = 64,
    ) -> None:
        self._session = session
        self._clock = clock
        self._timeout_s = timeout_s
        self._body_cap = body_cap
        self._lanes = lanes
        self._wanted: dict[str, Wanted] = {}
        self._late: dict[str, float] = {}  # url -> when it was last tried in vain

    async def read(self, ask: Ask) -> Scrape:
        """One pass over the targets, of at most ``timeout_s``: each becomes a reading or a missing, in the order given.

        Raises nothing for what a replica does. No task outlives the call; cancelling it closes what it opened.
        """
        engine, targets = ask.engine, ask.targets
        if engine.name not in self._wanted:
            self._wanted[engine.name] = Wanted.of(engine)
        run = _Pass(engine, self._wanted[engine.name], asyncio.Semaphore(self._lanes))
        async with asyncio.TaskGroup() as group:
            tasks = {i: group.create_task(self._ask(run, targets[i])) for i in self._punctual_first(targets)}
        answers = [tasks[i].result() for i in range(len(targets))]
        return Scrape(
            readings=tuple(answer for answer in answers if isinstance(answer, Reading)),
            missing=tuple(answer for answer in answers if isinstance(answer, Missing)),
        )

    def _punctual_first(self, targets: Sequence[Target]) -> list[int]:
        """Who did not answer last time is asked last, so that dead replicas fill the lanes only when no one else waits.

        Among those, the one tried longest ago goes first: all get their chance to be back.
        """
        now = self._clock()
        self._late = {url: at for url, at in self._late.items() if now - at < _REMEMBER_S}
        return sorted(range(len(targets)), key=lambda i: self._late.get(targets[i].url, -inf))

    async def _ask(self, run: _Pass, target: Target) -> Reading | Missing:
        try:
            page = await self._in_time(run.lanes, target.url)
        except SourceError as error:
            return Missing(target.replica, str(error))
        observed_at = self._clock()
        return select(run.engine, parse(page, run.wanted), target.replica, observed_at)

    async def _in_time(self, lanes: asyncio.Semaphore, url: str) -> bytes:
        tried = False
        try:
            async with asyncio.timeout(self._timeout_s), lanes:
                tried = True
                page = await self._fetch(url)
        except TimeoutError:
            if tried:
                self._late[url] = self._clock()
            raise SourceError(f"timeout after {self._timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: a name that no resolver can encode
            raise SourceError(_reason(error)) from error
        self._late.pop(url, None)
        return page

    async def _fetch(self, url: str) -> bytes:
        async with self._session.get(
            url, headers=_HEADERS, allow_redirects=False, auto_decompress=False, timeout=_NO_TIMEOUT
        ) as response:
            if refusal := _refusal(response):
                raise SourceError(refusal)
            page = b"".join([chunk async for chunk in self._chunks(response.content)])
        if fault := _fault(page, openmetrics=response.content_type == _OPENMETRICS):
            raise SourceError(fault)
        return page

    async def _chunks(self, body: aiohttp.StreamReader) -> AsyncIterator[bytes]:
        left = self._body_cap
        async for chunk in body.iter_any():
            left -= len(chunk)
            if left < 0:
                raise SourceError(f"page over {self._body_cap} bytes")
            yield chunk


def _refusal(response: aiohttp.ClientResponse) -> str:
    """Why an answer is not read at all, from its head; empty if it is."""
    if 300 <= response.status < 400:  # noqa: PLR2004 - it would lead to an address that nobody named
        return f"HTTP {response.status} redirect refused"
    if response.status != 200:  # noqa: PLR2004
        return f"HTTP {response.status}"
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding != "identity":  # not asked for, and a few bytes can unpack to gigabytes
        return "compressed page refused"
    kind = _NO_PAGES.get(response.content_type)
    return f"{kind} instead of metrics" if kind else ""


def _fault(page: bytes, *, openmetrics: bool) -> str:
    """Why a body is no page of metrics; empty if it is one."""
    start = page[:512].lstrip()
    if not start:
        return "empty page"
    if start.startswith(b"<"):
        return "HTML instead of metrics"
    return "" if whole(page, openmetrics=openmetrics) else "page cut short"


def _reason(error: Exception) -> str:
    cause = getattr(error, "os_error", error)  # aiohttp wraps what the system said
    for candidate in (cause, error):
        for kind, phrase in _REASONS:
            if isinstance(candidate, kind):
                return phrase
    return f"cannot be read: {type(error).__name__}"
