"""State across restarts where no cluster keeps it: one file a workload.

A file is written each tick and is not short of room. So it holds the whole ``State``, and a process that takes over between two ticks
decides what the one before it would have decided. That is of use only on the same boot of the same machine, to a program that still means
the same by it, and while readings are fresh; else the short text counts, which is in the file too.
"""

from __future__ import annotations

import json
import os
import re
import threading
from array import array
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from enum import Enum
from functools import cache
from hashlib import sha256
from itertools import repeat
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from scaler.core import decision, memory, model, platform, ready_latency, shown
from scaler.core.memory import Recalled
from scaler.core.model import WorkloadKey
from scaler.core.step import State, WorkloadSpec

MOST_FILES, MOST_BYTES = 1000, 16_000_000
SAME_BOOT_S = 2.0
"""How far the two clocks may come apart within a boot and a few seconds."""
SUFFIX = ".state.json"
PART = f"{SUFFIX}.part"

_OTHER_SHAPE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


class WholeState:
    """The ``Memory`` of a store that has room: the short text with one more key, ``whole``, which its readers pass over."""

    def remember(self, state: State, now: float, wall: float) -> str:
        """The text: some fifteen kilobytes, and one or two more for each replica."""
        slim = (
            state
            if state.decision is None
            else replace(state, decision=replace(state.decision, readings=(), replicas=None))
        )
        if slim.spec is not None:  # a text that a trigger may take from a Secret has no place in a file
            slim = replace(slim, spec=replace(slim.spec, model_name=None))
        whole = json.dumps({"now": now, "wall": wall, "state": slim}, default=_plain, separators=(",", ":"))
        return f'{memory.remember(state, now, wall)[:-1]},"whole":{whole}}}'

    def recall(self, text: str, spec: WorkloadSpec, now: float, wall: float) -> Recalled:
        """The state to begin with: the whole one as it was, where it still counts. Never raises."""
        short = memory.recall(text, spec, now, wall)
        try:
            whole = json.loads(text).get("whole")
            if whole is None or not _fresh(now - whole["now"], wall - whole["wall"], spec):
                return short
            state = _read(State, whole["state"])
        except _OTHER_SHAPE:
            return replace(
                short, note=short.note or "the whole state that is stored is another program's: its short form counts"
            )
        if state.spec is not None:
            state = replace(state, spec=replace(state.spec, model_name=spec.model_name))
        if state.decision is not None:
            seen = state.history
            state = replace(state, decision=replace(state.decision, readings=seen.reporting, replicas=seen.replicas))
        return Recalled(state)


def _fresh(passed_s: float, wall_passed_s: float, spec: WorkloadSpec) -> bool:
    """Whether instants of the clock still mean what they did, and readings still count."""
    return abs(passed_s - wall_passed_s) <= SAME_BOOT_S and 0 <= passed_s <= spec.stale_s


