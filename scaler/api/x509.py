"""What we must know of a certificate: from when and until when it is valid.

The standard library shows that only of a peer's certificate, after a handshake, and of CAs. A whole library for two dates
is not worth having, so the few bytes of DER before them are walked here.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_UTC_TIME, _VERSION = 0x17, 0xA0
_BEFORE_VALIDITY = 3
"""Serial number, signature algorithm and issuer."""


@dataclass(frozen=True, slots=True)
class Validity:
    """Seconds since 1970."""

    not_before: float
    not_after: float


def blocks(pem: bytes) -> tuple[str, ...]:
    """The certificates of a PEM file, without the remarks that may stand between them."""
    return tuple(found.decode("ascii", errors="replace") for found in _BLOCK.findall(pem))


def validity(block: str) -> Validity:
    """When one PEM certificate is valid. Raises ValueError when it is none."""
    try:
        ((_, certificate),) = _elements(ssl.PEM_cert_to_DER_cert(block))
        _, signed = next(_elements(certificate))
        fields = [content for tag, content in _elements(signed) if tag != _VERSION]
        not_before, not_after = (_seconds(tag, text) for tag, text in _elements(fields[_BEFORE_VALIDITY]))
    except (IndexError, StopIteration, UnicodeDecodeError) as error:
        raise ValueError("not a certificate") from error
    return Validity(not_before, not_after)


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """(tag, content) of each element. Raises IndexError where the bytes end too early."""
    at = 0
    while at < len(der):
        tag, length = der[at], der[at + 1]
        at += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(der[at : at + size], "big")
            at += size
        yield tag, der[at : at + length]
        at += length


def _seconds(tag: int, text: bytes) -> float:
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(text.decode("ascii"), form).replace(tzinfo=UTC).timestamp()
