"""One look at many pods of one engine: which queries, for which namespaces together. Blocks, so it runs off the event loop.

An answer should hold no more than a few thousand series: decoding it stops the whole process for as long as it takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from scaler.engines.row import Engine, Sample
from scaler.sources.prometheus_api import PrometheusApi
from scaler.sources.prometheus_pages import Found, Gathered, Page, PodId, pages
from scaler.sources.promql import Scope, Signals, around, edge_counts, newest, series_counts, signals, values

SERIES_LIMIT = 5_000
PLAN_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is fetched of an engine: edges by bucket name (none known: all), and how many series each namespace has.

    ``ranks`` is the number of series of one bucket name and edge; ``weights`` the longest answer, in series.
    """

    made_at: float
    namespaces: frozenset[str]
    edges: Mapping[str, tuple[str, ...]]
    ranks: Mapping[str, float]
    weights: Mapping[str, float]

    def holds(self, namespaces: Collection[str], now: float) -> bool:
        """Whether it can be used for these namespaces now."""
        return now - self.made_at < PLAN_EVERY_S and self.namespaces.issuperset(namespaces)

    def chunks(self, namespaces: Collection[str]) -> list[tuple[str, ...]]:
        """The namespaces in groups whose answers stay below the limit; one that exceeds it alone is a group of its own."""
        groups: list[list[str]] = []
        room = 0.0
        for namespace in sorted(namespaces):
            weight = self.weights.get(namespace, 0.0)
            if not groups or weight > room:
                groups.append([])
                room = SERIES_LIMIT
            groups[-1].append(namespace)
            room -= weight
        return [tuple(group) for group in groups]

    def slices(self, wanted: Signals, namespaces: Sequence[str]) -> list[tuple[str, ...]]:
        """The edges of a histogram in groups whose answers stay below the limit."""
        present = [self.edges[name] for name in wanted.buckets if name in self.edges]
        edges = tuple(dict.fromkeys(edge for each in present for edge in each))
        ranks = sum(self.ranks.get(namespace, 0.0) for namespace in namespaces)
        parts = min(ceil(len(present) * ranks * (len(edges) + 1) / SERIES_LIMIT), len(edges))
        if parts <= 1:
            return [edges]
        size = ceil(len(edges) / parts)
        return [edges[start : start + size] for start in range(0, len(edges), size)]


class Poller:
    """Asks one Prometheus for whole fleets. Without state but the connection; every call raises SourceError alone."""

    def __init__(self, api: PrometheusApi) -> None:
        """Uses ``api`` and does not close it."""
        self._api = api

    def plan(
        self, engine: Engine, namespaces: frozenset[str], objectives_s: Collection[float], deadline: float
    ) -> Plan:
        """Two counts: which edges there are, and how long the answers will be."""
        histograms = [wanted for wanted in signals(engine) if wanted.buckets]
        names = [name for wanted in histograms for name in wanted.buckets]
        scope = self._scope(tuple(sorted(namespaces)))
        there = _edges(self._api.query(edge_counts(names, scope), deadline).samples)
        edges = {
            name: around(there[name], objectives_s if wanted.latency else ())
            for wanted in histograms
            for name in wanted.buckets
            if name in there
        }
        ranks: dict[str, float] = {}
        present: dict[str, set[str]] = {}
        for labels, count in self._api.query(series_counts(names, scope), deadline).samples:
            name, namespace = labels.get("__name__", ""), labels.get(scope.namespace_label, "")
            present.setdefault(namespace, set()).add(name)
            ranks[namespace] = max(ranks.get(namespace, 0.0), count / max(1, len(there.get(name, ()))))
        weights = {namespace: ranks[namespace] * _widest(engine, edges, present[namespace]) for namespace in ranks}
        return Plan(self._api.clock(), namespaces, edges, ranks, weights)

    def look(
        self, engine: Engine, plan: Plan, namespaces: Sequence[str], before: Mapping[PodId, Page], deadline: float
    ) -> Found:
        """The pods of some namespaces.

        Their times are asked for first and everything else as of the same instant: values may then be newer than their
        date by a scrape that was just being written, never older, so no increase is lost between two readings.
        """
        scope, asked_at = self._scope(tuple(namespaces)), self._api.clock()
        times = self._api.query(newest(engine, scope), deadline)
        if times.evaluated_at is None:
            return Found(partial=times.partial)
        samples: list[Sample] = []
        partial = times.partial
        for wanted in signals(engine):
            for edges in plan.slices(wanted, namespaces):
                answer = self._api.query(values(wanted, scope, edges), deadline, times.evaluated_at)
                samples += answer.samples
                partial = partial or answer.partial
        return pages(engine, scope, Gathered(times.samples, times.evaluated_at, asked_at, samples, partial), before)

    def _scope(self, namespaces: tuple[str, ...]) -> Scope:
        settings = self._api.settings
        return Scope(settings.namespace_label, settings.pod_label, namespaces, settings.stale_s)


def _edges(counted: Sequence[Sample]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for labels, _ in counted:
        found.setdefault(labels.get("__name__", ""), []).append(labels.get("le", ""))
    return found


def _widest(engine: Engine, edges: Mapping[str, Sequence[str]], present: Collection[str]) -> float:
    """The series of one rank in the longest answer."""

    def width(wanted: Signals) -> float:
        if not wanted.buckets:
            return float(len(wanted.names)) / 4  # one in four aliases is spoken: the others spell a prefix differently
        return float(sum(len(edges.get(name, ())) + 1 for name in wanted.buckets if name in present))

    return max(width(wanted) for wanted in signals(engine))
