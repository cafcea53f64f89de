"""One tick's sums added to the series of a history: gauges always, counters only by what is known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scaler.core.history import APPLIED_SPAN_S
from scaler.core.increase import Limit, counter_increase
from scaler.core.model import Histogram, known
from scaler.core.windows import HistogramSeries, Series, summed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scaler.core.history import History
    from scaler.core.increase import Increase
    from scaler.core.model import Observation

REFUSED_PER_S, REFUSED_FRESH_PER_S = 10_000.0, 100.0
"""The most that counts as refused upstream a second, and the most that a counter there can show that has just begun at zero."""
LEAST_APPLIED_RATIO = 0.1
"""A few requests that got in at a fraction near zero must not stand for a thousand that did not."""
UPSTREAM = "the count of refusals upstream"


def extend(history: History, seen: Observation, more: Increase, stale_s: float) -> History:
    """The series with this tick's sums. Without news only the gauges are, as held: an unknown increase is not a zero."""
    at, readings = seen.at, history.last.values()
    held = history.queued.values[-1] if history.queued.values else 0.0
    running = history.running.add(at, sum([known(reading.running) or 0.0 for reading in readings]))
    awake = history.awake.add(at, float(sum([reading.awake for reading in readings])))
    waiting = history.waiting.add(at, sum([known(reading.waiting) or 0.0 for reading in readings]) + held)
    if readings and not more.news:
        return replace(history, running=running, awake=awake, waiting=waiting)
    upstream, doubted = _refused(history, seen)
    applied = history.applied if seen.applied_ratio is None else history.applied.add(at, seen.applied_ratio)
    refused = more.refused + upstream + _diced(seen, more, applied)
    again = float(sum([one.admitted_retries for one in seen.asked]))
    first_tokens, entered, offered = _counted(history, seen, more, refused - again)
    first_token_at, waiting_since = _stall(history, more, at, held)
    ttft, tpot, queue_time, duration, prompt_tokens, output_tokens = more.histograms
    return replace(
        history,
        running=running,
        awake=awake,
        waiting=waiting,
        first_tokens=first_tokens,
        entered=entered,
        offered=offered,
        refused=_plus(history.refused, at, refused),
        applied=applied,
        again=_plus(history.again, at, again),
        preemptions=_plus(history.preemptions, at, more.preemptions),
        ttft=_observe(history, "ttft", ttft, more, (at, stale_s)),
        tpot=_observe(history, "tpot", tpot, more, (at, stale_s)),
        queue_time=_observe(history, "queue_time", queue_time, more, (at, stale_s)),
        duration=_observe(history, "duration", duration, more, (at, stale_s)),
        prompt_tokens=_observe(history, "prompt_tokens", prompt_tokens, more, (at, stale_s)),
        output_tokens=_observe(history, "output_tokens", output_tokens, more, (at, stale_s)),
        first_token_at=first_token_at,
        waiting_since=waiting_since,
        diced=seen.applied_ratio is not None and seen.applied_ratio < 1,
        refused_upstream=history.refused_upstream if seen.refused_total is None else seen.refused_total,
        doubted=doubted,
    )


def _refused(history: History, seen: Observation) -> tuple[float, Mapping[str, float]]:
    """What was refused upstream, and who is doubted then: a count that cannot be believed adds nothing."""
    before, after = history.refused_upstream, seen.refused_total
    if before is None or after is None or not history.refused.times:
        return 0.0, history.doubted
    gap = seen.at - history.refused.times[-1]
    more = counter_increase(before, after, Limit(REFUSED_PER_S * gap, REFUSED_FRESH_PER_S * gap))
    return (more, history.doubted) if more is not None else (0.0, {**history.doubted, UPSTREAM: seen.at})


def _diced(seen: Observation, more: Increase, applied: Series) -> float:
    """What gateways refused by dice of their own, told from what they let in: otherwise a working gate would hide the demand."""
    if seen.applied_ratio is None or more.first_tokens is None:
        return 0.0
    ratio = applied.mean(APPLIED_SPAN_S) or seen.applied_ratio
    return (more.first_tokens + more.waiting) * (1 / max(LEAST_APPLIED_RATIO, ratio) - 1)


def _counted(history: History, seen: Observation, more: Increase, refused: float) -> tuple[Series, Series, Series]:
    """What started, entered and was offered so far; unchanged when that is unknown."""
    at, held = seen.at, history.queued.values
    if history.last and more.first_tokens is None and (history.first_tokens.times or more.lacking):
        return history.first_tokens, history.entered, history.offered
    started = more.first_tokens or 0.0
    entered = started + more.waiting
    if len(held) > 1 and seen.queued is not None:
        entered += held[-1] - held[-2]
    return (
        _plus(history.first_tokens, at, started),
        _plus(history.entered, at, entered),
        _plus(history.offered, at, entered + refused),
    )


def _stall(history: History, more: Increase, at: float, held: float) -> tuple[float | None, float | None]:
    """When the last first token came, and since when something waits. Who does not tell what it started is no proof of a stall."""
    seen_at = history.observed_at if history.last and history.observed_at is not None else at
    told = [known(r.waiting) or 0.0 for name, r in history.last.items() if name not in history.lacking]
    waits = not history.lost and held + sum(told) > 0
    others = more.news > 0 and not more.compared  # than those that something was seen to wait in
    since = seen_at if history.waiting_since is None or others else history.waiting_since
    return seen_at if more.first_tokens else history.first_token_at, since if waits else None


def _plus(series: Series, at: float, more: float) -> Series:
    return series.add(at, (series.values[-1] if series.values else 0.0) + more)


def _observe(
    history: History, name: str, grown: tuple[Histogram, ...], more: Increase, when: tuple[float, float]
) -> HistogramSeries:
    """One tick's observations of one histogram. An engine that has the histogram and observed nothing is idle, not unknown."""
    series: HistogramSeries = getattr(history, name)
    at, stale_s = when
    if grown or not history.last:
        return series.add(at, summed(grown))
    if series.counts:
        return series if at - series.times[-1] <= stale_s else HistogramSeries(series.span_s)
    first = next((h for reading in history.last.values() if (h := getattr(reading, name)) is not None), None)
    if first is None or more.compared or history.lost:
        return series
    return series.add(at, Histogram(first.edges, (0.0,) * len(first.counts), 0.0))
