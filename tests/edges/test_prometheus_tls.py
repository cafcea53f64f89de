"""A Prometheus behind TLS: whom we believe, and that a new CA is taken up while we run."""

import json
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import perf_counter

from scaler.control.ports import Ask, Scrape, Target
from scaler.core.model import Missing, WorkloadKey
from scaler.engines import ENGINES
from scaler.sources.prometheus import PrometheusApi, PrometheusSettings, PrometheusSource
from tests.support.prometheus_fake import vector
from tests.support.tls import Authority, Issued, server_context

ASK = Ask(WorkloadKey("prod", "llama"), ENGINES["vllm"], (Target("a", ""),))
EMPTY = Scrape((), (Missing("a", "Prometheus has no fresh sample with pod a"),))
STRANGER = Scrape((), (Missing("a", "Prometheus: TLS certificate not trusted"),))


class Handler(BaseHTTPRequestHandler):
    """Knows nothing of anything."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(vector([])).encode())

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    """In threads: asyncio's server keeps the connections of clients that refused its certificate."""

    def handle_error(self, *_):
        pass


@contextmanager
def behind(certificate: Issued):
    with Server(("127.0.0.1", 0), Handler) as server:
        context = server_context(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@asynccontextmanager
async def asking(url: str, ca: Path | None):
    api = PrometheusApi(
        PrometheusSettings(url, 1e-6, ca_file=None if ca is None else str(ca), timeout_s=10.0), perf_counter
    )
    source = PrometheusSource(api, perf_counter)
    try:
        yield source
    finally:
        await source.close()
        await api.close()


async def test_only_the_named_ca_is_believed(tmp_path):
    ours, other = Authority(tmp_path / "ours"), Authority(tmp_path / "other")

    with behind(ours.issue()) as url:
        found = {}
        for name, ca in {"other": other.ca, "system": None, "ours": ours.ca}.items():
            async with asking(url, ca) as source:
                found[name] = await source.read(ASK)

    assert found == {"ours": EMPTY, "other": STRANGER, "system": STRANGER}


async def test_a_ca_that_changed_is_read_again(tmp_path):
    ours, other, ca = Authority(tmp_path / "ours"), Authority(tmp_path / "other"), tmp_path / "ca.pem"
    found = []

    with behind(ours.issue()) as url:
        async with asking(url, ca) as source:
            for number, authority in enumerate((ours, other, ours)):
                ca.write_bytes(authority.ca.read_bytes() + number * b"\n")
                found.append(await source.read(ASK))

    assert found == [EMPTY, STRANGER, EMPTY]
