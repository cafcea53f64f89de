"""llm-d's token-aware scaling by KEDA."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scaler.core.hpa import Behavior, Policy, PolicyKind, Rules, Tolerance
from scaler.core.model import Reading, ReplicaSet, known
from scaler.sim.actuators import Keda
from scaler.sim.laws.by_metric import SCRAPE_S, ByMetric
from scaler.sim.presets import Preset
from scaler.sim.stage import Follows, Stage

ITS_BEHAVIOR = Behavior(
    up=Rules(0.0, (Policy(PolicyKind.PODS, 1, 180.0),)), down=Rules(300.0, (Policy(PolicyKind.PODS, 1, 300.0),))
)


@dataclass(frozen=True, slots=True)
class TokenAware:
    """The larger of the seconds that all prompts under way take to prefill, over ``backlog_s``, and of the full KV caches, over ``kv``.

    Source: llm-d@04c0115 guides/workload-autoscaling/keda-epp-token-aware/optimized-baseline (llm-d#2466): 1.5 s and 0.8, one replica more
    in three minutes and one less in five. Charitably the throughput of the prefill is that of the very replica, measured as its
    ``calibrate.sh`` does (one whole chunk over its TTFT), and what waits is known without the router. ``follows.behavior`` is what holds
    it back.
    """

    backlog_s: float = 1.5
    kv: float = 0.8
    scrape_s: float = SCRAPE_S
    follows: Follows = Keda(behavior=ITS_BEHAVIOR, tolerance=Tolerance(), poll_s=15.0)

    def start(self, stage: Stage) -> ByMetric:
        """Query whenever it is asked."""
        prefill_per_s = calibrated(stage.setting.platform.preset)

        def replicas(pages: Sequence[Reading], _: ReplicaSet) -> float | None:
            backlog_s = sum(_waiting_tokens(page) for page in pages) / prefill_per_s
            caches = sum(known(page.kv_usage_ratio) or 0.0 for page in pages)
            return max(backlog_s / self.backlog_s, caches / self.kv) if pages else None

        return ByMetric(stage, self.scrape_s, replicas)


def calibrated(preset: Preset) -> float:
    """Prompt tokens a second of an idle replica: one chunk over the time to its first token."""
    cost, chunk = preset.coefficients, preset.limits.token_budget
    return chunk / (cost.a_s + cost.b_s + cost.c_s * chunk + cost.overhead_s)


def _waiting_tokens(page: Reading) -> float:
    prompts = page.prompt_tokens
    mean = prompts.sum / prompts.count if prompts is not None and prompts.count else 0.0
    return (known(page.waiting) or 0.0) * mean
