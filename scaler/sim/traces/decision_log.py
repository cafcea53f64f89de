"""Our own log of one workload: the load that was seen, and what was decided and ready, so that an incident can be played again.

Lines ``decision`` and ``load`` tell a load; all others, and what is no JSON, are passed over. A rate there is the mean of the
``window_s`` before its line, so it holds around the middle of that. It was counted, so its requests are counted out and not thrown
anew: dice upon dice would double the noise that was really there. A sudden jump comes back as a slope as long as that window.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from scaler.sim.traces.stamps import seconds
from scaler.sim.traces.text import MOST_TOKENS, Text
from scaler.sim.traces.values import Assumed, Recorded, Trace
from scaler.sim.traffic import Draws, Lengths, Rated, Rates, Spread, Stream

KIND = "our decision log"
EVENTS = ("decision", "load")
MOST = 1e6
"""No workload has more replicas, or requests a second; what says so is damaged."""

Line = tuple[int, Mapping[str, Any]]
"""The number of a line, and what it holds."""


@dataclass(frozen=True, slots=True)
class _Told:
    """The load of one line: when, how many requests a second over how many seconds, and the median lengths where they were known."""

    at: float
    rate_per_s: float
    window_s: float
    prompt: float | None
    output: float | None


def recognises(text: Text) -> bool:
    """Whether the file is of this form."""
    return {"at", "event", "level"} <= text.first.keys()


def trace(text: Text, assumed: Assumed) -> Trace:
    """The load that was offered to the workload, evenly counted out, and what was decided meanwhile."""
    lines = [(number, line) for number, line in text.records() if line is not None and line.get("event") in EVENTS]
    mine = _of(text, lines, assumed.workload)
    with_load = [(number, line) for number, line in mine if isinstance(line.get("load"), dict)]
    if not with_load:
        raise text.fault('no line of the workload has "load"; it was written by an older release: record again')
    dated = sorted(((_at(text, line), line) for line in with_load), key=itemgetter(0))
    began_at = dated[0][0]
    recorded = tuple(_recorded(text, at - began_at, line) for at, line in dated)
    told = [
        _told(text, at - began_at, line) for at, line in dated if line[1].get("blind") is not True
    ]  # what a blind scaler said of the load is what it had known before
    if len(told) < 2:  # noqa: PLR2004 - one instant is no load over time
        raise text.fault("fewer than two lines that saw a load; record for longer, or over a change of the load")
    lengths, note = _lengths(told, assumed.lengths)
    stream = Stream(assumed.request_class, _rates(told), lengths, spread=Spread.COUNTED)
    blind = len(recorded) - len(told)
    notes = [note, f"{blind} of {len(recorded)} lines were blind; the load before them was held" if blind else ""]
    return Trace(text.file, KIND, Rated((stream,), recorded[-1].at), tuple(filter(None, notes)), recorded)


def _of(text: Text, lines: Sequence[Line], workload: str | None) -> list[Line]:
    """The lines of one workload: the one that is wanted, or the only one."""
    by_name: dict[str, list[Line]] = {}
    for number, line in lines:
        by_name.setdefault(f"{line.get('namespace')}/{line.get('name')}", []).append((number, line))
    wanted = workload if workload is not None or len(by_name) != 1 else next(iter(by_name))
    if wanted in by_name:
        return by_name[wanted]
    there = ", ".join(sorted(by_name)[:8]) or "none"
    what = "several workloads" if workload is None and by_name else "no decision of the workload"
    raise text.fault(f"{what}; name one that is there as NAMESPACE/NAME: {there}")


def _recorded(text: Text, at: float, line: Line) -> Recorded:
    number, found = line
    load = found["load"]
    desired = _number(text, number, "desired", found)
    if desired is None:
        raise text.fault("desired: a number of replicas is needed here", number)
    ready, starting = (_number(text, number, key, load) for key in ("ready", "starting"))
    return Recorded(
        at,
        int(desired),
        None if ready is None else int(ready),
        None if starting is None else int(starting),
        found.get("blind") is True,
    )


def _told(text: Text, at: float, line: Line) -> _Told:
    number, found = line
    load = found["load"]
    rate, window_s = (_number(text, number, key, load) for key in ("offered_per_s", "window_s"))
    if rate is None or window_s is None:
        raise text.fault("load: offered_per_s and window_s are needed here; record again", number)
    prompt, output = (_number(text, number, f"{key}_p50_tokens", load, MOST_TOKENS) for key in ("prompt", "output"))
    return _Told(at, rate, window_s, prompt, output)


def _at(text: Text, line: Line) -> float:
    try:
        return seconds(str(line[1].get("at")))
    except ValueError:
        raise text.fault("at: a time such as 2026-01-31T23:59:59.500+00:00 is needed here", line[0]) from None


def _number(text: Text, number: int, key: str, found: Mapping[str, Any], most: float = MOST) -> float | None:
    """A number, None where nobody knew it (a word, as ``core.plain`` writes it)."""
    value = found.get(key)
    if value is None or isinstance(value, str):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise text.fault(f"{key}: a number from 0 to {most:,.0f} is needed here", number)
    return float(value)


def _rates(told: Sequence[_Told]) -> Rates:
    """Each rate around the middle of its window: from half-way to the one before, or from where its window begins if that is later."""
    found = [(0.0, told[0].rate_per_s)]
    before = told[0]
    for one in told[1:]:
        half_way = (before.at - before.window_s / 2 + one.at - one.window_s / 2) / 2
        begins_at = max(half_way, one.at - one.window_s)
        if begins_at <= found[-1][0]:
            found[-1] = (found[-1][0], one.rate_per_s)
        else:
            found.append((begins_at, one.rate_per_s))
        before = one
    return tuple(found)


def _lengths(told: Sequence[_Told], assumed: Draws) -> tuple[Draws, str]:
    """The median lengths, each line weighted by its rate, and what is to be said of it."""
    known = [
        (one.rate_per_s, one.prompt, one.output)
        for one in told
        if one.rate_per_s > 0 and one.prompt is not None and one.output is not None
    ]
    if not known:
        return assumed, "the log does not tell how long requests were; lengths were assumed"
    all_per_s = math.fsum(rate for rate, _, _ in known)
    prompt = math.fsum(rate * length for rate, length, _ in known) / all_per_s
    output = math.fsum(rate * length for rate, _, length in known) / all_per_s
    return Lengths.of_medians(prompt, output), ""
