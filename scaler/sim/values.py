"""What goes into and comes out of a simulated replica, as frozen values. Times are seconds of the caller's clock.

Requests and events are named tuples: there are three for each request that is simulated, and a frozen dataclass takes three times as long
to make.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

RequestId = int | str


@dataclass(frozen=True, slots=True)
class Coefficients:
    """How long a step takes: ``a_s + b_s * sequences + c_s * prefill tokens + d_s * context tokens``.

    ``a_s`` is seconds a step (reading the weights), ``b_s`` seconds a scheduled sequence, ``c_s`` seconds a prefill
    token, ``d_s`` seconds a context token of a decoding sequence (reading its KV). ``overhead_s`` is what the API
    server adds before the engine sees a request; 15.6 ms in the BLIS simulator's fit of an H100. The additive form is
    that of DistServe's simulator; it overestimates a full prefill chunk by up to 12 %, where reading the weights
    overlaps computing.
    """

    a_s: float
    b_s: float
    c_s: float
    d_s: float
    overhead_s: float = 0.015

    def __post_init__(self) -> None:
        """A step without a duration would never let time pass."""
        if self.a_s <= 0 or min(self.b_s, self.c_s, self.d_s, self.overhead_s) < 0:
            raise ValueError("a_s must be above zero and the other coefficients must not be negative")


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The engine's own caps: vLLM's ``max_num_seqs``, ``max_num_batched_tokens`` and its KV cache in tokens.

    vLLM's server defaults are 1024 and 8192 on GPUs of 70 GiB or more except the A100, otherwise 256 and 2048.
    """

    max_num_seqs: int
    token_budget: int
    kv_tokens: int

    def __post_init__(self) -> None:
        """vLLM refuses a budget below the number of sequences too: every decoding sequence must fit into every step."""
        if not 1 <= self.max_num_seqs <= self.token_budget or self.kv_tokens < 1:
            raise ValueError("1 <= max_num_seqs <= token_budget and kv_tokens >= 1 are required")


class Request(NamedTuple):
    """One request, its lengths in tokens. ``arrived_at`` is when the client sent it, in seconds."""

    id: RequestId
    arrived_at: float
    prompt_tokens: int
    output_tokens: int

    @property
    def total_tokens(self) -> int:
        """Prompt and output together: at most the engine's KV tokens, or the request could never finish."""
        return self.prompt_tokens + self.output_tokens


class FirstToken(NamedTuple):
    """The first output token. ``ttft_s`` counts from the client's arrival: overhead, queue and prefill."""

    id: RequestId
    at: float
    ttft_s: float


class Preempted(NamedTuple):
    """A sequence lost its KV to older ones and waits, in front, to be recomputed; what it generated is kept."""

    id: RequestId
    at: float


class Finished(NamedTuple):
    """The last output token.

    ``tpot_s`` is the mean time of the tokens after the first, None when there is no other. ``queue_wait_s`` is from
    entering the engine's queue to being scheduled first, without later waits after a preemption: what vLLM observes,
    and when it observes it.
    """

    id: RequestId
    at: float
    ttft_s: float
    tpot_s: float | None
    queue_wait_s: float
    e2e_s: float


Event = FirstToken | Preempted | Finished


@dataclass(frozen=True, slots=True)
class Counters:
    """All that happened since the replica started. Prompt tokens are counted at the first token, as vLLM does.

    ``submitted`` = entering + waiting + running + ``finished`` + ``cancelled``, always.
    """

    submitted: int
    cancelled: int
    finished: int
    first_tokens: int
    preemptions: int
    prompt_tokens: int
    generation_tokens: int
