"""A damaged file gives an answer or an error that names it, never a crash."""

from __future__ import annotations

import copy
import gzip
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from scaler.calibration import Objectives, Setup, assemble, calibrate, read
from scaler.calibration.formats.guidellm import CSV_METRICS
from scaler.calibration.profile import profile_of, profile_yaml
from scaler.calibration.report import body, sentences
from scaler.errors import ConfigError
from scaler.report.calibration_page import page
from scaler.report.levels_table import levels_table
from scaler.settings.file import parse_configuration
from tests.calibration.test_formats import STAGE

DATA = Path(__file__).resolve().parents[1] / "data" / "load-tests"
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([1e308, -1e308, float("nan"), float("inf"), 10**400, "", "inf", "x" * 50, "1e9", "\ud800"]),
    st.just([]),
    st.just({}),
    st.just([{}]),
    st.just([1, "a", None]),
)


AIPERF_KEYS = (
    "aiperf_version",
    "aggregation_type",
    "metadata",
    "per_combination_metrics",
    "input_config",
    "is_complete",
    "start_time",
    "request_count",
    "request_throughput",
    "request_latency",
    "time_to_first_token",
    "inter_token_latency",
    "usage_prompt_tokens",
    "usage_completion_tokens",
    "output_sequence_length",
)


def _kept(whole, keys):
    """Without what nobody reads, so that the damage mostly hits something."""
    return {key: value for key, value in whole.items() if key in keys}


def _guidellm():
    report = json.loads(gzip.decompress((DATA / "guidellm" / "guidellm-0.8.1-concurrent.json.gz").read_bytes()))
    metrics = [
        {
            name: _kept(metric, ("successful", "errored", "incomplete"))
            for name, metric in _kept(one["metrics"], (*CSV_METRICS, "request_totals")).items()
        }
        for one in report["benchmarks"][3:5]
    ]
    return {
        "metadata": report["metadata"],
        "benchmarks": [
            {"metrics": told} | {"config": _kept(one["config"], ("strategy", "backend")), "warmup_duration": 0.0}
            for one, told in zip(report["benchmarks"][3:5], metrics, strict=True)
        ],
    }


def _aiperf(name):
    return _kept(json.loads((DATA / "aiperf" / name).read_text()), AIPERF_KEYS)


def _sweep():
    sweep = _aiperf("profile_export_aiperf_sweep.json")
    combined = sweep["per_combination_metrics"][:2]
    return sweep | {
        "per_combination_metrics": [{**one, "metrics": _kept(one["metrics"], AIPERF_KEYS)} for one in combined]
    }


WHOLE = {
    "vllm": json.loads((DATA / "vllm-bench" / "vllm-0.32.0-c08.json").read_text()),
    "aiperf": _aiperf("c04-profile_export_aiperf.json"),
    "sweep": _sweep(),
    "guidellm": _guidellm(),
    "inference-perf": STAGE,
}


def read_or_refused(content: bytes) -> None:
    """Any other error than the one for the user comes through."""
    with suppress(ConfigError):
        everything(content)


def everything(content: bytes) -> None:
    """All that the command does with a file."""
    found = calibrate(assemble([read("damaged.json", content)], Setup("", kv_tokens=10_000)), Objectives(2.0, 0.1))
    json.dumps(body(found), allow_nan=False)
    assert list(sentences(found))
    Console(file=None, quiet=True).print(levels_table(found, 120))
    assert page(found, "1")
    if found.safe is not None:
        usable(profile_yaml({"name": profile_of(found, "1")}, "1"))


def usable(profile: str) -> None:
    """The scaler must take what was written for it, in a file, too."""
    profile.encode()
    try:
        parse_configuration(profile)
    except ConfigError as error:
        raise AssertionError(str(error)) from error


def places(value, path=()):
    """Where values stand in a JSON object; of an array only the first."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


PLACES = {name: list(places(whole)) for name, whole in WHOLE.items()}


@pytest.mark.parametrize("name", WHOLE)
@given(st.data())
def test_a_file_with_one_value_damaged_or_gone_is_read_or_refused(name, data):
    *path, last = data.draw(st.sampled_from(PLACES[name]))
    damaged = copy.deepcopy(WHOLE[name])
    inner = damaged
    for key in path:
        inner = inner[key]
    if data.draw(st.booleans()):
        inner[last] = data.draw(JUNK)
    else:
        del inner[last]
    read_or_refused(json.dumps(damaged).encode())


@given(st.one_of(st.binary(max_size=200), st.text(alphabet='{}[],:"\n\t 0123456789.abc', max_size=200).map(str.encode)))
def test_any_bytes_are_read_or_refused(content):
    read_or_refused(content)


@given(
    st.lists(
        st.lists(st.sampled_from(["", "1", "-1", "0", "nan", "inf", "x", "1e308", "4"]), min_size=6, max_size=6),
        max_size=4,
    )
)
def test_any_cells_are_read_or_refused(rows):
    header = "concurrency,requests,requests_per_s,ttft_p95_s,ttft_max_s,tpot_max_ms"
    read_or_refused("\n".join([header, *(",".join(row) for row in rows)]).encode())


NUMBER = st.sampled_from(["240", "1", "8", "0.2", "", "0", "-1", "nan", "1e-310", "1e-6", "1e6", "1e12", "1e308"])
LOADED = ("concurrency", "rate_per_s")
SAID = ("requests", "failed", "requests_per_s", "ttft_p50_s", "ttft_max_s", "tpot_max_ms", "e2e_mean_s", "input_mean")
MORE = ("input_p95", "output_mean", "preemptions", "cached_ratio", "max_num_seqs", "kv_tokens")
GOOD = dict.fromkeys((*SAID, *MORE), "") | {
    "requests": "240", "requests_per_s": "1", "ttft_max_s": "0.2", "tpot_max_ms": "20", "e2e_mean_s": "1"
}  # fmt: skip


@given(
    st.sampled_from(LOADED),
    st.lists(st.tuples(NUMBER, st.dictionaries(st.sampled_from([*GOOD]), NUMBER, max_size=3)), max_size=3),
)
def test_any_row_gives_a_profile_that_can_be_used_or_is_refused(load, rows):
    lines = [",".join([value, *(GOOD | changed).values()]) for value, changed in rows]
    read_or_refused("\n".join([",".join([load, *GOOD]), *lines]).encode())
