"""A real load tester against an emulated replica whose knee is known: AIPerf in an environment of its own, with a tokenizer made here."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from scaler.demo.cluster import fleet_process
from scaler.demo.fleet import FleetPlan
from scaler.demo.scenario import COEFFICIENTS, LIMITS, MODEL
from scaler.sim import Preset
from tests.calibration.closed_loop import load_test, quantile

AIPERF = "aiperf==0.13.0"
HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slo-scaler" / "aiperf"
MAKE_MODEL = Path(__file__).parents[1] / "vllm" / "mkmodel.py"
INSTALL_S = 500
PROMPT, OUTPUT = 64, 12
# Eight requests run at a time and take half a second each: with nine, one that has to wait is told apart even on a busy machine.
TTFT_S = 0.3
REPLICA = FleetPlan(initial=1, max_replicas=1, start_s=0.0, start_sigma=0.0, seed=1)


@pytest.fixture(scope="module")
def aiperf() -> Path:
    """The folder with AIPerf and its Python; skips where it cannot be had."""
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = HOME / AIPERF
        if not done.exists():
            shutil.rmtree(HOME / "venv", ignore_errors=True)
            _install(HOME / "venv")
            done.touch()
    return HOME / "venv" / "bin"


def _install(environment: Path) -> None:
    pip = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-qq", "install", AIPERF]
    for command in ([sys.executable, "-m", "venv", str(environment)], pip):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip(f"{AIPERF} could not be installed within {INSTALL_S} s")
        if done.returncode:
            pytest.skip(f"{AIPERF} cannot be installed: {done.stderr[-300:].strip()}")


@asynccontextmanager
async def emulated_replica() -> AsyncIterator[str]:
    """The URL of one replica of the demo's fleet."""
    async with fleet_process(REPLICA) as control, aiohttp.ClientSession() as session:
        address = None
        async with asyncio.timeout(20):
            while address is None:
                async with session.get(f"{control}/replicas") as answer:
                    address = (await answer.json())["replicas"][0]["address"]
        yield f"http://{address}"


def true_p95_s(concurrency: int) -> float:
    """The P95 of the time to the first token of the same engine in virtual time."""
    prompt = -(-PROMPT // 4)  # our tokenizer has a token a byte, the emulated replica one for four
    test = load_test(Preset(COEFFICIENTS, LIMITS, gpus=1), lambda _: (prompt, OUTPUT), concurrency, 600, 1)
    return quantile([done.ttft_s for done in test.done], 0.95)


async def calibrated(url: str, path: str, tokenizer: Path, results: Path) -> dict[str, Any]:
    """What the command answers, as a person would call it."""
    words = [
        "calibrate",
        "--run",
        url,
        "--model",
        MODEL,
        "--tokenizer",
        str(tokenizer),
        "--results",
        str(results),
        "--json",
    ]
    mix = ["--input-tokens", str(PROMPT), "--output-tokens", str(OUTPUT), "--requests", "60", "--ttft", str(TTFT_S)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scaler", *words, *mix),
        env=os.environ | {"PATH": path},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    answer, said = await process.communicate()
    assert process.returncode == 0, said.decode()
    return json.loads(answer)


@pytest.fixture
def tokenizer(aiperf, tmp_path) -> Path:
    """The folder of one that has a token for each byte."""
    folder = tmp_path / "tokenizer"
    subprocess.run([aiperf / "python", MAKE_MODEL, folder], check=True, capture_output=True)
    return folder


@pytest.mark.e2e
@pytest.mark.timeout(INSTALL_S + 600)
async def test_a_sweep_finds_the_knee_of_an_emulated_replica(aiperf, tokenizer, tmp_path):
    path = f"{aiperf}{os.pathsep}{os.environ['PATH']}"
    async with emulated_replica() as url:
        found = await calibrated(url, path, tokenizer, tmp_path / "results")
    levels = [level["concurrency"] for level in found["levels"]]
    knee = max(concurrency for concurrency in range(1, 17) if true_p95_s(concurrency) <= TTFT_S)
    best = max(level for level in levels if level <= knee)
    assert levels[-1] > knee
    assert abs(levels.index(found["safe_concurrency"]) - levels.index(best)) <= 1, found["answer"]
