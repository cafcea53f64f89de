"""A headless Chromium, driven over its own debugging protocol."""

import asyncio
import base64
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse

LISTENING = b"DevTools listening on "
LOOK_EVERY_S = 0.05


def program() -> str:
    """The program; skips the test where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium on the PATH (Debian: apt-get install chromium)")
    return found


@dataclass(eq=False)
class Page:
    """One tab. ``asked`` are the addresses that it requested, ``complaints`` what it wrote to its console and what broke."""

    socket: ClientWebSocketResponse
    session: str
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    _numbers: Any = field(default_factory=count)
    _answers: dict[int, asyncio.Future] = field(default_factory=dict)
    listening: asyncio.Task | None = None

    async def listen(self) -> None:
        async for message in self.socket:
            told = message.json()
            if "id" in told:
                self._answers.pop(told["id"]).set_result(told)
            elif told["method"] == "Network.requestWillBeSent":
                self.asked.append(told["params"]["request"]["url"])
            elif told["method"] in {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}:
                self.complaints.append(str(told["params"]))

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self.socket.send_json({"id": number, "sessionId": self.session, "method": method, "params": params})
        told = await answer
        assert "error" not in told, told
        return told["result"]

    async def open(self, url: str) -> None:
        await self.call("Page.navigate", url=url)

    async def evaluate(self, expression: str) -> Any:
        told = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return told["result"].get("value")

    async def until(self, expression: str) -> Any:
        """The first value of the expression that is true."""
        while not (value := await self.evaluate(expression)):
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await asyncio.Event().wait()
        return value

    async def look(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """As whom the page is looked at."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def picture(self) -> bytes:
        """The whole page as a PNG."""
        told = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(told["data"])


@asynccontextmanager
async def browsing(home: Path) -> AsyncIterator[Page]:
    """A tab of a browser whose profile is in ``home``."""
    options = [
        "--headless=new",
        "--remote-debugging-port=0",
        f"--user-data-dir={home}",
        "--no-first-run",
        "--disable-gpu",
    ]
    options += ["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"]
    options += ["--no-sandbox"] if os.geteuid() == 0 else []  # it refuses to be root with one
    process = await asyncio.create_subprocess_exec(
        program(), *options, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        while not (line := await process.stderr.readline()).startswith(LISTENING):
            assert line, "Chromium ended before it listened"
        url = line.removeprefix(LISTENING).decode().strip()
        async with ClientSession() as client, client.ws_connect(url, max_msg_size=0) as socket:
            yield await _tab(socket)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _tab(socket: ClientWebSocketResponse) -> Page:
    target = await _before(socket, "Target.createTarget", url="about:blank")
    session = await _before(socket, "Target.attachToTarget", targetId=target["targetId"], flatten=True)
    page = Page(socket, session["sessionId"])
    page.listening = asyncio.create_task(page.listen())
    for domain in ("Page", "Runtime", "Network", "Log"):
        await page.call(f"{domain}.enable")
    return page


async def _before(socket: ClientWebSocketResponse, method: str, **params: Any) -> dict[str, Any]:
    """A call before there is a tab that listens."""
    await socket.send_json({"id": -1, "method": method, "params": params})
    while (told := await socket.receive_json()).get("id") != -1:
        pass
    result: dict[str, Any] = told["result"]
    return result
