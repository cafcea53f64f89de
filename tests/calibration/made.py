"""Runs and sweeps made by hand, good in everything that a test does not change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scaler.calibration import Calibration, Objectives, Results, Setup, assemble, calibrate
from scaler.calibration.formats.vllm_bench import OPTIONS
from scaler.calibration.runs import Latency, Lengths, Load, LoadKind, Run

OBJECTIVES = Objectives(ttft_s=2.0, tpot_s=0.1)
SHAPE = ((0.0, 0.5), (0.5, 0.7), (0.9, 0.9), (0.95, 1.0), (0.99, 1.2), (1.0, 1.5))
"""A latency's quantiles, relative to its P95."""


def latency(p95_s: float, requests: int) -> Latency:
    """A summary with that P95; its P99 is a fifth above."""
    return Latency(requests, 0.75 * p95_s, tuple((share, ratio * p95_s) for share, ratio in SHAPE))


def run(concurrency: float, ttft_s: float = 0.5, tpot_s: float = 0.03, **changes: Any) -> Run:
    """A run with those P95s, long enough and without any defect; a latency of whole requests that Little's law agrees with."""
    requests = changes.pop("requests", max(400, 20 * round(concurrency)))
    made = Run(
        file=changes.pop("file", f"c{concurrency:g}.json"),
        setup=Setup("vllm bench serve", model="org/Tiny-7B"),
        options=OPTIONS,
        load=Load(LoadKind.CONCURRENCY, concurrency),
        completed=requests,
        failed=0,
        rate_per_s=concurrency**0.8,
        e2e_mean_s=concurrency**0.2,
        ttft=latency(ttft_s, requests),
        tpot=latency(tpot_s, requests),
        prompts=Lengths(1000.0, 100.0, 980.0, 1200.0),
        outputs=Lengths(200.0, 20.0, 190.0, 300.0),
    )
    return replace(made, **changes)


def results(*runs: Run) -> list[Results]:
    """Each in a file of its own."""
    return [Results(one.file, f"sha256 of {one.file}", (one,)) for one in runs]


def calibrated(
    *runs: Run, objectives: Objectives = OBJECTIVES, setup: Setup | None = None, **options: Any
) -> Calibration:
    """The answer of these runs."""
    return calibrate(assemble(results(*runs), setup or Setup(""), **options), objectives, **options)
