"""Clients: they send when the arrivals say, stream the answer, note their latencies, and never try again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import aiohttp

from scaler.control.ports import Clock
from scaler.demo.gateway import Gateway
from scaler.demo.openai import CHARACTERS_PER_TOKEN
from scaler.demo.scenario import MODEL, Arrival

PATIENCE_S = 8.0
"""How long the last requests may still run when no more are sent, in seconds."""
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=2.0)
LAST_TOKEN = b'"finish_reason":"length"'


class Ending(StrEnum):
    """How a request ended. UNFINISHED: the demo was over first."""

    COMPLETED = "completed"
    REFUSED = "refused"
    FAILED = "failed"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request as its client saw it. ``at_s`` counts from the start of traffic; latencies are seconds, None where there is none."""

    at_s: float
    ending: Ending
    ttft_s: float | None = None
    tpot_s: float | None = None


class Traffic:
    """All clients. ``outcomes`` fills while ``play`` runs."""

    def __init__(self, gateway: Gateway, session: aiohttp.ClientSession, clock: Clock) -> None:
        """Nobody has sent anything yet."""
        self.outcomes: list[Outcome] = []
        self._gateway = gateway
        self.session = session
        self._clock = clock

    async def play(self, arrivals: Iterable[Arrival], started_at: float) -> None:
        """Send each request at its time after ``started_at``, whatever became of those before it.

        What is still under way at the end is unfinished, also when that end is a cancellation.
        """
        tasks: set[asyncio.Task[None]] = set()
        try:
            for arrival in arrivals:
                await asyncio.sleep(max(0.0, started_at + arrival.at_s - self._clock()))
                if not self._gateway.admit(self._clock()):
                    self.outcomes.append(Outcome(arrival.at_s, Ending.REFUSED))
                    continue
                task = asyncio.create_task(self._request(arrival))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            if tasks:
                await asyncio.wait(set(tasks), timeout=PATIENCE_S)
        finally:
            await _ended(set(tasks))

    async def _request(self, arrival: Arrival) -> None:
        outcome = Outcome(arrival.at_s, Ending.UNFINISHED)
        try:
            with self._gateway.routed() as endpoint:
                if endpoint is None:
                    outcome = Outcome(arrival.at_s, Ending.FAILED)
                    return
                outcome = await self._stream(f"http://{endpoint.address}/v1/completions", arrival)
        except (aiohttp.ClientError, TimeoutError):
            outcome = Outcome(arrival.at_s, Ending.FAILED)
        finally:
            self.outcomes.append(outcome)

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
