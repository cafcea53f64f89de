"""Handshakes of asyncio's TLS servers: each begins with the context of its moment, and a failed one is heard of.

asyncio drops the error of a handshake that fails on the server's side: no exception handler sees it. The SSL object does.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

OnFailure = Callable[[ssl.SSLError], None]


class _Watched(ssl.SSLObject):
    """One connection. Its error in the handshake is told, and its alert is sent.

    asyncio hangs up on an error without sending what OpenSSL has to say of it, and the client would see nothing but a
    connection that ends. So the error is held back once: asyncio sends what is there to send, and meets the error at the
    next byte, at the client's end, or at the time limit of the handshake.
    """

    on_failure: OnFailure
    outgoing: ssl.MemoryBIO
    _failed: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        if self._failed is not None:
            raise self._failed
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self._failed = error
            self.on_failure(error)
            if self.outgoing.pending:
                raise ssl.SSLWantReadError("the alert goes first") from error
            raise


class PortContext(ssl.SSLContext):
    """One state of certificates, to be handed out by a ``LiveContext``."""

    sslobject_class = _Watched


class LiveContext(ssl.SSLContext):
    """Hands every connection to the context of its moment.

    Loading another chain into one context would do for certificates; but a CA, once trusted by it, could never be taken back,
    and a session resumed from before would not be checked against the CAs of now.
    """

    _current: Callable[[], PortContext]
    _on_failure: OnFailure

    @classmethod
    def of(cls, current: Callable[[], PortContext], on_failure: OnFailure) -> LiveContext:
        """A live context over what ``current`` returns for each connection; ``on_failure`` is told of handshakes that fail."""
        live = cls(ssl.PROTOCOL_TLS_SERVER)
        live._current, live._on_failure = current, on_failure
        return live

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002 - the signature is the standard library's
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """The SSL object of a new connection."""
        wrapped = self._current().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        if not isinstance(wrapped, _Watched):
            raise TypeError("a PortContext makes watched connections")
        wrapped.on_failure, wrapped.outgoing = self._on_failure, outgoing
        return wrapped


_REFUSALS = (
    (("HTTP_REQUEST",), "client_without_tls", "a client spoke HTTP without TLS: it must use https"),
    (
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE",),
        "client_without_certificate",
        "a client showed no certificate: it needs one of a CA in server.tls.client_ca_file",
    ),
    (
        ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_EXPIRED", "CERTIFICATE_UNKNOWN", "UNSUPPORTED_CERTIFICATE"),
        "certificate_refused_by_client",
        "a client did not accept our certificate: it must trust its CA, and the certificate must bear the name asked for",
    ),
    (("UNSUPPORTED_PROTOCOL",), "client_too_old", "a client offered no TLS 1.2 or newer"),
)


def refusal(error: ssl.SSLError) -> tuple[str, str]:
    """The kind of a failed handshake, and what a person should know of it. Nothing in it depends on what the client sent."""
    if isinstance(error, ssl.SSLCertVerificationError) or error.reason == "CERTIFICATE_VERIFY_FAILED":
        why = getattr(error, "verify_message", "") or "it was not issued by a CA in server.tls.client_ca_file"
        return "client_certificate_not_trusted", f"a client's certificate was not accepted: {why}"
    for endings, kind, sentence in _REFUSALS:
        if (error.reason or "").endswith(endings):
            return kind, sentence
    return "handshake_failed", f"a TLS handshake failed: {error.reason or 'the client broke it off'}"
