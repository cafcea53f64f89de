"""The emulated /metrics page: it says what the engine says, in the form of a real page."""

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from scaler.core.model import Reading
from scaler.demo.page import Contents, Finishes, page
from scaler.demo.scenario import COEFFICIENTS, LIMITS, MODEL
from scaler.engines import ENGINES
from scaler.engines.row import select
from scaler.sim import Finished, Replica, Request
from scaler.sources.exposition import Wanted, parse, whole

VLLM = ENGINES["vllm"]
REAL = (Path(__file__).parents[1] / "data" / "metrics" / "0.32.0-03-overload-40-streams.prom").read_text()
NOT_EMULATED = {"vllm:cache_config_info"}  # a hundred settings of an engine that has none
LINE = re.compile(r"(vllm:\w+)\{(.*)\} (\S+)")


def contents(requests: int, now: float) -> Contents:
    """An engine that was given requests at once, as it stands at ``now``."""
    replica, finishes = Replica(COEFFICIENTS, LIMITS), Finishes()
    given = {index: Request(index, 0.0, 100 + index, 20) for index in range(requests)}
    for request in given.values():
        replica.submit(request, 0.0)
    for event in replica.advance(now):
        if isinstance(event, Finished):
            finishes.add(given[int(event.id)], event)
    return Contents(replica.reading("llm-0", now), replica.counters, finishes.finished, finishes.histograms(), 1.5e9)


def read_back(text: str, now: float) -> Reading:
    return select(VLLM, parse(text.encode(), Wanted.of(VLLM)), "llm-0", now)


def types(text: str) -> dict[str, str]:
    return dict(re.findall(r"^# TYPE (vllm:\w+) (\w+)$", text, re.MULTILINE))


def labels(text: str) -> dict[str, set[tuple[tuple[str, str], ...]]]:
    """By sample name: the label sets of its series, without the model's name and the edges."""
    found = defaultdict(set)
    for name, written, _ in LINE.findall(text):
        pairs = re.findall(r'(\w+)="([^"]*)"', written)
        found[name].add(tuple(pair for pair in pairs if pair[0] not in {"model_name", "le"}))
    return found


def edges(text: str) -> dict[str, list[str]]:
    found = defaultdict(list)
    for name, edge in re.findall(r'^(vllm:\w+)_bucket\{.*le="([^"]+)".*$', text, re.MULTILINE):
        found[name].append(edge)
    return found


@pytest.mark.parametrize(
    ("requests", "now"),
    [pytest.param(0, 0.0, id="idle"), pytest.param(20, 0.9, id="overloaded"), pytest.param(20, 9.0, id="all done")],
)
def test_our_own_source_reads_the_page_as_the_engine_reads_itself(requests, now) -> None:
    shown = contents(requests, now)
    text = page(MODEL, shown)
    assert whole(text.encode(), openmetrics=False)
    read = read_back(text, now)
    assert replace(read, duration=None) == shown.reading
    assert read.duration is not None
    assert read.duration.count == shown.counters.finished


def test_the_page_has_the_families_of_a_real_one() -> None:
    real = {name: kind for name, kind in types(REAL).items() if name not in NOT_EMULATED}
    assert types(page(MODEL, contents(20, 2.0))) == real


def test_the_page_has_the_series_of_a_real_one() -> None:
    real = {name: found for name, found in labels(REAL).items() if name not in NOT_EMULATED}
    assert labels(page(MODEL, contents(20, 2.0))) == real


def test_latency_histograms_have_the_edges_of_a_real_page() -> None:
    ours, real = edges(page(MODEL, contents(20, 2.0))), edges(REAL)
    assert ours.keys() == real.keys()
    assert {name: found for name, found in ours.items() if name.endswith("_seconds")} == {
        name: found for name, found in real.items() if name.endswith("_seconds")
    }


def test_token_histograms_go_on_where_those_of_a_model_with_a_short_context_end() -> None:
    ours, real = edges(page(MODEL, contents(20, 2.0))), edges(REAL)
    for name in real:
        assert ours[name][: len(real[name]) - 1] == real[name][:-1]


def test_a_finished_request_is_counted_by_its_reason() -> None:
    text = page(MODEL, contents(20, 9.0))
    assert f'vllm:request_success_total{{engine="0",finished_reason="length",model_name="{MODEL}"}} 20.0' in text
    assert f'vllm:e2e_request_latency_seconds_count{{engine="0",model_name="{MODEL}"}} 20.0' in text
