"""A Prometheus whose answers are damaged: each replica has a sound reading or a reason, and nothing is raised."""

import json
from pathlib import Path
from time import perf_counter

from aiohttp import web
from hypothesis import given, settings

from scaler.control.ports import Ask, Target
from scaler.core.model import WorkloadKey
from scaler.engines import ENGINES
from scaler.sources.prometheus import PrometheusApi, PrometheusSettings, PrometheusSource
from tests.support.damage import DAMAGES, damaged
from tests.support.hostile import sound
from tests.support.prometheus_fake import NOW, FakePrometheus, evaluated, faking, page_series, vector

PAGE = Path(__file__).parents[1] / "data" / "metrics" / "0.32.0-03-overload-40-streams.prom"
SERIES = [
    one
    for pod in "ab"
    for one in page_series(PAGE.read_bytes(), pod)
    if "vllm" in one[0]["__name__"] or one[0]["__name__"] == "up"
]
ASK = Ask(WorkloadKey("prod", "llama"), ENGINES["vllm"], (Target("a", ""), Target("b", "")))
FEW = settings(max_examples=max(10, settings().max_examples // 20))
"""Each example is a server and a poll."""


def by_rows(body: dict) -> bytes:
    """A row a line, so that damages meet rows."""
    return json.dumps(body).replace("}, {", "},\n {").encode()


@FEW
@given(DAMAGES)
async def test_a_damaged_answer_is_a_sound_reading_or_a_reason(damages):
    async def misbehave(request):
        query = str((await request.post())["query"])
        body = by_rows(vector(evaluated(query, SERIES), NOW))
        return web.Response(body=damaged(body, damages), content_type="application/json")

    async with faking(FakePrometheus(SERIES, misbehave=misbehave)) as fake:
        api = PrometheusApi(PrometheusSettings(fake.url), perf_counter)
        source = PrometheusSource(api, perf_counter)
        scrape = await source.read(ASK)
        await source.close()
        await api.close()

    for reading in scrape.readings:
        sound(reading)
    told = [*(reading.replica for reading in scrape.readings), *(one.replica for one in scrape.missing)]
    assert (sorted(told), all(one.why for one in scrape.missing)) == (["a", "b"], True)
