"""Who finds out what callers may read, with what a cluster and the configuration of the moment say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from scaler.api.access import Keeper, Readers
from scaler.api.reviewed import ReviewedTokens
from scaler.cluster.api import Api
from scaler.cluster.reviews import account_of
from scaler.control.ports import Clock
from scaler.telemetry import Reporter


@asynccontextmanager
async def keeping(
    readers: Callable[[], Readers], api: Api | None, clock: Clock, reporter: Reporter
) -> AsyncIterator[Keeper]:
    """A keeper, while the context is open. Without ``api`` there is no cluster, and nobody reviews tokens."""
    if api is None:
        yield Keeper(readers, None, reporter.turned_away)
        return
    reviewed = ReviewedTokens(
        lambda token: account_of(api, token), clock, lambda why: reporter.turned_away("gate", why)
    )
    try:
        yield Keeper(readers, reviewed, reporter.turned_away)
    finally:
        await reviewed.close()
