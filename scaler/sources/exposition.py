"""The text of a /metrics page to the samples that an engine's row asks for, in one pass of one compiled pattern.

Reads Prometheus text 0.0.4 and OpenMetrics. A general parser spends 30 ms of a core on a vLLM page of 50 KB, of which
we want a third of the lines; this one spends less than a millisecond and so can run between two awaits.

What is not a number must not become one:

* A line ends with a line feed. Without it the page was cut and ``12`` may have been ``128``: such a line reads NaN.
  ``whole`` tells the caller that the rest of the page is gone too.
* A line of a wanted name that does not follow the grammar reads NaN as well, which makes its signal unknown, instead
  of vanishing, which could read as idle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import nan

from scaler.core.written import number
from scaler.engines.row import Engine, Sample, Samples

# Possessive quantifiers: on a hostile page the match must fail in linear time.
_LINE = (
    rb"\n[ \t]*+(%s)"
    rb"(?:(?:[ \t]*+\{((?:"
    rb'[ \t]*+[A-Za-z_]\w*+[ \t]*+=[ \t]*+"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"[ \t]*+(?:,|(?=\}))'  # one label
    rb")*+)[ \t]*+\}[ \t]*+|[ \t]++)"
    rb"([^ \t\r\n{}]{1,64}+)"  # the value
    rb"(?:[ \t]++[-+.\dEe]++)?+[ \t]*+(?:\#[^\n]*+)?+\r?+(?=\n)"  # time stamp and exemplar are not used
    rb"|(?![\w:]))"  # or the name and anything else
)
_LABEL = re.compile(
    r'([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
)  # in text that _LINE has accepted
KEPT, KEPT_BYTES = 2048, 256
"""How many texts of labels are kept parsed, and how long they may be."""
_ESCAPE = re.compile(r'\\([\\"n])')


@dataclass(frozen=True, slots=True)
class Wanted:
    """The sample names to look for, as one pattern. Compiling takes milliseconds: once an engine, then kept."""

    pattern: re.Pattern[bytes]

    @classmethod
    def of(cls, engine: Engine) -> Wanted:
        """All that the engine's row can use."""
        return cls.names(engine.sample_names)

    @classmethod
    def names(cls, names: Iterable[str]) -> Wanted:
        """Exactly these sample names."""
        return cls(re.compile(_LINE % (_either([name.encode() for name in names]) or b"(?!)")))


def parse(page: bytes, wanted: Wanted) -> Samples:
    """The wanted samples of a page, in the order of its lines. Never raises, whatever the bytes are.

    Time stamps are ignored: an engine does not send them, and the caller knows when the answer came.
    """
    labels: dict[bytes, Mapping[str, str]] = {b"": {}}
    samples: dict[bytes, list[Sample]] = {}
    for name, text, value in wanted.pattern.findall(b"\n" + page):
        if text not in labels:
            labels[text] = _kept(text) if len(text) <= KEPT_BYTES else _labels(text.decode(errors="replace"))
        samples.setdefault(name, []).append(Sample(labels[text], _number(value)))
    return {name.decode(): found for name, found in samples.items()}


def whole(page: bytes, *, openmetrics: bool) -> bool:
    """Whether the page has its end: a last line feed, in OpenMetrics ``# EOF``.

    The text format has no end mark, so there a cut exactly between two lines is left for HTTP to notice.
    """
    marked = page.rstrip(b"\r\n").rpartition(b"\n")[2] == b"# EOF"
    return marked or (page.endswith(b"\n") and not openmetrics)


def _number(text: bytes) -> float:
    value = number(text.decode("ascii", errors="replace"))
    return nan if value is None else value


@lru_cache(KEPT)
def _kept(text: bytes) -> Mapping[str, str]:
    """The same series come with every page."""
    return _labels(text.decode(errors="replace"))


def _labels(text: str) -> dict[str, str]:
    found = dict(_LABEL.findall(text))
    if "\\" in text:
        return {
            label: _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], found[label]) for label in found
        }
    return found


def _either(names: Iterable[bytes]) -> bytes:
    """A pattern of all names with common beginnings factored out: tried one by one they take several times longer."""
    rest: dict[bytes, list[bytes]] = {}
    for name in sorted(set(names)):
        rest.setdefault(name[:1], []).append(name[1:])
    ends = rest.pop(b"", None) is not None
    branches = [re.escape(head) + _either(tails) for head, tails in rest.items()]
    body = branches[0] if len(branches) == 1 and not ends else b"(?:" + b"|".join(branches) + b")"
    return body + (b"?" if ends else b"") if branches else b""
