"""The objects behind the stand-in for the API server: versions, history, watches, and the verbs, without a socket."""

import asyncio
import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tests.support.kubernetes_objects import (
    RESOURCES,
    Change,
    Json,
    Place,
    Refused,
    Resource,
    merged,
    scale_of,
    selected,
)


@dataclass(eq=False)
class Watch:
    """An open stream: what it selects, and the lines still to be written. None ends it."""

    place: Place
    fits: Callable[[Json], bool]
    bookmarks: bool
    lines: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)

    def see(self, change: Change) -> None:
        if (event := change.event(self.place, self.fits)) is not None:
            self.say(event)

    def say(self, event: Json) -> None:
        self.lines.put_nowait(json.dumps(event).encode() + b"\n")

    def bookmark(self, version: int) -> None:
        if self.bookmarks:
            metadata = {"resourceVersion": str(version), "creationTimestamp": None}
            self.say({"type": "BOOKMARK", "object": {**self.place.resource.type_meta, "metadata": metadata}})

    def end(self) -> None:
        self.lines.put_nowait(None)


@dataclass(eq=False)
class Store:
    """``resources``: the kinds it serves; append to it, or take one out as if its CRD were not installed.

    ``wall`` stamps what is created, in seconds since 1970. ``gone_in_stream``: a watch from before a compaction gets an ERROR event in a
    200 stream, as from most API servers; else status 410. ``watches``: those now open.
    """

    resources: list[Resource] = field(default_factory=lambda: list(RESOURCES))
    wall: Callable[[], float] = lambda: datetime.now(UTC).timestamp()
    gone_in_stream: bool = True
    version: int = 1000
    compacted: int = 0
    watches: list[Watch] = field(default_factory=list)
    _objects: dict[Resource, dict[tuple[str, str], Json]] = field(default_factory=dict)
    _changes: list[Change] = field(default_factory=list)
    _rests: dict[str, tuple[int, list[Json]]] = field(default_factory=dict)
    _numbers: int = 0

    def put(self, path: str, body: Json) -> Json:
        """Create or replace. What the server owns is filled in; a new object may bring its own uid and creationTimestamp."""
        return deepcopy(self._stored(self._named(path), deepcopy(body)))

    def get(self, path: str) -> Json | None:
        """A copy, to be changed and put."""
        place = self._named(path)
        return deepcopy(self._all(place).get(place.key))

    def delete(self, path: str) -> None:
        self._change(self._named(path), None)

    def compact(self) -> None:
        """Forget the history before now. Versions from before it get 410, continue tokens too."""
        self.compacted = self.version
        self._changes = []

    def bookmark(self) -> None:
        """Tell the version of now to every watch that asked for bookmarks. At the end of its time each is told anyway."""
        for watch in self.watches:
            watch.bookmark(self.version)

    def say(self, line: bytes) -> None:
        """Write anything into every open watch."""
        for watch in self.watches:
            watch.lines.put_nowait(line)

    def end_watches(self) -> None:
        """End every open watch in good order, but without a bookmark."""
        for watch in self.watches:
            watch.end()

    def _all(self, place: Place) -> dict[tuple[str, str], Json]:
        return self._objects.setdefault(place.resource, {})

    def _named(self, path: str) -> Place:
        place = Place.of(path, self.resources)
        assert place.name, f"{path} names no object"
        return place

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _stored(self, place: Place, body: Json) -> Json:
        before = self._all(place).get(place.key)
        after = place.completed(body, before, self._number(), self.wall())
        if after != before:
            self._change(place, after)
        return after

    def _change(self, place: Place, after: Json | None) -> None:
        self.version += 1
        before = self._all(place).pop(place.key, None)
        if after is not None:
            after["metadata"]["resourceVersion"] = str(self.version)
            self._all(place)[place.key] = after
        change = Change(self.version, place, before, after)
        self._changes.append(change)
        for watch in self.watches:
            watch.see(change)

    # The verbs of requests. All raise Refused.

    def read(self, place: Place) -> Json:
        if (found := self._all(place).get(place.key)) is None:
            raise Refused(404, f"{place.quoted} not found")
        return scale_of(found) if place.sub == "scale" else found

    def page(self, place: Place, query: Mapping[str, str]) -> Json:
        """All pages of a list are of one version: that of the first."""
        version, items = self._rest(query["continue"]) if query.get("continue") else self._list(place, query)
        limit = int(query.get("limit", 0)) or len(items)
        metadata = {"resourceVersion": str(version)}
        if items[limit:]:
            metadata["continue"] = f"page-{self._number()}"
            self._rests[metadata["continue"]] = version, items[limit:]
        kind = {**place.resource.type_meta, "kind": f"{place.resource.kind}List"}
        return {**kind, "metadata": metadata, "items": [place.resource.listed(item) for item in items[:limit]]}

    def _list(self, place: Place, query: Mapping[str, str]) -> tuple[int, list[Json]]:
        fits = selected(query.get("labelSelector", ""))
        items = sorted(self._all(place).items())
        return self.version, [item for key, item in items if place.namespace in ("", key[0]) and fits(item)]

    def _rest(self, token: str) -> tuple[int, list[Json]]:
        version, items = self._rests[token]
        if version < self.compacted:
            raise Refused(410, "The provided continue parameter is too old to display a consistent list result.")
        return version, items

    def watch(self, place: Place, query: Mapping[str, str]) -> Watch:
        """A watch that has seen all since the version that the query names; not yet among the open ones."""
        since = int(query.get("resourceVersion") or self.version)
        watch = Watch(place, selected(query.get("labelSelector", "")), query.get("allowWatchBookmarks") == "true")
        if since < self.compacted:
            no = Refused(410, f"too old resource version: {since} ({self.compacted})")
            if not self.gone_in_stream:
                raise no
            watch.say({"type": "ERROR", "object": no.body})
            watch.end()
        for change in self._changes:
            if change.version > since:
                watch.see(change)
        return watch

    def create(self, place: Place, body: Json) -> Json:
        name = body["metadata"].get("name") or f"{body['metadata']['generateName']}{self._number():05d}"
        place = Place(place.resource, place.namespace, name)
        if place.key in self._all(place):
            raise Refused(409, f"{place.quoted} already exists", "AlreadyExists")
        return self._stored(place, body)

    def update(self, place: Place, body: Json) -> Json:
        self._unchanged(place, body)
        if place.resource.group and "resourceVersion" not in body["metadata"]:
            missing = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
            raise Refused(422, f"{place.quoted} is invalid: {missing}", "Invalid")
        return self._stored(place, body)

    def patch(self, place: Place, body: Json) -> Json:
        """A merge patch. Status is written by the ``status`` subresource, where there is one, and by nothing else."""
        before = self._unchanged(place, body)
        if "status" in place.resource.subresources:
            keep = [key for key in body if (key == "status") == (place.sub == "status")]
            body = {key: body[key] for key in keep}
        return self._stored(place, merged(before, body))

    def remove(self, place: Place) -> Json:
        self.read(place)
        self._change(place, None)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def _unchanged(self, place: Place, body: Json) -> Json:
        """The object as it is, if the body was made of this version of it."""
        found = self.read(Place(place.resource, place.namespace, place.name))
        now = found["metadata"]["resourceVersion"]
        if body.get("metadata", {}).get("resourceVersion", now) != now:
            why = "the object has been modified; please apply your changes to the latest version and try again"
            raise Refused(409, f"Operation cannot be fulfilled on {place.quoted}: {why}")
        return found
