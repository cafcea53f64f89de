"""Every form of trace gives the requests that stand in it; a file that does not says where, what is wrong and what to do."""

import gzip
from collections import Counter
from pathlib import Path

import pytest

from scaler.errors import ConfigError
from scaler.sim.traces import Assumed, Trace, read
from scaler.sim.traces.stamps import seconds
from scaler.sim.traffic import Arrival, Lengths, Rated, Requests, Stream

DATA = Path(__file__).resolve().parents[1] / "data" / "traces"
CHAT = Assumed(request_class="chat", lengths=Lengths(300, 30))
NOT_USED = "hash_ids were not used: every prompt is computed whole, as without a prefix cache"


def sample(name: str) -> bytes:
    return (DATA / name).read_bytes()


def rows(*each: tuple[float, int, int]) -> tuple[Arrival, ...]:
    return tuple(Arrival(at, "chat", prompt, output) for at, prompt, output in each)


@pytest.mark.parametrize(
    ("name", "kind", "traffic", "notes"),
    [
        pytest.param(
            "azure.csv",
            "Azure",
            Requests(rows((0.0, 374, 44), (1.25, 1396, 109), (4.0, 91, 16)), 6.0),
            ("1 rows without prompt or generated tokens were left out",),
            id="azure over midnight",
        ),
        pytest.param(
            "burstgpt.csv",
            "BurstGPT",
            Requests(rows((0.0, 472, 18), (40.0, 1087, 230), (120.0, 1360, 35)), 180.0),
            ("1 requests that failed (25.0%) were left out: they have no response tokens",),
            id="burstgpt",
        ),
        pytest.param(
            "burstgpt-sessions.csv",
            "BurstGPT",
            Requests(rows((0.0, 472, 18), (40.0, 1087, 230)), 80.0),
            (),
            id="burstgpt with sessions",
        ),
        pytest.param(
            "mooncake.jsonl",
            "Mooncake",
            Requests(rows((0.0, 6758, 500), (0.0, 7322, 490), (3.052, 17449, 12)), 4.578),
            (NOT_USED,),
            id="mooncake",
        ),
        pytest.param(
            "rates.csv",
            "rates by window",
            Rated((Stream("chat", ((0.0, 2.5), (600.0, 5.0), (1200.0, 0.0)), Lengths(300, 30)),), 1800.0),
            ("not used: active_clients",),
            id="rates",
        ),
    ],
)
@pytest.mark.parametrize("packed", [pytest.param(gzip.compress, id="gzip"), pytest.param(bytes, id="plain")])
def test_a_trace_is_known_by_its_content(name, kind, traffic, notes, packed):
    assert read(name, packed(sample(name)), CHAT) == Trace(name, kind, traffic, notes)


def test_rows_of_a_plain_csv_may_have_classes_of_their_own():
    found = read("plain.csv", sample("plain.csv"), CHAT)
    expected = (Arrival(0.0, "chat", 178, 8), Arrival(0.5, "agent", 258, 40), Arrival(2.0, "chat", 210, 40))
    assert found == Trace("plain.csv", "a plain CSV", Requests(expected, 3.0))


def test_rows_need_not_be_in_order_of_time():
    shuffled = b"t_s,in_tokens,out_tokens\n7,3,3\n5,1,1\n6,2,2\n"
    assert read("x", shuffled, CHAT).traffic == Requests(rows((0.0, 1, 1), (1.0, 2, 2), (2.0, 3, 3)), 3.0)


def test_windows_lines_a_mark_of_byte_order_and_numbers_with_a_point_are_read():
    written = b"\xef\xbb\xbft_s,in_tokens,out_tokens\r\n1.5,10.0,2.0\r\n\r\n2.5,11.0,3.0\r\n"
    assert read("x", written, CHAT).traffic == Requests(rows((0.0, 10, 2), (1.0, 11, 3)), 2.0)


def test_all_members_of_a_gzip_file_are_read():
    head, tail = sample("azure.csv")[:60], sample("azure.csv")[60:]
    assert read("x", gzip.compress(head) + gzip.compress(tail)) == read("x", sample("azure.csv"))


def test_a_single_request_is_a_trace_of_a_second():
    assert read("x", b"t_s,in_tokens,out_tokens\n9,10,2\n", CHAT).traffic == Requests(rows((0.0, 10, 2)), 1.0)


