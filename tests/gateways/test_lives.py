"""Each gateway while the real scaler hangs, dies, restarts and comes back: nobody is denied for that, and no error is made of it."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest

from tests.support.engines import IDLE, OVERLOAD, PageEngine, listening
from tests.support.gateway_doors import echo
from tests.support.gateway_scaler import ScalerProcess, scaler_process
from tests.support.gateways import GATEWAYS, Gateway, Sides, fronted

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180), pytest.mark.parametrize("gateway", GATEWAYS, ids=str)]
CLIENTS, PAUSE_S = 4, 0.005
PATIENCE = aiohttp.ClientTimeout(total=5.0)
"""Far above what a gateway waits for a scaler that hangs: whoever meets this was held up by it."""
A_WHILE = 300
"""Requests; a gateway that waited for the scaler with each of them would need a minute."""
ROOMY = {"safe_concurrency": 100_000, "safe_rate_per_s": 50_000.0}
TIGHT = {"safe_concurrency": 4, "safe_rate_per_s": 1.0}


@dataclass
class Load:
    """Clients that ask hundreds of times a second. ``last`` are the newest answers."""

    statuses: Counter[int] = field(default_factory=Counter)
    last: deque[int] = field(default_factory=lambda: deque(maxlen=A_WHILE))
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def run(self, url: str) -> None:
        async with aiohttp.ClientSession(url, timeout=PATIENCE) as session, asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self._ask(session))

    async def _ask(self, session: aiohttp.ClientSession) -> None:
        never = asyncio.get_running_loop().create_future()
        while True:
            await asyncio.wait([never], timeout=PAUSE_S)
            async with session.post("/v1/chat/completions", data=b"{}") as response:
                await response.read()
            async with self._news:
                self.statuses[response.status] += 1
                self.last.append(response.status)
                self._news.notify_all()

    async def goes_on(self) -> None:
        """Until a while has passed."""
        goal = self.statuses.total() + A_WHILE
        async with self._news:
            await self._news.wait_for(lambda: self.statuses.total() >= goal)

    async def open(self) -> None:
        """Until all of the last while were let through."""
        async with self._news:
            await self._news.wait_for(lambda: self.last.count(200) == A_WHILE)

    async def shut(self) -> None:
        """Until hardly any of the last while was."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.last) == A_WHILE and self.last.count(200) < A_WHILE / 10)


@asynccontextmanager
async def under_load(
    gateway: Gateway, directory, page: str, profile: dict
) -> AsyncIterator[tuple[ScalerProcess, Load]]:
    """A scaler that looks at an engine with this page, a gateway that it advises, and clients of that."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(listening(PageEngine(page)))
        trigger = {"profile": "tiny", "ttftSloSeconds": "5", "gate": "enforce"}
        workloads = {"prod/llama": {"targets": [address], "metadata": trigger}}
        config = directory / "slo-scaler.yaml"
        config.write_text(json.dumps({"profiles": {"tiny": profile}, "workloads": workloads}))
        scaler = await stack.enter_async_context(scaler_process(config))
        sides = Sides(scaler.ports["GATE"], scaler.ports["AUTHZ"], await stack.enter_async_context(echo()))
        url = await stack.enter_async_context(fronted(gateway, sides))
        load = Load()
        running = asyncio.create_task(load.run(url))
        try:
            yield scaler, load
        finally:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):  # anything else is a client that was not answered
                await running


async def test_nobody_is_denied_while_the_scaler_hangs_restarts_dies_and_comes_back(gateway, tmp_path):
    async with under_load(gateway, tmp_path, IDLE, ROOMY) as (scaler, load):
        await load.goes_on()
        scaler.freeze()
        await load.goes_on()
        scaler.thaw()
        await load.goes_on()
        await scaler.end(signal.SIGTERM)
        await scaler.start()
        await load.goes_on()
        await scaler.end(signal.SIGKILL)
        await load.goes_on()
        await scaler.start()
        await load.goes_on()
    assert set(load.statuses) == {200}


async def test_red_is_refused_until_the_scaler_is_silent_and_again_when_it_is_back(gateway, tmp_path):
    async with under_load(gateway, tmp_path, OVERLOAD, TIGHT) as (scaler, load):
        await load.shut()
        scaler.freeze()
        await load.open()
        scaler.thaw()
        await load.shut()
        await scaler.end(signal.SIGKILL)
        await load.open()
        await scaler.start()
        await load.shut()
    assert set(load.statuses) == {200, 429}
