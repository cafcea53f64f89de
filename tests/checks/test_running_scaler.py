"""The explanation of a running scaler as facts."""

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from scaler.api.http import Ops, ops_app
from scaler.api.render import explain_body
from scaler.checks import Live, LiveClass
from scaler.cli.check_scaler import ask, live_of
from scaler.cli.commands import app
from scaler.core.counted import ClassCounted, Counted
from scaler.core.decision import Decision, Pending
from scaler.core.model import Absent, WorkloadKey
from scaler.errors import ConfigError
from tests.checks.good import launch
from tests.support import decisions
from tests.support.served import serving, view_of

KEY = WorkloadKey("prod", "llama")


def explained(decision: Decision) -> Live:
    return live_of(json.loads(json.dumps(explain_body(decision, 39.0), allow_nan=False)))


def test_an_explanation_is_understood():
    live = explained(decisions.red())
    assert (live.blind, live.read, live.missing, live.absent, live.samples, live.origin, live.max_replicas) == (
        *(False, 2, (), (), 0, "prior", 10),
    )
    assert live.classes[0] == LiveClass("chat", "enforce", "RED", 2.0, live.classes[0].admit_ratio)
    assert live.signals["waiting"] == decisions.red().estimate.waiting


def test_what_is_idle_or_unknown_stays_that():
    signals = explained(decisions.green()).signals
    assert (signals["tpot_s"], signals["queue_time_s"]) == (Absent.UNKNOWN, Absent.UNKNOWN)


def test_an_endless_wait_is_no_unknown():
    body = json.loads(json.dumps(explain_body(decisions.green(), 39.0)))
    body["signals"].append({"name": "eta_s", "value": "inf"})
    assert live_of(body).signals["eta_s"] == math.inf


@asynccontextmanager
async def scaler(*outcomes: Decision | Pending) -> AsyncIterator[str]:
    """Where a scaler explains these."""
    async with serving(ops_app(Ops(view_of(*outcomes), CollectorRegistry(), lambda: True))) as client:
        yield str(client._base_url).removeprefix("http://").rstrip("/")


async def test_a_running_scaler_is_asked():
    async with scaler(decisions.red()) as ops:
        live, why = await asyncio.to_thread(ask, ops, KEY)
    assert (live, why) == (replace(explained(decisions.red()), spec=decisions.SPEC), "")


async def test_what_its_gates_counted_is_a_fact():
    counted = ClassCounted("chat", admitted=90, admitted_retries=5, refused=10, refused_retries=4)
    view = replace(view_of(decisions.red()), asked=lambda key: Counted((counted,) if key == KEY else ()))
    async with serving(ops_app(Ops(view, CollectorRegistry(), lambda: True))) as client:
        live, _ = await asyncio.to_thread(ask, str(client._base_url), KEY)
    assert live is not None
    assert live.asked == (counted,)


async def test_a_workload_that_it_does_not_know_is_no_fact():
    async with scaler(decisions.red()) as ops:
        told = await asyncio.to_thread(ask, ops, WorkloadKey("prod", "other"))
    assert (told[0], told[1].partition(": ")[0], told[1].endswith("; there is prod/llama")) == (
        *(None, f"the scaler at {ops} does not know prod/other", True),
    )


async def test_where_only_a_scaler_is_asked_that_knows_nothing_nothing_was_checked():
    async with scaler(decisions.red()) as ops:
        result = await asyncio.to_thread(CliRunner().invoke, app, ["check", "-w", "prod/other", "--ops", ops])
    assert isinstance(result.exception, ConfigError)
    assert [fault.partition(": http")[0] for fault in result.exception.faults] == [
        f"--ops: the scaler at {ops} does not know prod/other"
    ]


async def test_a_workload_without_a_decision_is_no_fact():
    async with scaler(decisions.pending()) as ops:
        live, why = await asyncio.to_thread(ask, ops, KEY)
    assert (live, why.partition(": ")[2].partition(":")[0]) == (None, "the scaler has no decision yet")


async def test_where_no_scaler_answers_is_an_error_that_names_the_option():
    async with scaler() as ops:
        pass
    with pytest.raises(ConfigError, match=f"--ops: nothing answers at http://{ops}/v1/explain/prod/llama"):
        await asyncio.to_thread(ask, ops, KEY)


async def test_an_explanation_of_another_version_is_an_error():
    async def other(_: web.Request) -> web.Response:
        return web.json_response({"binding": {}})

    stranger = web.Application()
    stranger.add_routes([web.get("/{path:.*}", other)])
    async with serving(stranger) as client:
        with pytest.raises(ConfigError, match="gives no explanation of this version"):
            await asyncio.to_thread(ask, str(client._base_url), KEY)


async def test_the_command_puts_files_and_scaler_together(tmp_path):
    folder = launch().write(tmp_path)
    async with scaler(decisions.red()) as ops:
        result = await asyncio.to_thread(CliRunner().invoke, app, ["check", str(folder), "--ops", ops, "--json"])
    findings = {one["code"]: one["verdict"] for one in json.loads(result.stdout)["workloads"][0]["findings"]}
    assert {code: findings[code] for code in ("SC04", "T03", "T41", "T42")} == {
        "SC04": "warn",
        "T03": "pass",
        "T41": "pass",
        "T42": "pass",
    }


async def test_a_running_scaler_alone_tells_what_a_person_decided():
    async with scaler(decisions.red()) as ops:
        arguments = ["check", "-w", "prod/llama", "--ops", ops, "--json"]
        result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    findings = {one["code"]: one["verdict"] for one in json.loads(result.stdout)["workloads"][0]["findings"]}
    assert [findings[code] for code in ("SC01", "SC06", "SC07", "SC10", "SC11", "T01")] == ["pass"] * 6
