"""How commands reach a running scaler: the port for KEDA over gRPC, the port for operators over HTTP; and what to do when one is silent."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaler.errors import ConfigError

if TYPE_CHECKING:
    import grpc

    from scaler.api.keda_client import RpcFailed
    from scaler.core.model import WorkloadKey

TIMEOUT_S = 5.0
FORWARD = "kubectl -n slo-scaler port-forward deploy/slo-scaler"
"""What brings a port of a scaler in a cluster here."""

TLS_WANTED = "it may want TLS: --ca, and --cert and --key where it asks for a client's certificate"
CERTIFICATE_WANTED = "it may want a client's certificate, signed by a CA that it trusts: --cert, --key"
MEANINGS = (
    (("http1",), "{address} speaks HTTP/1: that is not the port for KEDA, which is 6000 (--keda)"),
    (
        ("certificate_verify_failed", "peer name", "hostname verification"),
        "{address}: its certificate is not trusted; --ca: the CA that signed it, --server-name: a name that it is for (port-forward)",
    ),
    (
        ("wrong_version_number",),
        "{address}: no TLS is spoken there; leave --ca out, or is that another port than the one for KEDA, 6000?",
    ),
    (
        ("socket closed", "reset by peer", "recvmsg", "certificate_required"),
        "{address} closed the connection: {wanted}",
    ),
    (
        ("connection refused", "dns resolution", "failed to connect"),
        f"nothing answers KEDA at {{address}}; in a cluster: {FORWARD} 6000 8081, elsewhere --keda HOST:PORT",
    ),
)
"""What gRPC says in lower case, and what that means; the first that fits."""
OWN_WORDS = re.compile(r"[\w.-]+/[\w.-]+: ")
"""How the scaler's own reasons begin: with the workload. They may name a refused connection, too, that of an engine."""


@dataclass(frozen=True, slots=True)
class Secured:
    """TLS as a client: the CA that signed the scaler's certificate, what to show in turn, and the name that its certificate is for.

    All None: plain text.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = None


class NoAnswer(Exception):
    """There is no usable answer of that port; the text says why and what to do. ``status``: the HTTP status, where there was one."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


def workload_key(written: str, option: str = "workload") -> WorkloadKey:
    """NAMESPACE/NAME as a key. Raises ConfigError."""
    from scaler.core.model import WorkloadKey

    namespace, _, name = written.partition("/")
    if not namespace or not name or "/" in name:
        raise ConfigError(f"{option}: write it as NAMESPACE/NAME, such as prod/llama")
    return WorkloadKey(namespace, name)


def channel(address: str, tls: Secured) -> grpc.Channel:
    """A channel to the port for KEDA. Raises ConfigError for files that cannot be read, or that are not all named."""
    import grpc

    if "://" in address or ":" not in address:
        raise ConfigError("--keda: HOST:PORT, such as 127.0.0.1:6000")
    if (tls.cert is None) != (tls.key is None):
        raise ConfigError("--cert, --key: one needs the other")
    if tls.ca is None:
        if tls.cert is not None or tls.server_name is not None:
            raise ConfigError("--ca: needed with --cert, --key and --server-name: the CA of the scaler's certificate")
        return grpc.insecure_channel(address)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=_pem("--ca", tls.ca),
        private_key=None if tls.key is None else _pem("--key", tls.key),
        certificate_chain=None if tls.cert is None else _pem("--cert", tls.cert),
    )
    options = [("grpc.ssl_target_name_override", tls.server_name)] if tls.server_name is not None else []
    return grpc.secure_channel(address, credentials, options)


def silence(failure: RpcFailed, address: str, tls: Secured) -> str:
    """What a failed call means. gRPC has one code for all that keeps a connection from being made, so its words are read."""
    if failure.code.name != "UNAVAILABLE":
        return failure.details
    if OWN_WORDS.match(failure.details):
        return failure.details
    said = failure.details.lower()
    meant = next((meant for signs, meant in MEANINGS if any(sign in said for sign in signs)), None)
    if meant is None:
        return failure.details
    return meant.format(address=address, wanted=CERTIFICATE_WANTED if tls.ca else TLS_WANTED)


def fetched(ops: str, path: str) -> dict[str, Any]:
    """A JSON answer of the port for operators. Raises NoAnswer, and ConfigError for what is no address."""
    base = ops if "://" in ops else f"http://{ops}"
    if not base.startswith(("http://", "https://")):
        raise ConfigError("--ops: HOST:PORT, or an http:// or https:// address")
    url = f"{base.rstrip('/')}{path}"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - the scheme was checked
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            raise NoAnswer(_refused(url, error), error.code) from None
    except HTTPException:
        raise NoAnswer(f"{url}: what answers there speaks no HTTP/1; the port for operators is 8081 (--ops)") from None
    except ValueError:
        raise NoAnswer(f"{url}: no JSON; the port for operators is 8081 (--ops)") from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise NoAnswer(
            f"nothing answers at {url} ({reason}); is the scaler running there? (--keda, --ops) In a cluster: {FORWARD} 6000 8081"
        ) from None
    if not isinstance(found, dict):
        raise NoAnswer(f"{url}: an answer of something else; the port for operators is 8081 (--ops)")
    return found


def _refused(url: str, error: urllib.error.HTTPError) -> str:
    """The scaler's own words, or the status where it has none."""
    try:
        return f"{url}: {json.load(error)['error']['message']}"
    except (ValueError, TypeError, KeyError, OSError, HTTPException):
        return f"{url}: HTTP {error.code}; is this the scaler's port for operators, 8081?"


def _pem(option: str, path: Path) -> bytes:
    try:
        found = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{option}: {path} cannot be read: {error.strerror}") from None
    if b"-----BEGIN " not in found:
        raise ConfigError(f"{option}: {path} is not PEM")
    return found
