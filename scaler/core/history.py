"""What a workload's readings add up to over time: fleet-wide counters that never fall, and the newest reading of each replica.

Counters are added up as *increases between two readings of the same replica*. So a restart, a new replica and one that leaves change no
rate by themselves, and a replica that was silent for a while brings no burst with it when it returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from scaler.core.model import Histogram, Missing, Reading, known
from scaler.core.windows import HistogramSeries, Series, counter_increase, histogram_increase, summed

if TYPE_CHECKING:
    from scaler.core.model import Observation, ReplicaSet

GROWTH_SPAN_S = 120.0
LATENCY_SPAN_S = 60.0
WINDOW_SPAN_S = 30.0
HISTOGRAMS = ("ttft", "tpot", "queue_time", "prompt_tokens")
LONGEST_GAP_S = 30.0
"""An increase that built up over a longer silence counts only for the share of it that the rate windows can see."""


@dataclass(frozen=True, slots=True)
class History:
    """Everything the estimate is computed from. All cumulative series count from 0 at the first observation.

    ``entered`` counts requests that entered the engines (first tokens plus the change of waiting), ``refused`` those turned away.
    ``queued`` holds the last two counts of requests waiting upstream, and is empty while nobody counts. ``rejoined_at`` is when a ready
    replica was last read again that had been missing.
    """

    replicas: ReplicaSet | None = None
    last: Mapping[str, Reading] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()
    observed_at: float | None = None
    first_seen_at: float | None = None
    rejoined_at: float | None = None
    first_tokens: Series = Series(WINDOW_SPAN_S)
    entered: Series = Series(WINDOW_SPAN_S)
    offered: Series = Series(GROWTH_SPAN_S)
    refused: Series = Series(WINDOW_SPAN_S)
    preemptions: Series = Series(WINDOW_SPAN_S)
    running: Series = Series(WINDOW_SPAN_S)
    waiting: Series = Series(WINDOW_SPAN_S)
    ttft: HistogramSeries = HistogramSeries(WINDOW_SPAN_S)
    tpot: HistogramSeries = HistogramSeries(LATENCY_SPAN_S)
    queue_time: HistogramSeries = HistogramSeries(WINDOW_SPAN_S)
    prompt_tokens: HistogramSeries = HistogramSeries(LATENCY_SPAN_S)
    first_token_at: float | None = None
    waiting_since: float | None = None
    refused_upstream: float | None = None
    queued: Series = Series(0.0)

    @property
    def reporting(self) -> tuple[Reading, ...]:
        """The newest reading of every ready replica that has a fresh and usable one, in the order of their names."""
        return tuple(self.last[name] for name in sorted(self.last))


@dataclass(frozen=True, slots=True)
class _Increase:
    """What one tick added, over all replicas. ``news``: how many replicas had a newer reading than before."""

    news: int = 0
    first_tokens: float = 0.0
    waiting: float = 0.0
    refused: float = 0.0
    preemptions: float = 0.0
    ttft: tuple[Histogram, ...] = field(default=())
    tpot: tuple[Histogram, ...] = field(default=())
    queue_time: tuple[Histogram, ...] = field(default=())
    prompt_tokens: tuple[Histogram, ...] = field(default=())

    def plus(self, other: _Increase) -> _Increase:
        return _Increase(
            self.news + other.news,
            self.first_tokens + other.first_tokens,
            self.waiting + other.waiting,
            self.refused + other.refused,
            self.preemptions + other.preemptions,
            self.ttft + other.ttft,
            self.tpot + other.tpot,
            self.queue_time + other.queue_time,
            self.prompt_tokens + other.prompt_tokens,
        )


def ingest(history: History, seen: Observation, stale_s: float) -> History:
    """The history after one observation. A reading older than ``stale_s`` seconds makes its replica missing."""
    replicas = seen.replicas or history.replicas
    if replicas is None:
        return history
    ready = frozenset(replicas.ready)
    arrived = {reading.replica: reading for reading in seen.readings if reading.replica in ready and reading.usable}
    added = _added(history.last, arrived)
    kept = {name: reading for name, reading in history.last.items() if name in ready}
    merged = {name: reading for name, reading in (kept | arrived).items() if seen.at - reading.observed_at <= stale_s}
    rejoined = any(miss.replica in arrived for miss in history.missing)
    history = replace(
        history,
        replicas=replicas,
        last=merged,
        missing=_missing(replicas, merged, seen),
        observed_at=_observed_at(history, replicas, merged),
        first_seen_at=seen.at if history.first_seen_at is None else history.first_seen_at,
        rejoined_at=seen.at if rejoined else history.rejoined_at,
        queued=_queued(history.queued, seen, stale_s),
    )
    if is_blind(history, seen):
        return _forget(history)
    return _extend(history, seen, added)


def is_blind(history: History, seen: Observation) -> bool:
    """Whether nothing is known at this tick: no fresh reading, and nobody says that there is nothing to read."""
    if history.replicas is None:
        return False
    return not history.last and (bool(history.replicas.ready) or seen.replicas is None)


def _added(last: Mapping[str, Reading], arrived: Mapping[str, Reading]) -> _Increase:
    added = _Increase()
    for name in sorted(arrived):
        before = last.get(name)
        if before is None:
            added = added.plus(_Increase(news=1))
        elif arrived[name].observed_at > before.observed_at:
            added = added.plus(_increase(before, arrived[name]))
    return added


def _forget(history: History) -> History:
    """The history of a workload that nothing is known of: a rate must not stretch over a time in which nobody counted."""
    fresh = History()
    return replace(
        history,
        first_tokens=fresh.first_tokens,
        entered=fresh.entered,
        offered=fresh.offered,
        refused=fresh.refused,
        preemptions=fresh.preemptions,
        waiting_since=None,
    )


def _observed_at(history: History, replicas: ReplicaSet, merged: Mapping[str, Reading]) -> float | None:
    """When the newest reading was taken; with no replica there is nothing to read, and knowing that is an observation."""
    if not replicas.ready:
        return replicas.observed_at
    return max((reading.observed_at for reading in merged.values()), default=history.observed_at)


def _missing(replicas: ReplicaSet, merged: Mapping[str, Reading], seen: Observation) -> tuple[Missing, ...]:
    why = {miss.replica: miss.why for miss in seen.missing}
    why |= {
        reading.replica: f"metric absent: {', '.join(reading.absent)}"
        for reading in seen.readings
        if not reading.usable
    }
    return tuple(Missing(name, why.get(name, "no reading")) for name in sorted(replicas.ready) if name not in merged)


def _queued(held: Series, seen: Observation, stale_s: float) -> Series:
    """The requests held upstream: a count that fails to come stands for as long as a reading would."""
    if seen.queued is not None:
        return held.add(seen.at, seen.queued)
    return held if held.times and seen.at - held.times[-1] <= stale_s else Series(held.span_s)


def _increase(before: Reading, after: Reading) -> _Increase:
    share = min(1.0, LONGEST_GAP_S / (after.observed_at - before.observed_at))
    restarted = before.ttft is not None and after.ttft is not None and after.ttft.count < before.ttft.count
    was, now = 0.0 if restarted else known(before.waiting) or 0.0, known(after.waiting) or 0.0
    grown = {name: histogram_increase(getattr(before, name), getattr(after, name)) for name in HISTOGRAMS}
    first_tokens = grown["ttft"].count if grown["ttft"] is not None else 0.0
    return _Increase(
        news=1,
        first_tokens=share * first_tokens,
        waiting=share * (now - was),
        refused=share * counter_increase(before.rejections_total, after.rejections_total),
        preemptions=share * counter_increase(before.preemptions_total, after.preemptions_total),
        **{name: () if histogram is None else (histogram,) for name, histogram in grown.items()},
    )


def _extend(history: History, seen: Observation, added: _Increase) -> History:
    """The series with this tick's sums. Without news only the gauges are, as held: an unknown increase is not a zero."""
    at = seen.at
    running = sum(known(reading.running) or 0.0 for reading in history.last.values())
    held = history.queued.values
    waiting = sum(known(reading.waiting) or 0.0 for reading in history.last.values()) + (held[-1] if held else 0.0)
    runs, waits = history.running.add(at, running), history.waiting.add(at, waiting)
    if history.last and not added.news:
        return replace(history, running=runs, waiting=waits)
    seen_at = history.observed_at if history.last and history.observed_at is not None else at
    entered = (
        added.first_tokens + added.waiting + (held[-1] - held[-2] if len(held) > 1 and seen.queued is not None else 0.0)
    )
    refused = added.refused + counter_increase(history.refused_upstream, seen.refused_total)
    return replace(
        history,
        running=runs,
        waiting=waits,
        first_tokens=_count(history.first_tokens, at, added.first_tokens),
        entered=_count(history.entered, at, entered),
        offered=_count(history.offered, at, entered + refused),
        refused=_count(history.refused, at, refused),
        preemptions=_count(history.preemptions, at, added.preemptions),
        ttft=_observe(history.ttft, at, added.ttft, history.last, "ttft"),
        tpot=_observe(history.tpot, at, added.tpot, history.last, "tpot"),
        queue_time=_observe(history.queue_time, at, added.queue_time, history.last, "queue_time"),
        prompt_tokens=_observe(history.prompt_tokens, at, added.prompt_tokens, history.last, "prompt_tokens"),
        first_token_at=seen_at if added.first_tokens > 0 else history.first_token_at,
        waiting_since=(history.waiting_since if history.waiting_since is not None else seen_at)
        if waiting > 0
        else None,
        refused_upstream=seen.refused_total if seen.refused_total is not None else history.refused_upstream,
    )


def _count(series: Series, at: float, more: float) -> Series:
    return series.add(at, (series.values[-1] if series.values else 0.0) + more)


def _observe(
    series: HistogramSeries, at: float, grown: tuple[Histogram, ...], last: Mapping[str, Reading], name: str
) -> HistogramSeries:
    """One tick's observations of one histogram. An engine that has the histogram and observed nothing is idle, not unknown."""
    if not grown and not series.counts:
        known_empty = next((h for r in last.values() if (h := getattr(r, name)) is not None), None)
        return series if known_empty is None else series.add(at, _emptied(known_empty))
    return series.add(at, summed(grown))


def _emptied(histogram: Histogram) -> Histogram:
    return Histogram(histogram.edges, (0.0,) * len(histogram.counts), 0.0)
