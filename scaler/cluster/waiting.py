"""Pauses that end early when something happens."""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def happened(event: asyncio.Event, within_s: float) -> None:
    """Wait until the event is set, or so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await event.wait()


async def passed(seconds: float) -> None:
    """Let so many seconds pass."""
    await happened(asyncio.Event(), seconds)
