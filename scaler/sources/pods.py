"""The direct source: asks every replica for its /metrics page at the same time, within one time limit.

A replica is a stranger: it may answer late, wrongly, without end, or not at all. Whatever it does costs its own
reading and no one else's, and leaves nothing running behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf

import aiohttp

from scaler.control.ports import Ask, Scrape, Target
from scaler.core.model import Missing, Reading
from scaler.engines.row import Engine, select
from scaler.errors import SourceError
from scaler.sources import reasons
from scaler.sources.dialling import refused
from scaler.sources.exposition import Wanted, parse, whole
from scaler.sources.reasons import HTTPS, NotRead
from scaler.sources.scrape import Caution, Scraper
from scaler.sources.shares import Share, Shares

_HEADERS = {
    # Compressing a page costs the engine's own event loop more than sending it whole costs the network.
    "Accept-Encoding": "identity",
    "Accept": "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.5",
}
_OPENMETRICS = "application/openmetrics-text"
_NO_PAGES = {"text/html": "HTML", "application/xhtml+xml": "HTML", "application/json": "JSON"}
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None)  # one clock decides, around all of a request: ours
_REMEMBER_S = 60.0
BEYOND = "not read: its namespace has more replicas than access.per_namespace.replicas"
_OK = 200


@dataclass(frozen=True, slots=True)
class _Pass:
    engine: Engine
    wanted: Wanted
    lanes: tuple[asyncio.Semaphore, asyncio.Semaphore]
    deadline: float


class PodSource:
    """Reads the pages of replicas over HTTP.

    ``scraper`` is the session with the settings they are asked by. ``clock`` gives seconds and stamps each reading when
    its page has arrived. ``timeout_s`` bounds a whole pass, so it must be shorter than the tick. ``body_cap`` is the
    largest page, in bytes. ``lanes`` is how many replicas of one pass are asked at once: it bounds file descriptors, and
    how many pages can arrive in the same instant.
    """

    def __init__(
        self,
        scraper: Scraper,
        clock: Callable[[], float],
        *,
        timeout_s: float = 1.5,
        body_cap: int = 2 * 1024 * 1024,
        lanes: int = 64,
    ) -> None:
        self._scraper = scraper
        self._clock = clock
        self._timeout_s = timeout_s
        self._body_cap = body_cap
        self._lanes = lanes
        self._caution = scraper.caution or Caution(Shares(Share, clock))
        self._wanted: dict[str, Wanted] = {}
        # One page in each round of the loop, however many have arrived: gRPC takes one call a round, and calls would queue behind pages.
        self._turn = asyncio.Lock()
        self._late: dict[str, float] = {}  # address -> when it was last tried in vain
        self._speak_tls: dict[str, float] = {}  # address -> when it last did, where only trying could tell

    async def read(self, ask: Ask) -> Scrape:
        """One pass over the targets, of at most ``timeout_s``: each becomes a reading or a missing, in the order given.

        Raises nothing for what a replica does. No task outlives the call; cancelling it closes what it opened.
        """
        engine, targets = ask.engine, ask.targets[: self._caution.shares.granted(ask.key, len(ask.targets))]
        if engine.name not in self._wanted:
            self._wanted[engine.name] = Wanted.of(engine)
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._scraper.refresh(self._clock())
        lanes = (asyncio.Semaphore(self._lanes), self._caution.shares.lanes(ask.key.namespace))
        run = _Pass(engine, self._wanted[engine.name], lanes, deadline)
        async with asyncio.TaskGroup() as group:
            tasks = self._begun(group, run, ask.key.namespace, targets)
        unasked = f"timeout after {self._timeout_s:g} s"  # what its last try came to
        answers = [
            tasks[i].result() if i in tasks else Missing(target.replica, unasked) for i, target in enumerate(targets)
        ]
        return Scrape(
            readings=tuple(answer for answer in answers if isinstance(answer, Reading)),
            missing=(
                *(answer for answer in answers if isinstance(answer, Missing)),
                *(Missing(target.replica, BEYOND) for target in ask.targets[len(targets) :]),
            ),
        )

    def _begun(
        self, group: asyncio.TaskGroup, run: _Pass, namespace: str, targets: Sequence[Target]
    ) -> dict[int, asyncio.Task[Reading | Missing]]:
        """A task for each target that is asked now: of very many that did not answer last time, a part."""
        shares, tasks = self._caution.shares, dict[int, asyncio.Task[Reading | Missing]]()
        for i in self._punctual_first(targets):
            late = targets[i].address in self._late
            if late and not shares.retry(namespace):
                continue
            tasks[i] = group.create_task(self._ask(run, targets[i]))
            if late:
                tasks[i].add_done_callback(lambda _: shares.retried(namespace))
        return tasks

    def _punctual_first(self, targets: Sequence[Target]) -> list[int]:
        """Who did not answer last time is asked last, so that dead replicas fill the lanes only when no one else waits.

        Among those, the one tried longest ago goes first: all get their chance to be back.
        """
        now = self._clock()
        self._late = {address: at for address, at in self._late.items() if now - at < _REMEMBER_S}
        self._speak_tls = {address: at for address, at in self._speak_tls.items() if now - at < _REMEMBER_S}
        return sorted(range(len(targets)), key=lambda i: self._late.get(targets[i].address, -inf))

    async def _ask(self, run: _Pass, target: Target) -> Reading | Missing:
        try:
            page = await self._in_time(run, target)
        except SourceError as error:
            fault = self._scraper.fault
            return Missing(target.replica, f"{error}; {fault}" if fault and fault != str(error) else str(error))
        observed_at = self._clock()
        async with self._turn:
            return select(run.engine, parse(page, run.wanted), target.replica, observed_at)

    async def _in_time(self, run: _Pass, target: Target) -> bytes:
        tried = False
        try:
            async with asyncio.timeout_at(run.deadline), run.lanes[0], run.lanes[1]:
                tried = True
                page = await self._found(target)
        except TimeoutError:
            if tried:
                self._late[target.address] = self._clock()
            raise SourceError(f"timeout after {self._timeout_s:g} s") from None
        self._late.pop(target.address, None)
        return page

    async def _found(self, target: Target) -> bytes:
        """The page, by the scheme that is set, or that the platform knows, or that is found out."""
        settings = self._scraper.settings
        if settings.scheme != "auto" or target.scheme:
            return await self._fetch(target, target.scheme if settings.scheme == "auto" else settings.scheme)
        first, second = (HTTPS, "http") if target.address in self._speak_tls else ("http", HTTPS)
        try:
            return await self._tried(target, first)
        except NotRead as error:
            if not error.other_scheme:
                raise
            of_first = error
        try:
            return await self._tried(target, second)
        except NotRead as of_second:
            raise of_first if of_second.other_scheme else of_second from None

    async def _tried(self, target: Target, scheme: str) -> bytes:
        """The page. That a peer speaks TLS is known until something else is seen: another pod may get that address."""
        self._speak_tls.pop(target.address, None)
        contradicted = False
        try:
            return await self._fetch(target, scheme)
        except NotRead as error:
            contradicted = error.other_scheme
            raise
        except asyncio.CancelledError:  # silence proves nothing
            contradicted = True
            raise
        finally:
            if scheme == HTTPS and not contradicted:
                self._speak_tls[target.address] = self._clock()

    async def _fetch(self, target: Target, scheme: str) -> bytes:
        settings = self._scraper.settings
        if target.discovered and (why := refused(target.address, loopback=self._caution.loopback)):
            raise NotRead(f"{why}; not dialled")
        try:
            return await self._page(settings.url(scheme, target.address), scheme)
        except (aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: a name that no resolver can encode
            raise reasons.of_error(error, scheme, settings) from error

    async def _page(self, url: str, scheme: str) -> bytes:
        settings, access = self._scraper.settings, self._scraper.access
        trusted = scheme == HTTPS or settings.scheme == "http"  # what is found out by trying must not cost the token
        shown = {"Authorization": f"Bearer {access.token}"} if access.token is not None and trusted else {}
        async with self._scraper.session.get(
            url,
            headers=_HEADERS | shown,
            ssl=access.context if scheme == HTTPS else True,
            server_hostname=settings.server_name if scheme == HTTPS else None,
            allow_redirects=False,
            auto_decompress=False,
            timeout=_NO_TIMEOUT,
        ) as response:
            if response.status != _OK:
                raise reasons.of_status(response.status, scheme, settings)
            if refusal := _refusal(response):
                raise NotRead(refusal)
            page = b"".join([chunk async for chunk in self._chunks(response.content)])
        if fault := _fault(page, openmetrics=response.content_type == _OPENMETRICS):
            raise NotRead(fault)
        return page

    async def _chunks(self, body: aiohttp.StreamReader) -> AsyncIterator[bytes]:
        left = self._body_cap
        async for chunk in body.iter_any():
            left -= len(chunk)
            if left < 0:
                raise NotRead(f"page over {self._body_cap} bytes")
            yield chunk


def _refusal(response: aiohttp.ClientResponse) -> str:
    """Why the body of a good answer is not read at all, from its head; empty if it is."""
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
