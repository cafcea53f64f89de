"""Azure's LLM inference traces of 2023 and 2024: when, how long the prompt was, and how many tokens were generated."""

from __future__ import annotations

from scaler.sim.traces.stamps import seconds
from scaler.sim.traces.text import Columns, Text, requests
from scaler.sim.traces.values import Assumed, Trace

KIND = "Azure"
COLUMNS = Columns("timestamp", "contexttokens", "generatedtokens", seconds=seconds)


def recognises(text: Text) -> bool:
    """Whether the file is of this form."""
    return {COLUMNS.at, COLUMNS.prompt} <= set(text.header)


def trace(text: Text, assumed: Assumed) -> Trace:
    """The requests of a file."""
    traffic, empty = requests(text, COLUMNS, assumed)
    notes = (f"{empty} rows without prompt or generated tokens were left out",) if empty else ()
    return Trace(text.file, KIND, traffic, notes)
