"""The way to a Kubernetes API server: lightkube's configuration, credentials and TLS under calls that are bounded in time.

lightkube's own watch asks for no bookmarks, waits for ever on a silent server, and resumes by itself; a list through it is decoded
into its models. So requests are made here, on the HTTP client that its configuration gives.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from random import Random
from typing import Any, TypeVar, cast

import httpx2
import msgspec
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError as LightkubeConfigError
from yaml import YAMLError

from scaler.cluster.api import Event, Json, Page, Silent
from scaler.cluster.refusals import Request, Status, short
from scaler.errors import ConfigError

_METHODS = {"get": "GET", "list": "GET", "create": "POST", "update": "PUT", "patch": "PATCH"}
_JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"
_AT_A_TIME = 25
MOST_BYTES, LONGEST_LINE = 64 << 20, 8 << 20
"""Of an answer, unpacked, and of one line of a watch: etcd holds objects of up to 1.5 MB, and a page has 250 of them at most."""

# What a configuration that is none makes lightkube, and what lies under it, raise; and what an exchange does.
_MISCONFIGURED = (LightkubeConfigError, OSError, ValueError, KeyError, TypeError, AttributeError, YAMLError)
_FAILED = (httpx2.HTTPError, httpx2.InvalidURL, LightkubeConfigError, OSError, ValueError, KeyError)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is asked at once, and how long anything may take.

    A watch is asked to last about ``watch_s``, each a little different, so that not all end at once; it is given up when no byte came for
    ``silence_s`` longer than that: an API server sends at least a bookmark before the end.
    """

    call_s: float = 10.0
    watch_s: float = 60.0
    silence_s: float = 10.0
    page_items: int = 250


class _ListMeta(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion")
    next_token: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class Client:
    """The ``Api`` protocol over HTTP. ``namespace`` is our own: the ServiceAccount's, or that of the kubeconfig's context."""

    def __init__(self, config: SingleConfig, rng: Random, bounds: Bounds = Bounds()) -> None:
        """Nothing is asked yet. Raises what lightkube does; the class methods say it in our words."""
        parameters = ConnectionParams(timeout=httpx2.Timeout(bounds.call_s), trust_env=False)
        # Each watch holds a connection for as long as it lasts: with a limit on them, the next call would wait for its end.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=4)
        self._http = httpx2.AsyncClient(limits=limits, **parameters.httpx_params(config))
        self._rng = rng
        self._bounds = bounds
        self._unanswered_since: float | None = None
        self.namespace = config.namespace.strip()

    @classmethod
    def in_cluster(cls, rng: Random, bounds: Bounds = Bounds(), *, account: str = SERVICE_ACCOUNT) -> Client:
        """As the ServiceAccount of the pod that we run in. Its token is read again when it is not accepted any more."""
        try:
            return cls(_single(KubeConfig.from_service_account(account)), rng, bounds)
        except _MISCONFIGURED as error:
            raise ConfigError(
                f"not in a Kubernetes cluster: {_what(error)}. Run in a pod with a ServiceAccount and its token mounted, "
                "or name a kubeconfig"
            ) from error

    @classmethod
    def from_kubeconfig(cls, path: str | Path, rng: Random, bounds: Bounds = Bounds()) -> Client:
        """As the user of the current context of a kubeconfig file."""
        try:
            return cls(_single(KubeConfig.from_file(path)), rng, bounds)
        except _MISCONFIGURED as error:
            raise ConfigError(f"kubeconfig {path}: {_what(error)}. Compare `kubectl config view --minify`") from error

    @classmethod
    def at(cls, url: str, rng: Random, bounds: Bounds = Bounds()) -> Client:
        """Without credentials, for ``kubectl proxy`` and tests."""
        return cls(_single(KubeConfig.from_server(url)), rng, bounds)

    @property
    def local(self) -> bool:
        """Whether the server's address is a loopback one."""
        host = self._http.base_url.host
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    @property
    def unanswered_s(self) -> float:
        """For how long calls have been made and nothing was answered, in seconds."""
        since = self._unanswered_since
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def get(self, path: str) -> Json:
        """One object."""
        request = Request("get", path)
        return _decoded(request, await self._call(request), Json)

    async def page(self, path: str, *, selector: str = "", token: str = "") -> Page:
        """One page of a collection; all pages of a list are of one version."""
        request = Request("list", path)
        asked = {"limit": str(self._bounds.page_items), "labelSelector": selector, "continue": token}
        found = _decoded(request, await self._call(request, asked), _List)
        items: list[Json] = []
        raws = found.items or []
        for start in range(0, len(raws), _AT_A_TIME):
            items += [_decoded(request, item, Json) for item in raws[start : start + _AT_A_TIME]]
            await asyncio.sleep(0)  # noqa: TID251 - others' turn: a whole page of pods takes some 40 ms
        return Page(tuple(items), found.metadata.version, found.metadata.next_token)

    async def create(self, path: str, body: Json) -> Json:
        """POST to a collection."""
        return await self._write(Request("create", path), body)

    async def replace(self, path: str, body: Json) -> Json:
        """PUT one object."""
        return await self._write(Request("update", path), body)

    async def patch(self, path: str, body: Mapping[str, Any]) -> Json:
        """A JSON merge patch."""
        return await self._write(Request("patch", path), body, _MERGE_PATCH)

    async def watch(self, path: str, resource_version: str, *, selector: str = "") -> AsyncGenerator[Event]:
        """The changes after a version, behind a bookmark of that version that says that the server accepted."""
        request = Request("watch", path)
        lasts_s = max(1, round(self._bounds.watch_s * self._rng.uniform(0.8, 1.2)))
        asked = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(lasts_s)}
        asked |= {"resourceVersion": resource_version, "labelSelector": selector}
        response = await self._opened(request, asked, lasts_s + self._bounds.silence_s)
        try:
            yield Event("BOOKMARK", {"metadata": {"resourceVersion": resource_version}})
            rest = b""
            async for chunk in response.aiter_bytes():
                *lines, rest = (rest + chunk).split(b"\n")  # no text's lines: those also end where JSON does not escape
                for line in lines:
                    yield _event(request, line)
                if len(rest) > LONGEST_LINE:
                    raise request.failed(TooLong(f"a line of over {LONGEST_LINE} bytes"))
            if rest:
                yield _event(request, rest)
        except httpx2.ReadTimeout as error:
            raise Silent(f"cannot {request}: nothing came any more") from error
        except httpx2.HTTPError as error:
            raise request.failed(error) from error
        finally:
            await response.aclose()

    async def _opened(self, request: Request, asked: Mapping[str, str], silence_s: float) -> httpx2.Response:
        timeout = httpx2.Timeout(self._bounds.call_s, read=silence_s)
        try:
            async with asyncio.timeout(self._bounds.call_s):
                prepared = self._http.build_request("GET", request.path, params=_given(asked), timeout=timeout)
                response = await self._http.send(prepared, stream=True)
                self._unanswered_since = None
                if response.is_success:
                    return response
                content = await _whole(response)
        except _FAILED as error:
            raise request.failed(error) from error
        raise request.refused(_status(response.status_code, content))

    async def _write(self, request: Request, body: Mapping[str, Any], kind: str = _JSON) -> Json:
        return _decoded(request, await self._call(request, content=msgspec.json.encode(body), kind=kind), Json)

    async def _call(
        self, request: Request, asked: Mapping[str, str] | None = None, content: bytes | None = None, kind: str = _JSON
    ) -> bytes:
        """The body of a good answer."""
        headers = {"Accept": _JSON} | ({"Content-Type": kind} if content is not None else {})
        if self._unanswered_since is None:
            self._unanswered_since = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._bounds.call_s):
                async with self._http.stream(
                    _METHODS[request.verb], request.path, params=_given(asked), content=content, headers=headers
                ) as response:
                    answer = await _whole(response)
        except _FAILED as error:
            raise request.failed(error) from error
        self._unanswered_since = None
        if not response.is_success:
            raise request.refused(_status(response.status_code, answer))
        return answer


