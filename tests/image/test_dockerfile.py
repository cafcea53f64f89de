"""What the Dockerfile promises, as far as reading it can tell."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from aiohttp import web

from scaler import __version__
from scaler.settings import Ports
from tests.image.dockerfile import ROOT, ignored, stages
from tests.image.machine import exec_form

BUILD, IMAGE = stages()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TAKEN_OUT = re.compile(r"uninstall --yes ([\w -]+)")


def sources() -> list[str]:
    """What COPY takes from the repository."""
    texts = [text.split() for stage in stages() for text in stage.all("COPY") if not text.startswith("--from")]
    return [source for *sources, _ in texts for source in sources]


def needed_by() -> dict[str, set[str]]:
    """Of every package of the runtime lock, who needs it: the comments below it."""
    needing: dict[str, set[str]] = {}
    package = ""
    for line in (ROOT / ".ci" / "locks" / "runtime.txt").read_text().splitlines():
        match line.split():
            case ["#", "via", name, *_] | ["#", name, *_] if name != "via":
                needing[package].add(name)
            case [start, *_] if "==" in start:
                package = start.partition("==")[0]
                needing[package] = set()
    return needing


def test_hadolint_finds_nothing_and_is_told_to_overlook_nothing():
    hadolint = Path(sys.executable).with_name("hadolint")
    command = [str(hadolint), "--no-color", "--disable-ignore-pragma", "Dockerfile"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout + done.stderr, done.returncode) == ("", 0)


def test_both_stages_stand_on_one_base_that_one_argument_pins():
    assert {stage.base for stage in stages()} == {"python:3.11-slim${BASE_DIGEST:+@${BASE_DIGEST}}"}


def test_every_package_is_a_wheel_whose_hash_is_locked():
    installs = [line for text in BUILD.all("RUN") for line in text.split("&&") if " install " in line]
    assert installs
    assert [line for line in installs if "--require-hashes -r" not in line and "--no-deps --no-index" not in line] == []
    assert "PIP_ONLY_BINARY=:all:" in BUILD.all("ENV")[0].split()


def test_the_image_installs_nothing_of_its_own():
    installers = re.compile(r"\b(?:apt|apt-get|dpkg|pip|python -m|curl|wget)\s")
    assert [text for text in IMAGE.all("RUN") if installers.search(text)] == []
    assert IMAGE.all("COPY") == ["--from=build /opt/slo-scaler /opt/slo-scaler"]


def test_the_user_is_a_number_that_is_not_root():
    user, group = map(int, IMAGE.only("USER").split(":"))
    assert user > 0
    assert group > 0


def test_the_ports_are_those_that_are_served():
    served = {field.default for field in fields(Ports) if isinstance(field.default, int)}
    assert set(map(int, IMAGE.only("EXPOSE").split())) == served


def test_it_runs_the_project_s_command_and_stops_as_the_command_expects():
    command, *_ = exec_form(IMAGE.only("ENTRYPOINT"))
    assert command in PROJECT["scripts"]
    assert IMAGE.only("STOPSIGNAL") == "SIGTERM"


def test_the_labels_tell_what_the_project_tells():
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', IMAGE.only("LABEL")))
    told = {"title": PROJECT["name"], "description": PROJECT["description"], "version": __version__}
    assert labels == told


@pytest.mark.parametrize(
    ("status", "code"),
    [pytest.param(200, 0, id="alive"), pytest.param(503, 1, id="not well"), pytest.param(None, 1, id="gone")],
)
async def test_the_health_check_fails_unless_the_process_says_that_it_lives(status, code):
    app = web.Application()

    async def livez(_: web.Request) -> web.Response:
        return web.Response(status=status)

    app.router.add_get("/livez", livez)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    if status is None:
        await runner.cleanup()
    _, *arguments = exec_form(IMAGE.only("HEALTHCHECK"))
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env={"SLO_SCALER_OPS_PORT": str(port)}, stderr=asyncio.subprocess.DEVNULL
    )
    answer = await process.wait()
    await runner.cleanup()
    assert answer == code


def test_the_health_check_asks_at_the_port_for_probes():
    code = exec_form(IMAGE.only("HEALTHCHECK"))[-1]
    assert f"environ.get('SLO_SCALER_OPS_PORT', {Ports().ops})" in code


def test_everything_that_is_copied_exists_and_reaches_the_builder():
    assert [source for source in sources() if not (ROOT / source).exists() or ignored(source)] == []


@pytest.mark.parametrize(
    "path",
    ["tests/conftest.py", ".git/config", ".venv/bin/python", ".env", "scaler/core/__pycache__/step.pyc", ".ci/run"],
)
def test_what_the_image_does_not_need_stays_behind(path):
    assert ignored(path)


def test_what_is_taken_out_again_is_needed_by_nobody_but_the_prometheus_client():
    """Whether the client can do without, the build shows: it imports everything afterwards."""
    [names] = [found[1].split() for text in BUILD.all("RUN") if (found := TAKEN_OUT.search(text))]
    needing = needed_by()
    assert {name: needing[name] - {*names, "prometheus-api-client"} for name in names} == {
        name: set() for name in names
    }
