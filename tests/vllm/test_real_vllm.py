"""The scaler beside a real vLLM 0.32 on this machine's CPU: forty streams on four slots.

``make test-vllm`` builds the engine's environment (2.5 GB) in ``.venv-vllm`` and runs this. The lock asks for torch 2.13.0; where the
package index has no CPU build of it, pip fetches the CUDA build, which works and is several GB larger.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from scaler.app import Bound, Wiring, running
from scaler.core.decision import Decision
from scaler.core.explain import explain
from scaler.core.model import Pressure, WorkloadKey
from scaler.settings import Ports, parse_configuration
from scaler.sources.targets import ConfiguredReplicas

HERE = Path(__file__).parent
ENVIRONMENT = Path(os.environ.get("SLO_SCALER_VLLM_VENV", HERE.parents[1] / ".venv-vllm"))
KEY = WorkloadKey("prod", "llama")
TICK_S, STREAMS = 2.0, 40

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Iterator[str]:
    """host:port of a vLLM with four slots and a tiny random model."""
    if not (ENVIRONMENT / "bin" / "vllm").exists():
        pytest.skip(
            f"no vLLM in {ENVIRONMENT.name}: run make test-vllm, or name its environment in SLO_SCALER_VLLM_VENV"
        )
    folder = tmp_path_factory.mktemp("vllm")
    model, log = folder / "model", folder / "log"
    subprocess.run([ENVIRONMENT / "bin" / "python", HERE / "mkmodel.py", model], check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = subprocess.run([HERE / "serve.sh", ENVIRONMENT, model, str(port), log], check=False, capture_output=True)
    assert started.returncode == 0, log.read_text()[-2000:]
    yield f"127.0.0.1:{port}"
    os.kill(int(Path(f"{log}.pid").read_text()), signal.SIGTERM)


@dataclass
class Seen:
    """Every decision by its time, watched on the board."""

    decisions: list[Decision] = field(default_factory=list)

    async def watch(self, bound: Bound) -> None:
        while True:
            outcome = bound.board.latest(KEY)
            if isinstance(outcome, Decision) and (not self.decisions or outcome.sequence > self.decisions[-1].sequence):
                self.decisions.append(outcome)
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.1)

    async def until(self, condition) -> Decision:
        while True:
            found = next((d for d in self.decisions if condition(d)), None)
            if found is not None:
                return found
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.1)


@asynccontextmanager
async def scaler(address: str):
    profile = {"safe_concurrency": 4, "safe_rate_per_s": 1.0, "unloaded_ttft_s": 0.1}
    metadata = {"profile": "tiny", "ttftSloSeconds": "5", "maxReplicas": "10", "downscaleDelaySeconds": "4"}
    workload = {"targets": [address], "metadata": metadata}
    text = json.dumps({"profiles": {"tiny": profile}, "workloads": {str(KEY): workload}})
    configuration = parse_configuration(text, TICK_S)
    replicas = ConfiguredReplicas(configuration.targets, asyncio.get_running_loop().time)
    wiring = Wiring(configuration, Ports("127.0.0.1", 0, 0, 0, 0), replicas, None, io.StringIO())
    async with running(wiring) as bound:
        seen = Seen()
        watching = asyncio.create_task(seen.watch(bound))
        yield seen
        watching.cancel()


async def stream(session: aiohttp.ClientSession, address: str, number: int) -> int:
    body = {"model": "tiny", "prompt": f"{number:04d} hello", "max_tokens": 200, "stream": True, "ignore_eos": True}
    async with session.post(f"http://{address}/v1/completions", json=body) as answer:
        return sum([line.startswith(b"data: ") async for line in answer.content])


async def test_forty_streams_leave_green_in_time_raise_desired_and_recover(engine):
    clock = asyncio.get_running_loop().time
    async with scaler(engine) as seen, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        async with asyncio.timeout(60):
            idle = await seen.until(lambda _: True)
        begun = clock()
        streams = [asyncio.create_task(stream(session, engine, number)) for number in range(STREAMS)]
        async with asyncio.timeout(60):
            left = await seen.until(lambda d: d.state is not Pressure.GREEN)
        print(json.dumps({"left_green_after_s": left.decided_at - begun, "state": left.state, "desired": left.desired}))
        print(explain(left, left.decided_at).binding.text)
        async with asyncio.timeout(200):
            chunks = await asyncio.gather(*streams)
            back = await seen.until(lambda d: d.decided_at > left.decided_at and d.state is Pressure.GREEN)
            down = await seen.until(lambda d: d.decided_at > back.decided_at and d.desired == 1)
        print(
            json.dumps({"green_again_after_s": back.decided_at - begun, "one_again_after_s": down.decided_at - begun})
        )
    assert min(chunks) > 0
    assert (idle.state, idle.desired, left.desired > 1) == (Pressure.GREEN, 1, True)
    assert (
        left.decided_at - begun <= 5 + 2 * TICK_S
    )  # the promise in the engine's own time, not a speed of this machine
