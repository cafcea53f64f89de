"""No secret comes out: canaries go in wherever a secret can, also on the ways of errors, and every output is searched."""

import asyncio
import hashlib
import json
import logging
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from aiohttp import web

from scaler.api.keda_client import AioKedaClient, RpcFailed, ScaledObject
from scaler.app import Bound, Wiring, running
from scaler.cluster.reviews import PATH as REVIEWS
from scaler.core.decision import Decision
from scaler.core.model import WorkloadKey
from scaler.pb import ext_authz_pb2 as pb
from scaler.pb import ext_authz_pb2_grpc as pb_grpc
from scaler.settings import Ports, WatchedFile
from scaler.sources.targets import ConfiguredReplicas
from tests.support.canaries import Canaries
from tests.support.engines import OVERLOAD, PAGES
from tests.support.in_cluster import GOOD, Setting, put_workload, scaler, until
from tests.support.kubernetes_api import KubernetesApi, kubernetes
from tests.support.tls import Authority, client_context
from tests.support.token_reviews import ReviewingApi

KEY = WorkloadKey("prod", "llama")
OUTPUTS = ("/metrics", "/openapi.json", "/", "/v1/explain/prod/llama", "/workload/prod/llama", "/v1/history/prod/llama")


@dataclass
class Echo:
    """An engine and a Prometheus that know no shame: what they refuse they repeat, headers and all."""

    refuses: bool = False
    seen: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        said = json.dumps(dict(request.headers)) + (await request.text())
        self.seen.append(said)
        if self.refuses or "/api/" in request.path:
            return web.Response(text=f"<html>{said}</html>", status=403, reason="no", content_type="text/html")
        return web.Response(body=(PAGES / OVERLOAD).read_bytes(), content_type="text/plain")

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield "{}:{}".format(*runner.addresses[0][:2])
        finally:
            await runner.cleanup()


def file(folder: Path, name: str, content: str) -> str:
    (folder / name).write_text(content)
    return str(folder / name)


def sources(folder: Path, canaries: Canaries, prometheus: str) -> dict[str, Any]:
    """The parts of a configuration that hold secrets of ours."""
    key = canaries.plant("API key")
    held = {hashlib.sha256(key.encode()).hexdigest(): {"tenant": "acme"}}
    token = canaries.plant("reader token")
    readers = {hashlib.sha256(token.encode()).hexdigest(): ["*"]}
    return {
        "scrape": {"default": {"scheme": "http", "bearer_token_file": file(folder, "s", canaries.plant("scrape token"))}},
        "prometheus": {
            "default": {
                "url": f"http://{prometheus}",
                "interval_s": 1,
                "bearer_token_file": file(folder, "p", canaries.plant("Prometheus token")),
                "headers": {"X-Api-Key": canaries.plant("Prometheus header")},
            }
        },
        "demand": {"gateway": {"refused": 'sum(refused{namespace="{namespace}"})'}},
        "tenants": {"key_map_file": file(folder, "keys.yaml", json.dumps(held))},
        "access": {"token_file": file(folder, "tokens.yaml", json.dumps(readers))},
    }  # fmt: skip


def metadata(canaries: Canaries) -> list[Mapping[str, str]]:
    """What KEDA may bring: values from the environment of the workload, in every place where one can be wrong."""
    secret = canaries.plant("FromEnv metadata")
    return [
        GOOD | {"modelNameFromEnv": secret},
        GOOD | {"profileFromEnv": secret},
        GOOD | {"safeConcurrencyFromEnv": secret},
        GOOD | {"headroomFromEnv": secret, "engineFromEnv": secret, "requestClassesFromEnv": secret},
        GOOD | {"sourceFromEnv": secret, "scrapeFromEnv": secret, "demandSourceFromEnv": secret, "gateFromEnv": secret},
        GOOD | {"tlsClientKeyFromEnv": secret, "caCert": secret, "unknownFromEnv": secret},
        GOOD | {"portFromEnv": secret * 300},
    ]


async def calls(channel: grpc.aio.Channel, given: list[Mapping[str, str]]) -> str:
    """All that port 6000 says."""
    client, said = AioKedaClient(channel), []
    for one in given:
        of = ScaledObject(KEY, one)
        for call in (client.metric_spec, client.metrics, client.is_active):
            try:
                said.append(str(await call(of)))
            except RpcFailed as failed:
                said.append(f"{failed.code} {failed.details}")
    return "\n".join(said)


