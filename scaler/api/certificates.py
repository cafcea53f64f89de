"""TLS on our own ports: certificates that are read again when their files change, and clients that are told apart when refused.

A pair is checked whole before it serves: one that cannot be used never replaces one that can. New handshakes get the new
pair, connections live on. What is served is one immutable value, replaced by one assignment, because gRPC asks for it from
threads of its own.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import grpc

from scaler.api.handshake import LiveContext, PortContext, refusal
from scaler.api.x509 import Validity, blocks, validity
from scaler.errors import ConfigError

EVERY_S = 5.0
"""How often the files are looked at. They are a few kilobytes, and Kubernetes itself takes a minute to bring new ones."""
ATTEMPTS = 3
Tell = Callable[[str, str], None]
"""Is told what happened, as (kind, sentence), as often as it happens: who writes it down decides how often."""


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The files behind our ports, all PEM. With ``client_ca_file`` a client must show a certificate of one of the CAs in it."""

    cert_file: str
    key_file: str
    client_ca_file: str | None = None


@dataclass(frozen=True, slots=True)
class _Served:
    """One state of the files, checked. ``expires_at`` is by file, in seconds since 1970."""

    contents: tuple[bytes, ...]
    client_cas: tuple[str, ...]
    context: PortContext
    expires_at: Mapping[str, float]


class _Moving(Exception):
    """Two looks at the files differed, so a certificate may have met another one's key."""


class Certificates:
    """What our TLS ports show and ask for. ``load`` makes one; ``run`` keeps it as new as its files."""

    def __init__(self, tls: ServerTls, served: _Served, wall: Callable[[], float], tell: Tell) -> None:
        self._tls, self._served, self._wall, self._tell = tls, served, wall, tell
        self._refused: Counter[str] = Counter()
        self._fault = ""

    @classmethod
    def load(cls, tls: ServerTls, wall: Callable[[], float], tell: Tell) -> Certificates:
        """Read the files. ``wall`` gives seconds since 1970. Raises ConfigError with every fault found."""
        for _ in range(ATTEMPTS):
            try:
                return cls(tls, _read(tls, wall()), wall, tell)
            except _Moving:
                continue
        raise ConfigError(f"server.tls.cert_file: {tls.cert_file} changed each time it was read")

    @property
    def fault(self) -> str:
        """Why the files as they are now cannot be used, so that older ones still serve; empty when they are served."""
        return self._fault

    @property
    def expiries(self) -> Mapping[str, float]:
        """When each certificate file in use expires, in seconds since 1970, by its path."""
        return self._served.expires_at

    @property
    def refusals(self) -> Mapping[str, int]:
        """How many handshakes failed, as far as it can be known, by kind."""
        return self._refused

    def grpc_credentials(self, opened: Callable[[], None] = lambda: None) -> grpc.ServerCredentials:
        """Credentials for one port of a gRPC server.

        ``opened`` is called in a thread of gRPC's for every connection, before its handshake. How that ends, grpcio tells
        nobody but its own log on stderr.
        """
        given = self._served

        def fetch() -> grpc.ServerCertificateConfiguration | None:
            nonlocal given
            opened()
            if self._served is given:
                return None
            given = self._served
            return _for_grpc(given)

        # The published types leave out that None stands for "no change".
        fetcher = cast("Callable[[], grpc.ServerCertificateConfiguration]", fetch)
        return grpc.dynamic_ssl_server_credentials(_for_grpc(given), fetcher, self._tls.client_ca_file is not None)

    def http_context(self) -> ssl.SSLContext:
        """The context for any number of asyncio servers: each connection gets what is served when it begins."""
        return LiveContext.of(lambda: self._served.context, self._handshake_failed)

    def refused(self, kind: str, sentence: str) -> None:
        """Count and tell that a client did not get in."""
        self._refused[kind] += 1
        self._tell(kind, sentence)

    async def run(self, every_s: float = EVERY_S) -> None:
        """Refresh for ever."""
        while True:
            await asyncio.sleep(every_s)  # noqa: TID251 - the files' own pace: nothing tells when a volume was swapped
            await self.refresh()

    async def refresh(self) -> None:
        """Look at the files once, in a thread, and serve what they hold if it can be used. Raises nothing for what they hold."""
        try:
            fresh = await asyncio.to_thread(_read_if_new, self._tls, self._wall(), self._served.contents)
        except _Moving:
            return
        except ConfigError as error:
            self._fault = str(error)
            self._tell("certificate_not_loaded", f"{error}; what was loaded before stays in use")
            return
        self._fault = ""
        if fresh is not None:
            self._served = fresh
            self._tell("certificate_loaded", f"new certificate in use, {_until(min(fresh.expires_at.values()))}")
        for name, at in self._served.expires_at.items():
            if at <= self._wall():
                self._tell(
                    "certificate_expired", f"{name} has expired, {_until(at)}: clients refuse it, or are refused"
                )

    def _handshake_failed(self, error: ssl.SSLError) -> None:
        self.refused(*refusal(error))


