"""Results that cannot be read: known by their looks, so that the message can say what to do instead."""

from __future__ import annotations

from collections.abc import Mapping

from scaler.calibration.document import Document, NoResult
from scaler.calibration.runs import Run

INSTEAD = "run the test with vllm bench serve, AIPerf, GuideLLM or inference-perf, or write the levels into a CSV (docs/calibration.md)"
BY_KEYS: Mapping[str, frozenset[str]] = {
    "genai-bench": frozenset({"aggregated_metrics"}),
    "genai-bench (about an experiment)": frozenset({"benchmark_version", "num_concurrency"}),
    "llmperf": frozenset({"results_ttft_s_quantiles_p95"}),
    "sglang.bench_serving": frozenset({"backend", "concurrency", "mean_e2e_latency_ms"}),
    "AIPerf that sums up others": frozenset({"aiperf_version", "metrics"}),
}
AIPERF_CSV = "Metric"


def recognises(document: Document) -> bool:
    """Whether the tool is known."""
    return _tool(document) is not None


def runs(document: Document) -> tuple[Run, ...]:
    """None: raises NoResult."""
    if document.rows:
        raise NoResult(f"{document.name}: AIPerf's CSV does not hold the load; give profile_export_aiperf.json")
    raise NoResult(f"{document.name}: a result of {_tool(document)}, which cannot be read; {INSTEAD}")


def _tool(document: Document) -> str | None:
    if document.rows and document.rows[0][0] == AIPERF_CSV:
        return "AIPerf"
    return next((tool for tool, keys in BY_KEYS.items() if keys <= document.first.keys()), None)
