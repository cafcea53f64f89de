"""Pods of the scaler as processes, in a cluster, while they are replaced, killed and cut off: neither KEDA nor a gateway may feel it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scaler.api.keda_client import ScaledObject
from scaler.core.model import WorkloadKey
from tests.support.callers import Answer, Gateway, Keda, calling
from tests.support.cluster_objects import deployment, scaled_object, serving, trigger, vllm
from tests.support.discovery import KINDS, put, put_pod
from tests.support.engines import listening
from tests.support.kubernetes_api import kubernetes
from tests.support.scaler_pods import (
    NEXT_VERSION,
    THIS_VERSION,
    CuttableApi,
    ScalerPods,
    active,
    scaler_pods,
    until,
)
from tests.support.service_proxy import Service, forwarding
from tests.support.steady_engine import SteadyEngine

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(150)]

KEY = WorkloadKey("prod", "llama")
METADATA = {"profile": "tiny", "ttftSloSeconds": "2"}
PROFILES = {"tiny": {"safe_concurrency": 40, "safe_rate_per_s": 10.0, "unloaded_ttft_s": 0.1}}
OURS = "app.kubernetes.io/name=slo-scaler"
STATE = "/api/v1/namespaces/keda/configmaps/slo-scaler-state-0"
REPLICAS, TOLD = 3, 5
"""The load asks for as many replicas as there are. KEDA was told of more at a peak, which nobody but the stored state remembers."""
LAG_S, SLOW_S = 1.0, 0.3
"""How much later than the API server the nodes know who serves, and how long the API server, which is busy, takes to an answer."""
STEADY = Answer("desired-replicas", target=1.0, value=TOLD, active=True)
GREEN = {(200, "GREEN")}
BECAUSE = f"{TOLD} replicas: the load asks for {REPLICAS}, but {TOLD} were wanted within the scale-down window"


@dataclass(frozen=True)
class World:
    """The workload with its engines, the scaler's pods, and who calls them through which Service."""

    api: CuttableApi
    pods: ScalerPods
    keda_service: Service
    gate_service: Service
    keda: Keda
    gateways: tuple[Gateway, ...]

    async def settled(self) -> str:
        """The one pod that has the label, once KEDA is connected to it and to no other."""
        await until(lambda: len(active(self.api)) == 1 and self.keda_service.led_to == active(self.api))
        (name,) = active(self.api)
        return name

    def stored(self) -> dict[str, Any]:
        return json.loads((self.api.get(STATE) or {})["data"]["prod_llama"])

    def heard(self) -> set[tuple[int, str]]:
        return {answer for gateway in self.gateways for answer in gateway.heard}

    def refused(self) -> int:
        """Connections that no pod took."""
        return sum(sum(service.refused.values()) for service in (self.keda_service, self.gate_service))

    def complaints(self) -> list[str]:
        return [line for pod in self.pods.all for line in pod.complaints]


def remembered(version: int = 1, **more: Any) -> str:
    """What a process stored which asked for more a moment ago."""
    now = datetime.now(UTC).timestamp()
    return json.dumps({"v": version, "t": now, "d": [TOLD, 1, [[20, TOLD]], []], **more})


@asynccontextmanager
async def world(folder: Path, text: str) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        api = CuttableApi(resources=list(KINDS), slow_s=SLOW_S)
        await stack.enter_async_context(kubernetes(api))
        put(api, "scaledobjects", "llama", scaled_object("llama", "prod", trigger(**METADATA)))
        put(api, "deployments", "llama", deployment("llama", REPLICAS))
        for number in range(REPLICAS):
            engine = SteadyEngine(clock=asyncio.get_running_loop().time, running=33, rate_per_s=25 / REPLICAS)
            host, _, port = (await stack.enter_async_context(listening(engine))).rpartition(":")
            containers = {"containers": [vllm("main", "--port", port)]}
            put_pod(api, serving(f"llama-{number}", spec={"nodeName": "gpu-1", **containers}, status={"podIP": host}))
        api.put(STATE, {"metadata": {"labels": {"slo-scaler/state": "true"}}, "data": {"prod_llama": text}})
        asked = await stack.enter_async_context(
            forwarding(Service(api, f"{OURS},slo-scaler/active=true", "keda", LAG_S))
        )
        gate = await stack.enter_async_context(forwarding(Service(api, OURS, "gate", LAG_S)))
        paths = ("/v1/state/prod/llama", "/v1/backpressure/prod/llama")
        gateways = tuple(Gateway(gate.address, path, keeps) for path in paths for keeps in (True, False))
        pods = await stack.enter_async_context(scaler_pods(ScalerPods(api, folder, json.dumps({"profiles": PROFILES}))))
        yield World(api, pods, asked, gate, Keda(asked.address, ScaledObject(KEY, METADATA)), gateways)


@asynccontextmanager
async def two_pods(folder: Path) -> AsyncIterator[World]:
    """The pods ``a``, which leads, and ``b``, while everybody calls."""
    async with world(folder, remembered()) as here:
        await here.pods.start("a")
        await until(lambda: active(here.api) == {"a"})
        await here.pods.start("b")
        await until(lambda: len(here.gate_service.backends) == 2)
        async with calling(here.keda, *here.gateways):
            assert await here.settled() == "a"
            yield here


