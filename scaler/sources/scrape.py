"""How engines are asked: by which scheme, whom to trust, what to show. One session for each named settings.

The files (CA, token, client certificate) are read again when they change; what cannot be used never replaces what can.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Literal

import aiohttp

from scaler.errors import SourceError
from scaler.sources.names import Resolver
from scaler.sources.shares import Shares

REFRESH_S = 5.0
ATTEMPTS = 3
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]\\]+):\d{1,5}", re.ASCII)
_FILES = ("ca_file", "bearer_token_file", "client_cert_file", "client_key_file")


@dataclass(frozen=True, slots=True)
class ScrapeSettings:
    """How engines' pages are asked for.

    ``scheme`` auto: as the platform says, else http, and https from then on where the peer turns out to speak TLS. That finds
    its way, but proves nothing: who must be sure of the engine's identity names https. ``port`` auto: the one of the address.
    Without ``ca_file`` the system's CAs are trusted. The token goes out over TLS only, unless ``scheme`` is http.
    ``server_name`` is the name to find in the certificate, which seldom bears the IP address that a pod is asked by.
    ``name`` is that of the settings: reasons for a missing reading say what to change.
    """

    scheme: Literal["auto", "http", "https"] = "auto"
    port: int | Literal["auto"] = "auto"
    path: str = "/metrics"
    ca_file: str | None = None
    insecure: bool = False
    bearer_token_file: str | None = None
    client_cert_file: str | None = None
    client_key_file: str | None = None
    server_name: str | None = None
    name: str = "default"

    def key(self, setting: str) -> str:
        """A setting by its full name."""
        return f"scrape.{self.name}.{setting}"

    def url(self, scheme: str, address: str) -> str:
        """Where the page of the replica at host:port is. Raises ValueError for what is no such address."""
        if not _ADDRESS.fullmatch(address):  # a platform's word, too: nothing of it may become a path or a login
            raise ValueError("not host:port")
        if self.port != "auto":
            address = f"{address.rpartition(':')[0]}:{self.port}"
        return f"{scheme}://{address}{self.path}"


@dataclass(frozen=True, slots=True)
class Access:
    """The settings' files as they were read: whom to trust and what to show. The token never shows in a representation."""

    context: ssl.SSLContext
    token: str | None = field(default=None, repr=False)
    contents: tuple[bytes | None, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Caution:
    """``shares`` bound what one namespace may take. ``loopback``: discovered replicas may be on this machine."""

    shares: Shares
    loopback: bool = False


class Scraper:
    """One session with its settings. ``scraping`` makes and closes one."""

    def __init__(
        self, session: aiohttp.ClientSession, settings: ScrapeSettings, refresh_s: float, caution: Caution | None
    ) -> None:
        self.session, self.settings, self.caution = session, settings, caution
        self._refresh_s = refresh_s
        self._looked_at = -inf
        self._access: Access | None = None
        self._fault = ""
        self._lock = asyncio.Lock()  # several workloads begin their passes at the same time

    @property
    def fault(self) -> str:
        """Why the files as they are now cannot be used; empty when they are in use."""
        return self._fault

    @property
    def access(self) -> Access:
        """What to show and trust now. Raises SourceError when the files could never be used."""
        if self._access is None:
            raise SourceError(self._fault or "certificates and token not read in time")
        return self._access

    async def refresh(self, now: float) -> None:
        """Look at the files again, in a thread, if it is time. Raises nothing for what they hold."""
        async with self._lock:
            if now - self._looked_at < self._refresh_s:
                return
            try:
                self._access = await asyncio.to_thread(_newest, self.settings, self._access)
                self._fault = ""
            except SourceError as error:
                self._fault = str(error)
            self._looked_at = now


@asynccontextmanager
async def scraping(
    settings: ScrapeSettings = ScrapeSettings(), *, refresh_s: float = REFRESH_S, caution: Caution | None = None
) -> AsyncIterator[Scraper]:
    """What a ``PodSource`` reads through, while the context is open. ``refresh_s`` is how often the files are looked at.

    Without ``caution`` each source has shares of its own.
    """
    connector = aiohttp.TCPConnector(
        limit=0,  # the lanes of each pass are the limit: a pool of all workloads would let one starve the others
        resolver=Resolver(),
        keepalive_timeout=4.0,  # below the 5 s after which uvicorn hangs up: no request meets a closing connection
    )
    async with aiohttp.ClientSession(
        connector=connector,
        trust_env=False,  # a proxy named in the environment must not stand between us and a pod
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:
        yield Scraper(session, settings, refresh_s, caution)


def _newest(settings: ScrapeSettings, known: Access | None) -> Access:
    """The files as they are now. Raises SourceError that names the setting."""
    for _ in range(ATTEMPTS):
        contents = _contents(settings)
        if known is not None and contents == known.contents:
            return known
        try:
            access = Access(_context(settings), _token(settings, contents), contents)
        except SourceError:
            if _contents(settings) == contents:
                raise
            continue  # a certificate may have met another one's key
        if _contents(settings) == contents:
            return access
    raise SourceError(f"{settings.key('*_file')}: changed each time they were read")


def _contents(settings: ScrapeSettings) -> tuple[bytes | None, ...]:
    return tuple(_content(settings, setting) for setting in _FILES)


def _content(settings: ScrapeSettings, setting: str) -> bytes | None:
    path: str | None = getattr(settings, setting)
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SourceError(f"{settings.key(setting)}: cannot be read ({error.strerror})") from error


def _token(settings: ScrapeSettings, contents: tuple[bytes | None, ...]) -> str | None:
    held = contents[_FILES.index("bearer_token_file")]
    if held is None:
        return None
    token = held.strip()
    if not token or any(not 0x21 <= byte <= 0x7E for byte in token):  # noqa: PLR2004 - printable, and no space
        raise SourceError(f"{settings.key('bearer_token_file')}: must hold one token and nothing else")
    return token.decode("ascii")


def _context(settings: ScrapeSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # what the CA file holds is trusted, root or not
    if settings.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif settings.ca_file is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(settings.ca_file)
        except OSError as error:  # an SSLError is one, too
            raise SourceError(f"{settings.key('ca_file')}: holds no PEM certificate") from error
    if settings.client_cert_file is not None:
        _show(context, settings, settings.client_cert_file)
    return context


def _show(context: ssl.SSLContext, settings: ScrapeSettings, certificate: str) -> None:
    def no_password() -> str:  # without it, OpenSSL would ask on the terminal
        raise SourceError(f"{settings.key('client_key_file')}: has a passphrase; store it without one")

    try:
        context.load_cert_chain(certificate, settings.client_key_file, password=no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise SourceError(f"{settings.key('client_key_file')}: does not match client_cert_file") from error
        raise SourceError(
            f"{settings.key('client_cert_file')} or client_key_file: not usable ({error.reason or 'not PEM'})"
        ) from error
    except OSError as error:
        raise SourceError(f"{settings.key('client_cert_file')}: cannot be read ({error.strerror})") from error
