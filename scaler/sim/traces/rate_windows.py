"""How many requests a second there were, window by window: ``t_s``, when each began, and ``rate_per_s`` (ServeGen: ``rate_rps``).

The last window lasts as long as the one before it. Within a window requests come by chance, as they do (Poisson), because minutes of
one rate say nothing of what happens within them.
"""

from __future__ import annotations

import math

from scaler.core.written import number
from scaler.sim.traces.text import LATEST_S, Text, rows
from scaler.sim.traces.values import Assumed, Trace
from scaler.sim.traffic import Rated, Rates, Stream

KIND = "rates by window"
AT, RATES = "t_s", ("rate_per_s", "rate_rps")
HIGHEST_PER_S = 1e6


def recognises(text: Text) -> bool:
    """Whether the file is of this form."""
    return AT in text.header and not set(RATES).isdisjoint(text.header)


def trace(text: Text, assumed: Assumed) -> Trace:
    """The load of a file, of requests of the assumed lengths."""
    rates = _rates(text)
    unused = [name for name in text.header if name not in (AT, *RATES)]
    notes = (f"not used: {', '.join(unused)}",) if unused else ()
    duration_s = 2 * rates[-1][0] - rates[-2][0]
    stream = Stream(assumed.request_class, rates, assumed.lengths)
    return Trace(text.file, KIND, Rated((stream,), duration_s), notes)


def _rates(text: Text) -> Rates:
    name = next(name for name in RATES if name in text.header)
    at_, rate_ = text.header.index(AT), text.header.index(name)
    found: list[tuple[float, float]] = []
    for line, row in rows(text):
        at = _number(row, at_)
        if not (found[-1][0] if found else -LATEST_S) < at <= LATEST_S:
            raise text.fault(f"{AT}: a number of seconds above that of the line before is needed here", line)
        rate = _number(row, rate_)
        if not 0 <= rate <= HIGHEST_PER_S:
            raise text.fault(f"{name}: a number of requests a second is needed here, up to {HIGHEST_PER_S:,.0f}", line)
        found.append((at, rate))
    if len(found) < 2:  # noqa: PLR2004 - one alone has no end
        raise text.fault("a single window; give two at least: the last lasts as long as the one before it")
    return tuple((at - found[0][0], rate) for at, rate in found)


def _number(row: list[str], place: int) -> float:
    value = number(row[place].strip()) if place < len(row) else None
    return math.nan if value is None else value
