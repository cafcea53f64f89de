"""What counters grew by between two readings of the same replica, and whether that can be believed.

An increase is unknown, never zero, when a reading lacks the counter, when it rose by more than the replica can have done, and when it
fell though no fresh process can have counted what it shows: a wrong page or two processes behind one address, not a restart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import sub
from typing import TYPE_CHECKING, NamedTuple

from scaler.core.model import Histogram, Reading, known

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LONGEST_GAP_S = 30.0
"""An increase that built up over a longer silence counts only for the share of it that the rate windows can see."""
GROWN_PER_S, GROWN_PER_SLOT_S = 200.0, 20.0
"""The most that counts as grown a second: this much, and for each ongoing request as much as if all took 50 ms."""
FRESH_PER_S, FRESH_PER_SLOT = 10.0, 4.0
"""The most that counts as done by a fresh process: what is ongoing some times over, and a few a second."""
TOKENS_A_REQUEST = 1000.0


class Limit(NamedTuple):
    """The most that a counter can have ``grown`` by, and the most that it can show if it began at zero since (``fresh``)."""

    grown: float
    fresh: float


NO_LIMIT = Limit(math.inf, math.inf)


class Grown(NamedTuple):
    """What one replica added over ``gap_s`` seconds. ``first_tokens`` None: unknown. ``histograms`` are in the order of the reading's.

    ``weight`` is its part in what the fleet does, 0 when it had nothing to do or sleeps. ``doubtful``: a counter was not believed.
    ``still``: it has work and nothing of it moved.
    """

    first_tokens: float | None
    waiting: float
    refused: float
    preemptions: float
    histograms: tuple[Histogram | None, ...]
    gap_s: float
    weight: float
    doubtful: bool
    still: bool


@dataclass(frozen=True, slots=True)
class Increase:
    """What one tick added, over all replicas.

    ``news``: how many replicas had a newer reading than before; ``compared``: those of them that could be compared with an earlier one.
    ``first_tokens`` is what the whole fleet started, those that did not say (``lacking``) at the pace of the others; None when nobody
    said. ``gap_s`` is the mean time that it built up over.
    """

    news: int = 0
    first_tokens: float | None = None
    waiting: float = 0.0
    refused: float = 0.0
    preemptions: float = 0.0
    histograms: tuple[tuple[Histogram, ...], ...] = ((), (), (), (), (), ())
    gap_s: float = 0.0
    compared: frozenset[str] = frozenset()
    lacking: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()
    still: frozenset[str] = frozenset()


def counter_increase(before: float | None, after: float | None, limit: Limit = NO_LIMIT) -> float | None:
    """What a raw counter grew by between two scrapes; a smaller value is a restart from zero. Never negative, None when unknown."""
    if before is None or after is None:
        return None
    if after >= before:
        return after - before if after - before <= limit.grown else None
    return after if after <= limit.fresh else None


def histogram_increase(before: Histogram | None, after: Histogram | None, limit: Limit = NO_LIMIT) -> Histogram | None:
    """What a raw histogram grew by between two scrapes, None when that is unknown: not there, other edges, or not believable."""
    if before is None or after is None or before.edges != after.edges:
        return None
    grown = list(map(sub, after.counts, before.counts))
    if grown[0] < 0 or grown != sorted(grown):  # in no bucket can there be fewer than before
        return after if after.count <= limit.fresh else None
    return Histogram(after.edges, tuple(grown), max(0.0, after.sum - before.sum)) if grown[-1] <= limit.grown else None


def grown(before: Reading, after: Reading, *, step_s: float, trusted: bool = True) -> Grown:
    """What one replica added between two readings; ``step_s`` is the time since the fleet was last counted.

    A replica that is not ``trusted``, because it was doubtful lately, is believed no more than a fresh process would be, and to fall for
    no restart: two processes that answer in turn look like one that restarts again and again.
    """
    gap = after.observed_at - before.observed_at
    held = ongoing(before) + ongoing(after)
    fresh = FRESH_PER_SLOT * held + FRESH_PER_S * gap
    limit = Limit((GROWN_PER_S + GROWN_PER_SLOT_S * held) * gap, fresh) if trusted else Limit(fresh, -math.inf)
    tokens = Limit(limit.grown * TOKENS_A_REQUEST, limit.fresh * TOKENS_A_REQUEST)
    histograms = (
        histogram_increase(before.ttft, after.ttft, limit),
        histogram_increase(before.tpot, after.tpot, tokens),
        histogram_increase(before.queue_time, after.queue_time, limit),
        histogram_increase(before.duration, after.duration, limit),
        histogram_increase(before.prompt_tokens, after.prompt_tokens, limit),
        histogram_increase(before.output_tokens, after.output_tokens, limit),
    )
    first_tokens = _first_tokens(before, after, histograms[0], limit)
    refused = counter_increase(before.rejections_total, after.rejections_total, limit)
    preemptions = counter_increase(before.preemptions_total, after.preemptions_total, limit)
    waited = 0.0 if _restarted(before, after, first_tokens) else known(before.waiting) or 0.0
    share = min(1.0, max(LONGEST_GAP_S, step_s) / gap)
    return Grown(
        first_tokens=None if first_tokens is None else share * first_tokens,
        waiting=share * ((known(after.waiting) or 0.0) - waited),
        refused=share * (refused or 0.0),
        preemptions=share * (preemptions or 0.0),
        histograms=histograms,
        gap_s=gap,
        weight=0.0 if not after.awake or (held == 0 and after.ttft is None) else 1.0 + (known(after.running) or 0.0),
        doubtful=(first_tokens is None and before.ttft is not None and after.ttft is not None)
        or (refused is None and before.rejections_total is not None and after.rejections_total is not None),
        still=_still(before, after, first_tokens),
    )


def added(
    before: Mapping[str, Reading], arrived: Mapping[str, Reading], *, step_s: float, doubted: Mapping[str, float]
) -> Increase:
    """What all replicas added, each since its reading in ``before``, if it has one there."""
    news, parts = 0, {}
    for name in sorted(arrived):
        earlier, reading = before.get(name), arrived[name]
        if earlier is None:
            news += 1
        elif reading.observed_at > earlier.observed_at:
            news += 1
            parts[name] = grown(earlier, reading, step_s=step_s, trusted=name not in doubted)
    if not parts:
        return Increase(news)
    grew = tuple(parts.values())
    return Increase(
        news=news,
        first_tokens=_of_the_fleet(grew),
        waiting=sum([part.waiting for part in grew]),
        refused=sum([part.refused for part in grew]),
        preemptions=sum([part.preemptions for part in grew]),
        histograms=tuple([_those(column) for column in zip(*[part.histograms for part in grew], strict=True)]),
        gap_s=sum([part.gap_s for part in grew]) / len(grew),
        compared=frozenset(parts),
        lacking=frozenset([name for name, part in parts.items() if part.first_tokens is None]),
        doubtful=frozenset([name for name, part in parts.items() if part.doubtful]),
        still=frozenset([name for name, part in parts.items() if part.still]),
    )


def _those(histograms: Iterable[Histogram | None]) -> tuple[Histogram, ...]:
    return tuple([histogram for histogram in histograms if histogram is not None])


def _of_the_fleet(parts: Iterable[Grown]) -> float | None:
    """The first tokens of all, from those that said how many. Who had nothing to do says nothing of those who had."""
    total = saying = lacking = 0.0
    for part in parts:
        if part.first_tokens is None:
            lacking += part.weight
        else:
            total, saying = total + part.first_tokens, saying + part.weight
    if not lacking:
        return total
    if not saying or (total == 0 and lacking > saying):
        return None
    return total * (saying + lacking) / saying


def ongoing(reading: Reading) -> float:
    """Requests that a replica holds, running and waiting; what it does not tell is counted as none."""
    return (known(reading.running) or 0.0) + (known(reading.waiting) or 0.0)


def _first_tokens(before: Reading, after: Reading, histogram: Histogram | None, limit: Limit) -> float | None:
    """First tokens between two readings. Other edges do not matter to how many there were."""
    if histogram is not None:
        return histogram.count
    if before.ttft is not None:
        return counter_increase(before.ttft.count, after.ttft.count if after.ttft is not None else None, limit)
    if ongoing(before) > 0:
        return None
    if after.ttft is not None:  # an engine may show a histogram only once there is something in it
        return counter_increase(math.inf, after.ttft.count, limit)
    return None if ongoing(after) > 0 else 0.0


def _restarted(before: Reading, after: Reading, first_tokens: float | None) -> bool:
    if first_tokens is None or before.ttft is None or after.ttft is None:
        return False
    return after.ttft.count < before.ttft.count


def _still(before: Reading, after: Reading, first_tokens: float | None) -> bool:
    """Whether a replica had work and did none of it, as far as it says. A long answer gives tokens without any first one."""
    if ongoing(before) <= 0 or ongoing(after) <= 0 or first_tokens:
        return False
    if before.generation_tokens_total is not None and after.generation_tokens_total is not None:
        return after.generation_tokens_total == before.generation_tokens_total
    return first_tokens == 0 and (known(after.waiting) or 0.0) > 0
