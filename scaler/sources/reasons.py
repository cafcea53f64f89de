"""Why a replica's page was not read, in words that name the setting to change, and whether the other scheme may do better."""

from __future__ import annotations

import ssl

import aiohttp

from scaler.errors import SourceError
from scaler.sources.scrape import ScrapeSettings

HTTPS = "https"
_REDIRECTS, _BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN = range(300, 400), 400, 401, 403
# OpenSSL's numbers for what it found wrong.
_EXPIRED = 10
_ANOTHER_NAME = frozenset({62, 64})
_NOT_TRUSTED = frozenset({2, 18, 19, 20, 21})

# The first that fits speaks: the particular stand before the general.
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (ConnectionRefusedError, "connection refused"),
    (ConnectionResetError, "connection reset"),
    (aiohttp.ClientConnectorDNSError, "name does not resolve"),
    (aiohttp.ClientConnectorError, "cannot connect"),
    (aiohttp.ServerDisconnectedError, "connection closed without an answer"),
    (aiohttp.ClientPayloadError, "page cut short"),
    (aiohttp.ClientResponseError, "malformed HTTP answer"),
    (aiohttp.ClientOSError, "connection reset"),
    (aiohttp.ClientConnectionError, "connection lost"),
    (aiohttp.NonHttpUrlClientError, "invalid address"),
    (ValueError, "invalid address"),
)
# A server that speaks TLS only answers plain HTTP like this: it hangs up, or sends an alert or a page that is none.
_PERHAPS_TLS = (
    aiohttp.ServerDisconnectedError,
    aiohttp.ClientResponseError,
    aiohttp.ClientOSError,
    ConnectionResetError,
)


class NotRead(SourceError):
    """No page. ``other_scheme``: nothing contradicts that the peer speaks the other one of http and https."""

    def __init__(self, reason: str, *, other_scheme: bool = False) -> None:
        super().__init__(reason)
        self.other_scheme = other_scheme


def of_status(status: int, scheme: str, settings: ScrapeSettings) -> NotRead:
    """The answer was no 200."""
    plain = scheme != HTTPS
    if status in _REDIRECTS:  # it would lead to an address that nobody named
        return NotRead(f"HTTP {status} redirect refused")
    if status not in (_UNAUTHORIZED, _FORBIDDEN):
        # Go's and nginx's way to say that they expect TLS.
        return NotRead(f"HTTP {status}", other_scheme=plain and status == _BAD_REQUEST)
    if settings.bearer_token_file is None:
        return NotRead(f"HTTP {status}; set {settings.key('bearer_token_file')}")
    if plain and settings.scheme != "http":
        return NotRead(f"HTTP {status}; the token is sent over TLS only, unless {settings.key('scheme')} is http")
    return NotRead(f"HTTP {status}; check the token in {settings.key('bearer_token_file')}")


def of_error(error: Exception, scheme: str, settings: ScrapeSettings) -> NotRead:
    """There was no answer."""
    if scheme != HTTPS:
        told = getattr(error, "os_error", error)
        perhaps = isinstance(told, _PERHAPS_TLS) and not isinstance(told, ConnectionRefusedError)
        return NotRead(_plain(error), other_scheme=perhaps and not isinstance(error, aiohttp.ClientPayloadError))
    for candidate in (getattr(error, "certificate_error", None), getattr(error, "os_error", None), error.__cause__):
        if isinstance(candidate, ssl.SSLCertVerificationError):
            return NotRead(_certificate(candidate, settings))
        if isinstance(candidate, ssl.SSLError):
            return _handshake(candidate, settings)
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionResetError):
        return NotRead(f"connection reset in the TLS handshake; {_client_certificate(settings)}", other_scheme=True)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        # Under TLS 1.3 a client has finished its handshake before the server looks at its certificate.
        return NotRead(f"connection closed after the TLS handshake; {_client_certificate(settings)}")
    return NotRead(_plain(error))


def _plain(error: Exception) -> str:
    cause = getattr(error, "os_error", error)  # aiohttp wraps what the system said
    for candidate in (cause, error):
        for kind, phrase in _REASONS:
            if isinstance(candidate, kind):
                return phrase
    return f"cannot be read: {type(error).__name__}"


def _certificate(error: ssl.SSLCertVerificationError, settings: ScrapeSettings) -> str:
    if error.verify_code == _EXPIRED:
        return "certificate of the engine has expired"
    if error.verify_code in _ANOTHER_NAME:
        return f"certificate is for another name; set {settings.key('server_name')} to the one it bears"
    if error.verify_code in _NOT_TRUSTED:
        return f"certificate not trusted; set {settings.key('ca_file')} to the CA that issued it"
    return f"certificate not accepted: {error.verify_message}"


def _handshake(error: ssl.SSLError, settings: ScrapeSettings) -> NotRead:
    reason = error.reason or ""
    _, alert, what = reason.partition("_ALERT_")
    if not alert:
        return NotRead(f"no TLS there; set {settings.key('scheme')} to http", other_scheme=True)
    if "CERTIFICATE" in what or what in ("UNKNOWN_CA", "HANDSHAKE_FAILURE", "ACCESS_DENIED"):
        said = what.lower().replace("_", " ")
        return NotRead(f"engine refused TLS ({said}); {_client_certificate(settings)}")
    return NotRead(f"engine refused TLS ({reason})")


def _client_certificate(settings: ScrapeSettings) -> str:
    if settings.client_cert_file is None:
        return f"if it asks for a client certificate, set {settings.key('client_cert_file')}"
    return f"check {settings.key('client_cert_file')}"