async def gate_says(client: aiohttp.ClientSession, base: str, canaries: Canaries) -> str:
    """All that port 8080 says, and that it logs of what is no HTTP."""
    secrets = {
        "Authorization": f"Bearer {canaries.planted['API key']}",
        "X-Api-Key": canaries.plant("x-api-key"),
        "Cookie": f"session={canaries.plant('cookie')}",
        "X-Slo-Scaler-Token": canaries.plant("unknown gateway token"),
    }
    asked = canaries.plant("a client's query")
    good = {"Authorization": f"Bearer {canaries.planted['reader token']}"}
    bad = {"Authorization": f"Bearer {canaries.plant('unknown reader token')}"}
    known = secrets | {"X-Slo-Scaler-Token": canaries.planted["reader token"]}
    said = []
    for path, headers in (
        (f"/v1/admit/prod/llama?class={asked}", known),
        (f"/v1/backpressure/prod/llama?class={asked}", known),
        (f"/v1/admit/prod/llama/v1/chat?key={asked}", secrets),
        (f"/v1/backpressure/prod/llama?class={asked}", secrets),
        ("/v1/state", good),
        ("/v1/state/prod/llama", good),
        ("/v1/state/prod/llama", bad),
        (f"/nowhere/{asked}", secrets),
    ):
        async with client.post(base + path, headers=headers, data=asked) as answer:
            said.append(f"{answer.status} {dict(answer.headers)} {await answer.text()}")
        async with client.get(base + path, headers=headers) as answer:
            said.append(f"{answer.status} {dict(answer.headers)} {await answer.text()}")
    return "\n".join(said)


