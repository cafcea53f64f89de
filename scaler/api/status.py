"""The status page's routes: the list, one workload, what its charts begin with, the streams that keep them up to date, and the files."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from importlib.resources import files

from aiohttp import web

from scaler.api import page, render, workload_page
from scaler.api.openapi import OPS_PORT, Described
from scaler.api.streams import Streams
from scaler.api.view import Handler, View, asked_for, json_answer, served, unknown_workload
from scaler.control.changes import SPAN_S
from scaler.core.model import Pressure
from scaler.report.markup import Markup

TURN_ROWS = 50
"""Rows of the list, at 0.15 ms each, that are made before others get their turn: a thousand workloads must not keep an RPC waiting."""
LASTS = 10
"""Times as long as it took to make the list it is shown to whoever asks, so that looking at it costs a tenth of the time at most."""
KINDS = {".js": "text/javascript", ".css": "text/css"}
CAREFUL = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
POLICY = {
    **CAREFUL,
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'",
}
ONE = "{namespace}/{name}"
KNOWN_OR_NOT = ((200, ""), (404, "No such workload"))
STREAMED = (503, "As many streams as there may be are open")
ROUTES = (
    Described("/", OPS_PORT, "The status page", media="text/html"),
    Described(f"/workload/{ONE}", OPS_PORT, "The status page of one workload", KNOWN_OR_NOT, media="text/html"),
    Described(
        f"/v1/history/{ONE}",
        OPS_PORT,
        "What the charts show: the last 15 minutes, thinned to a decision every 5 s",
        KNOWN_OR_NOT,
        schema="History",
    ),
    Described(
        "/v1/events",
        OPS_PORT,
        "Server-sent events of every workload: `decision` (an Event), `pending` (a State) when there is none yet, `gone`. First the newest "
        "of each, then each that is published, at most one a second and workload",
        ((200, ""), STREAMED),
        media="text/event-stream",
        schema="Event",
    ),
    Described(
        f"/v1/events/{ONE}",
        OPS_PORT,
        "The same of one workload",
        (*KNOWN_OR_NOT, STREAMED),
        media="text/event-stream",
        schema="Event",
    ),
)


def answers(view: View, streams: Streams) -> tuple[Handler, ...]:
    """What serves each of ``ROUTES``."""
    return (
        _Listing(view).answer,
        served(lambda request: _workload(view, request)),
        served(lambda request: _history(view, request)),
        streams.of_all,
        streams.of_one,
    )


def assets() -> Iterator[web.RouteDef]:
    """The page's own script and style, read once."""
    for file in (files("scaler.api") / "static").iterdir():
        kind = KINDS.get(file.name[file.name.rfind(".") :])
        if kind is not None:
            yield web.get(f"/static/{file.name}", _file(file.read_bytes(), kind))


def _file(content: bytes, kind: str) -> Handler:
    return served(lambda _: web.Response(body=content, content_type=kind, charset="utf-8", headers=CAREFUL))


class _Listing:
    """The list of all workloads, made for all who look, and a piece at a time."""

    def __init__(self, view: View) -> None:
        self._view, self._making = view, asyncio.Lock()
        self._fresh_until, self._text = -math.inf, ""

    async def answer(self, _: web.Request) -> web.Response:
        clock = self._view.clock
        async with self._making:
            if (begun := clock()) >= self._fresh_until:
                self._text = await self._made(begun)
                self._fresh_until = clock() + LASTS * (clock() - begun)
        return _html(self._text)

    async def _made(self, now: float) -> str:
        rows, states = list[Markup](), list[Pressure]()
        for number, outcome in enumerate(self._view.every(now), start=1):
            rows.append(page.row(outcome, now))
            states.append(page.state_of(outcome))
            if number % TURN_ROWS == 0:
                await asyncio.sleep(0)  # noqa: TID251 - others' turn
        return page.listing(rows, states, self._view.faults())


def _workload(view: View, request: web.Request) -> web.Response:
    key, now = asked_for(request), view.clock()
    outcome = view.seen(key, now)
    lately = workload_page.Lately(view.board.changes.since(key, now - SPAN_S), view.bill(key, now))
    shown = workload_page.workload_page(key, outcome, now, view.faults(), lately)
    return _html(shown, 404 if outcome is None else 200)


def _history(view: View, request: web.Request) -> web.Response:
    key, now = asked_for(request), view.clock()
    if view.seen(key, now) is None:
        return unknown_workload()
    return json_answer(render.history_body(key, view.board.history.points(key), now))


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, content_type="text/html", headers=POLICY)
