"""The scaler as a process: its signals, its exit codes, its log."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import grpc
import pytest

from scaler.api.keda_client import AioKedaClient, ScaledObject
from scaler.core.model import WorkloadKey
from tests.support.engines import PageEngine, listening

KEY = WorkloadKey("prod", "llama")
SECTIONS = "access, classes, cluster, demand, prices, profiles, prometheus, scrape, server, tenants, workloads"
ANY_PORT = {f"SLO_SCALER_{name}_PORT": "0" for name in ("KEDA", "GATE", "OPS", "AUTHZ")}
CONFIGURATION = """
profiles: {{tiny: {{safe_concurrency: 4, safe_rate_per_s: 1.0}}}}
workloads:
  prod/llama: {{targets: ["{address}"], metadata: {{profile: tiny, ttftSloSeconds: "5"}}}}
"""


@dataclass
class Scaler:
    process: asyncio.subprocess.Process
    ports: dict[str, int]

    async def line(self, event: str) -> dict:
        """The next log line of that event."""
        assert self.process.stdout is not None
        while True:
            line = json.loads(await self.process.stdout.readline())
            if line["event"] == event:
                return line


async def launch(*arguments: str) -> asyncio.subprocess.Process:
    environment = {**os.environ, **ANY_PORT, "SLO_SCALER_HOST": "127.0.0.1"}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "scaler", *arguments,
        env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


@asynccontextmanager
async def serving(path) -> AsyncIterator[Scaler]:
    process = await launch("serve", "--config", str(path), "--tick", "0.1")
    scaler = Scaler(process, {})
    try:
        scaler.ports = await scaler.line("listening")
        yield scaler
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.fault("SIGTERM under load")
async def test_sigterm_ends_streams_with_ok_and_the_process_with_0(tmp_path):
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(listening(PageEngine()))
        path = tmp_path / "slo-scaler.yaml"
        path.write_text(CONFIGURATION.format(address=address))
        scaler = await stack.enter_async_context(serving(path))
        await scaler.line("decision")
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{scaler.ports['keda']}")
        client = AioKedaClient(await stack.enter_async_context(channel))
        stream = client.stream_is_active(ScaledObject(KEY))
        first = await anext(stream)
        scaler.process.send_signal(signal.SIGTERM)
        rest = [message async for message in stream]
        code = await scaler.process.wait()
    assert (first, rest, code) == (True, [], 0)


async def test_a_bad_configuration_is_exit_code_2_and_a_line_for_each_fault(tmp_path):
    path = tmp_path / "slo-scaler.yaml"
    path.write_text("profiles: {tiny: {safe_concurrency: -1}}\nother: {}\n")
    process = await launch("serve", "--config", str(path))
    _, told = await process.communicate()
    assert (process.returncode, told.decode().splitlines()) == (
        2,
        [
            "slo-scaler: profiles.tiny.safe_concurrency: Input should be greater than or equal to 0.1",
            f"slo-scaler: other: unknown key; known are {SECTIONS}",
        ],
    )


async def test_explain_asks_as_keda_would_and_prints_the_reason_as_json(tmp_path):
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(listening(PageEngine()))
        path = tmp_path / "slo-scaler.yaml"
        path.write_text(CONFIGURATION.format(address=address))
        scaler = await stack.enter_async_context(serving(path))
        await scaler.line("decision")
        keda, ops = f"127.0.0.1:{scaler.ports['keda']}", f"http://127.0.0.1:{scaler.ports['ops']}"
        process = await launch("explain", "prod/llama", "--keda", keda, "--ops", ops, "--json")
        printed, _ = await process.communicate()
    answer = json.loads(printed)
    assert (process.returncode, answer["keda"], answer["explanation"]["recomputed"]) == (
        0,
        {"value": 1.0, "active": True},
        1,
    )


async def test_explain_of_a_scaler_that_does_not_run_is_exit_code_1_and_says_what_to_do():
    process = await launch("explain", "prod/llama", "--keda", "127.0.0.1:1", "--ops", "http://127.0.0.1:1")
    printed, _ = await process.communicate()
    assert (
        process.returncode,
        "is the scaler running there? (--keda, --ops)" in " ".join(printed.decode().split()),
    ) == (
        1,
        True,
    )
