"""The configuration edited while the scaler runs: over real sockets, with a real file."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from scaler.app import Bound, Wiring, running
from scaler.core.decision import Decision
from scaler.core.model import WorkloadKey
from scaler.settings import Ports, WatchedFile
from scaler.sources.targets import ConfiguredReplicas
from tests.support.engines import OVERLOAD, PageEngine, listening

KEY = WorkloadKey("prod", "llama")
TICK_S = 0.1


def text(address: str, safe_concurrency: float = 4.0, **metadata: str) -> str:
    profile = {"safe_concurrency": safe_concurrency, "safe_rate_per_s": 1.0}
    trigger = {"profile": "tiny", "ttftSloSeconds": "5", "maxReplicas": "50", **metadata}
    workload = {"targets": [address], "metadata": trigger}
    return json.dumps({"profiles": {"tiny": profile}, "workloads": {str(KEY): workload}})


@dataclass
class Edited:
    """A running scaler and the file that it follows."""

    bound: Bound
    path: Path
    log: io.StringIO

    def write(self, content: str) -> None:
        self.path.write_text(content)

    async def until(self, condition) -> Decision:
        async with asyncio.timeout(20):
            while True:
                outcome = self.bound.board.latest(KEY)
                if isinstance(outcome, Decision) and condition(outcome):
                    return outcome
                await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=TICK_S / 2)

    async def fetch(self, port: int, path: str) -> str:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
            return await answer.text()

    async def configuration(self, *, valid: bool) -> dict:
        """What the state says of the configuration, once it is that."""
        async with asyncio.timeout(20):
            while True:
                found = json.loads(await self.fetch(self.bound.gate_port, "/v1/state"))["configuration"]
                if found["valid"] is valid:
                    return found
                await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=TICK_S)


@asynccontextmanager
async def edited(tmp_path: Path, page: str = OVERLOAD) -> AsyncIterator[tuple[Edited, str]]:
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(listening(PageEngine(page)))
        path, log = tmp_path / "slo-scaler.yaml", io.StringIO()
        path.write_text(text(address))
        file = WatchedFile(path, TICK_S)
        configuration = file.first()
        replicas = ConfiguredReplicas(configuration.targets, asyncio.get_running_loop().time)
        wiring = Wiring(configuration, Ports("127.0.0.1", 0, 0, 0, 0), replicas, None, log, file)
        bound = await stack.enter_async_context(running(wiring))
        yield Edited(bound, path, log), address


async def test_an_edit_takes_effect_and_keeps_what_was_remembered(tmp_path):
    async with edited(tmp_path) as (scaler, address):
        before = await scaler.until(lambda d: d.sequence > 3)
        scaler.write(text(address, safe_concurrency=400.0))
        after = await scaler.until(lambda d: d.estimate.capacity.safe_concurrency == 400.0)
    assert (after.sequence > before.sequence, after.desired >= before.desired) == (True, True)


async def test_a_bad_file_is_refused_whole_and_every_surface_says_so_until_it_is_mended(tmp_path):
    async with edited(tmp_path) as (scaler, address):
        before = await scaler.until(lambda _: True)
        scaler.write("profiles: {tiny: {safe_concurrency: -4}}")
        refused = await scaler.configuration(valid=False)
        metrics = await scaler.fetch(scaler.bound.ops_port, "/metrics")
        page = await scaler.fetch(scaler.bound.ops_port, "/")
        during = await scaler.until(lambda d: d.sequence > before.sequence + 2)
        scaler.write(text(address, headroom="0.2"))
        mended = await scaler.configuration(valid=True)
    fault = "profiles.tiny.safe_concurrency: Input should be greater than or equal to 0.1"
    assert (refused, mended) == ({"valid": False, "faults": [fault]}, {"valid": True, "faults": []})
    assert ("slo_scaler_configuration_valid 0.0" in metrics, fault in page) == (True, True)
    assert during.estimate.capacity == before.estimate.capacity
    lines = [json.loads(line) for line in scaler.log.getvalue().splitlines()]
    told = [line["faults"] for line in lines if line["event"] == "configuration_refused"]
    assert told == [[fault]]


async def test_a_workload_that_leaves_the_file_runs_on_until_nobody_asks_for_it(tmp_path):
    async with edited(tmp_path) as (scaler, address):
        await scaler.until(lambda _: True)
        content = json.loads(text(address))
        content["workloads"][str(KEY)].pop("metadata")
        scaler.write(json.dumps(content))
        now = scaler.bound.board.latest(KEY)
        assert isinstance(now, Decision)
        later = await scaler.until(lambda d: d.sequence > now.sequence + 20)
    assert (later.blind, KEY in scaler.bound.supervisor) == (False, True)


async def test_replicas_that_the_file_moves_are_read_at_their_new_address(tmp_path):
    async with edited(tmp_path) as (scaler, _), listening(PageEngine()) as elsewhere:
        await scaler.until(lambda d: d.estimate.waiting > 0)
        scaler.write(text(elsewhere))
        moved = await scaler.until(lambda d: d.estimate.waiting == 0)
    assert [reading.replica for reading in moved.readings] == [elsewhere]


async def test_a_workload_that_waits_for_keda_is_shown_as_such(tmp_path):
    async with edited(tmp_path) as (scaler, address):
        scaler.write(json.dumps({"workloads": {"prod/other": {"targets": [address]}}}))
        async with asyncio.timeout(20):
            while True:
                body = json.loads(await scaler.fetch(scaler.bound.gate_port, "/v1/state"))
                found = [one for one in body["workloads"] if one["name"] == "other"]
                if found:
                    break
                await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=TICK_S)
        page = await scaler.fetch(scaler.bound.ops_port, "/")
    assert (found[0]["state"], "waits for KEDA" in found[0]["because"], "waits for KEDA" in page) == (
        "UNKNOWN",
        True,
        True,
    )
