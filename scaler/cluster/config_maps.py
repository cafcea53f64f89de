"""The state of every workload, kept in ConfigMaps: written by the pod that leads, read by one that starts and one that begins to lead.

Texts of workloads that nobody here knows are left alone: another version of this scaler may know them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from scaler.cluster.api import ApiError, Unreachable
from scaler.cluster.shards import ConfigMaps, Shards
from scaler.cluster.waiting import happened, passed
from scaler.control.ports import Clock
from scaler.core.memory import MOST_BYTES
from scaler.core.model import WorkloadKey

_ENTRY = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Paces:
    """Seconds.

    ``every_s``: how often an unchanged workload is written, and the longest pause after a failure. ``soon_s``: how long a change waits
    for others, and the first pause. ``load_s`` and ``last_s`` bound the reading at the start and the last write.
    """

    every_s: float = 30.0
    soon_s: float = 1.0
    load_s: float = 5.0
    last_s: float = 2.0


class ConfigMapStore:
    """Implements ``control.ports.StateStore``. What could not be written is kept and tried again, ever more seldom.

    Until ``reload`` has succeeded in a term of leading, nothing is due and nothing is written: another may have written meanwhile.
    """

    def __init__(
        self,
        config_maps: ConfigMaps,
        term: Callable[[], int],
        clock: Clock,
        told: Callable[[str], None],
        paces: Paces = Paces(),
    ) -> None:
        """Only who leads writes: ``term`` says which time it is that this process does, 0 while it does not.

        ``told`` hears a sentence when something begins to be wrong; it must not block.
        """
        self._config_maps, self._term, self._clock, self._told, self._paces = config_maps, term, clock, told, paces
        self._shards: Shards | None = None
        self._writes_in_term = 0
        self._pending: dict[str, str | None] = {}
        self._put_at: dict[str, float] = {}
        self._changed: set[str] = set()
        self._soon, self._writing = asyncio.Event(), asyncio.Lock()
        self._fault: type[ApiError] | None = None

    def recall(self, key: WorkloadKey) -> str | None:
        """The newest text that is known here; None also while nothing could be read."""
        entry = _entry(key)
        if entry in self._pending:
            return self._pending[entry]
        shard = None if self._shards is None else self._shards.find(entry)
        return None if shard is None else shard.texts[entry] or None

    def due(self, key: WorkloadKey, *, changed: bool) -> bool:
        """Whether this process writes, and the workload has changed or was not put for ``every_s``.

        One that was not put in this term counts as changed: whatever changed while nobody wrote is known here only.
        """
        if not self._writes():
            return False
        put_at = self._put_at.get(_entry(key))
        if changed or put_at is None:
            self._changed.add(_entry(key))
            return True
        return self._clock() - put_at >= self._paces.every_s

    def put(self, key: WorkloadKey, text: str) -> None:
        """Write it with the next batch: soon if ``due`` was told of a change."""
        entry = _entry(key)
        self._put_at[entry] = self._clock()
        if not _ENTRY.fullmatch(entry):
            self._told(f"state of {key} is not stored: its name cannot be a key of a ConfigMap")
        elif (size := len(text.encode())) > MOST_BYTES:
            self._told(f"state of {key} is not stored: it has {size} bytes, at most {MOST_BYTES} are allowed")
        else:
            self._pending[entry] = text
        if entry in self._changed:
            self._changed.remove(entry)
            self._soon.set()

    def forget(self, key: WorkloadKey) -> None:
        """Remove what is stored, if this process writes; else whoever does has its own reason to."""
        entry = _entry(key)
        self._put_at.pop(entry, None)
        self._changed.discard(entry)
        self._pending.pop(entry, None)
        shard = None if self._shards is None else self._shards.find(entry)
        if shard is not None and self._writes():
            self._pending[entry] = None
        elif shard is not None:
            shard.drop(entry)

    async def start(self) -> None:
        """Read what is stored, before any loop runs, within ``load_s``.

        Loops that start before an answer came start from nothing and never ask again; what comes later serves workloads that come later.
        """
        await self._within(self._paces.load_s, self._load())

    async def reload(self) -> dict[WorkloadKey, str]:
        """Begin to write. What others wrote since this process last read: newer than what its own loops know. Raises ApiError."""
        async with self._writing:
            term, self._writes_in_term, self._put_at = self._term(), 0, {}
            known = {} if self._shards is None else self._shards.texts()
            self._shards = await self._config_maps.load()
            news = {
                entry: text
                for entry, text in self._shards.texts().items()
                if text != known.get(entry) and text != self._pending.get(entry)
            }
            self._pending = {
                entry: text
                for entry, text in self._pending.items()
                if entry not in news and (text is not None or self._shards.find(entry))
            }
            self._writes_in_term = term
        return {_key(entry): text for entry, text in news.items() if "_" in entry}

    async def run(self) -> None:
        """Write what was put: soon after a change, otherwise every ``every_s``."""
        pause_s = self._paces.soon_s
        while True:
            await happened(self._soon, self._paces.every_s)
            await passed(pause_s)
            self._soon.clear()
            try:
                await self._write()
                self._fault, pause_s = None, self._paces.soon_s
            except ApiError as error:
                self._failed(error)
                self._soon.set()
                pause_s = min(self._paces.every_s, 2 * pause_s)

    async def stop(self) -> None:
        """Write what is pending, within ``last_s``. Call it while this process still leads."""
        await self._within(self._paces.last_s, self._write())

    async def _within(self, bound_s: float, work: Coroutine[None, None, None]) -> None:
        try:
            async with asyncio.timeout(bound_s):
                await work
        except TimeoutError:
            self._failed(Unreachable(f"the API server did not answer within {bound_s:g} s"))
        except ApiError as error:
            self._failed(error)

    async def _load(self) -> None:
        self._shards = await self._config_maps.load()

    def _writes(self) -> bool:
        return self._writes_in_term != 0 and self._writes_in_term == self._term()

    async def _write(self) -> None:
        """A ConfigMap that fails does not keep the others from being written. Raises the last failure."""
        fault: ApiError | None = None
        async with self._writing:
            if self._shards is None:
                self._shards = await self._config_maps.load()
            for shard, part in self._shards.placed(self._pending):
                if not self._writes():
                    break
                try:
                    await self._config_maps.write(shard, part)
                except ApiError as error:
                    fault = error
                    continue
                self._pending = {e: text for e, text in self._pending.items() if e not in part or text != part[e]}
        if fault is not None:
            raise fault

    def _failed(self, error: ApiError) -> None:
        """Tell of it, unless the same kind goes on."""
        if type(error) is not self._fault:
            self._fault = type(error)
            self._told(f"the store does not work: {error}; states are kept in memory and stored when it does")


def _entry(key: WorkloadKey) -> str:
    """A key of a ConfigMap; no namespace contains an underscore."""
    return f"{key.namespace}_{key.name}"


def _key(entry: str) -> WorkloadKey:
    namespace, _, name = entry.partition("_")
    return WorkloadKey(namespace, name)
