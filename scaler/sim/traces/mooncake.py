"""Mooncake: a JSON object a line with the time in milliseconds and both lengths. ``hash_ids`` are not used: there is no prefix cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaler.sim.traces.text import LATEST_S, MOST_TOKENS, Row, Text, in_order
from scaler.sim.traces.values import Assumed, Trace

KIND = "Mooncake"
AT, PROMPT, OUTPUT, HASHES = "timestamp", "input_length", "output_length", "hash_ids"
MS_A_S = 1000.0


def recognises(text: Text) -> bool:
    """Whether the file is of this form."""
    return {AT, PROMPT} <= text.first.keys()


def trace(text: Text, assumed: Assumed) -> Trace:
    """The requests of a file."""
    found: list[Row] = []
    empty = 0
    for line, record in text.records():
        if record is None:
            raise text.fault("no JSON object; was the file cut short?", line)
        at = _number(text, (line, record), AT, LATEST_S)
        prompt, output = (int(_number(text, (line, record), key, MOST_TOKENS)) for key in (PROMPT, OUTPUT))
        if prompt < 1 or output < 1:
            empty += 1
            continue
        found.append((at / MS_A_S, assumed.request_class, prompt, output))
    notes = [f"{empty} requests without input or output were left out"] if empty else []
    if HASHES in text.first:
        notes.append(f"{HASHES} were not used: every prompt is computed whole, as without a prefix cache")
    return Trace(text.file, KIND, in_order(text, found), tuple(notes))


def _number(text: Text, where: tuple[int, Mapping[str, Any]], key: str, most: float) -> float:
    line, record = where
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        unit = "milliseconds" if key == AT else "tokens"
        raise text.fault(f"{key}: a number of {unit} is needed here, from 0 to {most:,.0f}", line)
    return float(value)