class TooLong(ValueError):
    """An answer of more bytes than any that we ask for."""


async def _whole(response: httpx2.Response) -> bytes:
    """The body, unpacked. Raises TooLong."""
    chunks, left = list[bytes](), MOST_BYTES
    async for chunk in response.aiter_bytes():
        chunks.append(chunk)
        left -= len(chunk)
        if left < 0:
            raise TooLong(f"an answer of over {MOST_BYTES} bytes")
    return b"".join(chunks)


def _single(config: KubeConfig) -> SingleConfig:
    """The current context, with a user without credentials where it names none: lightkube wants one."""
    found = cast("SingleConfig", config.get())  # None is for those who give a default
    return found if found.user else found._replace(user=User())


def _given(asked: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (asked or {}).items() if value}


def _decoded(request: Request, content: bytes | msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise request.garbled(error) from error


def _event(request: Request, line: bytes) -> Event:
    """Raises what an ERROR event says."""
    found = _decoded(request, line, _Line)
    if found.type == "ERROR":
        raise request.refused(_decoded(request, found.object, Status))
    return Event(found.type, _decoded(request, found.object, Json))


def _status(code: int, content: bytes) -> Status:
    """What stands beside a status code; a proxy in between says it in HTML."""
    try:
        return Status(code, msgspec.json.decode(content, type=Status).message)
    except (msgspec.MsgspecError, RecursionError):
        return Status(code)


def _what(error: Exception) -> str:
    """In one phrase; of a YAML error not its own, which quotes the file and with it perhaps a token."""
    if isinstance(error, YAMLError):
        return "it is not YAML"
    return short(f"{error}" if isinstance(error, LightkubeConfigError) else f"{type(error).__name__}: {error}")
