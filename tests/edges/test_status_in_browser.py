"""The status page in a real Chromium, behind a prefix: what it shows changes as decisions are published, without being loaded again."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from prometheus_client import CollectorRegistry

from scaler.api.http import Ops, ops_app
from scaler.api.view import View
from scaler.control.board import Board
from scaler.core.decision import Decision
from scaler.core.model import WorkloadKey
from tests.support import decisions as made
from tests.support.browser import Page, browsing
from tests.support.prefix_proxy import behind
from tests.support.served import Failures, Workloads, serving

HOSTILE = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
LIVE = "document.getElementById('stream').className === 'live'"
DESIRED = "document.querySelector('dl dd').textContent"
CORNERS = "[...document.querySelectorAll('.plot path.line')].map(path => path.getAttribute('d')).join().match(/L/g)?.length ?? 0"
READ = "[...document.querySelectorAll('.legend')].map(one => one.textContent.replace(/\\s+/g, ' ').trim()).join('; ')"

pytestmark = pytest.mark.timeout(120)  # a browser takes its time to start where much runs at once


@dataclass
class Shown:
    """A page of the status server at ``url``, and the board behind it, on the browser's own time."""

    page: Page
    url: str
    board: Board

    def publish(self, decision: Decision, key: WorkloadKey = made.KEY) -> None:
        now = asyncio.get_running_loop().time()
        self.board.publish(replace(decision, key=key, decided_at=now, observed_at=now))


@asynccontextmanager
async def shown(home) -> AsyncIterator[Shown]:
    board, clock = Board(), asyncio.get_running_loop().time
    keys = [made.KEY, WorkloadKey("prod", HOSTILE)]
    app = ops_app(
        Ops(View(board, Workloads(keys), clock, random.Random(7), Failures()), CollectorRegistry(), lambda: True)
    )
    async with serving(app) as client, behind("/tools/scaler", client) as url, browsing(home) as page:
        yield Shown(page, url, board)


async def test_one_workload_is_seen_live(tmp_path):
    async with shown(tmp_path) as at:
        at.publish(made.green())
        await at.page.open(f"{at.url}workload/prod/llama")
        await at.page.until(LIVE)
        before = await at.page.until(f"{DESIRED} === '2' && {READ}.includes('asked 2') && {{corners: {CORNERS}}}")
        await at.page.evaluate("window.loadedOnce = true")
        at.publish(made.red())
        after = await at.page.until(f"{DESIRED} === '5' && {READ}.includes('asked 5') && {{corners: {CORNERS}}}")
        read = await at.page.evaluate(READ)
        kept = await at.page.evaluate("window.loadedOnce")
        bands = await at.page.evaluate(
            "[...document.querySelectorAll('text.mark')].map(text => text.textContent).join()"
        )
    assert (after["corners"] > before["corners"], kept) == (True, True)
    assert (read, bands) == (
        "offered 24 admitted 24 refused 0; queue wait 19.5 s; asked 5 ready 2 starting 0",
        "0.4 × budget: 0.8 s,budget: 2 s",
    )
    assert (at.page.complaints, [url for url in at.page.asked if not url.startswith(at.url)]) == ([], [])


async def test_the_list_is_seen_live_and_a_hostile_name_is_but_a_name(tmp_path):
    async with shown(tmp_path) as at:
        hostile = replace(made.green(), findings=(replace(made.red().findings[0], text=HOSTILE),))
        at.publish(hostile, WorkloadKey("prod", HOSTILE))
        await at.page.open(at.url)
        await at.page.until(LIVE)
        await at.page.evaluate("document.querySelector('td a').focus()")
        at.publish(made.red())
        await at.page.until("!!document.querySelector('.state.red')")
        focused = await at.page.evaluate("document.activeElement.textContent")
        hacked = await at.page.evaluate("[typeof window.hacked, document.images.length].join()")
    assert (focused, hacked) == (f"prod/{HOSTILE}", "undefined,0")
    assert (at.page.complaints, [url for url in at.page.asked if not url.startswith(at.url)]) == ([], [])


async def test_a_page_that_lost_its_server_says_since_when(tmp_path):
    board, clock = Board(), asyncio.get_running_loop().time
    view = View(board, Workloads([made.KEY]), clock, random.Random(7), Failures())
    async with browsing(tmp_path) as page:
        async with serving(ops_app(Ops(view, CollectorRegistry(), lambda: True))) as client:
            await page.open(str(client._base_url))
            await page.until(LIVE)
        told = await page.until("document.getElementById('stream').className === 'lost' && document.body.textContent")
    assert "not live: this is what was known at " in told


async def test_without_javascript_the_numbers_are_there(tmp_path):
    async with shown(tmp_path) as at:
        at.publish(made.red())
        await at.page.call("Emulation.setScriptExecutionDisabled", value=True)
        await at.page.open(f"{at.url}workload/prod/llama")
        told = await at.page.until("document.querySelector('#charts')?.innerText")
        number = await at.page.evaluate(DESIRED)
    assert (told, number) == ("The charts need JavaScript; everything else is here without it.", "5")
