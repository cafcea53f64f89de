"""Pages that no engine writes: each costs the one signal that it garbles, and no time to speak of."""

from __future__ import annotations

import pytest

from scaler.core.model import Absent
from scaler.engines import ENGINES
from scaler.engines.row import MOST_REQUESTS, select
from scaler.engines.samples import MOST_EDGES, MOST_LINES, Sample
from scaler.sources.exposition import Wanted, parse

VLLM = ENGINES["vllm"]
PLAIN = """vllm:num_requests_running{engine="0"} 4
vllm:num_requests_waiting{engine="0"} 2
vllm:time_to_first_token_seconds_bucket{engine="0",le="1"} 7
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} 9
vllm:time_to_first_token_seconds_sum{engine="0"} 3
"""


def read(page: str):
    return select(VLLM, parse(page.encode(), Wanted.of(VLLM)), "llama-0", 0.0)


@pytest.mark.fault("engine reports what is no number")
@pytest.mark.parametrize("gauge", ["running", "waiting"])
@pytest.mark.parametrize("value", [str(MOST_REQUESTS + 1), "1e15", "1e200", "1e308"])
def test_more_requests_than_any_engine_holds_are_unknown_and_named(gauge, value):
    page = PLAIN.replace("running{", "running{").replace(
        f'vllm:num_requests_{gauge}{{engine="0"}} {4 if gauge == "running" else 2}',
        f'vllm:num_requests_{gauge}{{engine="0"}} {value}',
    )
    reading = read(page)
    assert (getattr(reading, gauge), reading.absent, reading.usable) == (Absent.UNKNOWN, (gauge,), False)


def test_as_many_requests_as_an_engine_can_hold_are_believed():
    assert read(PLAIN.replace("} 4\n", f"}} {MOST_REQUESTS}\n", 1)).running == MOST_REQUESTS


def test_a_histogram_with_more_edges_than_any_engine_has_is_unknown():
    edges = "".join(
        f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="{i}.5"}} 7\n' for i in range(MOST_EDGES + 1)
    )
    reading = read(PLAIN + edges)
    assert (reading.ttft, reading.absent, reading.running) == (None, ("ttft",), 4.0)


def test_a_name_on_more_lines_than_any_engine_has_is_unknown():
    samples = {"vllm:num_requests_running": [Sample({"engine": str(i)}, 1.0) for i in range(MOST_LINES + 1)]}
    assert select(VLLM, samples, "llama-0", 0.0).running is Absent.UNKNOWN
