"""A load test of a simulated engine: a fixed number of requests in flight, in virtual time, written as ``vllm bench serve`` writes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from scaler.sim import Finished, Preset, Replica, Request

Lengths = Callable[[Random], tuple[int, int]]
"""Draws the prompt and the output of a request, in tokens."""


@dataclass(frozen=True, slots=True)
class Done:
    """One finished request, in order of its start."""

    prompt: int
    output: int
    started_at: float
    ttft_s: float
    tpot_s: float
    e2e_s: float


@dataclass(frozen=True, slots=True)
class LoadTest:
    """What a load tester saw at one concurrency."""

    concurrency: int
    done: tuple[Done, ...]
    seconds: float
    preemptions: int


def load_test(preset: Preset, lengths: Lengths, concurrency: int, requests: int, seed: int | str) -> LoadTest:
    """Keep so many requests in flight until all are done; the next one starts when one finishes."""
    random = Random(seed)
    replica = Replica(preset.coefficients, preset.limits)
    sent: dict[int, Request] = {}
    done: dict[int, Done] = {}

    def send(now: float) -> None:
        if len(sent) < requests:
            prompt, output = lengths(random)
            request = sent[len(sent)] = Request(len(sent), now, prompt, output)
            replica.submit(request, now)

    for _ in range(concurrency):
        send(0.0)
    now = 0.0
    while (at := replica.next_event_at()) is not None:
        now = at
        for event in replica.advance(now):
            if isinstance(event, Finished):
                request = sent[int(event.id)]
                done[int(event.id)] = Done(
                    request.prompt_tokens,
                    request.output_tokens,
                    request.arrived_at,
                    event.ttft_s,
                    event.tpot_s or 0.0,
                    event.e2e_s,
                )
                send(event.at)
    return LoadTest(concurrency, tuple(done[index] for index in sorted(done)), now, replica.counters.preemptions)


def as_vllm(test: LoadTest, *, detailed: bool = True, **metadata: object) -> bytes:
    """The file that ``vllm bench serve --save-result [--save-detailed] --metadata …`` writes of it."""
    done = test.done
    columns = {
        "ttft": [d.ttft_s for d in done],
        "tpot": [d.tpot_s for d in done if d.output > 1],
        "e2el": [d.e2e_s for d in done],
    }
    result: dict[str, object] = {
        "date": "20261130-144046",
        "endpoint_type": "openai",
        "backend": "openai",
        "model_id": "simulated",
        "num_prompts": len(done),
        **metadata,
        "request_rate": "inf",
        "max_concurrency": test.concurrency,
        "duration": test.seconds,
        "completed": len(done),
        "failed": 0,
        "total_input_tokens": sum(d.prompt for d in done),
        "total_output_tokens": sum(d.output for d in done),
        "request_throughput": len(done) / test.seconds,
        "latencies": columns["e2el"],
        "max_concurrent_requests": 2 * test.concurrency,
    }
    for name, values in columns.items():
        result |= {f"mean_{name}_ms": 1e3 * sum(values) / len(values), f"median_{name}_ms": 1e3 * quantile(values, 0.5)}
        result |= {f"p{percent}_{name}_ms": 1e3 * quantile(values, percent / 100) for percent in (50, 90, 95, 99)}
    if detailed:
        result |= {
            "input_lens": [d.prompt for d in done],
            "output_lens": [d.output for d in done],
            "ttfts": columns["ttft"],
            "start_times": [d.started_at for d in done],
            "errors": [""] * len(done),
        }
    return json.dumps(result).encode()


def quantile(values: list[float], share: float) -> float:
    """As numpy gives it: between neighbours."""
    ascending = sorted(values)
    place = share * (len(ascending) - 1)
    below = int(place)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (place - below) * (ascending[above] - ascending[below])
