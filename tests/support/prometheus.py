"""A real Prometheus: Debian's package, unpacked into a cache and not installed, when there is none on the PATH."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

READY = b"Server is ready to receive web requests"
LISTENING = b"Listening on"


@cache
def binary() -> Path | str:
    """The program, or why there is none."""
    if found := shutil.which("prometheus"):
        return Path(found)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slo-scaler" / "prometheus"
    program = home / "usr" / "bin" / "prometheus"
    if program.exists():
        return program
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return "no prometheus on the PATH, and no apt-get and dpkg-deb to unpack one"
    home.mkdir(parents=True, exist_ok=True)
    options = ("-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10", "-o", "APT::Sandbox::User=root")
    download = ["apt-get", *options, "download", "prometheus"]
    loaded = subprocess.run(download, cwd=home, capture_output=True, timeout=50, check=False)
    packages = sorted(home.glob("prometheus_*.deb"))
    if loaded.returncode or not packages:
        return f"apt-get cannot download prometheus: {loaded.stderr.decode()[-200:].strip()}"
    unpacked = home / f"unpacking-{os.getpid()}"
    subprocess.run(["dpkg-deb", "-x", str(packages[-1]), str(unpacked)], check=True, timeout=50)
    with suppress(OSError):  # somebody else was faster
        (unpacked / "usr").rename(home / "usr")
    shutil.rmtree(unpacked, ignore_errors=True)
    return program


def program() -> Path:
    """The program; skips the test where there is none."""
    found = binary()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@dataclass
class Prometheus:
    """A running one."""

    url: str
    process: asyncio.subprocess.Process

    def freeze(self) -> None:
        """It accepts connections and answers nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()


def configuration(targets: Mapping[str, str], interval: str) -> str:
    """Each pod scraped by the address; JSON is YAML too. ``prod/`` before a pod's name is its namespace."""
    static = [
        {"targets": [address], "labels": {"namespace": pod.partition("/")[0], "pod": pod.partition("/")[2]}}
        for pod, address in targets.items()
    ]
    timing = {"scrape_interval": interval, "scrape_timeout": interval}
    return json.dumps({"global": timing, "scrape_configs": [{"job_name": "engines", "static_configs": static}]})


@asynccontextmanager
async def prometheus(directory: Path, targets: Mapping[str, str], interval: str = "1s") -> AsyncIterator[Prometheus]:
    """One that scrapes ``targets`` (``namespace/pod`` to host:port), on a port that the system chose."""
    config = directory / "prometheus.yml"
    config.write_text(configuration(targets, interval))
    process = await asyncio.create_subprocess_exec(
        program(),
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'data'}",
        "--web.listen-address=127.0.0.1:0",
        "--log.format=json",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    drain: asyncio.Task[bytes] | None = None
    try:
        url = ""
        async with asyncio.timeout(20):
            while READY not in (line := await process.stderr.readline()):
                assert line, "prometheus ended"
                if LISTENING in line:
                    url = f"http://{_address(line) or _port_of(process.pid)}"
        drain = asyncio.create_task(process.stderr.read())
        yield Prometheus(url or f"http://{_port_of(process.pid)}", process)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if drain is not None:
            await drain


def _address(line: bytes) -> str:
    address = str(json.loads(line).get("address", ""))
    return "" if address.endswith(":0") else address


def _port_of(pid: int) -> str:
    """Where a process listens, for releases that do not say which port they were given."""
    sockets = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
            return f"127.0.0.1:{int(fields[1].partition(':')[2], 16)}"
    raise AssertionError("prometheus does not listen")
