"""The metrics that alerts and dashboards are tried on are those that the process serves."""

from __future__ import annotations

import asyncio
import io
import json
import re

import aiohttp
from prometheus_client import generate_latest

from scaler.app import Wiring, running
from scaler.settings import Ports, parse_configuration
from scaler.sources.targets import ConfiguredReplicas
from tests.support.exported import page

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
