"""Some past time's load, as a real Prometheus remembers it, and what is made of its answers."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

import pytest
from aiohttp import web

from scaler.engines import ENGINES
from scaler.errors import ConfigError, SourceError
from scaler.sim.traces import Assumed
from scaler.sim.traffic import Lengths, Rated, Spread, Stream
from scaler.sources.prometheus_api import Course, Grid, PrometheusApi, PrometheusSettings
from scaler.sources.prometheus_range import KIND, REFUSED, Courses, Past, load, past_load, queries
from tests.support.engines import PageEngine, listening
from tests.support.prometheus import prometheus

VLLM, SGLANG = ENGINES["vllm"], ENGINES["sglang"]
NAMES = ("llama-0", "llama-1")
STARTED_PER_S, QUEUED_PER_S, PROMPT, OUTPUT = 20.0, 5.0, 300, 40
PAGE = """\
vllm:num_requests_running{{engine="0",model_name="tiny"}} 80
vllm:num_requests_waiting{{engine="0",model_name="tiny"}} {waiting}
vllm:num_requests_waiting_by_reason{{engine="0",model_name="tiny",reason="capacity"}} {waiting}
vllm:generation_tokens_total{{engine="0",model_name="tiny"}} {output}
vllm:time_to_first_token_seconds_count{{engine="0",model_name="tiny"}} {started}
vllm:time_to_first_token_seconds_count{{engine="0",model_name="other"}} {other}
vllm:request_prompt_tokens_sum{{engine="0",model_name="tiny"}} {prompt}
vllm:request_prompt_tokens_count{{engine="0",model_name="tiny"}} {started}
"""


@dataclass(kw_only=True)
class BusyEngine(PageEngine):
    """More requests enter than it can start: its queue grows."""

    clock: Callable[[], float] = perf_counter
    since: float = field(default_factory=perf_counter)
    seen: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def answer(self, request: web.Request) -> web.Response:
        age_s = self.clock() - self.since
        started = STARTED_PER_S * age_s
        async with self.seen:
            self.scrapes += 1
            self.seen.notify_all()
        numbers = {"started": started, "prompt": PROMPT * started, "output": OUTPUT * started, "other": 99 * started}
        return web.Response(text=PAGE.format(waiting=QUEUED_PER_S * age_s, **numbers), content_type="text/plain")

    async def scraped(self, times: int) -> None:
        async with self.seen:
            await self.seen.wait_for(lambda: self.scrapes >= times)


async def test_a_real_prometheus_tells_the_load_of_a_model_over_all_its_pods(tmp_path):
    engines = [BusyEngine(), BusyEngine()]
    async with listening(engines[0]) as one, listening(engines[1]) as other:
        scraped = {f"prod/{NAMES[0]}": one, f"prod/{NAMES[1]}": other, "else/llama-0": one}
        async with prometheus(tmp_path, scraped, interval="200ms") as running:
            api = PrometheusApi(PrometheusSettings(running.url, interval_s=0.25), perf_counter)
            await engines[1].scraped(45)
            answer = await asyncio.to_thread(api.query, "time()", perf_counter() + 5)
            now = int(answer.samples[0].value)
            past = Past(VLLM, "prod", "tiny", now - 7, now - 1, 2)
            trace = await asyncio.to_thread(past_load, api, past, Assumed("chat"))
            nobody = Past(VLLM, "prod", "huge", now - 7, now - 1, 2)
            with pytest.raises(ConfigError, match="no first tokens of model huge in namespace prod then; compare"):
                await asyncio.to_thread(past_load, api, nobody)
            await running.kill()
            with pytest.raises(SourceError, match="connection refused"):
                await asyncio.to_thread(past_load, api, past)
            await api.close()

    assert isinstance(trace.traffic, Rated)
    (stream,) = trace.traffic.streams
    assert (trace.file, trace.kind, trace.traffic.duration_s, trace.notes) == ("prod/tiny", KIND, 6.0, (REFUSED,))
    assert (stream.request_class, stream.spread) == ("chat", Spread.COUNTED)
    assert stream.lengths == Lengths(PROMPT, OUTPUT)
    assert [at for at, _ in stream.rates] == [0.0, 2.0, 4.0]
    mean_per_s = sum(rate for _, rate in stream.rates) / 3
    assert mean_per_s == pytest.approx(2 * (STARTED_PER_S + QUEUED_PER_S), rel=0.15)


PAST = Past(VLLM, "prod", "llama", 1_000_000, 1_000_240, 60)


def course(*values: float | None, partial: str = "") -> Course:
    return Course({index: value for index, value in enumerate(values) if value is not None}, partial)


USUAL = Lengths()


def stream(*rates: tuple[float, float], lengths: Lengths = USUAL) -> Rated:
    return Rated((Stream("default", rates, lengths, spread=Spread.COUNTED),), 240.0)


ASSUMED = "Prometheus does not tell how long requests were; lengths were assumed"


@pytest.mark.parametrize(
    ("courses", "traffic", "notes"),
    [
        pytest.param(
            Courses(
                course(9, 10, 10, 10, 10),
                course(0, 0, 600, 600, 0),
                course(900, 1000, 1000, 1000, 1000),
                course(9000, 10000, 10000, 10000, 10000),
                course(9, 10, 10, 10, 10),
            ),
            stream((0.0, 10.0), (60.0, 20.0), (120.0, 10.0), (180.0, 0.0), lengths=Lengths(1000, 100)),
            (REFUSED,),
            id="what begins to wait was offered, what was waiting was offered before",
        ),
        pytest.param(
            Courses(course(None, None, 10, None, 30), course(0, 0, 0, 0, 0)),
            stream((0.0, 10.0), (180.0, 30.0)),
            (REFUSED, "2 of 4 steps have no sample; the rate beside them was held", ASSUMED),
            id="a hole is no silence",
        ),
        pytest.param(
            Courses(course(10, 10, 10, 10, 10), course(0, None, 600, 660, 660)),
            stream((0.0, 10.0), (60.0, 10.0), (120.0, 11.0), (180.0, 10.0)),
            (REFUSED, ASSUMED),
            id="a queue that is not known has not grown",
        ),
        pytest.param(
            Courses(course(10, 10, 10, 10, 10), course(0, 0, 0, 0, 0, partial="store-7 is away")),
            stream((0.0, 10.0), (60.0, 10.0), (120.0, 10.0), (180.0, 10.0)),
            (REFUSED, "the answer is partial: store-7 is away", ASSUMED),
            id="partial",
        ),
    ],
)
def test_courses_become_traffic(courses, traffic, notes):
    trace = load(PAST, courses)
    assert (trace.traffic, trace.notes) == (traffic, notes)


def test_a_load_that_prometheus_does_not_know_is_refused():
    with pytest.raises(ConfigError) as refused:
        load(PAST, Courses(course(), course()))
    assert str(refused.value) == (
        "range: Prometheus has no first tokens of model llama in namespace prod then; "
        "compare the times, labels.namespace and labels.pod with its own graph of the engine's metrics"
    )


def test_names_from_outside_are_quoted_and_copies_of_a_series_count_once():
    settings = PrometheusSettings("http://prometheus", namespace_label="ns", pod_label="exported_pod")
    asked = queries(Past(SGLANG, 'a"b', None, 0, 3600, 30), settings)
    assert asked.waiting == (
        "sum(sum by (ns, exported_pod) (max by (ns, exported_pod, model_name, dp_rank) "
        '({__name__="sglang:num_queue_reqs",ns="a\\"b",priority=~""}))'
        " or sum by (ns, exported_pod) (max by (ns, exported_pod, model_name, dp_rank) "
        '({__name__="sglang_num_queue_reqs",ns="a\\"b",priority=~""})))'
    )
    assert 'rate({__name__="sglang:time_to_first_token_seconds_count",ns="a\\"b",priority=~""}[60s])' in (
        asked.first_tokens_per_s
    )


@pytest.mark.parametrize(
    ("begins_at", "ends_at", "step_s", "says"),
    [
        pytest.param(0, 100, 0, "step: at least 1 s is needed", id="no step"),
        pytest.param(0, 100, 60, "range: it must end at least two steps (120 s) after it begins", id="too short"),
        pytest.param(100, 0, 15, "range: it must end at least two steps (30 s) after it begins", id="backwards"),
        pytest.param(0, 86400 * 7, 15, "step: for so long a range at least 61 s are needed", id="too many steps"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused(begins_at, ends_at, step_s, says):
    with pytest.raises(ConfigError) as refused:
        Past(VLLM, "prod", "llama", begins_at, ends_at, step_s)
    assert str(refused.value) == says


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param({"status": "error", "errorType": "bad_data", "error": "no"}, "bad_data: no", id="refused"),
        pytest.param(
            {"status": "success", "data": {"result": [{"values": []}, {"values": []}]}},
            "2 series instead of one",
            id="several series",
        ),
        pytest.param(
            {"status": "success", "data": {"result": [{"values": [[1, "one"]]}]}},
            "result is no matrix of numbers",
            id="words",
        ),
        pytest.param(
            {"status": "success", "data": {"result": [{"value": [1, "1"]}]}},
            "result is no matrix of numbers",
            id="vector",
        ),
    ],
)
async def test_an_answer_that_is_no_course_is_a_reason(answer, says):
    with pytest.raises(SourceError, match=says):
        await asked(answer)


async def test_a_course_keeps_only_finite_numbers_and_says_what_the_answer_lacks():
    values = [[1000, "1"], [1060, "NaN"], [1120.0, "+Inf"], [1180, "2.5"]]
    found = await asked({"status": "success", "warnings": ["one is away"], "data": {"result": [{"values": values}]}})
    assert found == Course({0: 1.0, 3: 2.5}, "one is away")


async def asked(answer: object) -> Course:
    """What the API makes of one answer to a range query."""

    async def answering(request: web.Request) -> web.Response:
        form = await request.post()
        assert (form["query"], form["start"], form["end"], form["step"]) == ("up", "1000", "1180", "60")
        return web.json_response(answer)

    app = web.Application()
    app.router.add_post("/api/v1/query_range", answering)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    api = PrometheusApi(PrometheusSettings(f"http://{host}:{port}"), perf_counter)
    try:
        return await asyncio.to_thread(api.query_range, "up", Grid(1000, 1180, 60), perf_counter() + 5)
    finally:
        await api.close()
        await runner.cleanup()
