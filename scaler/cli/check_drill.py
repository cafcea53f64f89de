"""A bounded burst at an OpenAI-compatible endpoint: what it refuses, in which words, and what that costs those whom it admits."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

import aiohttp

from scaler.checks import Drill
from scaler.checks.facts import REFUSALS
from scaler.errors import ConfigError

MOST_REQUESTS = 2000
CALM_SHARE = 0.3
"""The part of the time in which only a tenth of the clients is there: how it is without a burst."""
PAUSE_S = 0.25
"""Before a client that was refused asks for something else."""
LAST_S = 30.0
"""How long the last answers are waited for."""
WORDS = "Write a short story about a lighthouse."


@dataclass(frozen=True, slots=True)
class Burst:
    """What is sent. ``url`` is without ``/v1``; ``at_once`` clients in a closed loop for ``seconds``, ``tokens`` of answer each.

    At most ``most`` requests are sent in all.
    """

    url: str
    model: str
    at_once: int
    seconds: float
    tokens: int
    api_key: str | None = None
    most: int = MOST_REQUESTS

    @property
    def body(self) -> dict[str, object]:
        """What each request asks."""
        asked = [{"role": "user", "content": WORDS}]
        return {"model": self.model, "messages": asked, "max_tokens": self.tokens, "stream": True}

    def __str__(self) -> str:
        """What somebody agrees to."""
        return (
            f"up to {self.at_once} requests at once for {self.seconds:g} s (at most {self.most}), {self.tokens} tokens each, "
            f"to {self.url}, model {self.model}"
        )


@dataclass(slots=True)
class Log:
    """What came back. Times are of the clock that the burst runs on."""

    sent: int = 0
    broken: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    waits_s: list[int | None] = field(default_factory=list)
    firsts: list[tuple[float, float]] = field(default_factory=list)
    refused_at: float = math.inf
    returned: int = 0
    welcomed: int = 0

    def drill(self) -> Drill:
        """All of it, as the checks take it."""
        calm = [ttft_s for at, ttft_s in self.firsts if at < self.refused_at]
        refusing = [ttft_s for at, ttft_s in self.firsts if at >= self.refused_at]
        return Drill(
            sent=self.sent,
            admitted=len(self.firsts),
            broken=self.broken,
            statuses=dict(self.statuses),
            waits_s=tuple(self.waits_s),
            calm_p99_s=p99(calm),
            refusing_p99_s=p99(refusing),
            returned=self.returned,
            welcomed=self.welcomed,
        )


def p99(values: list[float]) -> float | None:
    """The 99th percentile as measured: of fewer than a hundred the largest. None of none."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1] if values else None


async def run(burst: Burst) -> Drill:
    """Send the burst and wait for its end. Raises ConfigError when the endpoint serves no such requests."""
    headers = {} if burst.api_key is None else {"Authorization": f"Bearer {burst.api_key}"}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=LAST_S)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector) as session:
        clients = _Clients(burst, session, asyncio.get_running_loop().time)
        await clients.look()
        await clients.play()
        return clients.log.drill()


async def models(url: str, api_key: str | None) -> list[str]:
    """The models that an endpoint lists. Raises ConfigError when it lists none."""
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    try:
        async with (
            aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=10.0)) as session,
            session.get(f"{url}/v1/models") as answer,
        ):
            answer.raise_for_status()
            return [str(one["id"]) for one in (await answer.json(content_type=None))["data"]]
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"--drill: {url}/v1/models: {str(error) or type(error).__name__}; name one with --model"
        ) from None


@dataclass(frozen=True, slots=True)
class _Answer:
    """``status`` is None where there was no whole answer, ``wait_s`` what a refusal says in Retry-After."""

    status: int | None
    wait_s: int | None = None


class _Clients:
    """A closed loop: each asks again when it has its answer. Half of those that are refused return when they are told to."""

    def __init__(self, burst: Burst, session: aiohttp.ClientSession, clock: Callable[[], float]) -> None:
        self.log = Log()
        self._burst, self._session, self._clock = burst, session, clock
        self._ends_at = math.inf

    async def look(self) -> None:
        """One request, to see that it is answered or refused at all."""
        status = (await self._ask()).status
        if status is None:
            raise ConfigError(f"--drill: {self._burst.url} gives no answer that streams")
        if status != HTTPStatus.OK and status not in REFUSALS:
            raise ConfigError(f"--drill: {self._burst.url}/v1/chat/completions: HTTP {status}")

    async def play(self) -> None:
        """All clients, the most of them later."""
        self._ends_at = self._clock() + self._burst.seconds
        calm, late_s = max(1, self._burst.at_once // 10), CALM_SHARE * self._burst.seconds
        async with asyncio.TaskGroup() as group:
            for number in range(self._burst.at_once):
                group.create_task(self._client(number, 0.0 if number < calm else late_s))

    @property
    def _over(self) -> bool:
        return self._clock() >= self._ends_at or self.log.sent >= self._burst.most

    async def _client(self, number: int, late_s: float) -> None:
        await asyncio.sleep(late_s)
        while not self._over:
            answer = await self._ask()
            if answer.status == HTTPStatus.OK:
                continue
            obeys = number % 2 == 0 and answer.wait_s is not None and self._clock() + answer.wait_s < self._ends_at
            await asyncio.sleep(answer.wait_s if obeys and answer.wait_s is not None else PAUSE_S)
            if obeys and not self._over:
                self.log.returned += 1
                self.log.welcomed += (await self._ask(retries=1)).status == HTTPStatus.OK

    async def _ask(self, retries: int = 0) -> _Answer:
        """One request to its end, noted."""
        url, headers = f"{self._burst.url}/v1/chat/completions", {"x-stainless-retry-count": str(retries)}
        began_at, status, first_at = self._clock(), None, None
        self.log.sent += 1
        try:
            async with self._session.post(url, json=self._burst.body, headers=headers) as answer:
                self.log.statuses[answer.status] += 1
                if answer.status in REFUSALS:
                    return self._refused(answer)
                if answer.status == HTTPStatus.OK:
                    first_at = await self._first_token(answer)
                status = answer.status
        except (aiohttp.ClientError, TimeoutError):
            first_at = None
        if first_at is None:
            self.log.broken += 1
            return _Answer(None if status == HTTPStatus.OK else status)
        self.log.firsts.append((began_at, first_at - began_at))
        return _Answer(status)

    async def _first_token(self, answer: aiohttp.ClientResponse) -> float | None:
        """When the first token came; the rest is read to its end."""
        first_at = None
        async for line in answer.content:
            if first_at is None and _speaks(line):
                first_at = self._clock()
        return first_at

    def _refused(self, answer: aiohttp.ClientResponse) -> _Answer:
        written = answer.headers.get("Retry-After", "")
        wait_s = int(written) if written.isascii() and written.isdigit() else None
        self.log.waits_s.append(wait_s)
        self.log.refused_at = min(self.log.refused_at, self._clock())
        return _Answer(answer.status, wait_s)


def _speaks(line: bytes) -> bool:
    """Whether a server-sent event has a piece of the answer in it: the first of a chat often names the role only."""
    if not line.startswith(b"data: {"):
        return False
    try:
        choices = json.loads(line.removeprefix(b"data: "))["choices"]
        return any(
            (one.get("delta") or {}).get("content") or (one.get("delta") or {}).get("reasoning_content")
            for one in choices
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
