"""How many requests of chat one CPU-second simulates. The aim is 40,000 at a moderate batch."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from scaler.sim import PRESETS, Replica, Request

LEVELS = (
    ("llama-3.1-8b-h100", 5.0),
    ("llama-3.1-8b-h100", 15.0),
    ("llama-3.1-8b-h100", 25.0),
    ("llama-3.1-70b-4xh100", 3.0),
    ("llama-3.1-70b-4xh100", 8.0),
)


def chat(rate_per_s: float, count: int, seed: int) -> Iterator[Request]:
    """Poisson arrivals, lognormal lengths of the means of the Azure 2023 chat trace: about 1155 tokens in, 211 out."""
    rng = random.Random(seed)
    at = 0.0
    for number in range(count):
        at += rng.expovariate(rate_per_s)
        prompt = max(1, min(8000, round(rng.lognormvariate(6.7, 0.84))))
        yield Request(number, at, prompt, max(1, min(2000, round(rng.lognormvariate(5.1, 0.72)))))


def requests_per_cpu_s(preset: str, rate_per_s: float, count: int) -> tuple[float, float]:
    """Requests per CPU-second, and the mean number running."""
    replica = Replica(PRESETS[preset].coefficients, PRESETS[preset].limits)
    requests = list(chat(rate_per_s, count, seed=1))
    running = 0
    started = time.process_time()
    for request in requests:
        replica.submit(request, request.arrived_at)
        replica.advance(request.arrived_at)
        running += replica.running
    while (at := replica.next_event_at()) is not None:
        replica.advance(at)
    return count / (time.process_time() - started), running / count


def run() -> list[str]:
    """One line a load level."""
    lines = []
    for preset, rate_per_s in LEVELS:
        speed, running = max(requests_per_cpu_s(preset, rate_per_s, 20_000) for _ in range(3))
        lines.append(
            f"{preset:22s} {rate_per_s:5.1f} req/s, {running:5.0f} running: {speed:9,.0f} requests per CPU-second"
        )
    return lines
