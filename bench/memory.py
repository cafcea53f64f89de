"""How much one workload remembers: its state, its decision on the board, its loop's share."""

from __future__ import annotations

import gc
import tracemalloc

from bench.traffic import observations, spec
from scaler.core.step import State, step

WORKLOADS, REPLICAS, TICKS = 50, 2, 300
AIM_KIB = 64


def run() -> list[str]:
    """KiB a workload with two replicas after ten minutes of ticks, by allocation; the aim is 64."""
    gc.collect()
    tracemalloc.start()
    kept = [_state(number) for number in range(3)]  # what is shared by all is paid for before counting
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    kept += [_state(number) for number in range(3, WORKLOADS)]
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    each = (after - before) / (WORKLOADS - 3) / 1024
    return (
        [
            f"{each:.1f} KiB a workload with {REPLICAS} replicas after {TICKS} ticks (aim {AIM_KIB}, ratio {each / AIM_KIB:.2f})"
        ]
        if kept
        else []
    )


def _state(number: int) -> State:
    state = State()
    for observation in observations(REPLICAS, TICKS, seed=number):
        state, _ = step(spec(number), state, observation)
    return state
