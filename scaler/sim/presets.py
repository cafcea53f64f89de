"""Replicas to simulate without measuring one first: step coefficients and engine limits by model and GPU.

Source: the silicon tables of NVIDIA AIConfigurator 0.12 (vLLM 0.24 for H100, H200 and L40S, vLLM 0.14 for A100), each
fitted by ``a + b*n + c*p + d*X`` (decode fit: mean error 1-5 %, at most 12 %; c from the TTFT of 2048 prompt tokens).
Independent sources spread by about 20 % on a and 2x on d: a preset shows how a fleet behaves, a load test of the real
replica says how fast it is. KV tokens are computed: 0.9 x memory - weights - 2.5 GB a GPU. Token budget and sequences
are vLLM's server defaults for the GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

from scaler.sim.starts import Lognormal
from scaler.sim.values import Coefficients, EngineLimits


@dataclass(frozen=True, slots=True)
class Preset:
    """A kind of replica: how fast it steps, what it can hold, and how many GPUs one replica occupies."""

    coefficients: Coefficients
    limits: EngineLimits
    gpus: int


def _preset(step: tuple[float, float, float, float], kv_tokens: int, gpus: int, *, large: bool = True) -> Preset:
    """``step`` in ms, ms a sequence, us a prefill token and ns a context token, as the tables print them."""
    a_ms, b_ms, c_us, d_ns = step
    seqs, budget = (1024, 8192) if large else (256, 2048)
    coefficients = Coefficients(a_ms / 1e3, b_ms / 1e3, c_us / 1e6, d_ns / 1e9)
    return Preset(coefficients, EngineLimits(seqs, budget, kv_tokens), gpus)


PRESETS: dict[str, Preset] = {
    "llama-3.1-8b-h100": _preset((6.3, 0.011, 18.2, 41.7), 448_000, 1),
    "llama-3.1-8b-h200": _preset((4.8, 0.011, 18.8, 29.8), 827_000, 1),
    "llama-3.1-8b-a100": _preset((11.4, 0.032, 55.6, 81.2), 448_000, 1, large=False),
    "llama-3.1-8b-l40s": _preset((22.2, 0.030, 59.9, 192.0), 212_000, 1, large=False),
    "qwen3-32b-2xh100": _preset((13.6, 0.024, 45.7, 44.1), 321_000, 2),
    "llama-3.1-70b-4xh100": _preset((15.1, 0.031, 56.2, 28.0), 483_000, 4),
    "llama-3.1-70b-4xa100": _preset((27.4, 0.098, 151.0, 54.4), 483_000, 4, large=False),
}
"""By ``model-gpus``, all bf16."""

STARTS: dict[str, Lognormal] = {
    "sleeping": Lognormal(3.0, 8.0),
    "8b-cached": Lognormal(60.0, 90.0),
    "8b": Lognormal(180.0, 260.0),
    "70b": Lognormal(240.0, 360.0),
    "8b-cold-node": Lognormal(420.0, 700.0),
}
"""From pod to ready: a sleeping engine that wakes; a warm node with compile caches and without; 70B; a node that must be added first.

Estimates between published numbers: vLLM's sleep mode 0.1-6 s; Tensorfuse on Llama-3.1-8B, 82 s with caches and 294 s without; BLIS
240 s +- 30 s; GKE 3-8 min for a node. Measure yours and pass them as ``starts.Measured``.
"""
