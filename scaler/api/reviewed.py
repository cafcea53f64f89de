"""Tokens that somebody else must judge, remembered for a while: the cluster knows whose ServiceAccount's token it is.

* A good token is asked about again after a minute. Should the judge not answer then, its last word holds for ten: an API server that is
  away must not blind gateways that were let in before.
* A token that was never judged is not let in while the judge does not answer: this fails closed. Whoever reads state without an answer
  admits everything by its own rule, and a stranger who waits for an outage learns nothing.
* Nobody waits longer than two seconds, and what waits is bounded: tokens are words of strangers, and each costs the judge a call.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaler.errors import NotReady, ScalerError

if TYPE_CHECKING:
    from scaler.control.ports import Clock

FRESH_S, STALE_S, REFUSED_S = 60.0, 600.0, 10.0
WAIT_S = 2.0
MOST_KNOWN, MOST_ASKED = 1024, 32
Judge = Callable[[str], Awaitable[str | None]]
"""A token to the ServiceAccount whose it is, as namespace/name, None when it is nobody's. Raises ScalerError when nobody can say."""


@dataclass(frozen=True, slots=True)
class _Known:
    account: str | None
    at: float

    def fresh(self, now: float) -> bool:
        return now - self.at < (FRESH_S if self.account is not None else REFUSED_S)

    def stands(self, now: float) -> bool:
        return self.account is not None and now - self.at < STALE_S


class ReviewedTokens:
    """What was said of tokens. Keeps hashes, never a token. Belongs to one event loop."""

    def __init__(self, judge: Judge, clock: Clock, troubled: Callable[[str], None]) -> None:
        """Nothing was asked yet. ``troubled`` is told why the judge could not judge."""
        self._judge, self._clock, self._troubled = judge, clock, troubled
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._asked: dict[bytes, asyncio.Task[None]] = {}

    async def account(self, token: str) -> str | None:
        """Whose token it is, None for nobody's. Raises NotReady when nobody could say in time."""
        digest, known = self._look(token)
        if known is not None and known.fresh(self._clock()):
            return known.account
        asking = self._ask(digest, token)
        if asking is not None:
            await asyncio.wait((asking,), timeout=WAIT_S)
        known = self._known.get(digest)
        if known is not None and (known.fresh(self._clock()) or known.stands(self._clock())):
            return known.account
        raise NotReady("the token could not be reviewed now; ask again in a few seconds")

    def at_once(self, token: str) -> str | None:
        """The same without waiting: None also for a token that is not known yet, about which the judge is then asked."""
        digest, known = self._look(token)
        now = self._clock()
        if known is None or not known.fresh(now):
            self._ask(digest, token)
        return known.account if known is not None and (known.fresh(now) or known.stands(now)) else None

    async def close(self) -> None:
        """Ask no more."""
        asked = tuple(self._asked.values())
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)

    def _look(self, token: str) -> tuple[bytes, _Known | None]:
        digest = hashlib.sha256(token.encode()).digest()
        if digest in self._known:
            self._known.move_to_end(digest)
        return digest, self._known.get(digest)

    def _ask(self, digest: bytes, token: str) -> asyncio.Task[None] | None:
        """The question about this token that is under way, None where there is no room for another."""
        if digest not in self._asked:
            if len(self._asked) >= MOST_ASKED:
                return None
            task = self._asked[digest] = asyncio.create_task(self._judged(digest, token))
            task.add_done_callback(lambda _: self._asked.pop(digest, None))
        return self._asked[digest]

    async def _judged(self, digest: bytes, token: str) -> None:
        try:
            account = await self._judge(token)
        except ScalerError as error:  # who waits finds nothing new
            self._troubled(str(error))
            return
        self._known[digest] = _Known(account, self._clock())
        self._known.move_to_end(digest)
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