@pytest.mark.fault("SIGTERM under load")
async def test_a_roll_to_the_next_version_and_back_is_felt_by_nobody(tmp_path):
    steps = (
        ("a", "a2", NEXT_VERSION),
        ("b", "b2", NEXT_VERSION),
        ("a2", "a3", THIS_VERSION),
        ("b2", "b3", THIS_VERSION),
    )
    async with two_pods(tmp_path) as here:
        versions = []
        for old, new, version in steps:
            await here.pods.start(new, version)
            await here.pods.stop(old)
            await here.settled()
            versions.append(here.stored()["v"])
        for pod in here.pods.running.values():
            await pod.until_explained(lambda told: told["binding"]["text"] == BECAUSE)
    assert ({*here.keda.good}, here.keda.longest_failure <= 1) == ({STEADY}, True), here.keda.failures
    assert ({*here.keda.ends}, here.keda.pushes >= len(here.keda.ends), here.heard()) == ({""}, True, GREEN)
    assert ([failure for gateway in here.gateways for failure in gateway.failures], here.refused()) == ([], 0)
    assert ([pod.code for pod in here.pods.ended[:4]], here.complaints()) == ([0] * 4, [])
    assert (2 in versions, here.stored()["d"][0]) == (True, TOLD)


@pytest.mark.fault("process is killed", "two scalers at once")
async def test_when_the_holder_is_killed_the_next_one_tells_keda_the_same(tmp_path):
    async with two_pods(tmp_path) as here:
        await here.pods.kill("a")
        await until(lambda: active(here.api) == {"b"})
        answered = len(here.keda.good)
        await until(lambda: len(here.keda.good) > answered)
        await here.pods.start("a")  # its container, in the same pod
        assert await here.settled() == "b"
    assert ({*here.keda.good}, here.heard()) == ({STEADY}, GREEN)


@pytest.mark.fault("API server is gone", "two scalers at once")
async def test_a_holder_that_is_cut_off_from_the_api_server_answers_until_it_can_send_keda_to_the_next(tmp_path):
    async with two_pods(tmp_path) as here:
        here.api.cut.add("a")
        await until(lambda: active(here.api) == {"b"})
        meanwhile, failures = here.keda_service.led_to, here.keda.failures
        here.api.cut.clear()
        assert await here.settled() == "b"
    assert (meanwhile, failures) == ({"a"}, [])
    assert ({*here.keda.good}, here.keda.longest_failure <= 1) == ({STEADY}, True), here.keda.failures
    assert ({*here.keda.ends}, here.heard(), here.complaints()) == ({""}, GREEN, [])


@pytest.mark.fault("API server falls silent")
async def test_while_the_api_server_hangs_all_goes_on_and_the_list_of_replicas_ages_for_all_to_see(tmp_path):
    async with two_pods(tmp_path) as here:
        here.api.hang()  # open watches say nothing, as they do when nothing happens
        for pod in here.pods.running.values():
            await pod.until_explained(lambda told: age_of_replicas_s(told) >= 30)
        during = [pod.logged("leading")[-1]["leads"] for pod in here.pods.running.values()]
        meanwhile, failures = active(here.api), here.keda.failures
        here.api.recover()
        await until(lambda: any(pod.logged("leading")[-1]["leads"] for pod in here.pods.running.values()))
        holder = await here.settled()
        leaders = [name for name, pod in here.pods.running.items() if pod.logged("leading")[-1]["leads"]]
    assert (during, meanwhile, failures) == ([False, False], {"a"}, [])
    assert leaders == [holder]
    assert ({*here.keda.good}, here.keda.longest_failure <= 1) == ({STEADY}, True), here.keda.failures
    assert ({*here.keda.ends} <= {""}, here.heard(), here.complaints()) == (True, GREEN, [])


def age_of_replicas_s(told: dict[str, Any]) -> int:
    """As the finding says."""
    texts = [found["text"] for found in told["findings"] if found["code"] == "replicas_old"]
    return max((int(age) for text in texts for age in re.findall(r"(\d+) s old", text)), default=0)


@pytest.mark.fault("stored state is damaged")
@pytest.mark.parametrize(
    ("text", "value", "why"),
    [
        pytest.param(
            remembered(2, l="other", z=[1]),
            TOLD,
            "what is stored is of the newer version 2; not understood: l",
            id="of a newer version",
        ),
        pytest.param(remembered(0), REPLICAS, "what is stored has the unknown version 0", id="of an older version"),
        pytest.param("{]", REPLICAS, "what is stored is no text of ours", id="garbage"),
    ],
)
async def test_whatever_was_stored_a_process_starts_decides_and_says_what_it_could_not_read(tmp_path, text, value, why):
    async with world(tmp_path, text) as here, calling(here.keda):
        pod = await here.pods.start("a")
        await until(lambda: here.keda.good)
        await until(lambda: (here.api.get(STATE) or {})["data"]["prod_llama"] != text)
    told = [line["why"] for line in pod.logged("recalled")]
    assert ({answer.value for answer in here.keda.good}, told, here.complaints()) == ({value}, [why], [])
    assert (here.stored()["v"], here.stored()["d"][0]) == (1, value)
