"""What stands between prometheus-api-client and the wire, for what the library leaves to chance, and what goes wrong there in words.

* No redirect to an address that nobody named.
* A limit on the size and on the whole duration of an answer.
* The query in the body of the POST: the library writes it into the URL, which servers cut at a few kilobytes.
* The warnings beside a result, which the library drops: with them the answer is partial.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from scaler.control.ports import Clock
from scaler.core.written import number
from scaler.engines.row import Sample
from scaler.errors import SourceError

BODY_CAP = 2_000_000
_VECTOR = re.compile(r'.{1,200}?"resultType":\s*"vector",\s*"result":\s*\[\s*', re.DOTALL)
_DECODER = json.JSONDecoder()
_LONGEST_WORDS = 160

# The first that is found in the chain of causes speaks: the particular stand before the general.
_REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (TimeoutError, "answer stopped half-way"),
    (ConnectionRefusedError, "connection refused"),
    (ConnectionResetError, "connection reset"),
    (socket.gaierror, "name does not resolve"),
    (ssl.SSLCertVerificationError, "TLS certificate not trusted"),
    (ssl.SSLError, "TLS failed"),
    (requests.exceptions.SSLError, "TLS failed"),
    (requests.exceptions.ChunkedEncodingError, "answer cut short"),
    (requests.exceptions.ContentDecodingError, "answer cut short"),
    (requests.exceptions.JSONDecodeError, "no JSON"),
    (requests.exceptions.ConnectionError, "cannot connect"),
    (requests.exceptions.InvalidHeader, "header or token is malformed"),
    (FileNotFoundError, "token or CA file not found"),
    (OSError, "connection lost"),
    (UnicodeError, "token file is no text"),
)


class Decoded(requests.Response):
    """Keeps what it decoded: the library hands on the result alone, and the warnings stand beside it.

    The rows of a vector are samples already; ``evaluated_at`` is the time that they have in common.
    """

    document: Any = None
    evaluated_at: float | None = None

    def json(self, **options: Any) -> Any:
        """The decoded body, decoded once."""
        if self.document is None:
            self.document = self._by_rows() or super().json(**options)
        return self.document

    def _by_rows(self) -> Any:
        """A vector decoded one row after the other; None of what does not look like one.

        The decoder of the standard library does not let go of the interpreter before the end of what it was given:
        with a megabyte the event loop would stand still for some 15 ms. Nor does the garbage collector, which is called
        the less the fewer objects a row leaves behind.
        """
        try:
            text = self.content.decode()
            head = _VECTOR.match(text)
            rows: list[Sample] = []
            end = start = head.end() if head else len(text)
            at = 0.0
            while text[end] != "]":
                row, end = _DECODER.raw_decode(text, end)
                while text[end] in ", \n":
                    end += 1
                at, value = row["value"]
                rows.append(Sample({**row["metric"]}, value_of(value)))
            document = json.loads(text[:start] + text[end:])
            document["data"]["result"] = rows
            self.evaluated_at = float(at) if rows else None
        except (ValueError, IndexError, KeyError, TypeError):
            return None
        return document


def value_of(written: Any) -> float:
    """A value as Prometheus writes it, a text. Raises ValueError, TypeError."""
    value = number(written)
    if value is None:
        raise ValueError("no number")
    return value


class Adapter(HTTPAdapter):
    """Sends queries as forms and lets no answer pass that is a redirect, compressed, too long or too late."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)
        self.answer = Decoded()
        self._clock = clock
        self._deadline = inf

    def begin(self, left_s: float) -> None:
        """A query starts, and has this many seconds."""
        self.answer = Decoded()
        self._deadline = self._clock() + left_s

    def build_response(self, *given: Any) -> requests.Response:
        """The library's response, as one that keeps what it decoded."""
        self.answer = Decoded()
        self.answer.__dict__.update(vars(super().build_response(*given)))
        return self.answer

    def send(self, request: requests.PreparedRequest, *_rest: Any, **how: Any) -> requests.Response:
        """Send one request. Its body is read later, through the bounds."""
        request.url, _, form = (request.url or "").partition("?")
        request.body = form.encode()
        request.headers["Content-Type"] = "application/x-www-form-urlencoded"
        request.prepare_content_length(form)
        response = super().send(request, **{**how, "stream": True})
        if why := _head_fault(response):
            response.close()
            raise SourceError(why)
        response.raw = _Bounded(response.raw, lambda: self._clock() > self._deadline)
        return response


class _Bounded:
    """A body that ends with SourceError beyond the cap, and with a time-out when it trickles on past the deadline."""

    def __init__(self, raw: Any, is_late: Callable[[], bool]) -> None:
        self._raw = raw
        self._is_late = is_late
        self.close = raw.close
        self.release_conn = raw.release_conn

    def stream(self, size: int, **options: Any) -> Iterator[bytes]:
        """The body in chunks."""
        left = BODY_CAP
        for chunk in self._raw.stream(size, **options):
            left -= len(chunk)
            if left < 0:
                self.close()
                raise SourceError(f"answer over {BODY_CAP} bytes")
            if self._is_late():
                self.close()
                raise requests.exceptions.ReadTimeout
            yield chunk


def _head_fault(response: requests.Response) -> str:
    """Why a body is not read at all; empty if it is."""
    if 300 <= response.status_code < 400:  # noqa: PLR2004 - it leads to an address that nobody named
        return f"HTTP {response.status_code} redirect refused"
    if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        return "compressed answer refused"  # not asked for, and a few bytes can unpack to gigabytes
    return ""


def refusal(answer: Decoded) -> str:
    """What an answer with another status than 200 says."""
    try:
        words = said(answer.json())
    except ValueError:
        words = ""
    return f"HTTP {answer.status_code}" + (f": {words}" if words else "")


def fault(answer: Decoded) -> str:
    """What is wrong with an answer of status 200 that has no result."""
    if answer.document is None:
        return "HTML instead of JSON" if answer.content.lstrip().startswith(b"<") else "no JSON"
    return said(answer.document) or "no result in the answer"


def said(document: Any) -> str:
    """What Prometheus says is wrong, empty if it says nothing."""
    if not isinstance(document, Mapping) or not isinstance(document.get("error"), str):
        return ""
    return short(f"{document.get('errorType', 'error')}: {document['error']}")


def short(text: str) -> str:
    """At most a line of somebody else's words."""
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST_WORDS else words[: _LONGEST_WORDS - 1] + "…"


def reason(error: BaseException) -> str:
    """An exception of the library, of requests or of the system as one short phrase."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    for kind, phrase in _REASONS:
        if any(isinstance(one, kind) for one in chain):
            return phrase
    return f"cannot be asked: {type(error).__name__}"