async def not_http(port: int, secret: str) -> None:
    """Bytes that are no request. What is said to them repeats them to their sender, and must go nowhere else."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /{secret} HTTP/9.9\r\nAuthorization: Bearer {secret}\r\n\x00{secret}\r\n\r\n".encode())
    assert b"400" in await reader.read(10_000)
    writer.close()


async def authz_says(channel: grpc.aio.Channel, canaries: Canaries) -> str:
    asked = pb.CheckRequest()
    asked.attributes.context_extensions["workload"] = str(KEY)
    asked.attributes.request.http.headers["authorization"] = f"Bearer {canaries.plant('ext_authz authorization')}"
    asked.attributes.request.http.headers["x-api-key"] = canaries.plant("ext_authz x-api-key")
    metadata = (("x-slo-scaler-token", canaries.plant("ext_authz token")),)
    return str(await pb_grpc.AuthorizationStub(channel).Check(asked, metadata=metadata))


async def pages(client: aiohttp.ClientSession, bound: Bound, canaries: Canaries) -> dict[str, str]:
    """All that port 8081 says, also to one who shows a token that does not count."""
    said = {}
    headers = {"Host": "elsewhere", "Authorization": f"Bearer {canaries.plant('unknown operator token')}"}
    for path in OUTPUTS:
        for name, given in (("here", {}), ("elsewhere", headers)):
            async with client.get(f"http://127.0.0.1:{bound.ops_port}{path}", headers=given) as answer:
                said[f"{path} {name}"] = await answer.text()
    async with client.get(f"http://127.0.0.1:{bound.ops_port}/v1/events") as answer:
        said["/v1/events"] = (await answer.content.readuntil(b"\n\n")).decode() + (
            await answer.content.readuntil(b"\n\n")
        ).decode()
    return said


def stored(api: KubernetesApi) -> str:
    """What the scaler wrote into the cluster: Events, state, the Lease, and its own pod."""
    kinds = ("Event", "ConfigMap", "Lease")
    return json.dumps([item for kind, items in api._objects.items() if kind.kind in kinds for item in items.values()])


async def decided(bound: Bound) -> None:
    try:
        await until(lambda: isinstance(bound.board.latest(KEY), Decision))
    except TimeoutError:
        pytest.fail(f"not decided: {bound.board.latest(KEY)}")


@pytest.fixture
def talkative(caplog) -> pytest.LogCaptureFixture:
    """Libraries log all they can. Their words are no output of the process: its log tells of them without."""
    caplog.set_level(logging.DEBUG)
    return caplog


async def test_no_secret_comes_out_of_a_scaler_in_a_cluster(tmp_path, talkative, capfd):
    canaries, echo, api = Canaries(), Echo(), ReviewingApi()
    ours = Authority(tmp_path / "ours")
    served, shown = ours.issue(), ours.issue(common="keda-operator")
    canaries.plant("our key", served.key.read_text().splitlines()[1])
    api.users[canaries.plant("account token")] = "system:serviceaccount:prod:gateway"
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(kubernetes(api))
        address = await stack.enter_async_context(echo.listening())
        setting = Setting(tmp_path, sources(tmp_path, canaries, address))
        files = {"cert_file": str(served.cert), "key_file": str(served.key), "client_ca_file": str(ours.ca)}
        setting.configuration["server"] = {"tls": files}
        setting.configuration["access"] |= {"review_tokens": True, "keda_names": ["keda-operator"]}
        put_workload(api, "llama", address, metadata=GOOD | {"demandSource": "gateway", "gate": "enforce"})
        put_workload(api, "wrong", address, metadata=GOOD | {"headroom": canaries.plant("a wrong value in a trigger")})
        put_workload(
            api, "fromenv", address, metadata=GOOD | {"modelNameFromEnv": canaries.plant("name of a variable")}
        )
        bound = await stack.enter_async_context(scaler(api, setting))
        await decided(bound)
        echo.refuses = True
        client = await stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=client_context(ours.ca, shown)))
        )
        credentials = grpc.ssl_channel_credentials(
            ours.ca.read_bytes(), shown.key.read_bytes(), shown.cert.read_bytes()
        )
        said: dict[str, str] = {}
        async with grpc.aio.secure_channel(f"localhost:{bound.keda_port}", credentials) as channel:
            said["port 6000"] = await calls(channel, metadata(canaries))
        async with grpc.aio.secure_channel(f"localhost:{bound.authz_port}", credentials) as channel:
            said["port 6001"] = await authz_says(channel, canaries)
        gate = f"https://localhost:{bound.gate_port}"
        said["port 8080"] = await gate_says(client, gate, canaries)
        for token in ("account token", "unknown reader token"):
            headers = {"Authorization": f"Bearer {canaries.planted[token]}"}
            async with client.get(f"{gate}/v1/state/prod/llama", headers=headers) as answer:
                said[f"state with {token}"] = f"{answer.status} {await answer.text()}"
        for api.code in (500, 403):
            headers = {"Authorization": f"Bearer {canaries.plant(f'a token that is answered with {api.code}')}"}
            async with client.get(f"{gate}/v1/state/prod/llama", headers=headers) as answer:
                assert answer.status == 503
        api.code = 0
        await not_http(bound.ops_port, canaries.plant("in what is no HTTP"))
        setting.file.write_text(json.dumps({"acess": {"x": canaries.plant("a wrong value in the file")}}))
        file(tmp_path, "tokens.yaml", json.dumps({canaries.plant("a token that nobody hashed"): ["prod"]}))
        await until(lambda: "configuration_refused" in setting.log.getvalue())
        said |= await pages(client, bound, canaries)
    said["log"] = setting.log.getvalue()
    said["cluster"] = stored(api)
    said["stdout"], said["stderr"] = capfd.readouterr()
    assert canaries.sung_in(said) == {}
    sent = canaries.sung("\n".join(echo.seen))
    reviewed = [asked for asked in api.requests if asked.path == REVIEWS]
    assert {"scrape token", "Prometheus token", "Prometheus header"} <= set(sent)  # they were in use
    states = set(re.findall("'X-Backpressure-State': '([A-Z]+)'", said["port 8080"]))
    assert (len(reviewed) >= 2, "DEBUG" in talkative.text, len(states) > 1) == (True, True, True)


async def test_no_secret_comes_out_of_a_scaler_without_a_cluster_its_store_and_its_commands(tmp_path, talkative, capfd):
    canaries, echo = Canaries(), Echo()
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(echo.listening())
        configuration = sources(tmp_path, canaries, address)
        configuration["workloads"] = {"prod/llama": {"targets": [address]}}
        path, state, log = tmp_path / "slo-scaler.yaml", tmp_path / "state", tmp_path / "log"
        path.write_text(json.dumps(configuration))
        watched = WatchedFile(path, 1.0)
        first = watched.first()
        replicas = ConfiguredReplicas(first.targets, asyncio.get_running_loop().time)
        stream = stack.enter_context(log.open("w"))
        ports = Ports("127.0.0.1", 0, 0, 0, 0)
        wiring = Wiring(first, ports, replicas, None, stream, watched, None, state)
        bound = await stack.enter_async_context(running(wiring))
        client = await stack.enter_async_context(aiohttp.ClientSession())
        said: dict[str, str] = {}
        async with grpc.aio.insecure_channel(f"127.0.0.1:{bound.keda_port}") as channel:
            said["port 6000"] = await calls(channel, metadata(canaries))
            await decided(bound)
        said["port 8080"] = await gate_says(client, f"http://127.0.0.1:{bound.gate_port}", canaries)
        echo.refuses = True
        said["explain"] = await command("explain", "prod/llama", "--keda", f"127.0.0.1:{bound.keda_port}", "--ops",
                                        f"127.0.0.1:{bound.ops_port}")  # fmt: skip
        said["check"] = await command("check", "-w", "prod/llama", "--ops", f"127.0.0.1:{bound.ops_port}", str(path))
        said |= await pages(client, bound, canaries)
    said["log"] = log.read_text()
    kept = [one.read_text() for one in sorted(state.rglob("*")) if one.is_file()]
    said["store"] = "\n".join(kept)
    said["stdout"], said["stderr"] = capfd.readouterr()
    assert canaries.sung_in(said) == {}
    assert (bool(kept), "replica" in said["explain"], len(said["check"]) > 100) == (True, True, True)


async def command(*words: str) -> str:
    """What a command prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scaler", *words),
        env={**os.environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    return printed.decode()
