"""Certificates for tests, made by the openssl command, and clients that use them."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from shutil import which

import grpc
import grpc.aio
import pytest

from scaler.api.certificates import Certificates, ServerTls

KEY_KIND = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
NAMES = "DNS:localhost,IP:127.0.0.1"
A_WHILE_AGO = -1
"""Days of validity that are over before they began."""


@dataclass(frozen=True)
class Issued:
    """Files of a certificate and its key."""

    cert: Path
    key: Path

    def over(self, other: Issued) -> None:
        """Replace the other's files with these."""
        other.cert.write_bytes(self.cert.read_bytes())
        other.key.write_bytes(self.key.read_bytes())

    def copy(self, folder: Path) -> Issued:
        """The same files in a folder of their own, to be replaced later."""
        folder.mkdir(parents=True, exist_ok=True)
        copied = Issued(folder / "tls.crt", folder / "tls.key")
        self.over(copied)
        return copied


@dataclass
class Authority:
    """A CA of its own, with its files in ``folder``."""

    folder: Path
    days: int = 2
    ca: Path = field(init=False)
    _numbers: count = field(default_factory=count)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.ca = self.folder / "ca.pem"
        extensions = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
        subject = ("-subj", f"/CN={self.folder.name}")
        openssl("req", "-x509", *KEY_KIND, "-nodes", *subject, *extensions, "-days", str(self.days),
                "-keyout", self._file("ca.key"), "-out", str(self.ca))  # fmt: skip

    def issue(self, *, days: int = 1, names: str = NAMES, common: str | None = None) -> Issued:
        """A certificate for a server or a client, with a key of its own. ``common``: its common name, else a number."""
        number = next(self._numbers)
        key, asked, cert, more = (self._file(f"{number}.{end}") for end in ("key", "csr", "crt", "ext"))
        Path(more).write_text(f"subjectAltName={names}\n")
        openssl("req", *KEY_KIND, "-nodes", "-subj", f"/CN={common or number}", "-keyout", key, "-out", asked)
        openssl("x509", "-req", "-in", asked, "-CA", str(self.ca), "-CAkey", self._file("ca.key"), "-CAcreateserial",
                "-days", str(days), "-extfile", more, "-out", cert)  # fmt: skip
        return Issued(Path(cert), Path(key))

    def _file(self, name: str) -> str:
        return str(self.folder / name)


def openssl(*arguments: str) -> None:
    executable = which("openssl")
    if executable is None:
        pytest.skip("certificates are made by the openssl command, which is not installed")
    done = subprocess.run([executable, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@dataclass
class Told:
    """What the operator would be told."""

    news: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, kind: str, sentence: str) -> None:
        self.news.append((kind, sentence))

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.news]


def wall() -> float:
    """Seconds since 1970: openssl makes certificates that are valid from now on."""
    return datetime.now(UTC).timestamp()


def server_tls(pair: Issued, client_ca: Path | None = None) -> ServerTls:
    return ServerTls(str(pair.cert), str(pair.key), None if client_ca is None else str(client_ca))


def certificates(pair: Issued, client_ca: Path | None = None, told: Told | None = None) -> Certificates:
    return Certificates.load(server_tls(pair, client_ca), wall, told or Told())


def channel(port: int, ca: Path | None, shown: Issued | None = None) -> grpc.aio.Channel:
    """A connection of its own, as KEDA makes it: with caCert, and perhaps tlsClientCert and tlsClientKey. No CA: no TLS."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    if ca is None:
        return grpc.aio.insecure_channel(f"localhost:{port}", options=options)
    pair = () if shown is None else (shown.key.read_bytes(), shown.cert.read_bytes())
    return grpc.aio.secure_channel(
        f"localhost:{port}", grpc.ssl_channel_credentials(ca.read_bytes(), *pair), options=options
    )


def client_context(ca: Path, shown: Issued | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca)
    if shown is not None:
        context.load_cert_chain(shown.cert, shown.key)
    return context


def server_context(pair: Issued, client_ca: Path | None = None) -> ssl.SSLContext:
    """A server that is not ours."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_ca)
    return context
