"""What every engine's row must satisfy, and what every captured page must read as."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from scaler.core.model import Absent, Histogram, Reading, Signal
from scaler.engines import ENGINES
from scaler.engines.row import Engine, Sample, Samples, select
from scaler.sources.exposition import Wanted, parse, whole

PAGES = Path(__file__).parents[1] / "data" / "metrics"
NAMES = sorted(str(page.relative_to(PAGES)) for page in PAGES.rglob("*.prom"))
IDLE, UNKNOWN = Absent.IDLE, Absent.UNKNOWN


class Seen(NamedTuple):
    """A reading, its histograms by their count."""

    running: Signal
    waiting: Signal
    kv: Signal
    prompt: float | None
    tokens: float | None
    rejections: float | None
    first_tokens: float | None
    finished: float | None
    absent: tuple[str, ...] = ()
    awake: bool = True
    preemptions: float | None = 0.0


def count(histogram: Histogram | None) -> float | None:
    return None if histogram is None else histogram.count


def seen(reading: Reading) -> Seen:
    return Seen(
        running=reading.running,
        waiting=reading.waiting,
        kv=reading.kv_usage_ratio,
        prompt=reading.prompt_tokens_total,
        tokens=reading.generation_tokens_total,
        rejections=reading.rejections_total,
        first_tokens=count(reading.ttft),
        finished=count(reading.queue_time),
        absent=reading.absent,
        awake=reading.awake,
        preemptions=reading.preemptions_total,
    )


def read(page: bytes, engine: Engine = ENGINES["vllm"]) -> Reading:
    return select(engine, parse(page, Wanted.of(engine)), "pod-0", 12.5)


FULL_KV, ONE_KV, TWO_KV, THREE_KV = 1.0, 0.0117647058823529, 0.02352941176470591, 0.01764705882352946

EXPECTED = {
    "0.32.0-01-before-first-request.prom": Seen(0, 0, 0, 0, 0, 0, 0, 0),
    "0.32.0-02-idle-after-one-request.prom": Seen(0, 0, 0, 37, 64, 0, 1, 1),
    "0.32.0-03-overload-40-streams.prom": Seen(4, 32, ONE_KV, 333, 944, 0, 9, 5),
    "0.32.0-04-after-overload.prom": Seen(0, 0, 0, 1517, 8064, 0, 41, 41),
    "0.32.0-04b-after-overload-60s-idle.prom": Seen(0, 0, 0, 1517, 8064, 0, 41, 41),
    "0.32.0-05-after-restart.prom": Seen(0, 0, 0, 0, 0, 0, 0, 0),
    "0.32.0-06a-before-mass-abort.prom": Seen(4, 32, ONE_KV, 1813, 9077, 0, 49, 45),
    "0.32.0-06b-2s-after-mass-abort.prom": Seen(0, 0, 0, 1813, 9321, 0, 49, 45),
    "0.32.0-06c-15s-after-mass-abort.prom": Seen(0, 0, 0, 1813, 9321, 0, 49, 45),
    "0.32.0-07-admission-limit-20-overload.prom": Seen(4, 16, TWO_KV, 148, 445, 20, 4, 0),
    "0.32.0-08-engine-frozen-12s.prom": Seen(4, 4, THREE_KV, 888, 3319, 20, 24, 20),
    "0.32.0-10-kv-bound-overload.prom": Seen(3, 13, FULL_KV, 222, 591, 0, 6, 0),
    "0.32.0-11-disable-log-stats.prom": Seen(
        UNKNOWN, UNKNOWN, UNKNOWN, None, None, None, None, None, absent=("running", "waiting", "ttft"), preemptions=None
    ),
    "0.32.0-12-api-server-count-2-before.prom": Seen(IDLE, IDLE, IDLE, 0, 0, 0, 0, 0),
    "0.32.0-12b-api-server-count-2-overload.prom": Seen(4, 12, ONE_KV, 148, 297, 0, 4, 0),
    "0.32.0-13-dp2-before.prom": Seen(IDLE, IDLE, IDLE, 0, 0, 0, 0, 0),
    "0.32.0-13b-dp2-overload.prom": Seen(8, 16, ONE_KV, 296, 539, 0, 8, 0),
    "generated/vllm-0.10.1.1-dp1.prom": Seen(24, 5, 0.43, 0, 9600, None, 50, 50),
    "generated/vllm-0.11.1-apiserver2.prom": Seen(24, 5, 0.43, 0, 19200, None, 100, 100),
    "generated/vllm-0.32.0-dp8.prom": Seen(192, 48, 0.43, 0, 76800, 0, 400, 400),
}


def test_every_captured_page_is_expected_to_say_something():
    assert sorted(EXPECTED) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_captured_page_reads_as_what_the_engine_did(name):
    reading = read((PAGES / name).read_bytes())

    assert seen(reading) == EXPECTED[name]
    assert count(reading.duration) == EXPECTED[name].finished, "both are observed when a request finishes"


@pytest.mark.parametrize("name", NAMES)
def test_a_captured_page_has_its_end(name):
    assert whole((PAGES / name).read_bytes(), openmetrics=False)


@pytest.mark.parametrize("name", NAMES)
def test_a_captured_page_gives_the_samples_that_a_full_parser_gives(name):
    page = (PAGES / name).read_bytes()
    wanted = set(ENGINES["vllm"].sample_names)
    expected: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            if sample.name in wanted:
                expected.setdefault(sample.name, []).append(Sample(sample.labels, sample.value))

    assert parse(page, Wanted.names(wanted)) == expected


@pytest.mark.parametrize("prefix", ["vllm_", "ray_vllm_", "ray_vllm:"])
def test_a_page_rewritten_by_a_pipeline_reads_as_the_original(prefix):
    page = (PAGES / "0.32.0-13b-dp2-overload.prom").read_bytes()

    assert read(page.replace(b"\nvllm:", b"\n" + prefix.encode())) == read(page)


def test_a_page_scraped_twice_reads_as_the_original():
    page = (PAGES / "0.32.0-13b-dp2-overload.prom").read_bytes()

    assert read(page + page.replace(b'engine="', b'container="proxy",engine="')) == read(page)


def test_a_page_with_windows_line_ends_reads_as_the_original():
    page = (PAGES / "0.32.0-03-overload-40-streams.prom").read_bytes()

    assert read(page.replace(b"\n", b"\r\n")) == read(page)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_order_of_lines_and_labels_says_nothing(data):
    page = (PAGES / "0.32.0-13b-dp2-overload.prom").read_bytes()
    lines = data.draw(st.permutations([line for line in page.splitlines() if line.startswith(b"vllm:num_req")]))
    rest = [line for line in page.splitlines() if not line.startswith(b"vllm:num_req")]
    turned = [
        re.sub(rb"\{(.*)\}", lambda m: b"{" + b",".join(reversed(m[1].split(b","))) + b"}", line)
        for line in [*reversed(rest), *lines]
    ]

    assert read(b"\n".join(turned) + b"\n") == read(page)


@settings(deadline=None)
@given(data=st.data())
def test_a_page_cut_anywhere_never_shows_another_number(data):
    page = (PAGES / "0.32.0-13b-dp2-overload.prom").read_bytes()
    wanted = Wanted.of(ENGINES["vllm"])
    cut = page[: data.draw(st.integers(0, len(page)))]
    complete = {(name, str(sample)) for name, found in parse(page, wanted).items() for sample in found}

    shown = {(n, str(s)) for n, found in parse(cut, wanted).items() for s in found if s.value == s.value}

    assert shown <= complete


def one_rank(labels: dict[str, str], value: float) -> list[Sample]:
    return [Sample(labels, value)]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_an_engine_is_registered_under_its_own_name(engine):
    assert ENGINES[engine.name] is engine


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_an_engine_requires_only_what_its_reading_has(engine):
    assert set(engine.required) <= {"running", "waiting", "ttft"}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_a_page_of_something_else_is_unknown_and_names_what_is_missing(engine):
    reading = select(engine, {}, "pod-0", 12.5)

    assert reading == Reading(replica="pod-0", observed_at=12.5, absent=engine.required)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_the_newest_name_on_a_page_is_used(engine):
    samples = {name: one_rank({}, float(i)) for i, name in enumerate(engine.running.names)}

    assert select(engine, samples, "pod-0", 0.0).running == 0.0


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_every_alias_alone_is_enough(engine):
    readings = [select(engine, {name: one_rank({}, 7.0)}, "pod-0", 0.0).waiting for name in engine.waiting.names]

    assert readings == [7.0] * len(engine.waiting.names)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("label", ["pid", "container", "tp_rank"])
def test_copies_of_one_rank_are_one_number(engine, label):
    name = engine.running.names[0]
    samples = {name: [Sample({label: "0"}, 3.0), Sample({label: "1"}, 5.0)]}

    assert select(engine, samples, "pod-0", 0.0).running == 5.0


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_ranks_add_up_except_where_the_fullest_counts(engine):
    rank = engine.ranks[0]
    samples = {
        name: [Sample({rank: "0"}, 0.25), Sample({rank: "1"}, 0.5)]
        for name in (engine.running.names[0], engine.waiting.names[0], engine.kv_usage.names[0])
    }
    reading = select(engine, samples, "pod-0", 0.0)

    assert (reading.running, reading.waiting, reading.kv_usage_ratio) == (0.75, 0.75, 0.5)


VALUES = st.one_of(st.floats(), st.floats(min_value=0.0, max_value=1e6))
LABELS = st.dictionaries(
    st.sampled_from(["engine", "dp_rank", "le", "reason", "priority", "pid", "sleep_state"]),
    st.sampled_from(["", "0", "1", "1.0", "+Inf", "-Inf", "NaN", "awake", "x"]),
)


def pages(engine: Engine) -> st.SearchStrategy[Samples]:
    samples = st.lists(st.builds(Sample, LABELS, VALUES), max_size=4)
    return st.dictionaries(st.sampled_from(engine.sample_names), samples, max_size=12)


def sound(signal: Signal) -> bool:
    return isinstance(signal, Absent) or 0.0 <= signal < float("inf")


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@settings(deadline=None)
@given(data=st.data())
def test_any_page_gives_a_reading_with_sound_numbers_only(engine, data):
    reading = select(engine, data.draw(pages(engine)), "pod-0", 0.0)

    numbers = (
        *(reading.running, reading.waiting, reading.kv_usage_ratio),
        *(reading.generation_tokens_total or 0.0, reading.preemptions_total or 0.0, reading.rejections_total or 0.0),
    )
    ladders = [
        h
        for h in (
            reading.ttft,
            reading.tpot,
            reading.queue_time,
            reading.duration,
            reading.prompt_tokens,
            reading.output_tokens,
        )
        if h is not None
    ]
    assert all(map(sound, numbers))
    assert all(sound(h.sum) and sound(h.count) for h in ladders)
    assert all(list(h.counts) == sorted(h.counts) and len(h.counts) == len(h.edges) + 1 for h in ladders)
    assert all(list(h.edges) == sorted(set(h.edges)) for h in ladders)
