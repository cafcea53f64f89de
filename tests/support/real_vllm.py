"""A real vLLM on this machine's CPU, a scaler beside it, and clients: what ``make test-vllm`` plays with."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from scaler.app import Bound, Wiring, running
from scaler.core.decision import Decision
from scaler.core.model import WorkloadKey
from scaler.settings import Ports, parse_configuration
from scaler.sources.targets import ConfiguredReplicas

HERE = Path(__file__).parents[1] / "vllm"
ENVIRONMENT = Path(os.environ.get("SLO_SCALER_VLLM_VENV", HERE.parents[1] / ".venv-vllm"))
KEY = WorkloadKey("prod", "llama")
SLOTS, TICK_S, BUDGET_S = 4, 2.0, 5.0
LOOK_S = 0.1
CORE = "VLLM::EngineCor"  # the kernel keeps fifteen characters of a process's name


@dataclass
class Engine:
    """One vLLM with four slots and a tiny random model, on a port and a core of its own. It is started by ``start``."""

    model: Path
    log: Path
    port: int
    core: int = 0
    flags: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it answers; again after it has ended, too."""
        environment = {**os.environ, "VLLM_CPU_OMP_THREADS_BIND": str(self.core)}
        command = [*map(str, (HERE / "serve.sh", ENVIRONMENT, self.model, self.port, self.log)), *self.flags]
        started = subprocess.run(command, check=False, capture_output=True, env=environment)
        assert started.returncode == 0, self.log.read_text()[-2000:]

    @property
    def pid(self) -> int:
        """That of the API server, which leads the process group."""
        return int(Path(f"{self.log}.pid").read_text())

    @property
    def core_pid(self) -> int:
        """That of the process that computes."""
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
                if name == CORE and int(rest.split()[2]) == os.getpgid(self.pid):
                    return int(stat.parent.name)
        raise AssertionError(f"no {CORE} in the process group of {self.pid}")

    def end(self) -> None:
        """At once, also when it is stopped."""
        with suppress(ProcessLookupError, FileNotFoundError):
            os.killpg(self.pid, signal.SIGKILL)


class Engines:
    """Makes engines, each with its log in one folder, and ends them all."""

    def __init__(self, folder: Path) -> None:
        """Skips the test where there is no vLLM."""
        if not (ENVIRONMENT / "bin" / "vllm").exists():
            pytest.skip(
                f"no vLLM in {ENVIRONMENT.name}: run make test-vllm, or name its environment in SLO_SCALER_VLLM_VENV"
            )
        self._folder, self._model = folder, folder / "model"
        self._made: list[Engine] = []
        command = [str(ENVIRONMENT / "bin" / "python"), str(HERE / "mkmodel.py"), str(self._model)]
        subprocess.run(command, check=True, capture_output=True)

    def started(self, core: int = 0, flags: tuple[str, ...] = ()) -> Engine:
        """One that answers."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        engine = Engine(self._model, self._folder / f"log-{port}", port, core, flags)
        self._made.append(engine)
        engine.start()
        return engine

    def end(self) -> None:
        """All of them."""
        for engine in self._made:
            engine.end()


@dataclass
class Seen:
    """Every decision by its time, watched on the board."""

    bound: Bound
    decisions: list[Decision] = field(default_factory=list)

    async def watch(self) -> None:
        """For ever."""
        while True:
            outcome = self.bound.board.latest(KEY)
            if isinstance(outcome, Decision) and (not self.decisions or outcome.sequence > self.decisions[-1].sequence):
                self.decisions.append(outcome)
            await _pause(LOOK_S)

    async def until(self, condition: Callable[[Decision], bool], within_s: float = 60.0) -> Decision:
        """The first decision of which this is true, among those made from now on and the newest one."""
        begin = max(0, len(self.decisions) - 1)
        try:
            async with asyncio.timeout(within_s):
                while True:
                    found = next((d for d in self.decisions[begin:] if condition(d)), None)
                    if found is not None:
                        return found
                    await _pause(LOOK_S)
        except TimeoutError:
            last = self.decisions[-1] if self.decisions else None
            raise AssertionError(f"not within {within_s} s; the last decision was {last}") from None

    def since(self, decision: Decision) -> list[Decision]:
        """Those from this one on."""
        return [one for one in self.decisions if one.sequence >= decision.sequence]


@asynccontextmanager
async def scaler(addresses: Sequence[str], **metadata: str) -> AsyncIterator[Seen]:
    """The whole scaler, which looks at these engines."""
    profile = {"safe_concurrency": SLOTS, "safe_rate_per_s": 1.0, "unloaded_ttft_s": 0.1}
    usual = {"profile": "tiny", "ttftSloSeconds": f"{BUDGET_S:g}", "maxReplicas": "10", "downscaleDelaySeconds": "4"}
    workload = {"targets": list(addresses), "metadata": {**usual, **metadata}}
    text = json.dumps({"profiles": {"tiny": profile}, "workloads": {str(KEY): workload}})
    configuration = parse_configuration(text, TICK_S)
    replicas = ConfiguredReplicas(configuration.targets, asyncio.get_running_loop().time)
    wiring = Wiring(configuration, Ports("127.0.0.1", 0, 0, 0, 0), replicas, None, io.StringIO())
    async with running(wiring) as bound:
        seen = Seen(bound)
        watching = asyncio.create_task(seen.watch())
        yield seen
        watching.cancel()


@asynccontextmanager
async def clients(address: str, streams: int, tokens: int = 200) -> AsyncIterator[list[asyncio.Task[int]]]:
    """So many streams at once; each gives how many chunks came, 0 where the engine failed. What is left at the end is cancelled."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        tasks = [asyncio.create_task(_stream(session, address, number, tokens)) for number in range(streams)]
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _stream(session: aiohttp.ClientSession, address: str, number: int, tokens: int) -> int:
    body = {"model": "tiny", "prompt": f"{number:04d} hello", "max_tokens": tokens, "stream": True, "ignore_eos": True}
    chunks = 0
    with suppress(aiohttp.ClientError):
        async with session.post(f"http://{address}/v1/completions", json=body) as answer:
            async for line in answer.content:
                chunks += line.startswith(b"data: ")
    return chunks


async def _pause(seconds: float) -> None:
    await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=seconds)
