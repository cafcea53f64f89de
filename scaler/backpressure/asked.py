"""What a request says of itself, and what is said back: the same over HTTP and gRPC.

Of credentials only a hash is made, to look up whose they are; neither is kept, logged or told.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from scaler.core.gate import Request, Verdict, Why
from scaler.core.plain import Json
from scaler.core.retry import UNKNOWN_HEADERS, retry_headers, state_headers, verdict_for

TIMEOUTS: Mapping[str, float] = MappingProxyType(
    {
        "x-request-timeout-ms": 0.001,
        "x-stainless-read-timeout": 1.0,  # OpenAI's and Anthropic's clients, Python
        "x-stainless-timeout": 1.0,  # and TypeScript
    }
)
"""Headers that say for how long a client waits, with their unit in seconds."""
BYTES = "surrogateescape"
"""How bytes that are no UTF-8 stand in a header's text. A client can send any, and must not be let in as our own failure for it."""
GRPC_TIMEOUT = "grpc-timeout"
GRPC_UNITS: Mapping[str, float] = MappingProxyType({"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9})
RETRIES: Mapping[str, int] = MappingProxyType(
    {"x-stainless-retry-count": 0, "grpc-previous-rpc-attempts": 0, "x-envoy-attempt-count": 1}
)
"""Headers that say how often a request was tried before, with what they say at the first time."""
SAID: Mapping[Why, str] = MappingProxyType(
    {
        Why.CONTENDED: "the replicas are overloaded",
        Why.TENANT: "the replicas are overloaded, and this tenant has its share of them",
        Why.DEADLINE: "the replicas are overloaded, and the wait is longer than the request's own timeout",
        Why.NO_CAPACITY: "no replica is ready",
    }
)
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_COUNT = re.compile(r"[0-9]{1,4}", re.ASCII)
_GRPC = re.compile(r"([0-9]{1,8})([HMSmun])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a key is, and the class of its requests; None: not said."""

    tenant: str | None = None
    request_class: str | None = None


@dataclass(frozen=True, slots=True)
class Trust:
    """Who is believed about who asks: a header that only a trusted proxy can set, and a map of keys.

    ``owners`` is by the SHA-256 of the bearer token, in hex: a map of hashes gives no key away.
    """

    tenant_header: str | None = None
    owners: Mapping[str, Owner] = field(default_factory=dict)

    def owner(self, headers: Mapping[str, str]) -> Owner:
        """Whose request it is, as far as the key tells."""
        if not self.owners:
            return Owner()
        _, _, token = headers.get("authorization", "").partition(" ")
        return self.owners.get(hashlib.sha256(token.strip().encode(errors=BYTES)).hexdigest(), Owner())


def request_of(
    headers: Mapping[str, str], trust: Trust, request_class: str | None, timeouts: Mapping[str, float] = TIMEOUTS
) -> Request:
    """The request that has these headers, by lower-case names. ``request_class`` is what its route says, which counts first."""
    owner = trust.owner(headers)
    tenant = headers.get(trust.tenant_header) if trust.tenant_header is not None else None
    return Request(
        request_class=request_class or owner.request_class,
        tenant=tenant or owner.tenant,
        deadline_s=min(_deadlines(headers, timeouts), default=None),
        retries=max(_retries(headers), default=0),
    )


def _deadlines(headers: Mapping[str, str], timeouts: Mapping[str, float]) -> Iterator[float]:
    """What timeouts are given, in seconds. 0 means none everywhere."""
    for name, unit_s in timeouts.items():
        text = headers.get(name, "")
        if _NUMBER.fullmatch(text) and float(text) > 0:
            yield float(text) * unit_s
    told = _GRPC.fullmatch(headers.get(GRPC_TIMEOUT, ""))
    if told is not None and int(told[1]) > 0:
        yield int(told[1]) * GRPC_UNITS[told[2]]


def _retries(headers: Mapping[str, str]) -> Iterator[int]:
    for name, first in RETRIES.items():
        text = headers.get(name, "")
        if _COUNT.fullmatch(text):
            yield max(0, int(text) - first)


def answer_headers(verdict: Verdict, now: float) -> dict[str, str]:
    """The headers of a verdict. A reason beside an admission says why it would have been refused, or why nothing is known."""
    told = dict(UNKNOWN_HEADERS)
    if verdict.decision is not None:
        published, _ = verdict_for(verdict.decision, verdict.request_class)
        stricter = replace(published, state=verdict.state, admit_ratio=verdict.admit_ratio)
        told = state_headers(verdict.decision, stricter, now)
    if verdict.why is not None:
        told["X-Backpressure-Reason"] = verdict.why.value
    if verdict.retry is not None and not verdict.admit:
        told |= retry_headers(verdict.retry)
        told["grpc-retry-pushback-ms"] = "-1" if verdict.retry.futile else str(verdict.retry.ms)
    return told


def answer_body(verdict: Verdict) -> str:
    """The body of a verdict; a refusal reads like an error of an OpenAI server."""
    body: dict[str, Json] = {"state": verdict.state.value, "class": verdict.request_class}
    if verdict.retry is not None and verdict.why is not None and not verdict.admit:
        message = f"{SAID[verdict.why]}; retry in {verdict.retry.seconds} s"
        code = f"backpressure_{verdict.why.value.replace('-', '_')}"
        body = {"error": {"message": message, "type": "overloaded_error", "param": None, "code": code}, **body}
    return json.dumps(body, allow_nan=False, ensure_ascii=False)
