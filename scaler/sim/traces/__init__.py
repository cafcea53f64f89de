"""The traces that can be replayed: bytes in, traffic out. To add a format: a file with ``recognises`` and ``trace``, and one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scaler.errors import ConfigError
from scaler.sim.traces import azure, burstgpt, decision_log, mooncake, plain_csv, rate_windows
from scaler.sim.traces.text import Text, opened
from scaler.sim.traces.values import NOTHING_SAID, Assumed, Recorded, Trace

__all__ = ["FORMATS", "Assumed", "Format", "Recorded", "Trace", "read"]

MANY_WORDS = 8


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of file: whether a text is of it, and its traffic. Both are told by content alone; a file's name means nothing."""

    name: str
    recognises: Callable[[Text], bool]
    trace: Callable[[Text, Assumed], Trace]


FORMATS = (
    Format(azure.KIND, azure.recognises, azure.trace),
    Format(burstgpt.KIND, burstgpt.recognises, burstgpt.trace),
    Format(decision_log.KIND, decision_log.recognises, decision_log.trace),
    Format(mooncake.KIND, mooncake.recognises, mooncake.trace),
    Format(rate_windows.KIND, rate_windows.recognises, rate_windows.trace),
    Format(plain_csv.KIND, plain_csv.recognises, plain_csv.trace),
)


def read(file: str, content: bytes, assumed: Assumed = NOTHING_SAID) -> Trace:
    """The traffic in a file, plain or gzipped. Raises ConfigError that names the file, the line, the field and what to do."""
    text = opened(file, content)
    for known in FORMATS:
        if known.recognises(text):
            return known.trace(text, assumed)
    found = [str(key) for key in text.first] or [cell[:40] for cell in text.header if cell]
    told = ", ".join(found[:MANY_WORDS]) + (", …" if len(found) > MANY_WORDS else "")
    readable = ", ".join(known.name for known in FORMATS)
    raise ConfigError(
        f"{file}: not a trace: it begins with {told or 'nothing'}; readable are {readable}: "
        f"give one, or write a CSV that begins with {plain_csv.HEADER}"
    )
