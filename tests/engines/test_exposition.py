"""The text of a page to samples: both formats, every legal spelling, and anything else."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text_format

from scaler.core.model import Histogram, Reading
from scaler.engines import ENGINES
from scaler.engines.row import Sample, select
from scaler.sources.exposition import Wanted, parse, whole

VLLM = ENGINES["vllm"]
WANTED = Wanted.names(["vllm:waiting", "vllm:waiting_by_reason", "vllm:ttft_bucket"])


@pytest.mark.parametrize(
    ("line", "sample"),
    [
        pytest.param(b"vllm:waiting 12", Sample({}, 12.0), id="bare"),
        pytest.param(b"vllm:waiting{} 12", Sample({}, 12.0), id="empty-braces"),
        pytest.param(b" \tvllm:waiting \t12 ", Sample({}, 12.0), id="spaces"),
        pytest.param(b'vllm:waiting { a = "b" , c = "d" , } 12', Sample({"a": "b", "c": "d"}, 12.0), id="loose-labels"),
        pytest.param(b'vllm:waiting{a="x,y}z{ # 1"} 12', Sample({"a": "x,y}z{ # 1"}, 12.0), id="punctuation-in-value"),
        pytest.param(rb'vllm:waiting{a="\\\"\n\t"} 12', Sample({"a": '\\"\n\\t'}, 12.0), id="escapes"),
        pytest.param(rb'vllm:waiting{a="\\n"} 12', Sample({"a": "\\n"}, 12.0), id="escaped-backslash-before-n"),
        pytest.param('vllm:waiting{a="é"} 12'.encode(), Sample({"a": "é"}, 12.0), id="utf-8"),
        pytest.param(b'vllm:waiting{a="\xff"} 12', Sample({"a": "\ufffd"}, 12.0), id="not-utf-8"),
        pytest.param(b"vllm:waiting 12 1796047756000", Sample({}, 12.0), id="time-stamp"),
        pytest.param(b"vllm:waiting 12 1796047756.123", Sample({}, 12.0), id="fractional-time-stamp"),
        pytest.param(b'vllm:ttft_bucket{le="1"} 12 # {id="a"} 0.5 1.0', Sample({"le": "1"}, 12.0), id="exemplar"),
        pytest.param(b"vllm:waiting 1.25e+01", Sample({}, 12.5), id="exponent"),
        pytest.param(b"vllm:waiting +Inf", Sample({}, math.inf), id="inf"),
        pytest.param(b"vllm:waiting -Inf", Sample({}, -math.inf), id="minus-inf"),
    ],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_a_line_is_read_in_every_legal_spelling(line, sample, end):
    (found,) = parse(b"# HELP vllm:waiting 99" + end + line + end, WANTED).values()

    assert found == [sample]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"vllm:waiting NaN\n", id="nan"),
        pytest.param(b"vllm:waiting nan\n", id="small-nan"),
        pytest.param(b"vllm:waiting twelve\n", id="word"),
        pytest.param(b"vllm:waiting 1_2\n", id="underscore"),
        pytest.param(b"vllm:waiting 0x12\n", id="hexadecimal"),
        pytest.param(b"vllm:waiting\n", id="no-value"),
        pytest.param(b"vllm:waiting 1" + b"0" * 100 + b"\n", id="endless-number"),
        pytest.param(b"vllm:waiting 12 13 14\n", id="too-many-words"),
        pytest.param(b"vllm:waiting{a=b} 12\n", id="label-without-quotes"),
        pytest.param(b'vllm:waiting{a="b" 12\n', id="open-brace"),
        pytest.param(b'vllm:waiting{a="b} 12\n', id="open-quote"),
        pytest.param(b'vllm:waiting{a="b"c="d"} 12\n', id="no-comma"),
        pytest.param(b"vllm:waiting 12", id="cut-in-the-number"),
        pytest.param(b"vllm:waiting 12\r", id="cut-in-the-line-end"),
        pytest.param(b"vllm:waiting 1vllm:waiting_by_reason 2\n", id="two-lines-in-one"),
    ],
)
def test_a_line_that_is_no_number_reads_as_not_a_number(line):
    ((_, value),) = parse(line, WANTED)["vllm:waiting"]

    assert math.isnan(value)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"# TYPE vllm:waiting gauge\n", id="comment"),
        pytest.param(b"vllm:waiting_total 12\n", id="longer-name"),
        pytest.param(b"xvllm:waiting 12\n", id="longer-beginning"),
        pytest.param(b'other{a="\\nvllm:waiting 12"} 1\n', id="inside-a-label"),
        pytest.param(b"vllm:waitin", id="cut-in-the-name"),
    ],
)
def test_what_was_not_asked_for_is_not_read(page):
    assert parse(page, WANTED) == {}


def test_samples_keep_the_order_of_the_page():
    page = b'vllm:waiting{e="1"} 1\nvllm:waiting_by_reason 3\nvllm:waiting{e="0"} 2\n'

    assert parse(page, WANTED) == {
        "vllm:waiting": [Sample({"e": "1"}, 1.0), Sample({"e": "0"}, 2.0)],
        "vllm:waiting_by_reason": [Sample({}, 3.0)],
    }


def test_nothing_is_wanted_of_no_names():
    assert parse(b"vllm:waiting 1\n", Wanted.names([])) == {}


@pytest.mark.fault("half a page")
@pytest.mark.parametrize(
    ("page", "openmetrics_type", "expected"),
    [
        pytest.param(b"a 1\n", False, True, id="text"),
        pytest.param(b"a 1\r\n", False, True, id="text-crlf"),
        pytest.param(b"a 1", False, False, id="text-cut-in-a-line"),
        pytest.param(b"a 1\n# EOF", False, True, id="text-with-mark-and-no-line-end"),
        pytest.param(b"a 1\n# EOF\n", True, True, id="openmetrics"),
        pytest.param(b"a 1\n# EOF", True, True, id="openmetrics-without-line-end"),
        pytest.param(b"a 1\n", True, False, id="openmetrics-cut-between-lines"),
        pytest.param(b"a 1\n# EO", True, False, id="openmetrics-cut-in-the-mark"),
        pytest.param(b"", False, False, id="empty"),
    ],
)
def test_a_page_is_whole_if_its_end_is_there(page, openmetrics_type, expected):
    assert whole(page, openmetrics=openmetrics_type) is expected


FRAGMENTS = st.sampled_from(
    [b"vllm:waiting", b"vllm:ttft_bucket", b"{", b"}", b'"', b"\\", b"\n", b"\r", b" ", b"=", b",", b"le", b"1", b".5",
     b"#", b"NaN", b"\x00", b"\xff", b"_", b"e9"]
)  # fmt: skip


@pytest.mark.fault("engine reports what is no number")
@settings(deadline=None)
@given(page=st.one_of(st.binary(), st.lists(FRAGMENTS, max_size=60).map(b"".join)))
@example(page=b'vllm:waiting{a="' + b"\\" * 99_999)
@example(page=b'vllm:waiting{a="b",' * 50_000)
@example(page=b"\n" * 100_000)
@example(page=b" " * 100_000)
def test_any_bytes_give_samples_of_wanted_names_and_no_exception(page):
    assert set(parse(page, WANTED)) <= {"vllm:waiting", "vllm:waiting_by_reason", "vllm:ttft_bucket"}


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=8)
LABEL_SETS = st.dictionaries(st.sampled_from(["engine", "le", "reason", "model_name"]), TEXT, max_size=4)
ROWS = st.tuples(
    st.sampled_from(["vllm:waiting", "vllm:waiting_by_reason", "vllm:ttft_bucket", "other"]),
    LABEL_SETS,
    st.one_of(st.floats(allow_nan=False), st.integers(0, 10**6)),
)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def written(name: str, labels: dict[str, str], value: float) -> str:
    return name + "{" + ",".join(f'{label}="{escaped(text)}"' for label, text in labels.items()) + f"}} {value!r}\n"


@settings(deadline=None)
@given(rows=st.lists(ROWS, max_size=8))
def test_a_legal_page_gives_what_a_full_parser_gives(rows):
    page = "".join(written(*row) for row in rows)
    expected: dict[str, list[Sample]] = {}
    for family in text_format(page):
        for sample in family.samples:
            if sample.name != "other":
                expected.setdefault(sample.name, []).append(Sample(sample.labels, sample.value))

    assert parse(page.encode(), WANTED) == expected


OPENMETRICS = b"""\
# HELP vllm:num_requests_running running
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m",engine="0"} 3
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="m",engine="0"} 12 1796047756.5
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{model_name="m",engine="0"} 64 # {trace_id="a}1"} 0.5
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_sum{model_name="m",engine="0"} 1.0
vllm:time_to_first_token_seconds_count{model_name="m",engine="0"} 2
vllm:time_to_first_token_seconds_bucket{le="0.5",model_name="m",engine="0"} 1 # {trace_id="a}1"} 0.25 1796047756.1
vllm:time_to_first_token_seconds_bucket{le="1.0",model_name="m",engine="0"} 2
vllm:time_to_first_token_seconds_bucket{le="+Inf",model_name="m",engine="0"} 2
# EOF
"""


def test_openmetrics_gives_what_a_full_parser_gives():
    wanted = set(VLLM.sample_names)
    expected: dict[str, list[Sample]] = {}
    for family in openmetrics(OPENMETRICS.decode()):
        for sample in family.samples:
            if sample.name in wanted:
                expected.setdefault(sample.name, []).append(Sample(sample.labels, sample.value))

    assert parse(OPENMETRICS, Wanted.names(wanted)) == expected


def test_a_page_of_the_rust_front_end_is_read():
    # It answers in OpenMetrics, with whole numbers, and has no sleep state and no rejections.
    page = OPENMETRICS.replace(b'le="1.0"', b'le="1"')

    assert (whole(page, openmetrics=True), select(VLLM, parse(page, Wanted.of(VLLM)), "pod-0", 1.0)) == (
        True,
        Reading(
            replica="pod-0",
            observed_at=1.0,
            running=3.0,
            waiting=12.0,
            generation_tokens_total=64.0,
            ttft=Histogram((0.5, 1.0), (1.0, 2.0, 2.0), 1.0),
        ),
    )


SIMULATOR = b"""\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 2
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="m"} 7
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{model_name="m"} 0.25
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{model_name="m",le="0.5"} 1
vllm:time_to_first_token_seconds_bucket{model_name="m",le="+Inf"} 2
vllm:time_to_first_token_seconds_sum{model_name="m"} 0.75
vllm:time_to_first_token_seconds_count{model_name="m"} 2
"""


def test_a_page_of_the_llm_d_simulator_without_engine_labels_is_read():
    assert select(VLLM, parse(SIMULATOR, Wanted.of(VLLM)), "pod-0", 1.0) == Reading(
        replica="pod-0",
        observed_at=1.0,
        running=2.0,
        waiting=7.0,
        kv_usage_ratio=0.25,
        ttft=Histogram((0.5,), (1.0, 2.0), 0.75),
    )
