"""Replicas in virtual time, pure.

Time is an argument, chance is a seed, and the core that reads them is the real one.
"""

from scaler.sim.meters import PROMPT_EDGES_TOKENS, QUEUE_EDGES_S, TPOT_EDGES_S, TTFT_EDGES_S, Accumulator
from scaler.sim.presets import PRESETS, Preset
from scaler.sim.replica import Replica
from scaler.sim.values import (
    Coefficients,
    Counters,
    EngineLimits,
    Event,
    Finished,
    FirstToken,
    Preempted,
    Request,
    RequestId,
)

__all__ = [
    "PRESETS",
    "PROMPT_EDGES_TOKENS",
    "QUEUE_EDGES_S",
    "TPOT_EDGES_S",
    "TTFT_EDGES_S",
    "Accumulator",
    "Coefficients",
    "Counters",
    "EngineLimits",
    "Event",
    "Finished",
    "FirstToken",
    "Preempted",
    "Preset",
    "Replica",
    "Request",
    "RequestId",
]
