"""The content of a trace file: bytes to text, its lines as JSON, and its rows as requests."""

from __future__ import annotations

import csv
import difflib
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from scaler.core import written
from scaler.errors import ConfigError
from scaler.sim.traces.values import Assumed
from scaler.sim.traffic import Arrival, Requests

LARGEST_BYTES = 256 * 2**20
"""The largest public trace, 5 million requests of BurstGPT, has 200 MB."""
MOST_TOKENS = 10_000_000
"""No request is longer; what claims to be is damaged."""
LATEST_S = 1e12
FIRST_LINES, LONGEST_HEADER = 100, 4096
GZIP, GZIP_WINDOW = b"\x1f\x8b", 31


@dataclass(frozen=True, slots=True)
class Text:
    """A file as text."""

    file: str
    body: str

    @property
    def header(self) -> tuple[str, ...]:
        """The cells of the first line, in small letters."""
        line = self.body[:LONGEST_HEADER].partition("\n")[0]
        return tuple(cell.strip().strip('"').lower() for cell in line.split(","))

    @property
    def first(self) -> Mapping[str, Any]:
        """The first JSON object among the first lines; empty when there is none."""
        lines = self.body.split("\n", FIRST_LINES)[:FIRST_LINES]
        found = (record for record in map(_object, lines) if record is not None)
        return next(found, {})

    def records(self) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
        """The JSON object of each line that is not empty, with the line's number; None where there is no object."""
        for number, line in enumerate(self.body.split("\n"), 1):
            if line.strip():
                yield number, _object(line)

    def fault(self, text: str, line: int | None = None) -> ConfigError:
        """What is wrong with the file."""
        return ConfigError(f"{self.file}: {text}" if line is None else f"{self.file}, line {line}: {text}")


def opened(file: str, content: bytes) -> Text:
    """A file's text, plain or gzipped. Raises ConfigError when it is none, or too large."""
    if content.startswith(GZIP):
        content = _unpacked(file, content)
    if len(content) > LARGEST_BYTES:
        raise ConfigError(f"{file}: larger than {LARGEST_BYTES >> 20} MB; cut it to the hours that you want to replay")
    try:
        return Text(file, content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: not text; give a CSV or JSON lines, plain or gzipped") from None


def _unpacked(file: str, content: bytes) -> bytes:
    """All members: what is compressed in blocks, or appended to, has several."""
    found, left = [], LARGEST_BYTES + 1
    while content and left > 0:
        unpacking = zlib.decompressobj(GZIP_WINDOW)
        try:
            found.append(unpacking.decompress(content, left))
        except zlib.error:
            raise ConfigError(f"{file}: a damaged gzip file; copy it again") from None
        left -= len(found[-1])
        if left > 0 and not unpacking.eof:
            raise ConfigError(f"{file}: a gzip file that was cut short; copy it again")
        content = unpacking.unused_data
    return b"".join(found)


def _object(line: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def plain(cell: str) -> float:
    """The number in a cell. Raises ValueError."""
    value = written.number(cell.strip())
    if value is None:
        raise ValueError("no number")
    return value


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a CSV make a request, in small letters; ``seconds`` reads a time. ``known``: there may be no other column."""

    at: str
    prompt: str
    output: str
    request_class: str | None = None
    seconds: Callable[[str], float] = plain
    known: bool = False


Row = tuple[float, str, int, int]
"""When, of which class, and how many tokens of prompt and output."""


def requests(text: Text, columns: Columns, assumed: Assumed) -> tuple[Requests, int]:
    """The rows of a CSV as requests, and how many have no prompt or no output. Raises ConfigError for a row that cannot be read."""
    named = {"at": columns.at, "prompt": columns.prompt, "output": columns.output}
    header = _header(text, columns)
    at_, prompt_, output_ = (header.index(name) for name in named.values())
    class_ = header.index(columns.request_class) if columns.request_class in header else None
    seconds, names = columns.seconds, dict[str, str]()
    found: list[Row] = []
    empty = 0
    for line, row in rows(text):
        try:
            at, prompt, output = seconds(row[at_]), plain(row[prompt_]), plain(row[output_])
            name = row[class_].strip() if class_ is not None else ""
        except (ValueError, IndexError):
            raise _fault(text, columns, (line, row, header)) from None
        if not (-LATEST_S <= at <= LATEST_S and 0 <= prompt <= MOST_TOKENS and 0 <= output <= MOST_TOKENS):
            raise _fault(text, columns, (line, row, header))
        if prompt < 1 or output < 1:
            empty += 1
            continue
        # one text for a class, however many rows name it
        found.append((at, names.setdefault(name, name) or assumed.request_class, int(prompt), int(output)))
    return in_order(text, found), empty


def in_order(text: Text, found: list[Row]) -> Requests:
    """Requests from the first one on, which comes at 0. After the last one traffic goes on for as long as one request takes on average."""
    if not found:
        raise text.fault("holds no request that has a prompt and an output; give a trace with requests")
    found.sort(key=itemgetter(0))
    first, last = found[0][0], found[-1][0]
    span_s = last - first
    arrivals = tuple(Arrival(at - first, name, prompt, output) for at, name, prompt, output in found)
    return Requests(arrivals, span_s * len(found) / (len(found) - 1) if span_s > 0 else 1.0)


def rows(text: Text) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV below its header, with the number of the line that each ends on."""
    reader = csv.reader(text.body.split("\n"))
    try:
        next(reader, None)
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise text.fault(f"no CSV ({error}); save it again", reader.line_num) from None


def _header(text: Text, columns: Columns) -> Sequence[str]:
    needed = (columns.at, columns.prompt, columns.output)
    missing = [name for name in needed if name not in text.header]
    if missing:
        raise text.fault(f"no column {', '.join(missing)}; the first line must name {', '.join(needed)}", 1)
    if columns.known:
        known = [*needed, *filter(None, [columns.request_class])]
        for name in text.header:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
                raise text.fault(f"{name or 'a column without a name'}: unknown column, {hint}", 1)
    return text.header


def _fault(text: Text, columns: Columns, where: tuple[int, list[str], Sequence[str]]) -> ConfigError:
    """What is wrong with a row that cannot be read."""
    line, row, header = where
    cells = dict(zip(header, row, strict=False))
    for name in (columns.prompt, columns.output):
        if not 0 <= _number(cells.get(name, ""), float) <= MOST_TOKENS:
            return text.fault(f"{name}: a number of tokens is needed here, up to {MOST_TOKENS:,}", line)
    if not abs(_number(cells.get(columns.at, ""), columns.seconds)) <= LATEST_S:
        kind = "a number of seconds" if columns.seconds is plain else "a time such as 2026-01-31 23:59:59.5"
        return text.fault(f"{columns.at}: {kind} is needed here", line)
    return text.fault(f"{columns.request_class}: missing; every row needs as many cells as the first line", line)


def _number(cell: str, read: Callable[[str], float]) -> float:
    try:
        return read(cell)
    except ValueError:
        return math.nan
