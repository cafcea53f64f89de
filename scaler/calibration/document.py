"""The content of a result file: bytes to JSON objects or rows of CSV, and numbers of them by their place."""

from __future__ import annotations

import csv
import io
import json
import math
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from scaler.core.written import number
from scaler.errors import ConfigError

LARGEST_BYTES = 256 * 2**20
"""GuideLLM writes every request into its report: 10 MB are usual, and a long sweep has more."""
LARGEST = 1e12
"""No load test counts or times anything beyond; what does is damaged."""
GZIP, GZIP_WINDOW = b"\x1f\x8b", 31


class NoResult(ConfigError):
    """A file that no importer knows. Whoever reads a whole folder passes over it."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file, parsed. One of ``records`` (JSON objects: one, an array of them, or one a line) and ``rows`` (CSV) is empty."""

    name: str
    sha256: str
    records: tuple[Mapping[str, Any], ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()

    @property
    def first(self) -> Mapping[str, Any]:
        """The first JSON object, empty for CSV."""
        return self.records[0] if self.records else {}

    def fields(self) -> tuple[Fields, ...]:
        """The JSON objects to ask by place; several are told apart by their number, from 1."""
        if len(self.records) == 1:
            return (Fields(self.name, self.records[0]),)
        return tuple(Fields(f"{self.name}, result {number}", record) for number, record in enumerate(self.records, 1))


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object, or a row of CSV, of one file. ``path`` is where it stands in it."""

    file: str
    data: Mapping[str, Any]
    path: str = ""

    def within(self, *path: str) -> Fields:
        """The object at a place; empty when there is none."""
        found: Any = self.data
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return Fields(
            self.file, found if isinstance(found, Mapping) else {}, ".".join(filter(None, (self.path, *path)))
        )

    def each(self, key: str) -> tuple[Fields, ...]:
        """The objects of the array at a place; empty when there is none."""
        found = self.data.get(key)
        items = found if isinstance(found, list) else []
        return tuple(
            Fields(self.file, item, f"{self.place(key)}[{number}]")
            for number, item in enumerate(items)
            if isinstance(item, Mapping)
        )

    def number(self, key: str) -> float | None:
        """A finite number, None where there is none (NaN, null, an empty cell). Raises ConfigError for anything else."""
        value = self.data.get(key)
        if isinstance(value, str):
            value = _parsed(value)
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return None
        if not _believable(value):
            raise self.fault(key, "a number is needed here")
        return float(value)

    def required(self, key: str, remedy: str) -> float:
        """A number without which the file cannot be used; ``remedy`` says how the load tester is made to write it."""
        value = self.number(key)
        if value is None:
            raise self.fault(key, f"missing; {remedy}")
        return value

    def count(self, key: str) -> int | None:
        """A number of things."""
        value = self.number(key)
        if value is not None and (value < 0 or value != int(value)):
            raise self.fault(key, "a whole number, not below zero, is needed here")
        return None if value is None else int(value)

    def numbers(self, key: str) -> tuple[float, ...]:
        """The numbers of the array at a place, not finite ones as 0; empty when there is none."""
        found = self.data.get(key)
        if not isinstance(found, list):
            return ()
        if not all(item is None or _believable(item) for item in found):
            raise self.fault(key, "an array of numbers is needed here")
        return tuple(float(item or 0.0) for item in found)

    def text(self, key: str) -> str | None:
        """A text that can be written down, None where there is none; a number is taken as it is written."""
        value = self.data.get(key)
        told = str(value).encode(errors="replace").decode() if isinstance(value, str | int | float) else ""
        return told or None

    def place(self, key: str) -> str:
        """Where in the file a key stands."""
        return f"{self.path}.{key}" if self.path else key

    def fault(self, key: str, text: str) -> ConfigError:
        """What is wrong at a place of this file."""
        return ConfigError(f"{self.file}: {self.place(key)}: {text}")


def parse(name: str, content: bytes) -> Document:
    """A file's content, plain or gzipped. Raises NoResult when it is neither JSON nor CSV, ConfigError when it is too large."""
    digest = sha256(content).hexdigest()
    if content.startswith(GZIP):
        content = _unpacked(name, content)
    if len(content) > LARGEST_BYTES:
        raise ConfigError(
            f"{name}: larger than {LARGEST_BYTES >> 20} MB; give the load tester's summary without single requests"
        )
    try:
        text = content.decode("utf-8-sig").lstrip()
    except UnicodeDecodeError:
        raise NoResult(f"{name}: not text; give the JSON or CSV that the load tester saved") from None
    if text.startswith(("{", "[")):
        return Document(name, digest, records=_records(name, text))
    return Document(name, digest, rows=_rows(name, text))


def _unpacked(name: str, content: bytes) -> bytes:
    """All members of a gzip file, no more than is too large. Raises NoResult for one that ends in the middle, too."""
    unpacked = b""
    while content and len(unpacked) <= LARGEST_BYTES:
        unpacking = zlib.decompressobj(GZIP_WINDOW)
        with suppress(zlib.error):
            unpacked += unpacking.decompress(content, LARGEST_BYTES + 1 - len(unpacked))
        if not unpacking.eof and len(unpacked) <= LARGEST_BYTES:
            raise NoResult(f"{name}: a damaged gzip file; copy it again")
        content = unpacking.unused_data
    return unpacked


def _records(name: str, text: str) -> tuple[Mapping[str, Any], ...]:
    try:
        try:
            loaded = [_json(text)]
        except json.JSONDecodeError:  # --append-result writes one object a line
            loaded = [_json(line) for line in text.splitlines() if line.strip()]
    except json.JSONDecodeError as error:
        raise NoResult(f"{name}: not JSON ({error.msg} in line {error.lineno}); was the load test cut short?") from None
    except ValueError:  # Python reads no integer of more than 4300 digits
        raise NoResult(f"{name}: not a load-test result, it holds a number of thousands of digits") from None
    except RecursionError:
        raise NoResult(f"{name}: not a load-test result, it is nested too deeply") from None
    flat = [item for value in loaded for item in (value if isinstance(value, list) else [value])]
    return tuple(item for item in flat if isinstance(item, Mapping))


def _json(text: str) -> Any:
    """JSON as Python's own writer leaves it: NaN and infinities are values that nobody knows."""
    return json.loads(text, parse_constant=lambda _: None)


def _rows(name: str, text: str) -> tuple[tuple[str, ...], ...]:
    try:
        rows = tuple(tuple(cell.strip() for cell in row) for row in csv.reader(io.StringIO(text)) if any(row))
    except csv.Error as error:
        raise NoResult(f"{name}: neither JSON nor CSV ({error})") from None
    if not rows or len(rows[0]) == 1:
        raise NoResult(f"{name}: neither JSON nor CSV; give the file that the load tester saved")
    return rows


def _believable(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


def _parsed(text: str) -> float | str | None:
    """A cell or an option's value as a number; an empty one is none, any other text stays."""
    if not text.strip():
        return None
    value = number(text.strip())
    return text if value is None else value
