"""Our own stand-in for the Kubernetes API server: any objects by path, over a real socket, with the ways in which it fails.

    async with kubernetes() as api:
        api.put("/api/v1/namespaces/prod/pods/llama-0", {"metadata": {"labels": {"app": "llama"}}})
        api.forbid("list", "nodes")

What a test does to it is synchronous, and open watches see it at once. It is as strict as the real one about paths, versions and
selectors; it neither defaults nor validates what is in an object.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.support.kubernetes_objects import Place, Refused, discovery
from tests.support.kubernetes_store import Store, Watch

USER = "system:serviceaccount:scaler:slo-scaler"
PATIENCE_S = 10.0
MERGE_PATCH = "application/merge-patch+json"
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class Asked:
    """One request in Kubernetes' words. ``verb``: get, list, watch, create, update, patch or delete; ``resource``: deployments/scale.

    Discovery has the resource "".
    """

    verb: str
    resource: str
    namespace: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]

    @classmethod
    def by(cls, request: web.Request, place: Place | None) -> "Asked":
        verb = _VERBS[request.method]
        if place and verb == "get" and not place.name:
            verb = "watch" if request.query.get("watch") in ("1", "true") else "list"
        resource, namespace = (place.asked, place.namespace) if place else ("", "")
        return cls(verb, resource, namespace, request.path, dict(request.query), dict(request.headers))

    def forbidden(self, place: Place) -> Refused:
        scope = f'in the namespace "{place.namespace}"' if place.namespace else "at the cluster scope"
        what = (
            f'User "{USER}" cannot {self.verb} resource "{self.resource}" in API group "{place.resource.group}" {scope}'
        )
        return Refused(403, f"{place.quoted} is forbidden: {what}")


@dataclass(eq=False)
class KubernetesApi(Store):
    """``token``: the only bearer token that is let in; None lets in everybody. ``slow_s`` passes before each answer.

    ``requests``: all that was asked.
    """

    token: str | None = None
    slow_s: float = 0.0
    url: str = ""
    requests: list[Asked] = field(default_factory=list)
    _forbidden: set[tuple[str, str, str | None]] = field(default_factory=set)
    _refusal: Refused | None = None
    _flows: asyncio.Event = field(default_factory=asyncio.Event)
    _happened: asyncio.Event = field(default_factory=asyncio.Event)
    _socket: "_Socket | None" = None

    def __post_init__(self) -> None:
        self._flows.set()

    # The ways in which it fails.

    def forbid(self, verb: str, resource: str, namespace: str | None = None) -> None:
        """403, as without the permission. ``namespace`` None: wherever. Empty: in all namespaces at once, or a cluster's own resource."""
        self._forbidden.add((verb, resource, namespace))

    def allow(self, verb: str, resource: str, namespace: str | None = None) -> None:
        self._forbidden.discard((verb, resource, namespace))

    def refuse(self, code: int, message: str = "out of order", **headers: str) -> None:
        """Answer everything with this status until ``recover``: ``refuse(429, retry_after="3")``."""
        self._refusal = Refused(code, message, headers={key.replace("_", "-"): text for key, text in headers.items()})

    def hang(self) -> None:
        """Accept and never answer until ``recover``; open watches fall silent."""
        self._flows.clear()

    def recover(self) -> None:
        self._refusal = None
        self._flows.set()

    def reset(self) -> None:
        """Cut all connections."""
        assert self._socket is not None
        self._socket.cut()

    async def away(self) -> None:
        """Cut all connections and listen no more."""
        assert self._socket is not None
        await self._socket.shut()

    async def back(self) -> None:
        """Listen again, on the same port."""
        assert self._socket is not None
        await self._socket.listen()

    # What a test asks.

    def count(self, verb: str, resource: str) -> int:
        """How often something was asked."""
        return sum((asked.verb, asked.resource) == (verb, resource) for asked in self.requests)

    async def until(self, true: Callable[[], Any]) -> None:
        """Wait for something here or in what is under test: looked at with every request, and a hundred times a second."""
        async with asyncio.timeout(PATIENCE_S):
            while not true():
                self._happened.clear()
                await _at_most(0.01, self._happened.wait())

    # Requests.

    async def answer(self, request: web.Request) -> web.StreamResponse:
        try:
            kinds = discovery(request.path, self.resources)
            place = None if kinds else Place.of(request.path, self.resources)
            asked = Asked.by(request, place)
            self.requests.append(asked)
            self._happened.set()
            await self._admit(asked, place)
            if place is None:
                return web.json_response(kinds)
            if asked.verb == "watch":
                return await self._stream(self.watch(place, request.query), request)
            body = await request.json() if request.can_read_body else {}
            return self._done(asked.verb, place, request, body)
        except Refused as no:
            return web.json_response(no.body, status=no.code, headers=no.headers)

    async def _admit(self, asked: Asked, place: Place | None) -> None:
        if self.slow_s:
            await _at_most(self.slow_s, asyncio.Event().wait())
        await self._flows.wait()
        if self._refusal is not None:
            raise self._refusal
        if self.token is not None and asked.headers.get("Authorization") != f"Bearer {self.token}":
            raise Refused(401, "Unauthorized", "Unauthorized")
        if place and any((asked.verb, asked.resource, where) in self._forbidden for where in (None, place.namespace)):
            raise asked.forbidden(place)

    def _done(self, verb: str, place: Place, request: web.Request, body: Any) -> web.Response:
        match verb:
            case "get":
                return web.json_response(self.read(place))
            case "list":
                return web.json_response(self.page(place, request.query))
            case "create":
                return web.json_response(self.create(place, body), status=201)
            case "update":
                return web.json_response(self.update(place, body))
            case "patch" if request.content_type == MERGE_PATCH:
                return web.json_response(self.patch(place, body))
            case "delete":
                return web.json_response(self.remove(place))
        raise Refused(415, f"only {MERGE_PATCH} is understood here", "UnsupportedMediaType")

    async def _stream(self, watch: Watch, request: web.Request) -> web.StreamResponse:
        self.watches.append(watch)
        over = asyncio.get_running_loop().call_later(
            float(request.query.get("timeoutSeconds", 1800)), self._over, watch
        )
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        try:
            await response.prepare(request)
            self._happened.set()
            with suppress(ConnectionResetError):
                while (line := await watch.lines.get()) is not None:
                    await self._flows.wait()
                    await response.write(line)
            await self._flows.wait()
        finally:
            over.cancel()
            self.watches.remove(watch)
        return response

    def _over(self, watch: Watch) -> None:
        watch.bookmark(self.version)
        watch.end()


