"""What one tick of the law costs, without any input or output."""

from __future__ import annotations

import time

from bench.traffic import observations, spec
from scaler.core.step import State, step

TICKS = 300


def run() -> list[str]:
    """Microseconds a step after ten minutes of history, for small and large fleets, and the workloads that one core ticks every 2 s."""
    lines = []
    for replicas in (2, 10, 50):
        seen = list(observations(replicas, TICKS))
        state, of = State(), spec()
        for observation in seen:
            state, _ = step(of, state, observation)
        state, begun = State(), time.process_time()
        for observation in seen:
            state, _ = step(of, state, observation)
        took_us = (time.process_time() - begun) / TICKS * 1e6
        each_us, workloads = took_us / replicas, 2e6 / took_us
        lines.append(
            f"{replicas:3d} replicas: {took_us:6.0f} us a step, {each_us:5.0f} us a replica; {workloads:6.0f} workloads a core at 2 s"
        )
    return lines
