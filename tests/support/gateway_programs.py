"""Programs of other projects for the tests: packages of Debian and of Python, unpacked into a cache.

Nothing is installed. What cannot be had is a reason, and the test that needs it is skipped with that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slo-scaler"
PATIENCE_S = 50
APT = ("-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10", "-o", "APT::Sandbox::User=root")


class Unavailable(Exception):
    """Why something cannot be had."""


@cache
def debian(name: str, *packages: str) -> Path:
    """The folder that the packages are unpacked into. Raises Unavailable."""
    home = HOME / name
    if not home.exists():
        _built(home, lambda folder: _unpack(folder, packages))
    return home


@cache
def python_packages(name: str, *requirements: str) -> Path:
    """The folder that has them and what they need, and nothing else: for PYTHONPATH, with ``python -S``. Raises Unavailable."""
    home = HOME / name
    if not home.exists():
        _built(home, lambda folder: _install(folder, requirements))
    return home


def needed(what, *arguments):
    """What it returns; skips the test where it cannot be had."""
    try:
        return what(*arguments)
    except Unavailable as reason:
        pytest.skip(str(reason))


def _built(home: Path, build) -> None:
    """Whole or not at all, also when two do it at once."""
    home.parent.mkdir(parents=True, exist_ok=True)
    building = home.with_name(f"{home.name}.building-{os.getpid()}")
    try:
        build(building)
        with suppress(OSError):  # somebody else was faster
            building.rename(home)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{error.cmd[0]} did not end in time") from None
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _unpack(folder: Path, packages: tuple[str, ...]) -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise Unavailable("there are no apt-get and dpkg-deb to unpack packages with")
    loaded = folder / "packages"
    loaded.mkdir(parents=True)
    _run(["apt-get", *APT, "download", *packages], loaded)
    for package in sorted(loaded.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(package), str(folder)], loaded)
    shutil.rmtree(loaded)


def _install(folder: Path, requirements: tuple[str, ...]) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq", "install", "--no-compile"]
    _run([*pip, "--target", str(folder), *requirements], HOME)


def _run(command: list[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, timeout=PATIENCE_S, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(command[:4])}…: {done.stderr.decode()[-300:].strip()}")
