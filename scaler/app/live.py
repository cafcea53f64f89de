"""The configuration in use: what its names stand for, and the change from one version of it to the next while loops run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from scaler.api.access import Readers
from scaler.app.opened import Opened, background
from scaler.backpressure.asked import Trust
from scaler.control.ports import Clock, Demand, Replicas, Snapshot
from scaler.core.model import WorkloadKey
from scaler.core.shadow import ShadowRole, as_shadow
from scaler.core.step import WorkloadSpec
from scaler.engines import ENGINES
from scaler.settings import Configuration, DemandQueries
from scaler.sources.inputs import ConfiguredInputs
from scaler.sources.pods import PodSource
from scaler.sources.prometheus import PrometheusSource
from scaler.sources.prometheus_api import PrometheusApi, PrometheusSettings
from scaler.sources.prometheus_demand import PrometheusDemand
from scaler.sources.prometheus_replicas import PrometheusReplicas, Sought
from scaler.sources.scrape import Caution, ScrapeSettings, scraping
from scaler.sources.shares import Shares
from scaler.workload import Bounds, parse_workload

LONGEST_SCRAPE_S, SCRAPE_SHARE = 1.5, 0.75
"""A pass over the engines ends well before the next tick."""


class Specs(Protocol):
    """Knows the spec of every workload that runs, and its loop."""

    def spec(self, key: WorkloadKey) -> WorkloadSpec | None:
        """The spec of one workload."""
        ...

    def specs(self) -> Iterator[WorkloadSpec]:
        """All specs."""
        ...

    def nudge(self, key: WorkloadKey) -> None:
        """Ask the workload's loop for an early tick."""
        ...


@dataclass(frozen=True, slots=True)
class _Prometheus:
    api: PrometheusApi
    source: PrometheusSource
    replicas: PrometheusReplicas


