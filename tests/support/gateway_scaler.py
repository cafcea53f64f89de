"""The scaler as a process that a test stops, freezes and starts again on the same ports."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.gateways import HOST, free_port


@dataclass
class ScalerProcess:
    """One scaler, and the ports that it has at every start."""

    config: Path
    tick_s: str
    ports: dict[str, int] = field(
        default_factory=lambda: {name: free_port() for name in ("KEDA", "GATE", "OPS", "AUTHZ")}
    )
    _process: asyncio.subprocess.Process | None = None
    _drain: asyncio.Task[bytes] | None = None

    async def start(self) -> None:
        """Until it listens."""
        ports = {f"SLO_SCALER_{name}_PORT": str(port) for name, port in self.ports.items()}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "scaler", "serve", "--config", str(self.config), "--tick", self.tick_s,
            env={**os.environ, **ports, "SLO_SCALER_HOST": HOST}, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        while json.loads(await self._process.stdout.readline())["event"] != "listening":
            pass
        self._drain = asyncio.create_task(self._process.stdout.read())

    def freeze(self) -> None:
        """It accepts connections and answers nothing."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on."""
        self._send(signal.SIGCONT)

    async def end(self, number: signal.Signals) -> None:
        """Until it has ended."""
        self._send(number)
        if self._process is not None:
            await self._process.wait()
        if self._drain is not None:
            await self._drain

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)


@asynccontextmanager
async def scaler_process(config: Path, tick_s: str = "0.1") -> AsyncIterator[ScalerProcess]:
    """A scaler that listens."""
    process = ScalerProcess(config, tick_s)
    try:
        await process.start()
        yield process
    finally:
        await process.end(signal.SIGKILL)
