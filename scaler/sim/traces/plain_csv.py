"""A CSV of one's own: ``t_s,in_tokens,out_tokens``, and ``class`` where requests have classes. Times in seconds."""

from __future__ import annotations

from scaler.sim.traces.text import Columns, Text, requests
from scaler.sim.traces.values import Assumed, Trace

KIND = "a plain CSV"
HEADER = "t_s,in_tokens,out_tokens"
COLUMNS = Columns("t_s", "in_tokens", "out_tokens", request_class="class", known=True)


def recognises(text: Text) -> bool:
    """Whether the file is of this form."""
    return COLUMNS.at in text.header


def trace(text: Text, assumed: Assumed) -> Trace:
    """The requests of a file."""
    traffic, empty = requests(text, COLUMNS, assumed)
    notes = (f"{empty} rows without prompt or output tokens were left out",) if empty else ()
    return Trace(text.file, KIND, traffic, notes)
