"""What must hold at every moment of a chaos run, whatever fails: pure, over what was seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from scaler.demo.scenario import BURST_PER_S, MAX_QUEUED, MAX_REPLICAS, SAFE_CONCURRENCY, TTFT_BUDGET_S

SUSTAINED_S = 5.0
"""What has run for so long is load that the number must hold."""
RPC_S = 3.0
"""Within which a call is answered. Ours is a second; the rest is this machine, which runs everything that there is."""
MACHINE_S = 1.0
"""Looks are a quarter of a second apart, unless this machine does not get to it."""
REACTION_S = 12.0
"""A reading counts for ten seconds, and a colour is two ticks late."""
QUIET_S = 60.0
CALM_QUEUE = 4 * MAX_QUEUED
UNREADABLE_S = 15.0
DISTURBED_S = 90.0


@dataclass(frozen=True, slots=True)
class Span:
    """A fault: what, on what, from when to when. Seconds from the start of the run."""

    name: str
    of: frozenset[str]
    begin: float
    end: float = math.inf

    def touches(self, begin: float, end: float) -> bool:
        return self.begin <= end and self.end >= begin


@dataclass(frozen=True, slots=True)
class Sight:
    """One look at everything. ``running`` and ``oldest_s`` (the wait of the request that waits longest, 0 if none) by engine.

    ``waiting``: all that have no first token yet; ``shown``: those of them that a page of metrics shows, which in an engine that froze with
    free places are none.
    ``state``: the colour as a gateway that asks now is told, "" when nobody answers. ``advised``: the gateway's fraction is fresh.
    """

    at: float
    running: Mapping[str, float]
    oldest_s: Mapping[str, float]
    waiting: int
    shown: float
    state: str
    advised: bool
    wanted: int


@dataclass(frozen=True, slots=True)
class Call:
    """One RPC as KEDA made it: when, how long it took, and its code, or what came back."""

    rpc: str
    at: float
    took_s: float
    code: str = "OK"
    value: float | None = None


@dataclass(slots=True)
class Log:
    """All that was seen."""

    sights: list[Sight] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


PROCESS = frozenset({"scaler stalls", "scaler is killed", "scaler is replaced"})


def violations(log: Log) -> list[str]:
    """Each a sentence with its time; none when all held."""
    return [
        *(problem for check in CHECKS for problem in check(log)),
        *(f"the scaler complained: {line}" for line in log.complaints),
    ]


def _floor(log: Log) -> Iterator[str]:
    """KEDA is never told less than what runs on the replicas that can be read needs."""
    for call in _values(log):
        recent = [sight for sight in log.sights if call.at - SUSTAINED_S <= sight.at <= call.at]
        if not recent or call.at < SUSTAINED_S:
            continue
        unread = frozenset().union(*(s.of for s in log.spans if s.touches(call.at - UNREADABLE_S, call.at)))
        names = [name for name in recent[-1].running if name not in unread]
        least = min(sum(sight.running.get(name, 0.0) for name in names) for sight in recent)
        need = min(MAX_REPLICAS, math.ceil(least / SAFE_CONCURRENCY))
        if (call.value or 0.0) < need:
            yield f"{call.at:.1f} s: KEDA was told {call.value:g} where {least:g} run, which need {need}"


def _zero(log: Log) -> Iterator[str]:
    for call in log.calls:
        if call.code == "OK" and call.value is not None and call.value < 1:
            yield f"{call.at:.1f} s: {call.rpc} said {call.value:g} while there was traffic"


def _answered(log: Log) -> Iterator[str]:
    """Every call ends soon, unless the process that has it stands still or dies, or this machine does."""
    stops = [(span.begin, span.end) for span in log.spans if span.name in PROCESS]
    stops += [(a.at, b.at) for a, b in pairwise(log.sights) if b.at - a.at > MACHINE_S]
    for call in log.calls:
        over = call.at + call.took_s
        stopped_s = sum(max(0.0, min(end, over) - max(begin, call.at)) for begin, end in stops)
        if call.took_s - stopped_s > RPC_S:
            yield f"{call.at:.1f} s: {call.rpc} took {call.took_s:.1f} s and ended with {call.code}"


def _queue(log: Log) -> Iterator[str]:
    """What waits is bounded by what came in while nobody could say anything."""
    for index, sight in enumerate(log.sights):
        recent = [one for one in log.sights[: index + 1] if one.at >= sight.at - DISTURBED_S]
        blind_s = sum(b.at - a.at for a, b in pairwise(recent) if not a.advised)
        broken_s = sum(
            min(span.end, sight.at) - max(span.begin, sight.at - DISTURBED_S)
            for span in log.spans
            if span.of and span.touches(sight.at - DISTURBED_S, sight.at)
        )
        bound = CALM_QUEUE + BURST_PER_S * (blind_s + broken_s)
        if sight.waiting > bound:
            yield f"{sight.at:.1f} s: {sight.waiting} wait, which is more than {bound:.0f}"


def _dark(log: Log) -> Iterator[str]:
    """GREEN is not said while even the best replica keeps its first in line for longer than the budget, and pages show it."""
    for begin, end in _stretches(log.sights, _dark_at):
        if end - begin > REACTION_S:
            yield f"{begin:.1f} s: GREEN for {end - begin:.0f} s while whoever came waited longer than {TTFT_BUDGET_S:g} s"


def _alarmed(log: Log) -> Iterator[str]:
    """RED is not said for a minute in which nothing failed and nobody waited."""

    def calm(sight: Sight) -> bool:
        waits = max(sight.oldest_s.values(), default=0.0) > 0.4 * TTFT_BUDGET_S
        return (
            sight.state == "RED" and not waits and not any(s.touches(sight.at - QUIET_S, sight.at) for s in log.spans)
        )

    for begin, end in _stretches(log.sights, calm):
        if end - begin > QUIET_S:
            yield f"{begin:.1f} s: RED for {end - begin:.0f} s without a cause"


def _recovered(log: Log) -> Iterator[str]:
    """A minute after the last fault, with a load that it can bear, all is GREEN and nobody waits."""
    last = log.sights[-1]
    if any(span.end > last.at - QUIET_S for span in log.spans):
        return
    end = [sight for sight in log.sights if sight.at > last.at - SUSTAINED_S]
    if (seen := {sight.state for sight in end}) != {"GREEN"} or max(sight.waiting for sight in end) > MAX_QUEUED:
        yield f"{last.at:.1f} s: a minute after the last fault it is seen as {', '.join(sorted(seen))} and {last.waiting} wait"


CHECKS = (_floor, _zero, _answered, _queue, _dark, _alarmed, _recovered)


def _values(log: Log) -> list[Call]:
    return [call for call in log.calls if call.rpc == "GetMetrics" and call.code == "OK"]


def _dark_at(sight: Sight) -> bool:
    best_s = min(sight.oldest_s.values(), default=0.0)
    return sight.state == "GREEN" and sight.shown > 0 and best_s > TTFT_BUDGET_S


def _stretches(sights: Sequence[Sight], true) -> Iterator[tuple[float, float]]:
    """From when to when it was true without a break."""
    begin = end = None
    for sight in sights:
        if true(sight):
            begin, end = (sight.at if begin is None else begin), sight.at
        elif begin is not None and end is not None:
            yield begin, end
            begin = end = None
    if begin is not None and end is not None:
        yield begin, end


def figures(log: Log) -> list[str]:
    """What a run was, in a few lines."""
    values = [call.value or 0.0 for call in _values(log)]
    took = sorted(call.took_s for call in log.calls)
    failed = sum(call.code != "OK" for call in log.calls)
    states = {state: sum(s.state == state for s in log.sights) for state in ("GREEN", "YELLOW", "RED", "UNKNOWN", "")}
    total = max(1, len(log.sights))
    return [
        f"{log.sights[-1].at:.0f} s, {len(log.spans)} faults of {len({span.name for span in log.spans})} kinds",
        f"{len(log.calls)} RPCs, {failed} with an error; slowest {took[-1]:.2f} s, P99 {took[int(0.99 * (len(took) - 1))]:.3f} s",
        f"KEDA was told {min(values):g} to {max(values):g} replicas",
        f"at most {max(s.waiting for s in log.sights)} waited",
        "seen as " + ", ".join(f"{state or 'nobody'} {count / total:.0%}" for state, count in states.items()),
    ]
