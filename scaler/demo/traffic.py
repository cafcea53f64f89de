"""Clients: they send when the arrivals say, come back when they are refused if their library does, stream the answer, note latencies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

import aiohttp

from scaler.control.ports import Clock
from scaler.demo.gateway import Gateway
from scaler.demo.openai import CHARACTERS_PER_TOKEN
from scaler.demo.scenario import MODEL, Arrival
from scaler.sim.clients import retry_s

PATIENCE_S = 8.0
"""How long the last requests may still run when no more are sent, in seconds."""
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=2.0)
LAST_TOKEN = b'"finish_reason":"length"'


class Ending(StrEnum):
    """How a request ended. REFUSED: for good. UNFINISHED: the demo was over first."""

    COMPLETED = "completed"
    REFUSED = "refused"
    FAILED = "failed"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request as its client saw it. ``at_s`` counts from the start of traffic; latencies are seconds, None where there is none.

    TTFT counts from the attempt that was let in. ``tried``: how many were refused before that, ``away_s``: how long these took.
    """

    at_s: float
    ending: Ending
    ttft_s: float | None = None
    tpot_s: float | None = None
    tried: int = 0
    away_s: float = 0.0


class Traffic:
    """All clients. ``outcomes`` fills while ``play`` runs."""

    def __init__(self, gateway: Gateway, session: aiohttp.ClientSession, clock: Clock) -> None:
        """Nobody has sent anything yet."""
        self.outcomes: list[Outcome] = []
        self._gateway = gateway
        self.session = session
        self._clock = clock
        self._jitter = Random("clients")

    async def play(self, arrivals: Iterable[Arrival], started_at: float) -> None:
        """Send each request at its time after ``started_at``, whatever became of those before it.

        What is still under way at the end is unfinished, also when that end is a cancellation.
        """
        tasks: set[asyncio.Task[None]] = set()
        try:
            for arrival in arrivals:
                await asyncio.sleep(max(0.0, started_at + arrival.at_s - self._clock()))
                task = asyncio.create_task(self._request(arrival))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            if tasks:
                await asyncio.wait(set(tasks), timeout=PATIENCE_S)
        finally:
            await _ended(set(tasks))

    async def _request(self, arrival: Arrival) -> None:
        outcome, asked_at = Outcome(arrival.at_s, Ending.UNFINISHED), self._clock()
        try:
            tried = await self._let_in(arrival)
            if tried is None:
                outcome = Outcome(arrival.at_s, Ending.REFUSED)
                return
            away_s = self._clock() - asked_at if tried else 0.0
            outcome = replace(await self._routed(arrival), tried=tried, away_s=away_s)
        finally:
            self.outcomes.append(outcome)

    async def _let_in(self, arrival: Arrival) -> int | None:
        """After how many refusals the gateway lets it in; None: its client gives up."""
        tried = 0
        while (refused := self._gateway.ask(tried, self._clock())) is not None:
            sdk = arrival.sdk
            wait_s = None if sdk is None else retry_s(sdk, refused, tried, self._jitter.random())
            if wait_s is None:
                return None
            await asyncio.sleep(wait_s)
            tried += 1
        return tried

    async def _routed(self, arrival: Arrival) -> Outcome:
        try:
            with self._gateway.routed() as endpoint:
                if endpoint is not None:
                    return await self._stream(f"http://{endpoint.address}/v1/completions", arrival)
        except (aiohttp.ClientError, TimeoutError):
            pass
        return Outcome(arrival.at_s, Ending.FAILED)

    async def _stream(self, url: str, arrival: Arrival) -> Outcome:
        body = {
            "model": MODEL,
            "prompt": "x" * (CHARACTERS_PER_TOKEN * arrival.prompt_tokens),
            "max_tokens": arrival.output_tokens,
            "stream": True,
        }
        sent_at, first_at, last_at = self._clock(), None, None
        async with self.session.post(url, json=body, timeout=TIMEOUT) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                if first_at is None and line.startswith(b"data: {"):
                    first_at = self._clock()
                if LAST_TOKEN in line:
                    last_at = self._clock()
        if first_at is None or last_at is None:  # cut off
            return Outcome(arrival.at_s, Ending.FAILED)
        tpot_s = (last_at - first_at) / max(1, arrival.output_tokens - 1)
        return Outcome(arrival.at_s, Ending.COMPLETED, first_at - sent_at, tpot_s)


async def _ended(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
