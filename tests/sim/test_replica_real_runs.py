"""The replica model against real runs of vLLM."""

import csv
import gzip
import json
from dataclasses import dataclass
from statistics import correlation, median

import pytest

from scaler.sim import Coefficients, EngineLimits, Event, Finished, Replica, Request
from tests.support.shared_data import shared_data


@dataclass(frozen=True)
class Run:
    """A public run of vLLM 0.19 (LLMServingSim, MIT): 300 requests of ShareGPT at 10/s; coefficients fitted to it."""

    name: str
    coefficients: Coefficients
    limits: EngineLimits


RUNS = [
    # No API server in these runs, so no overhead. The first run's KV cache is not recorded and was never full.
    Run("RTXPRO6000_Llama-3.1-8B", Coefficients(6.6e-3, 49e-6, 54e-6, 100e-9, 0.0), EngineLimits(128, 2048, 500_000)),
    Run("RTX4090_Llama-3.1-8B", Coefficients(23.0e-3, 19e-6, 85e-6, 9.8e-9, 0.0), EngineLimits(256, 2048, 41_408)),
]


@dataclass(frozen=True)
class Replayed:
    e2e_error_ratios: list[float]
    waiting_seen: list[float]
    waiting_simulated: list[float]


def replay(run: Run) -> Replayed:
    folder = shared_data("traces/vllm_runs")
    with gzip.open(folder / f"{run.name}_requests.jsonl.gz", "rt") as lines:
        rows = sorted(map(json.loads, lines), key=lambda row: row["arrival_time"])
    with gzip.open(folder / f"{run.name}_timeseries.csv.gz", "rt") as lines:
        ticks = list(csv.DictReader(lines))
    started_at = rows[0]["arrival_time"]
    # Arrivals are on the wall clock, tokens on the engine's: the quickest hand-over tells them apart.
    engine_start = min(row["queued_ts"] - (row["arrival_time"] - started_at) for row in rows)
    replica = Replica(run.coefficients, run.limits)
    inputs = [(row["arrival_time"] - started_at, row) for row in rows] + [(float(tick["t"]), None) for tick in ticks]
    events: list[Event] = []
    waiting: list[float] = []
    for at, row in sorted(inputs, key=lambda pair: pair[0]):
        if row is None:
            events += replica.advance(at)
            waiting.append(float(replica.waiting))
        else:
            replica.submit(Request(row["request_id"], at, row["input_toks"], row["output_toks"]), at)
    events += replica.advance(1e6)
    simulated = {event.id: event.at for event in events if isinstance(event, Finished)}
    errors = []
    for row in rows:
        arrived_at, done_at = row["arrival_time"] - started_at, row["last_token_ts"] - engine_start
        errors.append(abs(simulated[row["request_id"]] - done_at) / (done_at - arrived_at))
    return Replayed(errors, [float(tick["waiting"]) for tick in ticks], waiting)


@pytest.mark.parametrize("run", [pytest.param(run, id=run.name) for run in RUNS])
def test_reproduces_a_real_vllm_run(run: Run) -> None:
    replayed = replay(run)
    assert median(replayed.e2e_error_ratios) <= 0.05
    assert correlation(replayed.waiting_seen, replayed.waiting_simulated) >= 0.99
