"""The public traces, read where they lie."""

import pytest

from scaler.sim.traces import read
from scaler.sim.traffic import Rated, Requests
from tests.support.shared_data import shared_data


@pytest.mark.parametrize(
    ("name", "kind", "requests", "duration_s"),
    [
        pytest.param("azure2023_conv.csv.gz", "a plain CSV", 19366, 3502.0, id="azure"),
        pytest.param("mooncake_synthetic.csv.gz", "a plain CSV", 3993, 1022.0, id="mooncake"),
        pytest.param("aibrix_8min_up_and_down.csv.gz", "a plain CSV", 2024, 456.0, id="aibrix"),
        pytest.param("servegen_deepseek-r1_24h.csv.gz", "a plain CSV", 178274, 86400.0, id="servegen"),
    ],
)
def test_a_public_trace_gives_all_its_requests(name, kind, requests, duration_s):
    trace = read(name, shared_data(f"traces/{name}").read_bytes())
    assert isinstance(trace.traffic, Requests)
    assert (trace.kind, len(trace.traffic.rows), trace.notes) == (kind, requests, ())
    assert trace.traffic.duration_s == pytest.approx(duration_s, rel=0.01)


def test_eight_copies_of_the_chat_trace_are_eight_times_its_load():
    trace = read("azure", shared_data("traces/azure2023_conv.csv.gz").read_bytes())
    coming = list(trace.traffic.scaled(8).arrivals(seed=1))
    assert len(coming) == 154_928
    assert len(coming) / trace.traffic.duration_s == pytest.approx(44.2, abs=0.1)


@pytest.mark.parametrize(
    ("model", "windows", "mean_per_s"),
    [
        pytest.param("deepseek-r1", 144, 16.0, id="a day"),
        pytest.param("m-large", 2016, 198.0, id="a fortnight"),
    ],
)
def test_public_rates_are_cut_before_they_are_drawn(model, windows, mean_per_s):
    name = f"servegen_{model}_rate10min.csv.gz"
    traffic = read(name, shared_data(f"traces/{name}").read_bytes()).traffic
    assert isinstance(traffic, Rated)
    assert traffic.duration_s == windows * 600
    rates = [rate for _, rate in traffic.streams[0].rates]
    ten_minutes = traffic.clipped(600, 1200).scaled(0.1)
    assert sum(1 for _ in ten_minutes.arrivals(seed=1)) == pytest.approx(60 * rates[1], rel=0.1)
    assert sum(rates) / len(rates) == pytest.approx(mean_per_s, rel=0.02)
