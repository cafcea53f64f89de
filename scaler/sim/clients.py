"""What client libraries do when they are refused: how long they wait, and when they give up.

Measured on the retry loops of the libraries themselves, against a server that refuses: none adds jitter to a Retry-After, all take
``retry-after-ms`` before ``Retry-After`` and 0 as absent, and those that are told to wait for longer than they like come back at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scaler.core.retry import Retry

FIRST_BACKOFF_S, LONGEST_BACKOFF_S, BACKOFF_JITTER_RATIO = 0.5, 8.0, 0.25
CONTENDED, SERVER_ERRORS = 429, 500
TRIED_AGAIN = frozenset({408, 409, CONTENDED})


@dataclass(frozen=True, slots=True)
class Sdk:
    """One client library: a first attempt, and up to ``retries`` more, each given up when it has no whole answer after ``timeout_s``.

    A wait of more than ``honours_s`` seconds is ignored, or ends the request where it ``gives_up_beyond``. ``announces``: each attempt
    says the how manieth retry it is, and how long it will wait.
    """

    name: str
    honours_s: float = 60.0
    gives_up_beyond: bool = False
    retries: int = 2
    announces: bool = True
    timeout_s: float = 600.0


OLD = Sdk("openai 1.55-2.0, anthropic 0.40-0.121")
OPENAI = Sdk("openai 3.57", honours_s=120.0, gives_up_beyond=True)
ANTHROPIC = Sdk("anthropic 2.14", honours_s=math.inf)
SDKS = (OLD, OPENAI, ANTHROPIC)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a refused client sees: the status, and the headers that libraries look at, in their own units. None: there is no such header."""

    status: int = CONTENDED
    retry_after_s: float | None = None
    retry_after_ms: float | None = None
    should_retry: bool | None = None

    @property
    def wait_s(self) -> float | None:
        """The wait that the headers ask for, in seconds; None when they ask for none."""
        wait = self.retry_after_s if self.retry_after_ms is None else self.retry_after_ms / 1000
        return wait if wait is not None and wait > 0 else None


def refusal(status: int, when: Retry) -> Refusal:
    """A refusal with the headers of ``core.retry.retry_headers``."""
    return Refusal(status, float(when.seconds), float(when.ms), False if when.futile else None)


def retry_s(sdk: Sdk, refused: Refusal, tried: int, draw: float) -> float | None:
    """Seconds until it tries again after ``tried`` retries, None: it gives up. ``draw`` is uniform in 0..1."""
    again = refused.status in TRIED_AGAIN or refused.status >= SERVER_ERRORS
    if refused.should_retry is not None:
        again = refused.should_retry
    if not again:
        return None
    wait = refused.wait_s
    if wait is None or (wait > sdk.honours_s and not sdk.gives_up_beyond):
        return backoff_s(sdk, tried, draw)
    return wait if wait <= sdk.honours_s and tried < sdk.retries else None


def backoff_s(sdk: Sdk, tried: int, draw: float) -> float | None:
    """Likewise where nothing that it honours was told, as after a timeout: 0.4 s and 0.85 s on average."""
    if tried >= sdk.retries:
        return None
    return min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0**tried) * (1 - BACKOFF_JITTER_RATIO * draw)
