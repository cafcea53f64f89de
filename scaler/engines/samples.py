"""The lines of one page as values, and how several copies and several ranks of one number become one.

Whatever cannot be a value (NaN, infinite, negative, far too many, a histogram that falls or lacks ``+Inf``) makes the whole number
None: half a sum is a wrong number, and a wrong number is worse than none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import inf, isnan, nan
from typing import NamedTuple

from scaler.core.model import Histogram
from scaler.core.written import LONGEST, number

MOST_EDGES, MOST_LINES = 256, 20_000
"""More edges in one histogram, or more lines of one name, than any engine has: a page that makes every tick slow for everybody.
The largest page seen, eight data-parallel ranks, has 23 edges and some 200 lines of a name."""


class Sample(NamedTuple):
    """One line of a page. The value is NaN where the line was there but could not be read."""

    labels: Mapping[str, str]
    value: float


Samples = Mapping[str, Sequence[Sample]]
"""A page: sample name (with ``_bucket``, ``_sum``, ``_count``, ``_total``) to its lines."""

Key = tuple[str, ...]
"""The values of the labels that tell one series from another."""


def collapsed(found: Sequence[Sample], labels: Sequence[str]) -> dict[Key, float] | None:
    """The largest of the copies of each series; None if there is no series, or if one line cannot be a value."""
    best: dict[Key, float] = {}
    if len(found) > MOST_LINES:
        return None
    for sample in found:
        if not 0.0 <= sample.value < inf:  # not true of NaN either
            return None
        key = tuple([sample.labels.get(label, "") for label in labels])
        best[key] = max(best.get(key, 0.0), sample.value)
    return best or None


def summed(values: Mapping[Key, float]) -> float:
    """The sum, always added in the same order: the order of lines on a page must not show in the last bit."""
    return sum(values[key] for key in sorted(values))


def histogram(buckets: Sequence[Sample], sums: Sequence[Sample], labels: Key) -> Histogram | None:
    """One histogram of all series, told apart by ``labels``, on the edges that all of them have.

    Edges are read from ``le`` as numbers: ``1`` and ``1.0`` are one edge, and an operator can set other ones than the
    engine's own.
    """
    ladders, totals = _ladders(buckets, labels), collapsed(sums, labels)
    if not ladders or not totals or ladders.keys() != totals.keys():
        return None
    shared = set.intersection(*(set(steps) for steps in ladders.values()))
    edges = sorted(shared)
    ranks = [ladders[key] for key in sorted(ladders)]
    counts = [sum(steps[edge] for steps in ranks) for edge in edges]
    total = summed(totals)
    return Histogram(tuple(edges[:-1]), tuple(counts), total) if counts[-1] < inf and total < inf else None


def _ladders(buckets: Sequence[Sample], labels: Key) -> dict[Key, dict[float, float]] | None:
    """The cumulative counts by upper edge of each series; None unless all have ``+Inf`` and none ever falls."""
    if len(buckets) > MOST_LINES:
        return None
    ladders: dict[Key, dict[float, float]] = {}
    edges: dict[str, float] = {}
    for of, value in buckets:
        if not 0.0 <= value < inf:  # not true of NaN either
            return None
        text = of.get("le", "")
        edge = edges.get(text)
        if edge is None:
            edge = edges[text] = _edge(text)
            if isnan(edge) or len(edges) > MOST_EDGES:
                return None
        key = tuple([of.get(label, "") for label in labels])
        steps = ladders.get(key)
        if steps is None:
            steps = ladders[key] = {}
        if value > steps.get(edge, -1.0):
            steps[edge] = value
    return ladders if all(_rises(steps) for steps in ladders.values()) else None


def _edge(text: str) -> float:
    """The edge, NaN if it is none."""
    return nan if len(text) > LONGEST else _short_edge(text)


@lru_cache(4 * MOST_EDGES)
def _short_edge(text: str) -> float:
    """Every page of an engine has the same edges, and a text this short may be kept."""
    value = number(text)
    return nan if value is None else value


def _rises(steps: Mapping[float, float]) -> bool:
    counts = [steps[edge] for edge in sorted(steps)]
    return inf in steps and -inf not in steps and all(low <= high for low, high in pairwise(counts))
