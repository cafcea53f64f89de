"""Texts in ConfigMaps: which is in which, and how they are read and written.

A ConfigMap takes as many entries as surely fit, and an entry stays where it was found, unless somebody else has filled that one up. A
write sends only what changed, guarded by the version that was read; after a conflict the ConfigMap is read and the same is sent again, so
nobody's texts are lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scaler.cluster.api import Api, Conflict, Json, NotFound
from scaler.core.memory import MOST_BYTES

LABEL = "slo-scaler/state"
PREFIX = "slo-scaler-state-"
MOST_SHARD_BYTES = 900 * 1024
"""Kubernetes refuses a ConfigMap above 1 MiB."""
TRIES = 3


@dataclass(slots=True)
class Shard:
    """One ConfigMap as last known, texts by entry; an empty text is a place that is kept. ``version`` is empty while it does not exist.

    ``full_bytes`` is what it may come to.
    """

    name: str
    version: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    full_bytes: int = 0

    def absorb(self, config_map: Json) -> None:
        """Take what the server has. Places are kept."""
        self.version = config_map["metadata"]["resourceVersion"]
        self.texts = {**dict.fromkeys(self.texts, ""), **(config_map.get("data") or {})}
        self.full_bytes = sum(_most_bytes(entry, text) for entry, text in self.texts.items())

    @property
    def overfull(self) -> bool:
        """Whether there is more in it than we put there. Then what is longer than before may be refused."""
        return self.full_bytes > MOST_SHARD_BYTES

    def place(self, entry: str) -> bool:
        """Keep a place for a new entry, if there is room."""
        full_bytes = self.full_bytes + _most_bytes(entry)
        if full_bytes > MOST_SHARD_BYTES:
            return False
        self.texts[entry], self.full_bytes = "", full_bytes
        return True

    def drop(self, entry: str) -> None:
        """Know the entry no more."""
        text = self.texts.pop(entry, None)
        self.full_bytes -= 0 if text is None else _most_bytes(entry, text)


class Shards:
    """All ConfigMaps of the store, and which workload is in which."""

    def __init__(self, config_maps: Iterable[Json] = ()) -> None:
        """From the objects as listed."""
        self._by_name: dict[str, Shard] = {}
        for found in sorted(config_maps, key=lambda found: str(found["metadata"]["name"])):
            self._named(found["metadata"]["name"]).absorb(found)

    def find(self, entry: str) -> Shard | None:
        """Where the entry has its place."""
        return next((shard for shard in self._by_name.values() if entry in shard.texts), None)

    def texts(self) -> dict[str, str]:
        """What the server is known to have, by entry."""
        shards = reversed(self._by_name.values())  # an entry that is in two is written to the first
        return {entry: text for shard in shards for entry, text in shard.texts.items() if text}

    def placed(self, changes: Mapping[str, str | None]) -> list[tuple[Shard, dict[str, str | None]]]:
        """The changes by ConfigMap: where an entry was found, else the first with room, else a new one.

        From one that is overfull an entry moves, and is removed there after it was written elsewhere.
        """
        parts: dict[str, dict[str, str | None]] = {}
        moved: dict[str, dict[str, str | None]] = {}
        for entry, text in changes.items():
            shard = self.find(entry)
            if shard is not None and shard.overfull and text is not None:
                moved.setdefault(shard.name, {})[entry] = None
                shard = None
            shard = shard or self._first_fit(entry)
            parts.setdefault(shard.name, {})[entry] = text
        for name, removed in moved.items():
            parts[name] = {**parts.pop(name, {}), **removed}
        return [(self._by_name[name], part) for name, part in parts.items()]

    def _first_fit(self, entry: str) -> Shard:
        number = 0
        while not (shard := self._named(f"{PREFIX}{number}")).place(entry):
            number += 1
        return shard

    def _named(self, name: str) -> Shard:
        return self._by_name.setdefault(name, Shard(name))


class ConfigMaps:
    """Reads and writes the store's ConfigMaps in one namespace. Everything raises ApiError."""

    def __init__(self, api: Api, namespace: str) -> None:
        """Nothing is read yet."""
        self._api, self._path = api, f"/api/v1/namespaces/{namespace}/configmaps"

    async def load(self) -> Shards:
        """All of them."""
        found: list[Json] = []
        token: str | None = None
        while token != "":
            page = await self._api.page(self._path, selector=f"{LABEL}=true", token=token or "")
            found.extend(page.items)
            token = page.next_token
        return Shards(found)

    async def write(self, shard: Shard, part: Mapping[str, str | None]) -> None:
        """Write these entries of a ConfigMap, None to remove one. One that was deleted is created again, with all that is known of it."""
        for tries_left in reversed(range(TRIES)):
            try:
                shard.absorb(await self._send(shard, part))
                break
            except (Conflict, NotFound):
                if not tries_left:
                    raise
                await self._read(shard)
        for entry in [entry for entry, text in part.items() if text is None]:
            shard.drop(entry)

    async def _send(self, shard: Shard, part: Mapping[str, str | None]) -> Json:
        # The label also goes to one that lost it, or that one would not be found again.
        metadata = {"name": shard.name, "labels": {LABEL: "true"}}
        if shard.version:
            body = {"metadata": {**metadata, "resourceVersion": shard.version}, "data": part}
            return await self._api.patch(f"{self._path}/{shard.name}", body)
        data = {entry: text for entry, text in {**shard.texts, **part}.items() if text}
        return await self._api.create(
            self._path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        )

    async def _read(self, shard: Shard) -> None:
        try:
            shard.absorb(await self._api.get(f"{self._path}/{shard.name}"))
        except NotFound:
            shard.version = ""


def _most_bytes(entry: str, text: str = "") -> int:
    return len(entry) + max(MOST_BYTES, len(text.encode()))
