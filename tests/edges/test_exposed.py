"""Our own page of metrics in pieces: each is short, and together they are what the library makes in one go."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

from scaler.api.exposed import SLICE, pieces

ACCEPTS = ["", "text/plain;version=1.0.0", "application/openmetrics-text;version=1.0.0", "application/openmetrics-text"]


def registry(series: int) -> CollectorRegistry:
    found = CollectorRegistry()
    gauge = Gauge("of_workloads", "A line\nand another", ("name",), registry=found)
    for number in range(series):
        gauge.labels(f"model-{number}").set(number)
    counted = Counter("told", "With a time of creation", ("name",), registry=found)
    for number in range(series):
        counted.labels(f'a "{number}"').inc()
    Histogram("took_seconds", "Buckets", registry=found).observe(0.1)
    Gauge("nobody", "Without a series", ("name",), registry=found)
    return found


@pytest.mark.parametrize("accept", ACCEPTS)
@pytest.mark.parametrize("series", [0, 1, SLICE - 1, SLICE, SLICE + 1, 3 * SLICE + 7])
def test_the_pieces_together_are_the_page_that_the_library_makes(series, accept):
    encode, _ = choose_encoder(accept)
    of = registry(series)
    assert b"".join(pieces(of, encode)) == encode(of)


def test_no_piece_of_a_family_of_workloads_has_more_lines_than_a_slice_and_its_heading():
    of = CollectorRegistry()
    gauge = Gauge("of_workloads", "Many", ("name",), registry=of)
    for number in range(5 * SLICE + 1):
        gauge.labels(str(number)).set(1)
    encode, _ = choose_encoder("")
    found = list(pieces(of, encode))
    assert (len(found), max(piece.count(b"\n") for piece in found)) == (7, SLICE + 2)
