"""What the names in a spec stand for: sources and counters of refused demand, as configured now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scaler.control.ports import Demand, MetricSource
from scaler.core.step import WorkloadSpec
from scaler.errors import SourceError

PODS = "pods"


@dataclass(slots=True)
class ConfiguredInputs:
    """The ``Inputs`` port. ``pods`` are the direct sources by the name of their scrape settings, ``named`` all others by their own.

    ``uncounted`` answers for specs that name no counter. Assigning other mappings while loops run is how a reload takes effect.
    """

    pods: Mapping[str, MetricSource]
    named: Mapping[str, MetricSource] = field(default_factory=dict)
    demands: Mapping[str, Demand] = field(default_factory=dict)
    uncounted: Demand | None = None

    def source(self, spec: WorkloadSpec) -> MetricSource:
        """The source that the spec names."""
        found = self.pods.get(spec.scrape) if spec.source == PODS else self.named.get(spec.source)
        if found is None:
            name = f"scrape settings {spec.scrape}" if spec.source == PODS else f"source {spec.source}"
            raise SourceError(f"{name} not configured any more")
        return found

    def demand(self, spec: WorkloadSpec) -> Demand | None:
        """The counter that the spec names."""
        return self.uncounted if spec.demand is None else self.demands.get(spec.demand)