@dataclass(eq=False)
class _Socket:
    """Where it listens: a port that it keeps."""

    runner: web.AppRunner
    tls: ssl.SSLContext | None
    port: int = 0
    site: web.TCPSite | None = None

    async def listen(self) -> None:
        self.site = web.TCPSite(self.runner, "127.0.0.1", self.port, ssl_context=self.tls)
        await self.site.start()
        self.port = self.runner.addresses[0][1]

    async def shut(self) -> None:
        assert self.site is not None
        await self.site.stop()
        self.cut()

    def cut(self) -> None:
        for connection in self.runner.server.connections if self.runner.server else ():
            if connection.transport is not None:
                connection.transport.abort()


@asynccontextmanager
async def kubernetes(
    api: KubernetesApi | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[KubernetesApi]:
    """The stand-in on a loopback port, its address in ``url``; plain http unless a context is given."""
    api = api or KubernetesApi()
    app = web.Application(client_max_size=16 * 2**20)
    app.router.add_route("*", "/{path:.*}", api.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    api._socket = _Socket(runner, tls)
    try:
        await api._socket.listen()
        api.url = f"http{'s' if tls else ''}://127.0.0.1:{api._socket.port}"
        yield api
    finally:
        api.recover()
        api.end_watches()
        await runner.cleanup()


async def _at_most(seconds: float, happening: Awaitable[Any]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await happening