@dataclass(slots=True)
class Live:
    """Follows the configuration. ``specs`` is set once the supervisor exists, before any loop runs.

    ``listed`` knows the replicas that are named by hand, ``cluster`` those of the workloads that a ScaledObject names; where neither knows
    any, the Prometheus that a spec names as its source is asked. ``bounds`` are those of a workload's ScaledObject, ``overrides`` what its
    annotations say; ``annotated`` is whether one makes it a shadow, and ``role`` what shadow it would be. ``loopback``: the cluster is on
    this machine, and its pods may be, too.
    """

    configuration: Configuration
    clock: Clock
    listed: Replicas
    uncounted: Demand | None
    specs: Specs | None = None
    cluster: Replicas | None = None
    bounds: Callable[[WorkloadKey], Bounds | None] = lambda _: None
    overrides: Callable[[WorkloadKey], Mapping[str, str]] = lambda _: {}
    annotated: Callable[[WorkloadKey], bool] = lambda _: False
    role: Callable[[WorkloadKey], ShadowRole | None] = lambda _: None
    loopback: bool = False
    inputs: ConfiguredInputs = field(init=False)
    _shares: Shares = field(init=False, repr=False)
    _scrapes: Opened[ScrapeSettings, PodSource] = field(init=False, repr=False)
    _prometheus: Opened[tuple[str, PrometheusSettings], _Prometheus] = field(init=False, repr=False)
    _demands: Opened[tuple[DemandQueries, _Prometheus], PrometheusDemand] = field(init=False, repr=False)
    _known: Mapping[str, _Prometheus] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Nothing is open before the first ``follow``."""
        self.inputs = ConfiguredInputs({}, uncounted=self.uncounted)
        self._shares = Shares(lambda: self.configuration.access.share, self.clock)
        self._scrapes, self._prometheus = Opened(self._open_scrape), Opened(self._open_prometheus)
        self._demands = Opened(self._open_demand)

    async def follow(self, configuration: Configuration) -> None:
        """Make the names stand for what this configuration says."""
        if configuration.prometheus != self.configuration.prometheus:
            await self._demands.follow({})  # they ask what is about to be closed
        self.configuration = configuration
        named = {name: (name, settings) for name, settings in configuration.prometheus.items()}
        scrapes, known = await self._scrapes.follow(configuration.scrapes), await self._prometheus.follow(named)
        counters = {name: (queries, known[queries.prometheus]) for name, queries in configuration.demands.items()}
        demands = await self._demands.follow(counters)
        self._known = known
        self.inputs.pods, self.inputs.demands = scrapes, demands
        self.inputs.named = {name: one.source for name, one in known.items()}

    async def close(self) -> None:
        """Close everything that is open."""
        for opened in (self._demands, self._prometheus, self._scrapes):
            await opened.close()

    def parse(self, key: WorkloadKey, metadata: Mapping[str, str]) -> WorkloadSpec:
        """Trigger metadata with today's names. Raises ConfigError."""
        written = {**metadata, **self.overrides(key)}
        spec = parse_workload(key, written, self.configuration.catalog, self.bounds(key))
        return as_shadow(spec) if self._shadows(key) else spec

    def shadow(self, key: WorkloadKey) -> ShadowRole | None:
        """What the workload is to KEDA if it is a shadow, None if it is none."""
        return (self.role(key) or ShadowRole.UNREAD) if self._shadows(key) else None

    def _shadows(self, key: WorkloadKey) -> bool:
        return key in self.configuration.shadows or self.annotated(key)

    def spec_of(self, key: WorkloadKey) -> WorkloadSpec | None:
        """The spec of a workload that runs."""
        return None if self.specs is None else self.specs.spec(key)

    def nudge(self, key: WorkloadKey) -> None:
        """Ask a workload's loop for an early tick."""
        if self.specs is not None:
            self.specs.nudge(key)

    def lists(self, key: WorkloadKey) -> bool:
        """Whether the configuration says where the workload's replicas are."""
        return key in self.configuration.targets

    def keda_names(self) -> frozenset[str]:
        """Of these a certificate on KEDA's port must bear one now; none: any will do."""
        return self.configuration.access.keda_names

    def readers(self) -> Readers:
        """Who may read now over HTTP."""
        return self.configuration.access.readers

    def trust(self) -> Trust:
        """Who is believed now about who asks."""
        return self.configuration.trust

    def snapshot(self, key: WorkloadKey) -> Snapshot | None:
        """The ``Replicas`` port."""
        return next((found for known in self._knowing(key) if (found := known.snapshot(key)) is not None), None)

    def why(self, key: WorkloadKey) -> str:
        """The ``Replicas`` port: why there is no snapshot, as the one says that would know most."""
        return self.listed.why(key) if key in self.configuration.targets else self._knowing(key)[-1].why(key)

    def _knowing(self, key: WorkloadKey) -> tuple[Replicas, ...]:
        """Who may know the workload's replicas, first those whose word counts before the others'."""
        source = self._source_of(key)
        known = (self.listed, self.cluster, None if source is None else source.replicas)
        return tuple(one for one in known if one is not None)

    def _source_of(self, key: WorkloadKey) -> _Prometheus | None:
        spec = self.spec_of(key)
        return None if spec is None else self._known.get(spec.source)

    @asynccontextmanager
    async def _open_scrape(self, settings: ScrapeSettings) -> AsyncIterator[PodSource]:
        async with scraping(settings, caution=Caution(self._shares, self.loopback)) as scraper:
            yield PodSource(scraper, self.clock, timeout_s=scrape_timeout_s(self.configuration.catalog.tick_s))

    @asynccontextmanager
    async def _open_prometheus(self, named: tuple[str, PrometheusSettings]) -> AsyncIterator[_Prometheus]:
        name, settings = named
        api = PrometheusApi(settings, self.clock)
        source = PrometheusSource(api, self.clock, self._objectives_of(name))
        replicas = PrometheusReplicas(source, self._sought_in(name), self.clock)
        try:
            async with background(source.run()):
                yield _Prometheus(api, source, replicas)
        finally:
            await source.close()
            await api.close()

    @asynccontextmanager
    async def _open_demand(self, named: tuple[DemandQueries, _Prometheus]) -> AsyncIterator[PrometheusDemand]:
        queries, prometheus = named
        demand = PrometheusDemand(prometheus.api, self.clock, refused=queries.refused, queued=queries.queued)
        async with background(demand.run()):
            yield demand

    def _objectives_of(self, name: str) -> Callable[[], tuple[float, ...]]:
        """The latencies that workloads of this Prometheus are held to: the edges of a histogram that matter."""

        def objectives_s() -> tuple[float, ...]:
            specs = () if self.specs is None else self.specs.specs()
            classes = {c for spec in specs if spec.source == name for c in spec.classes}
            return tuple(s for c in classes for s in (c.ttft_s, c.tpot_s) if s is not None)

        return objectives_s

    def _sought_in(self, name: str) -> Callable[[WorkloadKey], Sought | None]:
        def sought(key: WorkloadKey) -> Sought | None:
            spec = self.spec_of(key)
            if spec is None or spec.source != name:
                return None
            return Sought(ENGINES[spec.engine], spec.model_name)

        return sought


def scrape_timeout_s(tick_s: float) -> float:
    """How long one pass over the engines may take, in seconds."""
    return min(LONGEST_SCRAPE_S, SCRAPE_SHARE * tick_s)