class FileStore:
    """A ``StateStore`` in a directory. Call it from one thread; a thread of its own writes, and of two texts of one file the newer.

    ``told`` hears of a fault once, and again when it comes back after all could be written. Faults leave the store in no other way.
    """

    def __init__(self, directory: Path, told: Callable[[str], None], most_files: int = MOST_FILES) -> None:
        """A store that has not read its directory yet."""
        self._directory, self._told, self._most = directory, told, most_files
        self._texts: dict[str, str] = {}  # by file, the one stored longest ago first
        self._waiting: dict[str, str | None] = {}
        self._lock, self._worker = threading.Lock(), ThreadPoolExecutor(1, "store")
        self._closed = False
        self._faults: dict[str, str] = {}  # by file; the worker's
        self._fault = self._said = (
            ""  # what the last attempt to write, or to read, says, and what it said when put was called last
        )

    def load(self) -> None:
        """Read what is stored, and remove what a process left half written or what is beyond the most files. Waits for the disk."""
        try:
            self._prepare()
            files = sorted(self._directory.iterdir(), key=lambda file: file.stat().st_mtime)
        except OSError as error:
            self._fault = f"{self._directory} cannot be read: {error}"
            self._say()
            return
        unreadable = []
        for file in files:
            try:
                if file.name.endswith(SUFFIX) and file.stat().st_size <= MOST_BYTES:
                    self._keep(file.name, file.read_text("utf-8"))
                elif file.name.endswith(PART):
                    self._send(file.name, None)
            except (OSError, ValueError):
                unreadable.append(file.name)
        if unreadable:
            self._fault = f"{len(unreadable)} files of {self._directory} cannot be read, {unreadable[0]} among them"
            self._say()

    def recall(self, key: WorkloadKey) -> str | None:
        """What was stored last."""
        return self._texts.get(_file_name(key))

    def due(self, key: WorkloadKey, *, changed: bool) -> bool:  # noqa: ARG002 - the port's
        """Always: a file costs little."""
        return True

    def put(self, key: WorkloadKey, text: str) -> None:
        """Store the text soon. With more workloads than files the one that was stored longest ago is given up."""
        name = _file_name(key)
        self._texts.pop(name, None)
        self._keep(name, text)
        self._send(name, text)
        self._say()

    def forget(self, key: WorkloadKey) -> None:
        """Remove the workload's file soon."""
        if self._texts.pop(_file_name(key), None) is not None:
            self._send(_file_name(key), None)

    def close(self) -> None:
        """Write what waits; nothing is stored afterwards. Waits for the disk."""
        self._closed = True
        self._worker.shutdown()
        self._say()

    def _keep(self, name: str, text: str) -> None:
        self._texts[name] = text
        if len(self._texts) > self._most:
            oldest = next(iter(self._texts))
            del self._texts[oldest]
            self._send(oldest, None)

    def _say(self) -> None:
        fault, said = self._fault, self._said
        self._said = fault
        if fault and not said:
            self._told(fault)

    def _send(self, name: str, text: str | None) -> None:
        if self._closed:
            return
        with self._lock:
            under_way = bool(self._waiting)
            self._waiting[name] = text
        if not under_way:
            self._worker.submit(self._write_waiting)

    def _write_waiting(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for name, text in waiting.items():
            self._faults.pop(name, None)
            try:
                self._prepare()
                self._write(name, text)
            except (OSError, ValueError) as error:
                if text is not None:  # a file too many does no harm
                    self._faults[name] = f"{name}: {error}; after a restart its workload begins anew"
        self._fault = next(iter(self._faults.values()), "")

    def _prepare(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _write(self, name: str, text: str | None) -> None:
        """A reader sees the old text or the new one. Nobody waits for the disk: after a power cut a file may be lost, but no more."""
        file, part = self._directory / name, self._directory / f"{name.removesuffix(SUFFIX)}{PART}"
        if text is None:
            file.unlink(missing_ok=True)
            return
        with open(part, "w", encoding="utf-8", opener=_private) as written:
            written.write(text)
        part.replace(file)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _file_name(key: WorkloadKey) -> str:
    """Readable, and one file for each workload whatever its name is made of."""
    readable = re.sub(r"[^A-Za-z0-9-]+", "_", str(key))[:100]
    return f"{readable}.{sha256(repr(key).encode()).hexdigest()[:16]}{SUFFIX}"


def _plain(value: Any) -> Any:
    """What JSON can carry of one value that it cannot."""
    kind: Any = type(value)
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in _fields(kind)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, array | frozenset):
        return list(value)
    raise TypeError(type(value).__name__)


@cache
def _fields(kind: Any) -> Mapping[str, Any]:
    """The fields of a dataclass with their types, also where its module imports a name for the type checker alone."""
    modules = (model, decision, ready_latency, platform, shown)
    names = {name: value for module in modules for name, value in vars(module).items()}
    names["array"] = list  # Python 3.11 knows no array[float]
    return get_type_hints(kind, localns=names)


def _read(kind: Any, written: Any) -> Any:
    """A value of that type from what JSON made of it, to the last bit. Raises where it is of another shape."""
    reader = _READERS.get(get_origin(kind))
    if reader is not None:
        return reader(get_args(kind), written)
    if hasattr(kind, "__dataclass_fields__"):
        fields = _fields(kind)
        if written.keys() != fields.keys():
            raise ValueError
        return kind(**{name: _read(of, written[name]) for name, of in fields.items()})
    if issubclass(kind, Enum):
        return kind(written)
    if type(written) is not kind and not (kind is float and type(written) is int):
        raise TypeError
    return written


def _read_one_of(kinds: tuple[Any, ...], written: Any) -> Any:
    if written is None and NoneType in kinds:
        return None
    for kind in kinds:
        try:
            return _read(kind, written)
        except _OTHER_SHAPE:
            continue
    raise TypeError


def _read_tuple(kinds: tuple[Any, ...], written: Any) -> Any:
    if kinds[-1] is Ellipsis:
        return tuple(map(_read, repeat(kinds[0]), written))
    return tuple(_read(kind, item) for kind, item in zip(kinds, written, strict=True))


_READERS: Mapping[Any, Callable[[tuple[Any, ...], Any], Any]] = {
    tuple: _read_tuple,
    Union: _read_one_of,
    UnionType: _read_one_of,
    Mapping: lambda kinds, written: {name: _read(kinds[1], item) for name, item in written.items()},
    frozenset: lambda kinds, written: frozenset(_read(kinds[0], item) for item in written),
    list: lambda _, written: array("d", written),
}
