"""KServe's example of autoscaling by KEDA."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.core.hpa import Tolerance
from scaler.sim.actuators import Keda
from scaler.sim.laws.by_metric import SCRAPE_S, ByMetric, running
from scaler.sim.stage import Follows, Stage


@dataclass(frozen=True, slots=True)
class Running:
    """KEDA on ``vllm:num_requests_running``, two running requests a replica.

    Source: KServe's website, docs on autoscaling an LLM with KEDA (kserve/website@05b83a6: query ``vllm:num_requests_running``,
    threshold "2"). KEDA's and Kubernetes' defaults for all that the example does not set. Charitably the query is a sum over the
    replicas, without which KEDA refuses a second one ("returned multiple elements"), and the target an AverageValue: with the example's
    type Value the ready replicas would be multiplied by the ratio at every sync. ``follows.target`` is what to tune: the safe
    concurrency is the natural value.
    """

    scrape_s: float = SCRAPE_S
    follows: Follows = Keda(target=2.0, behavior=None, tolerance=Tolerance())

    def start(self, stage: Stage) -> ByMetric:
        """Query whenever it is asked."""
        return ByMetric(stage, self.scrape_s, running)