def test_windows_of_rates_give_as_many_requests_as_they_say_and_none_in_silence():
    coming = list(read("rates.csv", sample("rates.csv"), CHAT).traffic.arrivals(seed=1))
    windows = Counter(int(arrival.at // 600) for arrival in coming)
    assert windows == {0: pytest.approx(1500, rel=0.1), 1: pytest.approx(3000, rel=0.1)}


PLAIN, AZURE = b"t_s,in_tokens,out_tokens\n", b"TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURST = b"Timestamp,Model,Request tokens,Response tokens\n"
MANY = "a number of tokens is needed here, up to 10,000,000"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(PLAIN + b"1,5,5\nsoon,5,5\n", "x, line 3: t_s: a number of seconds is needed here", id="time"),
        pytest.param(PLAIN + b"nan,5,5\n", "x, line 2: t_s: a number of seconds is needed here", id="nan"),
        pytest.param(PLAIN + b"1,five,5\n", f"x, line 2: in_tokens: {MANY}", id="word"),
        pytest.param(PLAIN + b"1,-5,5\n", f"x, line 2: in_tokens: {MANY}", id="negative"),
        pytest.param(PLAIN + b"1,5\n", f"x, line 2: out_tokens: {MANY}", id="cell missing"),
        pytest.param(PLAIN + b"1,5,1e30\n", f"x, line 2: out_tokens: {MANY}", id="too many"),
        pytest.param(
            b"t_s,in_tokens,out_tokens,class\n1,5,5\n",
            "x, line 2: class: missing; every row needs as many cells as the first line",
            id="class missing",
        ),
        pytest.param(
            b"t_s,in_tokens,out_tokens,clas\n", "x, line 1: clas: unknown column, did you mean class?", id="typo"
        ),
        pytest.param(
            b"t_s,in_tokens\n1,5\n",
            "x, line 1: no column out_tokens; the first line must name t_s, in_tokens, out_tokens",
            id="column missing",
        ),
        pytest.param(
            PLAIN, "x: holds no request that has a prompt and an output; give a trace with requests", id="none"
        ),
        pytest.param(
            AZURE + b"2026-02-30 25:00:00,5,5\n",
            "x, line 2: timestamp: a time such as 2026-01-31 23:59:59.5 is needed here",
            id="stamp",
        ),
        pytest.param(BURST + b"1,GPT-4,,5\n", f"x, line 2: request tokens: {MANY}", id="empty cell"),
        pytest.param(
            b'{"timestamp": 1, "input_length": 5}\n',
            "x, line 1: output_length: a number of tokens is needed here, from 0 to 10,000,000",
            id="mooncake",
        ),
        pytest.param(
            b'{"timestamp": 1, "input_length": 5, "output_length": 5}\n{"timest',
            "x, line 2: no JSON object; was the file cut short?",
            id="mooncake cut short",
        ),
        pytest.param(
            b"t_s,rate_per_s\n0,1\n0,2\n",
            "x, line 3: t_s: a number of seconds above that of the line before is needed here",
            id="windows not in order",
        ),
        pytest.param(
            b"t_s,rate_per_s\n0,-1\n",
            "x, line 2: rate_per_s: a number of requests a second is needed here, up to 1,000,000",
            id="negative rate",
        ),
        pytest.param(
            b"t_s,rate_per_s\n0,1\n",
            "x: a single window; give two at least: the last lasts as long as the one before it",
            id="one window",
        ),
        pytest.param(
            gzip.compress(sample("azure.csv"))[:-12], "x: a gzip file that was cut short; copy it again", id="gzip cut"
        ),
        pytest.param(b"\x1f\x8b\x08damaged", "x: a damaged gzip file; copy it again", id="gzip damaged"),
        pytest.param(b"\xff\xfe\x00", "x: not text; give a CSV or JSON lines, plain or gzipped", id="binary"),
        pytest.param(
            gzip.compress(b" " * 2**20, mtime=0) * 257,
            "x: larger than 256 MB; cut it to the hours that you want to replay",
            id="a gzip bomb",
        ),
        pytest.param(
            b"when,who\n1,2\n",
            "x: not a trace: it begins with when, who; readable are Azure, BurstGPT, our decision log, Mooncake, rates by window, "
            "a plain CSV: give one, or write a CSV that begins with t_s,in_tokens,out_tokens",
            id="something else",
        ),
    ],
)
def test_what_cannot_be_used_says_where_and_what_to_do(content, says):
    with pytest.raises(ConfigError) as refused:
        read("x", content)
    assert str(refused.value) == says


def test_an_empty_file_is_no_trace():
    with pytest.raises(ConfigError, match=r"^x: not a trace: it begins with nothing"):
        read("x", b"")


@pytest.mark.parametrize(
    ("written", "at"),
    [
        pytest.param("1970-01-01 00:00:00", 0.0, id="the beginning"),
        pytest.param("2000-02-29T12:00:00Z", 951825600.0, id="a leap day of a century"),
        pytest.param("2023-11-16 18:17:03.9799600", 1700158623.97996, id="as Azure"),
        pytest.param("2026-01-01T00:00:00.000+00:00", 1767225600.0, id="as our log"),
        pytest.param("2026-01-01T01:30:00+01:30", 1767225600.0, id="east"),
        pytest.param("2025-12-31T19:00:00-0500", 1767225600.0, id="west"),
    ],
)
def test_a_point_in_time_is_seconds_since_1970(written, at):
    assert seconds(written) == pytest.approx(at, abs=1e-6)
