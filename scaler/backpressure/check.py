"""The plain RED bit over HTTP: the smallest thing that a load balancer or a script needs.

200, or the shed status while RED, whatever ``gate`` says. On and off with seconds of lag serves far fewer requests in time than the admit
fraction of the state endpoint does, so whoever can roll dice should use that one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from scaler.core.admission import as_of
from scaler.core.decision import Decision
from scaler.core.model import Pressure, WorkloadKey
from scaler.core.plain import Json
from scaler.core.retry import (
    NO_CAPACITY,
    UNKNOWN_HEADERS,
    retry,
    retry_headers,
    shed_status,
    state_headers,
    verdict_for,
)

if TYPE_CHECKING:
    from scaler.control.board import Board
    from scaler.control.ports import Clock

PATH = "/v1/backpressure/{namespace}/{name}"
NO_STORE = {"Cache-Control": "no-store"}
"""A stored refusal would outlive its reason."""


@dataclass(frozen=True, slots=True)
class Check:
    """What the check is made from. ``failed`` is told of an answer that raised something unexpected.

    ``may`` says whether one with these headers may ask for a namespace: who may not gets the answer of an unknown workload.
    """

    board: Board
    clock: Clock
    rng: random.Random
    failed: Callable[[str, Exception], None]
    may: Callable[[Mapping[str, str], str], bool] = lambda _headers, _namespace: True


def routes(check: Check) -> list[web.RouteDef]:
    """The route, for any method: proxies keep that of the request they ask about. A body is never read."""
    return [web.route("*", PATH, _served(check))]


def paths() -> dict[str, Json]:
    """The path as an OpenAPI path item."""
    answers: dict[str, Json] = {
        "200": {"description": "Not RED, or not known"},
        "429": {"description": "RED: the replicas are contended"},
        "503": {"description": "RED: no replica is ready"},
    }
    names: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in ("namespace", "name")
    ]
    wanted: Json = {"name": "class", "in": "query", "required": False, "schema": {"type": "string"}}
    operation: Json = {"summary": "The plain RED bit", "parameters": [*names, wanted], "responses": answers}
    return {PATH: {"servers": [{"url": "http://localhost:8080"}], "get": operation}}


def _served(check: Check) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handler(request: web.Request) -> web.StreamResponse:
        return answer(check, request)

    return handler


def answer(check: Check, request: web.Request) -> web.Response:
    """One verdict. What is not known, and what we got wrong, is let through: a 5xx would leave it to the gateway's own rule."""
    try:
        key = WorkloadKey(request.match_info["namespace"], request.match_info["name"])
        outcome = check.board.latest(key) if check.may(request.headers, key.namespace) else None
        if isinstance(outcome, Decision):
            return _verdict(check, outcome, request.query.get("class"))
    except Exception as error:  # noqa: BLE001 - our own bug must not stop somebody's traffic
        check.failed(PATH, error)
    return _reply(200, {"state": Pressure.UNKNOWN.value}, {**UNKNOWN_HEADERS, **NO_STORE})


def _verdict(check: Check, decision: Decision, request_class: str | None) -> web.Response:
    now = check.clock()
    decision = as_of(decision, now)
    verdict, note = verdict_for(decision, request_class)
    headers = state_headers(decision, verdict, now) | NO_STORE
    noted: dict[str, Json] = {"note": note} if note else {}
    if verdict.state is not Pressure.RED:
        return _reply(200, {"state": verdict.state.value, "class": verdict.name, **noted}, headers)
    status, when = shed_status(decision, decision.shed), retry(verdict, check.rng.random())
    what = "no replica is ready" if status == NO_CAPACITY else "the replicas are overloaded"
    message = f"{what}; retry in {when.seconds} s"
    error: Json = {"message": message, "type": "overloaded_error", "param": None, "code": "backpressure_red"}
    body: dict[str, Json] = {"error": error, "state": verdict.state.value, "class": verdict.name, **noted}
    return _reply(status, body, headers | retry_headers(when))


def _reply(status: int, body: dict[str, Json], headers: dict[str, str]) -> web.Response:
    text = json.dumps(body, allow_nan=False, ensure_ascii=False)
    return web.Response(text=text, status=status, headers=headers, content_type="application/json")
