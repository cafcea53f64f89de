"""Whatever a file holds, it is read or refused; nothing else happens."""

import gzip
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scaler.errors import ConfigError
from scaler.sim.traces import Trace, read

DATA = Path(__file__).resolve().parents[1] / "data" / "traces"
NAMES = sorted(path.name for path in DATA.iterdir() if path.suffix in {".csv", ".jsonl"})
JUNK = st.one_of(
    st.sampled_from(
        [
            "",
            '"',
            ",",
            "\n",
            "\x00",
            "nan",
            "inf",
            "-1",
            "1e999",
            "9" * 5000,
            "true",
            "null",
            "[" * 9000,
            "{}",
            "é",
            "٣",
        ]
    ),
    st.text(max_size=5),
)
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 20), JUNK), max_size=4)


def damaged(text: str, edits: list[tuple[float, int, str]]) -> bytes:
    for share, length, junk in edits:
        at = int(share * len(text))
        text = text[:at] + junk + text[at + length :]
    return text.encode()


def usable(trace: Trace) -> None:
    """Its first requests are in order, within the time it lasts, and have lengths."""
    coming = [row for row, _ in zip(trace.traffic.arrivals(seed=1), range(200), strict=False)]
    times = [row.at for row in coming]
    assert times == sorted(times)
    assert all(0 <= at <= trace.traffic.duration_s for at in times)
    assert all(row.prompt_tokens > 0 and row.output_tokens > 0 for row in coming)


@pytest.mark.parametrize("name", NAMES)
@given(EDITS)
def test_a_damaged_file_is_read_or_refused(name, edits):
    with suppress(ConfigError):
        usable(read(name, damaged((DATA / name).read_text(), edits)))


@pytest.mark.parametrize("name", NAMES)
@given(st.floats(0, 1), st.integers(0, 255))
def test_a_damaged_archive_is_read_or_refused(name, share, byte):
    packed = bytearray(gzip.compress((DATA / name).read_bytes()))
    packed[int(share * (len(packed) - 1))] = byte
    with suppress(ConfigError):
        usable(read(name, bytes(packed)))


@given(st.binary(max_size=200))
@example(b"\x1f\x8b")
@example(b"")
def test_anything_is_read_or_refused(content):
    with suppress(ConfigError):
        usable(read("x", content))


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from(
        [1e308, -1e308, float("nan"), float("inf"), 10**400, "", "unknown", "idle", [], {}, [{}], {"a": 1}]
    ),
)
KEYS = ("at", "event", "namespace", "name", "desired", "blind", "load")
LOAD_KEYS = ("offered_per_s", "window_s", "ready", "starting", "prompt_p50_tokens", "output_p50_tokens")


@given(st.dictionaries(st.sampled_from(KEYS), VALUES), st.dictionaries(st.sampled_from(LOAD_KEYS), VALUES))
def test_a_log_line_with_other_values_is_read_or_refused(values, load_values):
    lines = (DATA / "decisions.jsonl").read_text().splitlines()
    line = json.loads(lines[4])
    line["load"] = {**line["load"], **load_values}
    with suppress(ConfigError):
        usable(read("x", "\n".join([*lines[:3], json.dumps({**line, **values}), *lines[5:]]).encode()))


@given(st.dictionaries(st.sampled_from(("timestamp", "input_length", "output_length", "hash_ids")), VALUES))
def test_a_line_of_mooncake_with_other_values_is_read_or_refused(values):
    lines = (DATA / "mooncake.jsonl").read_text().splitlines()
    with suppress(ConfigError):
        usable(read("x", "\n".join([*lines, json.dumps({**json.loads(lines[1]), **values})]).encode()))
