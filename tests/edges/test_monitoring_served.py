"""The metrics that alerts and dashboards are tried on are those that the process serves."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from scaler.app import Bound, Wiring, running
from scaler.core.decision import Decision, Pending
from scaler.core.model import WorkloadKey
from scaler.settings import Ports, parse_configuration
from scaler.sources.targets import ConfiguredReplicas
from tests.support.engines import OVERLOAD, PageEngine, listening
from tests.support.exported import page

KEY, TICK_S = WorkloadKey("prod", "llama"), 0.4  # shorter, and nobody believes that so many requests end in it
AFTER = "0.32.0-04-after-overload.prom"
WITH_TLS = {
    "slo_scaler_certificate_expiry_timestamp_seconds",
    "slo_scaler_certificate_reload_failing",
    "slo_scaler_tls_refused_total",
}


def families(text: str) -> set[str]:
    """Names of families; when a series began is told only of those that there are."""
    return {name for name in re.findall(r"^# TYPE (\S+)", text, re.MULTILINE) if not name.endswith("_created")}


async def test_the_process_serves_what_rules_and_dashboards_are_tried_on():
    configuration = parse_configuration(json.dumps({"profiles": {}}), 0.1)
    replicas = ConfiguredReplicas(configuration.targets, asyncio.get_running_loop().time)
    wiring = Wiring(configuration, Ports("127.0.0.1", 0, 0, 0, 0), replicas, None, io.StringIO())
    async with running(wiring) as bound, aiohttp.ClientSession() as session:
        answer = await session.get(f"http://127.0.0.1:{bound.ops_port}/metrics")
        served = families(await answer.text())
    assert served == families(generate_latest(page()).decode()) - WITH_TLS


CLASSES = {
    "chat": {"ttft_s": 2, "tpot_s": 0.1, "order": 0},
    "agent": {"ttft_s": 5, "order": 1},
    "batch": {"objective": "completion", "deadline_s": 86400, "order": 2},
}
METADATA = {"profile": "tiny", "gate": "enforce"}
PROFILES = {"tiny": {"safe_concurrency": 4, "safe_rate_per_s": 1.0, "unloaded_ttft_s": 0.1}}


def _measured(outcome: Decision | Pending | None, engine: PageEngine) -> bool:
    """Whether latencies are known: requests end only once the first look is over."""
    if isinstance(outcome, Decision):
        engine.page = AFTER
    return isinstance(outcome, Decision) and isinstance(outcome.estimate.queue_time_s, float)


@asynccontextmanager
async def served(engine: PageEngine, address: str, classes: list[str]) -> AsyncIterator[Bound]:
    """A scaler of one workload with these classes, once all that is measured of it is known."""
    workload = {"targets": [address], "metadata": METADATA | {"requestClasses": ",".join(classes)}}
    text = json.dumps({"profiles": PROFILES, "classes": CLASSES, "workloads": {"prod/llama": workload}})
    configuration = parse_configuration(text, TICK_S)
    replicas = ConfiguredReplicas(configuration.targets, asyncio.get_running_loop().time)
    async with running(Wiring(configuration, Ports("127.0.0.1", 0, 0, 0, 0), replicas, None, io.StringIO())) as bound:
        while not _measured(bound.board.latest(KEY), engine):
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=TICK_S / 4)
        yield bound


@pytest.mark.parametrize(("classes", "count"), [(["chat"], 43), (["chat", "agent", "batch"], 46)])
async def test_a_workload_has_so_many_series_and_more_only_where_somebody_asks_or_something_is_said(classes, count):
    engine = PageEngine(OVERLOAD)
    async with (
        listening(engine) as address,
        served(engine, address, classes) as bound,
        aiohttp.ClientSession() as http,
    ):
        for name in classes:
            await http.get(f"http://127.0.0.1:{bound.gate_port}/v1/admit/prod/llama?class={name}")
        text = await (await http.get(f"http://127.0.0.1:{bound.ops_port}/metrics")).text()
    found = Counter(
        sample.name
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("namespace") == "prod"
    )
    told = {name: many for name, many in found.items() if name.startswith(("slo_scaler_gate_", "slo_scaler_finding"))}
    assert sum(found.values()) - sum(told.values()) == count, sorted(found.items())
    assert {name: many for name, many in told.items() if "gate" in name} == {
        f"slo_scaler_gate_{name}_total": len(classes) for name in ("admitted", "refused", "would_refuse")
    }


async def test_the_explanation_tells_what_a_check_needs_of_traffic():
    engine = PageEngine(OVERLOAD)
    async with (
        listening(engine) as address,
        served(engine, address, ["chat"]) as bound,
        aiohttp.ClientSession() as http,
    ):
        for retries in ("0", "1", "2"):
            headers = {"x-stainless-retry-count": retries}
            await http.get(f"http://127.0.0.1:{bound.gate_port}/v1/admit/prod/llama", headers=headers)
        told = await (await http.get(f"http://127.0.0.1:{bound.ops_port}/v1/explain/prod/llama")).json()
    (asked,) = told["asked"]
    duration_s = next(one["value"] for one in told["signals"] if one["name"] == "duration_p99_s")
    assert asked["name"] == "chat"
    assert asked["admitted"] + asked["refused"] == 3
    assert asked["admitted_retries"] + asked["refused_retries"] == 2
    assert 10 < duration_s < 60