def _for_grpc(served: _Served) -> grpc.ServerCertificateConfiguration:
    certificate, key, *_ = served.contents
    roots = "\n".join(served.client_cas).encode() or None
    return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=roots)


def _read_if_new(tls: ServerTls, now: float, known: tuple[bytes, ...]) -> _Served | None:
    return None if _contents(tls) == known else _read(tls, now)


def _read(tls: ServerTls, now: float) -> _Served:
    """The files, checked. Raises ConfigError, or _Moving when they changed meanwhile."""
    contents = _contents(tls)
    chain = blocks(contents[0])
    cas = blocks(contents[2]) if tls.client_ca_file is not None else ()
    try:
        expires_at = {tls.cert_file: _chain_end("cert_file", tls.cert_file, chain, now)}
        if tls.client_ca_file is not None:
            expires_at[tls.client_ca_file] = _bundle_end(tls.client_ca_file, cas, now)
        context = _context(tls, cas)
    except ConfigError:
        if _contents(tls) != contents:
            raise _Moving from None
        raise
    if _contents(tls) != contents:
        raise _Moving
    return _Served(contents, cas, context, expires_at)


def _contents(tls: ServerTls) -> tuple[bytes, ...]:
    """Certificate, key and CAs. Raises ConfigError that names each file that cannot be read."""
    named = (("cert_file", tls.cert_file), ("key_file", tls.key_file), ("client_ca_file", tls.client_ca_file))
    found, faults = [], []
    for key, path in named:
        if path is None:
            continue
        try:
            found.append(Path(path).read_bytes())
        except OSError as error:
            faults.append(f"server.tls.{key}: {path} cannot be read ({error.strerror})")
    if faults:
        raise ConfigError(*faults)
    return tuple(found)


def _chain_end(key: str, path: str, chain: Iterable[str], now: float) -> float:
    """When the first certificate of a chain expires."""
    periods = _periods(key, path, chain)
    if (end := min(period.not_after for period in periods)) <= now:
        raise ConfigError(f"server.tls.{key}: {path} has expired, {_until(end)}")
    if (start := max(period.not_before for period in periods)) > now:
        raise ConfigError(f"server.tls.{key}: {path} is not valid before {_stamp(start)}; is the clock right?")
    return end


def _bundle_end(path: str, cas: Iterable[str], now: float) -> float:
    """When the next CA that is still valid expires: in a bundle the one that goes and the one that comes stand side by side."""
    ends = [period.not_after for period in _periods("client_ca_file", path, cas)]
    left = [end for end in ends if end > now]
    if not left:
        raise ConfigError(f"server.tls.client_ca_file: every CA in {path} has expired, {_until(max(ends))}")
    return min(left)


def _periods(key: str, path: str, chain: Iterable[str]) -> list[Validity]:
    try:
        periods = [validity(block) for block in chain]
    except ValueError:
        raise ConfigError(f"server.tls.{key}: {path} holds a certificate that cannot be read") from None
    if not periods:
        raise ConfigError(f"server.tls.{key}: {path} holds no PEM certificate")
    return periods


def _context(tls: ServerTls, cas: tuple[str, ...]) -> PortContext:
    context = PortContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.cert_file, tls.key_file, password=_no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(f"server.tls.key_file: {tls.key_file} does not match {tls.cert_file}") from None
        raise ConfigError(
            f"server.tls.key_file: {tls.key_file} holds no usable private key ({error.reason or 'not PEM'})"
        ) from None
    except OSError as error:
        raise ConfigError(f"server.tls.key_file: {tls.key_file} cannot be read ({error.strerror})") from None
    if cas:
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= (
            ssl.VERIFY_X509_PARTIAL_CHAIN
        )  # as gRPC: what stands in the file is trusted, root or not
        _trust(context, tls, cas)
    return context


def _trust(context: ssl.SSLContext, tls: ServerTls, cas: tuple[str, ...]) -> None:
    try:
        context.load_verify_locations(cadata="\n".join(cas))
    except ssl.SSLError:
        raise ConfigError(
            f"server.tls.client_ca_file: {tls.client_ca_file} holds a certificate that cannot be read"
        ) from None


def _no_password() -> str:
    """Without this, OpenSSL would ask on the terminal."""
    raise ConfigError("server.tls.key_file: the key has a passphrase; store it without one")


def _until(at: float) -> str:
    return f"valid until {_stamp(at)}"


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
