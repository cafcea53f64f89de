"""Who may read what over HTTP: a bearer token stands for the namespaces that may be read with it, and loopback for all of the pages.

What a caller may not read looks to it exactly like what does not exist: the same status, the same body, on the same way through here. Who
shows no token that counts is told so, whatever it asked for.

On the paths that gateways ask for their clients' requests, ``Authorization`` is the client's own. There, and over ext_authz, the token
stands in a header that the gateway sets, and without a good one the answer is that of an unknown workload: it says nothing, counts
nothing, and stops nobody's traffic.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Literal

from aiohttp import web
from aiohttp.typedefs import Middleware

from scaler.api import render
from scaler.api.view import Handler, json_answer, unknown_workload
from scaler.errors import NotReady

if TYPE_CHECKING:
    from scaler.api.reviewed import ReviewedTokens

EVERY = "*"
TOKEN_HEADER = "x-slo-scaler-token"  # noqa: S105 - the name of a header
LONGEST_TOKEN = 8192
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)
_LOCAL_NAMES = frozenset({"localhost", ""})
WANTED = (
    "this needs a token that the operator of the scaler knows: Authorization: Bearer TOKEN; see access in the configuration "
    "(token_file, review_tokens)"
)
LOOPBACK = (
    "this is answered on the scaler's own machine only (kubectl port-forward is), or to a token for every namespace; access.pages: open in "
    "the configuration lifts that"
)


@dataclass(frozen=True, slots=True)
class Readers:
    """Who may read. ``tokens``: the namespaces by the SHA-256 of a token, in hex; ``accounts``: those by ServiceAccount, beside its own.

    None: not used. With neither whoever reaches the gateways' port reads all. ``pages``: whether the operator's pages are for loopback and
    tokens only.
    """

    tokens: Mapping[str, frozenset[str]] | None = None
    accounts: Mapping[str, frozenset[str]] | None = None
    pages: Literal["loopback", "open"] = "loopback"

    @property
    def asked_for(self) -> bool:
        """Whether the gateways' port asks for a token."""
        return self.tokens is not None or self.accounts is not None


@dataclass(frozen=True, slots=True)
class Reach:
    """The namespaces that a caller may read."""

    namespaces: frozenset[str] = frozenset({EVERY})

    @property
    def whole(self) -> bool:
        """Whether that is all of them."""
        return EVERY in self.namespaces

    def __contains__(self, namespace: str) -> bool:
        """Whether this one is among them."""
        return self.whole or namespace in self.namespaces


REACH = web.RequestKey("reach", Reach)


def reach_of(request: web.Request) -> Reach:
    """What the caller of this request may read, as found out before its handler was called."""
    return request[REACH] if REACH in request else Reach()


@dataclass(frozen=True, slots=True)
class Keeper:
    """Finds out what callers may read.

    ``readers`` are those of the moment. ``reviewed`` judges ServiceAccounts' tokens, None outside of a cluster. ``refused`` is told of
    each caller that is turned away, by the port it came to.
    """

    readers: Callable[[], Readers] = Readers
    reviewed: ReviewedTokens | None = None
    refused: Callable[[str], None] = field(default=lambda _: None)

    async def reach(self, headers: Mapping[str, str]) -> Reach | None:
        """What may be read with the token in these headers, None if that is none that counts. Raises NotReady."""
        token, readers = _token(headers), self.readers()
        if token is None:
            return None
        if (listed := _listed(readers, token)) is not None:
            return listed
        if readers.accounts is None or self.reviewed is None:
            return None
        return _of_account(readers.accounts, await self.reviewed.account(token))

    def may_ask(self, headers: Mapping[str, str], namespace: str) -> bool:
        """Whether a gateway may ask for verdicts of this namespace. Never waits."""
        readers = self.readers()
        if not readers.asked_for:
            return True
        token, found = _plain(headers.get(TOKEN_HEADER, "")), None
        if token is not None:
            found = _listed(readers, token)
            if found is None and readers.accounts is not None and self.reviewed is not None:
                found = _of_account(readers.accounts, self.reviewed.at_once(token))
        allowed = found is not None and namespace in found
        if not allowed:
            self.refused("gate")
        return allowed


EVERYBODY = Keeper()
"""Asks nobody for anything but the operator's pages, which are for loopback."""


def on_gate(keeper: Keeper, guarded: frozenset[str]) -> Middleware:
    """For the gateways' port: the ``guarded`` routes are read with a token, where tokens are asked for."""
    return _guarding(keeper, "gate", lambda request: keeper.readers().asked_for and _route(request) in guarded)


def on_ops(keeper: Keeper, guarded: frozenset[str]) -> Middleware:
    """For the operator's port: the ``guarded`` routes are for loopback and for tokens."""
    return _guarding(
        keeper,
        "ops",
        lambda request: keeper.readers().pages != "open" and _route(request) in guarded and not _from_here(request),
    )


def _guarding(keeper: Keeper, port: str, guarded: Callable[[web.Request], bool]) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not guarded(request):
            return await handler(request)
        try:
            reach = await keeper.reach(request.headers)
        except NotReady as error:
            return json_answer(render.error_body("not_reviewed", str(error)), 503, {"Retry-After": "5"})
        namespace = request.match_info.get("namespace")
        if reach is None or (port == "ops" and namespace is None and not reach.whole):
            keeper.refused(port)
            words = WANTED if port == "gate" else LOOPBACK
            return json_answer(render.error_body("not_allowed", words), 401, {"WWW-Authenticate": "Bearer"})
        if namespace is not None and namespace not in reach:
            return unknown_workload()
        request[REACH] = reach
        return await handler(request)

    return guard


def _route(request: web.Request) -> str:
    """By what was matched, and not by the path as it is written: that can be written in many ways."""
    resource = request.match_info.route.resource
    return "" if resource is None else resource.canonical


def _token(headers: Mapping[str, str]) -> str | None:
    """The token that a caller of its own accord shows."""
    kind, _, token = headers.get("Authorization", "").partition(" ")
    return _plain(token.strip()) if kind.lower() == "bearer" else _plain(headers.get(TOKEN_HEADER, ""))


def _plain(token: str) -> str | None:
    return token if len(token) <= LONGEST_TOKEN and _TOKEN.fullmatch(token) else None


def _listed(readers: Readers, token: str) -> Reach | None:
    """By the file. A hash is looked up, so no comparison takes longer the more of a token is right."""
    namespaces = (readers.tokens or {}).get(hashlib.sha256(token.encode()).hexdigest())
    return None if namespaces is None else Reach(namespaces)


def _of_account(accounts: Mapping[str, frozenset[str]], account: str | None) -> Reach | None:
    if account is None:
        return None
    own, _, _ = account.partition("/")
    return Reach(accounts.get(account, frozenset()) | {own})


def _from_here(request: web.Request) -> bool:
    """Whether the caller is on this machine, and meant to be.

    A browser there can be led to us under a name of a stranger's that resolves to loopback: such a name stands in ``Host``.
    """
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    return peer is not None and _loopback(str(peer[0])) and _local_host(request.headers.get("Host", ""))


def _local_host(host: str) -> bool:
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name in _LOCAL_NAMES or _loopback(name)


def _loopback(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
