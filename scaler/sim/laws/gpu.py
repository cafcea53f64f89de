"""The plain HPA on GPU utilisation."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.core.hpa import Tolerance
from scaler.sim.actuators import Keda
from scaler.sim.laws.by_metric import SCRAPE_S, ByMetric, gpu_percent
from scaler.sim.stage import Follows, Stage


@dataclass(frozen=True, slots=True)
class GpuUtilisation:
    """The HPA on ``DCGM_FI_DEV_GPU_UTIL``, 80 % a replica, with Kubernetes' defaults.

    That gauge says for what share of its interval any kernel ran, so it is about 100 as soon as one request runs, and it is here. A
    replica that starts has its GPUs, which idle. Source: NVIDIA's DCGM exporter; 80 is what guides set (KServe, GKE).
    """

    scrape_s: float = SCRAPE_S
    follows: Follows = Keda(target=80.0, behavior=None, tolerance=Tolerance())

    def start(self, stage: Stage) -> ByMetric:
        """Query whenever it is asked."""
        return ByMetric(stage, self.scrape_s, gpu_percent)
