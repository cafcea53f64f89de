"""SGLang 0.5, started with ``--enable-metrics``. Experimental: written from documentation, not from a running server.

``num_queue_reqs`` leaves out the grammar queue and the queues of disaggregated serving. Releases before mid-2026 can
keep a stale ``num_running_reqs`` for up to 30 s after the last request.
"""

from __future__ import annotations

from functools import partial

from scaler.core.model import Absent
from scaler.engines.row import MOST_REQUESTS, Across, Buckets, Engine, Number, spelled

_names = partial(spelled, ("sglang:", "sglang_"))

_STREAMING = ("is_streaming",)
_GENERATION_TOKENS = Number(_names("generation_tokens_total"), parts=_STREAMING)

SGLANG = Engine(
    name="sglang",
    experimental=True,
    # Tensor- and pipeline-parallel ranks show copies of one queue; data-parallel ranks have one each.
    ranks=("dp_rank",),
    # With priority scheduling each priority has its own series beside the total, whose priority is empty.
    keep=(("priority", ("",)),),
    proofs=(_GENERATION_TOKENS, Number(_names("time_to_first_token_seconds_count"), parts=_STREAMING)),
    # It warms up with a request of its own, so a page without gauges is not the page of an unused engine.
    unused_gauge=Absent.UNKNOWN,
    running=Number(_names("num_running_reqs"), at_most=MOST_REQUESTS),
    waiting=Number(_names("num_queue_reqs"), at_most=MOST_REQUESTS),
    kv_usage=Number(_names("token_usage"), across=Across.MAX, at_most=1.0),
    prompt_tokens_total=Number(_names("prompt_tokens_total"), parts=_STREAMING),
    generation_tokens=_GENERATION_TOKENS,
    preemptions=Number(_names("num_retracted_requests_total")),
    ttft=Buckets(_names("time_to_first_token_seconds"), parts=_STREAMING),
    tpot=Buckets(_names("request_time_per_output_token_seconds", "inter_token_latency_seconds"), parts=_STREAMING),
    queue_time=Buckets(_names("queue_time_seconds")),
    duration=Buckets(_names("e2e_request_latency_seconds"), parts=_STREAMING),
)
