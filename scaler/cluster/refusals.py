"""What goes wrong between us and an API server, as typed errors whose words say who must do what."""

from __future__ import annotations

import re
import socket
import ssl
from dataclasses import dataclass

import httpx2
import msgspec

from scaler.cluster.api import ApiError, Conflict, Expired, Forbidden, NotFound, Unreachable

_LONGEST_WORDS = 200
_PATH = re.compile(
    r"/api(?:s/(?P<group>[^/]+))?/[^/]+(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)
_WHO = re.compile(r'User "([^"]+)" cannot ')

_KINDS: dict[int, type[ApiError]] = {
    404: NotFound,
    408: Unreachable,
    409: Conflict,
    410: Expired,
    429: Unreachable,
}

# The first that is found in the chain of causes speaks: the particular stand before the general.
_REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionRefusedError, "connection refused"),
    (socket.gaierror, "name does not resolve"),
    (ssl.SSLCertVerificationError, "TLS certificate not trusted"),
    (ssl.SSLError, "TLS failed"),
    (TimeoutError, "no answer in time"),
    (httpx2.TimeoutException, "no answer in time"),
    (httpx2.ConnectError, "cannot connect"),
    (httpx2.NetworkError, "connection lost"),
    (httpx2.RemoteProtocolError, "connection lost"),
)


class Status(msgspec.Struct):
    """What an API server says beside a status code; of it, what we use."""

    code: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, in the words of permissions: ``verb`` is get, list, watch, create, update or patch."""

    verb: str
    path: str

    def __str__(self) -> str:
        """``list pods in namespace prod``."""
        found = _PATH.fullmatch(self.path)
        if found is None:
            return f"{self.verb} {self.path}"
        resource = self._resource(found) + (f".{found['group']}" if found["group"] else "")
        name = f" {found['name']}" if found["name"] else ""
        return f"{self.verb} {resource}{name} {_scope(found)}"

    def refused(self, status: Status) -> ApiError:
        """The error for a status code of 300 and more."""
        if status.code == 401:  # noqa: PLR2004 - HTTP
            return Forbidden(
                f"may not {self}: the API server does not know our credentials (401); "
                "check that the ServiceAccount exists, or renew the kubeconfig's user"
            )
        if status.code == 403:  # noqa: PLR2004 - HTTP
            return Forbidden(f"may not {self}: {self._grant(status.message)}")
        own_trouble = status.code >= 500 or status.code == 0  # noqa: PLR2004 - HTTP
        kind = _KINDS.get(status.code, Unreachable if own_trouble else ApiError)
        return kind(f"cannot {self}: HTTP {status.code}: {short(status.message) or 'no reason given'}")

    def failed(self, error: BaseException) -> Unreachable:
        """The error for an exchange that came to no end."""
        return Unreachable(f"cannot {self}: {_reason(error)}")

    def garbled(self, error: Exception) -> Unreachable:
        """The error for an answer that is not what an API server says."""
        return Unreachable(f"cannot {self}: not an API server's answer: {short(str(error))}")

    def _grant(self, message: str) -> str:
        found, who = _PATH.fullmatch(self.path), _WHO.search(message)
        if found is None or who is None:  # an admission's refusal, not a missing permission
            return short(message) or "HTTP 403"
        role = "Role" if found["namespace"] else "ClusterRole"
        rule = f'apiGroups ["{found["group"] or ""}"], resources ["{self._resource(found)}"], verbs ["{self.verb}"]'
        return f"grant it to {who[1]} by a {role} with {rule}"

    @staticmethod
    def _resource(found: re.Match[str]) -> str:
        return f"{found['resource']}/{found['sub']}" if found["sub"] else found["resource"]


def _scope(found: re.Match[str]) -> str:
    return f"in namespace {found['namespace']}" if found["namespace"] else "in the whole cluster"


def short(text: str) -> str:
    """At most a line of somebody else's words."""
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST_WORDS else words[: _LONGEST_WORDS - 1] + "…"


def _reason(error: BaseException) -> str:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    for kind, phrase in _REASONS:
        if any(isinstance(one, kind) for one in chain):
            return phrase
    return short(str(error)) or type(error).__name__
