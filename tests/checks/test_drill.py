"""The drill, against an emulated replica behind a door that refuses."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from typer.testing import CliRunner

from scaler.checks import Drill, Facts, Verdict, examine
from scaler.cli.check_drill import MOST_REQUESTS, Burst, models, p99, run
from scaler.cli.commands import app
from scaler.core.model import RequestClass, WorkloadKey
from scaler.demo.scenario import MODEL
from scaler.demo.server import serving as replica
from scaler.errors import ConfigError
from tests.checks.good import launch
from tests.support.decisions import SPEC
from tests.support.served import serving

ALLOWED = 4
KEY = WorkloadKey("prod", "llama")
PATIENT = replace(SPEC, classes=(RequestClass("chat", ttft_s=60.0),))
"""No objective that a busy machine could break."""
Refusal = Callable[[int], web.Response]


def told(number: int) -> web.Response:
    return web.Response(status=429, headers={"Retry-After": str(1 + number % 2)})


def untold(_: int) -> web.Response:
    return web.Response(status=503)


@asynccontextmanager
async def endpoint(refusal: Refusal = told, allowed: int = ALLOWED) -> AsyncIterator[str]:
    """One replica, and a door that lets in so many at once."""
    inside, refused = 0, 0

    async with replica("llm-0", asyncio.get_running_loop().time) as served, aiohttp.ClientSession() as session:

        async def door(request: web.Request) -> web.StreamResponse:
            nonlocal inside, refused
            if request.method == "POST" and inside >= allowed:
                refused += 1
                return refusal(refused)
            inside += 1
            try:
                return await _passed_on(session, request, served.address)
            finally:
                inside -= 1

        front = web.Application()
        front.add_routes([web.route("*", "/{path:.*}", door)])
        async with serving(front) as client:
            yield str(client._base_url).rstrip("/")


async def _passed_on(session: aiohttp.ClientSession, request: web.Request, address: str) -> web.StreamResponse:
    async with session.request(request.method, f"http://{address}{request.path}", data=await request.read()) as answer:
        response = web.StreamResponse(status=answer.status)
        await response.prepare(request)
        async for piece in answer.content.iter_any():
            await response.write(piece)
        return response


def burst(url: str, **more: Any) -> Burst:
    return replace(Burst(url, MODEL, at_once=20, seconds=3.0, tokens=4), **more)


def verdicts(drill: Drill) -> dict[str, Verdict]:
    found = examine(Facts(KEY, spec=PATIENT, drill=drill))
    return {one.code: one.verdict for one in found if one.code in {"SC07", "SC08", "SC09"}}


async def test_a_door_that_refuses_well_is_verified():
    async with endpoint() as url:
        drill = await run(burst(url))
    assert verdicts(drill) == {"SC07": Verdict.PASSES, "SC08": Verdict.UNKNOWN, "SC09": Verdict.PASSES}
    assert drill.statuses.keys() == {200, 429}
    assert set(drill.waits_s) == {1, 2}
    assert (drill.sent, drill.broken, drill.admitted) == (sum(drill.statuses.values()), 0, drill.statuses[200])
    assert 0 <= drill.welcomed <= drill.returned
    assert drill.returned > 0


async def test_a_door_that_names_no_time_is_found_out():
    async with endpoint(untold) as url:
        drill = await run(burst(url, seconds=2.0))
    assert verdicts(drill)["SC07"] is Verdict.FAILS
    assert (set(drill.waits_s), drill.returned) == ({None}, 0)


async def test_an_endpoint_that_refuses_nobody_verifies_nothing():
    async with endpoint(allowed=1000) as url:
        drill = await run(burst(url, seconds=2.0))
    assert verdicts(drill) == dict.fromkeys(("SC07", "SC08", "SC09"), Verdict.UNKNOWN)
    assert drill.refusing_p99_s is None


async def test_no_more_is_sent_than_was_said():
    async with endpoint(allowed=0) as url:
        drill = await run(burst(url, most=40))
    assert (drill.sent, drill.refused) == (40, 40)


async def test_an_endpoint_that_serves_no_chat_is_an_error_before_the_burst():
    app_ = web.Application()
    async with serving(app_) as client:
        with pytest.raises(ConfigError, match="/v1/chat/completions: HTTP 404"):
            await run(burst(str(client._base_url).rstrip("/")))


async def test_the_model_is_that_which_the_endpoint_lists():
    async with endpoint() as url:
        assert await models(url, None) == [MODEL]


async def test_the_command_says_what_it_will_send_and_does_not_start_unasked(tmp_path):
    folder = launch().write(tmp_path)
    async with endpoint() as url:
        result = await asyncio.to_thread(CliRunner().invoke, app, ["check", str(folder), "--drill", f"{url}/v1"])
    assert isinstance(result.exception, ConfigError)
    assert result.exception.faults == ("--drill: not started; --yes starts it without asking",)
    assert result.stderr == (
        f"slo-scaler check: the drill sends up to 32 requests at once for 20 s (at most {MOST_REQUESTS}), 64 tokens each, to {url}, "
        f"model {MODEL}\n"
    )


async def test_the_command_verifies_by_a_drill_what_files_cannot_tell(tmp_path):
    folder = launch(lambda m: m.metadata.update(ttftSloSeconds="60")).write(tmp_path)
    async with endpoint() as url:
        options = ["--drill", url, "--yes", "--seconds", "3", "--concurrency", "20", "--tokens", "4", "--json"]
        result = await asyncio.to_thread(CliRunner().invoke, app, ["check", str(folder), *options])
    findings = {one["code"]: one for one in json.loads(result.stdout)["workloads"][0]["findings"]}
    assert [(findings[code]["verdict"], findings[code]["basis"]) for code in ("SC07", "SC09")] == [
        ("pass", "verified")
    ] * 2


def test_the_99th_percentile_of_few_is_the_largest():
    assert (p99([]), p99([1.0, 3.0, 2.0]), p99([float(n) for n in range(1, 201)])) == (None, 3.0, 198.0)
