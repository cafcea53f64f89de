"""What a workload's readings add up to over time: fleet-wide counters that never fall, and the newest reading of each replica.

Counters are added up as *increases between two readings of the same replica*. So a restart, a new replica and one that leaves change no
rate by themselves, and a replica that was silent for a while brings no burst with it when it returns. What a replica did while it was
not listed counts when it is listed again soon: lists of replicas are cut short and alternate.

An increase that nobody told is no zero: nothing is added then, and the next one that is known stands for that time too. Once none has
been known for as long as a reading stays fresh, the rates are ``lost``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from scaler.core.model import Missing, Reading
from scaler.core.windows import HistogramSeries, Series

if TYPE_CHECKING:
    from scaler.core.model import Observation, ReplicaSet

APPLIED_SPAN_S = 4.0
"""For about so long a fraction is still what gateways throw dice by that poll every two seconds, and what has begun was let in by."""
GROWTH_SPAN_S = 120.0
LATENCY_SPAN_S = 60.0
WINDOW_SPAN_S = 30.0
STILL_READINGS, STILL_S = 2, 10.0


@dataclass(frozen=True, slots=True)
class Still:
    """A replica that has work and does none of it: since when, and over how many readings."""

    since: float
    readings: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """Everything the estimate is computed from. All cumulative series count from 0 at the first observation.

    ``entered`` counts requests that entered the engines (first tokens plus the change of waiting), ``refused`` those turned away,
    ``again`` those that entered at a later try and had been counted when they were turned away.
    ``awake`` is how many replicas ``running`` is of, ``members_at`` when it was last said of other ones. ``queued`` holds the last two
    counts of requests waiting upstream, and is empty while nobody counts. ``rejoined_at`` is when a ready replica was last read again
    that had been missing. ``unknown_since`` is when the rate of first tokens was last known, ``lacking`` who does not tell it.
    ``diced``: refusals are told from the fraction that gateways apply. ``doubted`` are replicas whose counters were not believed, and
    when that was last so.
    """

    replicas: ReplicaSet | None = None
    last: Mapping[str, Reading] = field(default_factory=dict)
    departed: Mapping[str, Reading] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()
    observed_at: float | None = None
    first_seen_at: float | None = None
    rejoined_at: float | None = None
    members_at: float | None = None
    first_tokens: Series = Series(WINDOW_SPAN_S)
    entered: Series = Series(WINDOW_SPAN_S)
    offered: Series = Series(GROWTH_SPAN_S)
    refused: Series = Series(WINDOW_SPAN_S)
    applied: Series = Series(APPLIED_SPAN_S)
    again: Series = Series(WINDOW_SPAN_S)
    preemptions: Series = Series(WINDOW_SPAN_S)
    running: Series = Series(WINDOW_SPAN_S)
    awake: Series = Series(WINDOW_SPAN_S)
    waiting: Series = Series(WINDOW_SPAN_S)
    ttft: HistogramSeries = HistogramSeries(WINDOW_SPAN_S)
    tpot: HistogramSeries = HistogramSeries(LATENCY_SPAN_S)
    queue_time: HistogramSeries = HistogramSeries(WINDOW_SPAN_S)
    duration: HistogramSeries = HistogramSeries(LATENCY_SPAN_S)
    prompt_tokens: HistogramSeries = HistogramSeries(LATENCY_SPAN_S)
    output_tokens: HistogramSeries = HistogramSeries(LATENCY_SPAN_S)
    first_token_at: float | None = None
    waiting_since: float | None = None
    refused_upstream: float | None = None
    diced: bool = False
    queued: Series = Series(0.0)
    unknown_since: float | None = None
    lost: bool = False
    lacking: frozenset[str] = frozenset()
    doubted: Mapping[str, float] = field(default_factory=dict)
    still: Mapping[str, Still] = field(default_factory=dict)

    @property
    def reporting(self) -> tuple[Reading, ...]:
        """The newest reading of every ready replica that has a fresh and usable one, in the order of their names."""
        return tuple(self.last[name] for name in sorted(self.last))

    @property
    def stalled(self) -> tuple[str, ...]:
        """The replicas that have had work and done none of it for long enough to say so."""
        return tuple(
            name
            for name, still in sorted(self.still.items())
            if name in self.last
            and still.readings >= STILL_READINGS
            and self.last[name].observed_at - still.since >= STILL_S
        )


def is_blind(history: History, seen: Observation) -> bool:
    """Whether nothing is known at this tick: no fresh reading, and nobody says that there is nothing to read."""
    if history.replicas is None:
        return False
    return not history.last and (bool(history.replicas.ready) or seen.replicas is None)


def uncounted(history: History) -> History:
    """The history without the counts of what started and entered: nobody has told them for too long."""
    fresh = History()
    return replace(history, first_tokens=fresh.first_tokens, entered=fresh.entered, offered=fresh.offered)


def forget(history: History) -> History:
    """The history of a workload that nothing is known of: a rate must not stretch over a time in which nobody counted."""
    fresh = History()
    return replace(
        uncounted(history),
        refused=fresh.refused,
        preemptions=fresh.preemptions,
        waiting_since=None,
        unknown_since=None,
        lost=False,
        lacking=fresh.lacking,
        still=fresh.still,
    )
