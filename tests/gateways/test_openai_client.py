"""The real OpenAI client against an emulated engine behind a gateway, with the whole scaler: refused, waits, succeeds."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack

import pytest

from scaler.demo.scenario import MODEL, SAFE_CONCURRENCY, UNLOADED_TTFT_S
from scaler.demo.server import serving
from tests.support.gateway_programs import needed, python_packages
from tests.support.gateway_scaler import scaler_process
from tests.support.gateways import ENVOY_GRPC_ASKS, NGINX_ASKS, Sides, fronted

CLIENTS, TOKENS, RETRIES = 60, 20, 8
BURST = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from openai import DefaultHttpxClient, OpenAI

url, model, clients, tokens, retries = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
statuses = []
http = DefaultHttpxClient(event_hooks={"response": [lambda response: statuses.append(response.status_code)]})
client = OpenAI(base_url=url, api_key="sk-test", max_retries=retries, http_client=http)

def ask(_):
    said = [{"role": "user", "content": "hello"}]
    return client.chat.completions.create(model=model, max_tokens=tokens, messages=said).usage.completion_tokens

with ThreadPoolExecutor(clients) as threads:
    print(json.dumps([list(threads.map(ask, range(clients))), statuses]))
"""


async def burst(url: str) -> tuple[list[int], list[int]]:
    """The tokens that each of the clients got, and the statuses of all attempts. Fails when one of them gave up."""
    packages = needed(python_packages, "openai", "openai")
    numbers = (str(number) for number in (CLIENTS, TOKENS, RETRIES))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-S", "-c", BURST, f"{url}/v1", MODEL, *numbers,
        env=os.environ | {"PYTHONPATH": str(packages)}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()[-2000:]
    tokens, statuses = json.loads(said)
    return tokens, statuses


@pytest.mark.e2e
@pytest.mark.timeout(120)
@pytest.mark.parametrize("gateway", [NGINX_ASKS, ENVOY_GRPC_ASKS], ids=str)
async def test_a_client_is_refused_waits_as_it_is_told_and_succeeds(gateway, tmp_path):
    async with AsyncExitStack() as stack:
        replica = await stack.enter_async_context(serving("llm-0", asyncio.get_running_loop().time))
        config = tmp_path / "slo-scaler.yaml"
        profile = {"safe_concurrency": SAFE_CONCURRENCY, "safe_rate_per_s": 8.0, "unloaded_ttft_s": UNLOADED_TTFT_S}
        # Relief is near: whoever would wait for more than a minute is told not to try again, and the client obeys.
        trigger = {"profile": "demo", "ttftSloSeconds": "2", "gate": "enforce", "replicaReadySeconds": "5"}
        workloads = {"prod/llama": {"targets": [replica.address], "metadata": trigger}}
        config.write_text(json.dumps({"profiles": {"demo": profile}, "workloads": workloads}))
        scaler = await stack.enter_async_context(scaler_process(config, tick_s="0.5"))
        sides = Sides(scaler.ports["GATE"], scaler.ports["AUTHZ"], int(replica.address.rpartition(":")[2]))
        tokens, statuses = await burst(await stack.enter_async_context(fronted(gateway, sides)))
    assert tokens == [TOKENS] * CLIENTS
    assert statuses.count(200) == CLIENTS
    assert set(statuses) == {200, 429}
