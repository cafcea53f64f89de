"""The image built and run as far as that goes without a container engine; see ``machine``. Needs root and a package registry."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.image.dockerfile import stages
from tests.image.machine import Machine, build, cannot, compressed_size, exec_form
from tests.support.engines import IDLE, PAGES, PageEngine, listening
from tests.support.prometheus_fake import FakePrometheus, faking, page_series

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

IMAGE = stages()[-1]
LARGEST_LAYER = 25_000_000
USER, OPENSHIFT = IMAGE.only("USER"), "1000680000:0"
CONFIGURATION = "/slo-scaler.yaml"
PORTS = ("keda", "gate", "ops", "authz")
ANY_PORT = {f"SLO_SCALER_{name.upper()}_PORT": "0" for name in PORTS}
LOOPBACK = {"SLO_SCALER_HOST": "127.0.0.1", "HOME": "/nonexistent"}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if reason := cannot():
        pytest.skip(reason)
    try:
        Machine(tmp_path_factory.mktemp("trial")).run("true")
    except RuntimeError:
        pytest.skip("needs to be allowed namespaces and an overlay file system")
    place = tmp_path_factory.mktemp("image")
    yield build(place)
    shutil.rmtree(place)


def ran(image: Machine, *arguments: str, user: str = USER) -> subprocess.CompletedProcess[str]:
    command = image.command(arguments, user, LOOPBACK)
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def test_our_layer_is_no_larger_than_it_may_be(image):
    assert compressed_size(image) <= LARGEST_LAYER


def test_nothing_of_ours_can_be_changed_by_who_runs_it(image):
    below = [path for top in image.copied for path in (image.root / top).rglob("*") if not path.is_symlink()]
    assert below
    told = [(path, path.stat()) for path in below]
    assert [path for path, found in told if found.st_uid != 0 or found.st_mode & 0o022] == []


def test_there_is_no_installer_in_it(image):
    modules = (
        "import importlib.util as u; print([m for m in ('pip', 'setuptools', 'wheel', 'ensurepip') if u.find_spec(m)])"
    )
    assert [ran(image, python, "-c", modules).stdout for python in ("python", "/usr/local/bin/python")] == ["[]\n"] * 2


def test_nothing_is_compiled_when_it_starts(image):
    done = ran(image, "python", "-v", "-c", "import scaler.cli.serve, scaler.app")
    loaded = [line for line in done.stderr.splitlines() if line.startswith("# code object from ")]
    assert loaded
    assert [line for line in loaded if not line.endswith(".pyc'")] == []


@pytest.mark.parametrize(
    "arguments",
    [("--version",), ("--help",), ("serve", "--schema"), ("explain", "--help"), ("demo", "--json", "--seconds", "30")],
    ids=" ".join,
)
def test_its_commands_work(image, arguments):
    done = ran(image, "slo-scaler", *arguments)
    assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr[-4000:]


def child_of(process: int) -> int:
    """The only one: what ``unshare`` started."""
    return int(Path(f"/proc/{process}/task/{process}/children").read_text())


@dataclass
class Running:
    process: Process
    ports: Mapping[str, int]

    async def line(self, event: str) -> dict[str, Any]:
        """The next log line of that event."""
        assert self.process.stdout is not None
        while True:
            line: dict[str, Any] = json.loads(await self.process.stdout.readline())
            if line["event"] == event:
                return line

    async def decided(self, names: set[str]) -> None:
        """Returns when every one of these workloads has had a decision."""
        while names:
            names = names - {(await self.line("decision"))["name"]}

    async def stopped(self) -> int:
        """Its exit code when told to stop, as the first process of its machine."""
        os.kill(child_of(self.process.pid), signal.SIGTERM)
        await self.process.communicate()
        return self.process.returncode or 0


@asynccontextmanager
async def running(image: Machine, user: str) -> AsyncIterator[Running]:
    arguments = [*exec_form(IMAGE.only("ENTRYPOINT")), "--config", CONFIGURATION, "--tick", "0.1"]
    process = await asyncio.create_subprocess_exec(
        *image.command(arguments, user, {**LOOPBACK, **ANY_PORT}), stdout=PIPE
    )
    scaler = Running(process, {})
    try:
        scaler.ports = await scaler.line("listening")
        yield scaler
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def code_of(image: Machine, arguments: list[str], user: str, environment: Mapping[str, str]) -> int:
    command = image.command(arguments, user, {**LOOPBACK, **environment})
    return await (await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)).wait()


def fresh_prometheus() -> FakePrometheus:
    """One whose newest samples are of the moment it is asked, however long that takes."""
    fake = FakePrometheus()

    async def scrape(_: web.Request) -> None:
        fake.now = datetime.now(UTC).timestamp()
        fake.series = page_series((PAGES / IDLE).read_bytes(), "llama-0", at=fake.now)

    fake.misbehave = scrape
    return fake


def configuration(engine: str, prometheus: str) -> str:
    """Two workloads, one from each source; JSON is YAML too."""
    trigger = {"safeConcurrency": "4", "ttftSloSeconds": "5"}
    queried = {**trigger, "source": "default", "modelName": "tiny"}
    workloads = {"prod/scraped": {"targets": [engine], "metadata": trigger}, "prod/queried": {"metadata": queried}}
    return json.dumps({"prometheus": {"default": {"url": prometheus, "interval_s": 1}}, "workloads": workloads})


@pytest.mark.parametrize(
    "user", [pytest.param(USER, id="its user"), pytest.param(OPENSHIFT, id="any user, as on OpenShift")]
)
async def test_it_serves_from_both_sources_on_a_read_only_file_system_and_stops_in_peace_as(image, user):
    health = exec_form(IMAGE.only("HEALTHCHECK"))
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(listening(PageEngine()))
        prometheus = await stack.enter_async_context(faking(fresh_prometheus()))
        (image.root / CONFIGURATION.removeprefix("/")).write_text(configuration(engine, prometheus.url))
        scaler = await stack.enter_async_context(running(image, user))
        await scaler.decided({"scraped", "queried"})
        at = {f"SLO_SCALER_{name.upper()}_PORT": str(port) for name, port in scaler.ports.items() if name in PORTS}
        explain = ["slo-scaler", "explain", "prod/queried", "--keda", f"127.0.0.1:{scaler.ports['keda']}"]
        told = await code_of(image, [*explain, "--ops", f"127.0.0.1:{scaler.ports['ops']}"], user, {})
        alive = await code_of(image, health, user, at)
        stopped = await scaler.stopped()
        gone = await code_of(image, health, user, at)
    assert (told, alive, stopped, gone) == (0, 0, 0, 1)
