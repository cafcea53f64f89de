"""BurstGPT: when, in seconds, and the tokens of request and response. A request that failed has no response tokens."""

from __future__ import annotations

from scaler.sim.traces.text import Columns, Text, requests
from scaler.sim.traces.values import Assumed, Trace

KIND = "BurstGPT"
COLUMNS = Columns("timestamp", "request tokens", "response tokens")


def recognises(text: Text) -> bool:
    """Whether the file is of this form, with or without the columns of a session."""
    return {COLUMNS.at, COLUMNS.prompt} <= set(text.header)


def trace(text: Text, assumed: Assumed) -> Trace:
    """The requests of a file that were answered: nobody knows how long the answers to the others would have been."""
    traffic, failed = requests(text, COLUMNS, assumed)
    share = failed / (failed + len(traffic.rows))
    notes = (f"{failed} requests that failed ({share:.1%}) were left out: they have no response tokens",)
    return Trace(text.file, KIND, traffic, notes if failed else ())
