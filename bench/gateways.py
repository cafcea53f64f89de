"""What the check costs behind real gateways: requests a second and p99 with it, beside the same proxy without it.

The scaler is a process of its own, the engine an NGINX that answers at once, the load wrk's. With and without take turns in blocks, so
that what else the machine does meets both. All of it shares the machine's cores, so the ratios say more than the figures.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import yaml

from tests.support.engines import IDLE, PageEngine, listening
from tests.support.gateway_programs import Unavailable, debian
from tests.support.gateway_scaler import scaler_process
from tests.support.gateways import (
    ENVOY_GRPC,
    ENVOY_GRPC_ASKS,
    ENVOY_HTTP,
    ENVOY_HTTP_ASKS,
    HAPROXY,
    HOST,
    NGINX_ASKS,
    NGINX_POLLS,
    NJS,
    Gateway,
    Prepare,
    Run,
    Sides,
    envoy,
    haproxy,
    nginx,
    nginx_program,
    started,
)

BLOCKS, BLOCK_S, WARM_S, CONNECTIONS = 4, 2, 1, 16
MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0}
ROOMY = {"safe_concurrency": 100_000, "safe_rate_per_s": 50_000.0}
TRIGGER = {"profile": "roomy", "ttftSloSeconds": "5", "gate": "enforce"}
ENGINE = """
daemon off; pid nginx.pid; error_log stderr error; worker_processes 1;
events {{}}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    keepalive_requests 1000000;
    server {{ listen {host}:{port}; location / {{ return 200 "{{}}"; }} }}
}}
"""


def _without_lines(*starts: str) -> Callable[[str], str]:
    """An edit that takes away the lines that start so."""

    def edit(text: str) -> str:
        return "".join(line for line in text.splitlines(keepends=True) if not line.strip().startswith(starts))

    return edit


def _without_filter(text: str) -> str:
    """An Envoy that asks nobody."""
    config = yaml.safe_load(text)
    [chain] = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"]
    manager = chain["typed_config"]
    manager["http_filters"] = manager["http_filters"][-1:]
    manager["route_config"]["virtual_hosts"][0]["routes"][0].pop("typed_per_filter_config", None)
    return json.dumps(config)


PAIRS: tuple[tuple[Gateway, Prepare], ...] = (
    (ENVOY_GRPC_ASKS, envoy(*ENVOY_GRPC, _without_filter)),
    (ENVOY_HTTP_ASKS, envoy(*ENVOY_HTTP, _without_filter)),
    (NGINX_ASKS, nginx("nginx/asks.conf", {}, _without_lines("auth_request /"))),
    (NGINX_POLLS, nginx("nginx/polls.conf", NJS, _without_lines("auth_request /"))),
    (HAPROXY, haproxy(_without_lines("http-request", "acl"))),
)
"""Each gateway as it is shipped, and the same without the check."""


@dataclass
class Measured:
    """Requests a second and p99 in milliseconds, of each block."""

    per_s: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        """The medians."""
        return f"{median(self.per_s):6.0f}/s  p99 {median(self.p99_ms):6.1f} ms"


def _engine(folder: Path, _: Sides, port: int) -> Run:
    config = folder / "engine.conf"
    config.write_text(ENGINE.format(host=HOST, port=port))
    return Run((*nginx_program().command, "-p", str(folder), "-c", str(config)), {})


@asynccontextmanager
async def _sides() -> AsyncIterator[Sides]:
    """A scaler for which everything is GREEN, and an engine that answers at once."""
    async with AsyncExitStack() as stack:
        page = await stack.enter_async_context(listening(PageEngine(IDLE)))
        config = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "slo-scaler.yaml"
        workloads = {"prod/llama": {"targets": [page], "metadata": TRIGGER}}
        config.write_text(json.dumps({"profiles": {"roomy": ROOMY}, "workloads": workloads}))
        scaler = await stack.enter_async_context(scaler_process(config, tick_s="2"))
        engine = await stack.enter_async_context(started(_engine, Sides(0, 0, 0)))
        yield Sides(scaler.ports["GATE"], scaler.ports["AUTHZ"], int(engine.rpartition(":")[2]))


async def _block(url: str, seconds: int) -> tuple[float, float]:
    """Requests a second and p99 in milliseconds of one run of wrk. All must have been let through."""
    root = debian("wrk", "wrk", "libluajit-5.1-2")
    libraries = ":".join(str(path) for path in (root / "usr/lib").glob("*-linux-gnu*"))
    load = ("-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", f"{url}/v1/chat/completions")
    process = await asyncio.create_subprocess_exec(
        str(root / "usr/bin/wrk"), *load, env={"LD_LIBRARY_PATH": libraries}, stdout=asyncio.subprocess.PIPE
    )
    said = (await process.communicate())[0].decode()
    assert "Non-2xx" not in said, said
    per_s, p99 = re.search(r"Requests/sec: +([\d.]+)", said), re.search(r"99% +([\d.]+)(us|ms|s)", said)
    assert per_s is not None, said
    assert p99 is not None, said
    return float(per_s[1]), float(p99[1]) * MILLISECONDS[p99[2]]


async def _pair(gateway: Gateway, without: Prepare, sides: Sides) -> str:
    checked, plain = Measured(), Measured()
    async with started(gateway.prepare, sides) as with_check, started(without, sides) as bare:
        for url in (with_check, bare):
            await _block(url, WARM_S)
        for _ in range(BLOCKS):
            for url, measured in ((with_check, checked), (bare, plain)):
                per_s, p99_ms = await _block(url, BLOCK_S)
                measured.per_s.append(per_s)
                measured.p99_ms.append(p99_ms)
    share = median(checked.per_s) / median(plain.per_s)
    slower = median(checked.p99_ms) / median(plain.p99_ms)
    return f"{gateway.name:21} {checked}   without {plain}   ratio {share:4.2f}, p99 {slower:5.1f}x"


async def _measure() -> list[str]:
    async with _sides() as sides:
        return [await _pair(gateway, without, sides) for gateway, without in PAIRS]


def run() -> list[str]:
    """One line for each gateway; why there is none where a program cannot be had."""
    try:
        return asyncio.run(_measure())
    except Unavailable as reason:
        return [f"not measured: {reason}"]
