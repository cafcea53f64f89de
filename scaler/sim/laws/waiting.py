"""Scaling by the queue: vLLM's production-stack and GKE's guide."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.core.hpa import Tolerance
from scaler.sim.actuators import Keda
from scaler.sim.laws.by_metric import SCRAPE_S, ByMetric, waiting
from scaler.sim.stage import Follows, Stage


@dataclass(frozen=True, slots=True)
class Waiting:
    """KEDA on ``vllm:num_requests_waiting``, five waiting requests a replica.

    Source: vLLM production-stack's tutorial (production-stack@a6c01db tutorials/assets/keda-scaled-object.yaml: threshold "5",
    pollingInterval 15, cooldownPeriod 360). Charitably a sum over the replicas, which the tutorial's query is not.
    """

    scrape_s: float = SCRAPE_S
    follows: Follows = Keda(target=5.0, behavior=None, tolerance=Tolerance(), poll_s=15.0, cooldown_s=360.0)

    def start(self, stage: Stage) -> ByMetric:
        """Query whenever it is asked."""
        return ByMetric(stage, self.scrape_s, waiting)


@dataclass(frozen=True, slots=True)
class GkeWaiting:
    """The HPA on ``vllm:num_requests_waiting``, ten waiting requests a replica.

    Source: GKE's guide to serving with vLLM (kubernetes-engine-samples, ai-ml/vllm-tpu/vllm-hpa.yaml: AverageValue 10).
    """

    scrape_s: float = SCRAPE_S
    follows: Follows = Keda(target=10.0, behavior=None, tolerance=Tolerance())

    def start(self, stage: Stage) -> ByMetric:
        """Query whenever it is asked."""
        return ByMetric(stage, self.scrape_s, waiting)
