"""vLLM, releases 0.8 to 0.33, and llm-d-inference-sim, which speaks its names without an ``engine`` label.

Read from the metrics loggers of the releases and from pages of running servers. Where two families could serve:

* ``waiting`` is the total, not only the requests that wait for capacity (``num_requests_waiting_by_reason``, since
  0.19). The arrival rate is first tokens plus the growth of the queue, so a request must count from entering to
  leaving it, whatever it waits for; the deadline of its first token runs as well; and in a rollout old and new
  replicas must mean the same by it. Deferred requests (adapter budget, remote KV, grammar) are therefore part of the
  queue, which can ask for a replica that would not help.
* ``tpot`` is the mean of each request, as load tests and objectives state it, although it is observed at the end of a
  request. The gaps between tokens, which older releases alone have, are known earlier, but their tail shows the
  pauses of batching, not what was promised.
* ``queue_time`` is observed when a request finishes (it lags, and aborted requests never show): it confirms and never
  leads.
"""

from __future__ import annotations

from functools import partial

from scaler.engines.row import MOST_REQUESTS, Across, Buckets, Engine, Number, OneHot, spelled

# Pipelines that cannot carry a colon (OpenTelemetry, Datadog) write `vllm_`; Ray puts its own prefix before either
# form.
_names = partial(spelled, ("vllm:", "vllm_", "ray_vllm_", "ray_vllm:"))

# The Rust front-end adds a second `_total` to counters whose name already ends in one.
_GENERATION_TOKENS = Number(_names("generation_tokens_total", "generation_tokens_total_total"))

VLLM = Engine(
    name="vllm",
    ranks=("engine",),
    # With several API servers or data-parallel ranks the gauges have no sample before the first step of the engine,
    # while these counters stand at zero. With --disable-log-stats there is no line of vLLM's at all.
    proofs=(_GENERATION_TOKENS, Number(_names("time_to_first_token_seconds_count"))),
    running=Number(_names("num_requests_running"), at_most=MOST_REQUESTS),
    waiting=Number(
        _names("num_requests_waiting", "num_requests_waiting_by_reason"), parts=("reason",), at_most=MOST_REQUESTS
    ),
    kv_usage=Number(_names("kv_cache_usage_perc", "gpu_cache_usage_perc"), across=Across.MAX, at_most=1.0),
    prompt_tokens_total=Number(_names("prompt_tokens_total", "prompt_tokens_total_total")),
    generation_tokens=_GENERATION_TOKENS,
    preemptions=Number(_names("num_preemptions_total", "num_preemptions_total_total")),
    rejections=Number(_names("admission_rejections_total", "admission_rejections_total_total"), parts=("reason",)),
    ttft=Buckets(_names("time_to_first_token_seconds")),
    tpot=Buckets(
        _names("request_time_per_output_token_seconds", "inter_token_latency_seconds", "time_per_output_token_seconds")
    ),
    queue_time=Buckets(_names("request_queue_time_seconds")),
    duration=Buckets(_names("e2e_request_latency_seconds")),
    prompt_tokens=Buckets(_names("request_prompt_tokens")),
    output_tokens=Buckets(_names("request_generation_tokens")),
    awake=OneHot(_names("engine_sleep_state"), label="sleep_state", value="awake"),
)
