"""The families of a vLLM 0.32 page, in its order: names, labels beside ``engine`` and ``model_name``, and edges.

Taken from captured pages. What a simulated engine does not have (prefix cache, several sources of prompts, multimodal
input) stays at zero, as it does on an engine that does not use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from scaler.sim import PROMPT_EDGES_TOKENS, QUEUE_EDGES_S, TPOT_EDGES_S, TTFT_EDGES_S


class Kind(StrEnum):
    """What a TYPE line says."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One family. ``label`` takes each of ``values``; ``engine`` says whether its series carry the engine's rank."""

    name: str
    kind: Kind
    label: str = ""
    values: tuple[str, ...] = ()
    engine: bool = True
    edges: tuple[float, ...] = ()

    @property
    def created(self) -> str:
        """The gauge that tells when each series began, which prometheus_client adds to counters and histograms."""
        return self.name.removesuffix("_total" if self.kind is Kind.COUNTER else "") + "_created"


def _gauge(name: str, label: str = "", values: tuple[str, ...] = ()) -> Family:
    return Family(f"vllm:{name}", Kind.GAUGE, label, values)


def _counter(name: str, label: str = "", values: tuple[str, ...] = (), *, engine: bool = True) -> Family:
    return Family(f"vllm:{name}_total", Kind.COUNTER, label, values, engine)


def _histogram(name: str, edges: tuple[float, ...]) -> Family:
    return Family(f"vllm:{name}", Kind.HISTOGRAM, edges=edges)


ITERATION_EDGES = (1.0, *(float(2**power) for power in range(3, 15)))
PARAMS_N_EDGES = (1.0, 2.0, 5.0, 10.0, 20.0)
PREEMPTION_EDGES = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)

FAMILIES: tuple[Family, ...] = (
    _counter("estimated_flops_per_gpu"),
    _counter("estimated_read_bytes_per_gpu"),
    _counter("estimated_write_bytes_per_gpu"),
    _gauge("num_requests_running"),
    _gauge("num_requests_waiting"),
    _gauge("num_requests_waiting_by_reason", "reason", ("capacity", "deferred")),
    _gauge("engine_sleep_state", "sleep_state", ("awake", "weights_offloaded", "discard_all")),
    _gauge("kv_cache_usage_perc"),
    _counter("prefix_cache_queries"),
    _counter("prefix_cache_hits"),
    _counter("external_prefix_cache_queries"),
    _counter("external_prefix_cache_hits"),
    _counter("mm_cache_queries"),
    _counter("mm_cache_hits"),
    _counter("num_preemptions"),
    _counter("prompt_tokens"),
    _counter("prompt_tokens_by_source", "source", ("local_compute", "local_cache_hit", "external_kv_transfer")),
    _counter("prompt_tokens_cached"),
    _counter("prompt_tokens_cached_by_source", "source", ("device", "host", "p2p", "disk", "external_unspecified")),
    _counter("generation_tokens"),
    _counter("request_success", "finished_reason", ("stop", "length", "abort", "error", "repetition")),
    _counter("admission_rejections", "reason", ("max_num_queued_reqs", "max_num_queued_tokens"), engine=False),
    _histogram("request_prompt_tokens", PROMPT_EDGES_TOKENS),
    _histogram("request_generation_tokens", PROMPT_EDGES_TOKENS),
    _histogram("iteration_tokens_total", ITERATION_EDGES),
    _histogram("request_max_num_generation_tokens", PROMPT_EDGES_TOKENS),
    _histogram("request_params_n", PARAMS_N_EDGES),
    _histogram("request_params_max_tokens", PROMPT_EDGES_TOKENS),
    _histogram("time_to_first_token_seconds", TTFT_EDGES_S),
    _histogram("inter_token_latency_seconds", TPOT_EDGES_S),
    _histogram("request_time_per_output_token_seconds", TPOT_EDGES_S),
    _histogram("e2e_request_latency_seconds", QUEUE_EDGES_S),
    _histogram("request_queue_time_seconds", QUEUE_EDGES_S),
    _histogram("request_inference_time_seconds", QUEUE_EDGES_S),
    _histogram("request_prefill_time_seconds", QUEUE_EDGES_S),
    _histogram("request_decode_time_seconds", QUEUE_EDGES_S),
    _histogram("request_num_preemptions", PREEMPTION_EDGES),
    _histogram("request_prefill_kv_computed_tokens", PROMPT_EDGES_TOKENS),
)
