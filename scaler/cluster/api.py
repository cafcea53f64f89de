"""What the rest of this package needs of a Kubernetes API server: plain JSON objects by path, and typed refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from scaler.errors import ScalerError

Json = dict[str, Any]
"""One object as the API server sends it."""


class ApiError(ScalerError):
    """The API server, or the way to it, did not do what was asked. The text names the verb, the path and the server's reason."""


class Forbidden(ApiError):
    """401 or 403: the service account may not do this. The text names the missing permission."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409: somebody wrote the object since it was read, or created it first."""


class Expired(ApiError):
    """410: the resource version is too old; list again."""


class Unreachable(ApiError):
    """No answer in time, a broken connection, a 5xx or a 429: worth another try."""


class Silent(Unreachable):
    """An open watch brought nothing for too long. Nobody knows since when it was dead: at the earliest since its last event."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: its objects, the version to watch from, and the token of the next page (empty on the last)."""

    items: tuple[Json, ...]
    resource_version: str
    next_token: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a watch: ADDED, MODIFIED, DELETED or BOOKMARK, and the object."""

    kind: str
    item: Json


class Collections(Protocol):
    """What it takes to follow a collection. Paths begin with /api or /apis. Every call is bounded in time and raises ApiError."""

    @property
    def unanswered_s(self) -> float:
        """For how long calls have been made and nothing was answered; 0 once something is. What open watches say does not count."""
        ...

    async def page(self, path: str, *, selector: str = "", token: str = "") -> Page:
        """One page of a collection, of at most some hundred objects."""
        ...

    def watch(self, path: str, resource_version: str, *, selector: str = "") -> AsyncIterator[Event]:
        """The changes after a version, with bookmarks. Ends after a minute or so; raises Silent when nothing comes for longer.

        The first event is a BOOKMARK of the very version that was asked for: the server accepted the watch, all is told from now on.
        """
        ...


class Api(Collections, Protocol):
    """A Kubernetes API server. ``local``: it is on this machine, as one behind ``kubectl proxy`` is, and the cluster's pods may be, too."""

    @property
    def local(self) -> bool:
        """Whether its address is a loopback one."""
        ...

    async def get(self, path: str) -> Json:
        """One object."""
        ...

    async def create(self, path: str, body: Json) -> Json:
        """POST to a collection. The object as stored."""
        ...

    async def replace(self, path: str, body: Json) -> Json:
        """PUT one object; its resourceVersion guards against others' writes (Conflict). The object as stored."""
        ...

    async def patch(self, path: str, body: Mapping[str, Any]) -> Json:
        """A JSON merge patch of one object. The object as stored."""
        ...
