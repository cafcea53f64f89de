"""One verdict a request over HTTP, for gateways that ask before they pass a request on.

200 admits. The deny status is 429, or 403 for those that know no other (nginx). Never 204, which Envoy takes for a refusal, and never 5xx,
which every gateway takes for a failure of ours: that there is no capacity is said by a header.

What follows the workload's name, path and query, is the client's own: Envoy and others append it. So a class and a deny status are taken
from the query only where nothing follows, which is how an operator writes the address.

``x-envoy-expected-rq-timeout-ms`` is not read here: Envoy sets it on the check itself, to the check's own time-out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from scaler.backpressure.asked import Trust, answer_body, answer_headers, request_of
from scaler.core.gate import Why
from scaler.core.model import WorkloadKey
from scaler.core.plain import Json
from scaler.core.retry import CONTENDED

if TYPE_CHECKING:
    from scaler.control.gate import Gates

PATH = "/v1/admit/{namespace}/{name}"
REST = "rest"
FORBIDDEN = 403
NO_STORE = {"Cache-Control": "no-store"}
"""A stored verdict would be given to others."""


@dataclass(frozen=True, slots=True)
class Admit:
    """What verdicts are made from. ``failed`` is told of an answer that raised something unexpected; ``trust`` is that of the moment.

    ``may`` says whether one with these headers may ask for a namespace: who may not gets the answer of an unknown workload.
    """

    gates: Gates
    failed: Callable[[str, Exception], None]
    trust: Callable[[], Trust] = Trust
    may: Callable[[Mapping[str, str], str], bool] = lambda _headers, _namespace: True


def routes(admit: Admit) -> list[web.RouteDef]:
    """The route, for any method, alone and with any path after it. A body is never read."""
    handler = _served(admit)
    return [web.route("*", PATH, handler), web.route("*", f"{PATH}/{{{REST}:(?s:.*)}}", handler)]


def paths() -> dict[str, Json]:
    """The path as an OpenAPI path item."""
    answers: dict[str, Json] = {
        "200": {
            "description": "Admitted, or nothing is known against it. X-Backpressure-Reason: why it would have been refused"
        },
        "429": {"description": "Refused. X-Backpressure-Reason says why, Retry-After when to come back"},
        "403": {"description": "The same, with deny=403"},
    }
    names: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in ("namespace", "name")
    ]
    wanted: list[Json] = [
        {"name": "class", "in": "query", "required": False, "schema": {"type": "string"}},
        {"name": "deny", "in": "query", "required": False, "schema": {"enum": ["429", "403"]}},
    ]
    summary = "May this request enter? Any method. With a path after the name, that and the query are the client's and mean nothing"
    operation: Json = {"summary": summary, "parameters": [*names, *wanted], "responses": answers}
    return {PATH: {"servers": [{"url": "http://localhost:8080"}], "get": operation}}


def _served(admit: Admit) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handler(request: web.Request) -> web.StreamResponse:
        return answer(admit, request)

    return handler


def answer(admit: Admit, request: web.Request) -> web.Response:
    """One verdict. What we got wrong is let through."""
    query = {} if REST in request.match_info else request.query
    try:
        key = WorkloadKey(request.match_info["namespace"], request.match_info["name"])
        if admit.may(request.headers, key.namespace):
            verdict = admit.gates.ask(key, request_of(request.headers, admit.trust(), query.get("class")))
        else:
            verdict = admit.gates.unknown(Why.UNKNOWN_WORKLOAD)
    except Exception as error:  # noqa: BLE001 - our own bug must not stop somebody's traffic
        admit.failed(PATH, error)
        verdict = admit.gates.unknown(Why.ERROR)
    deny = FORBIDDEN if query.get("deny") == str(FORBIDDEN) else CONTENDED
    return web.Response(
        text=answer_body(verdict),
        status=200 if verdict.admit else deny,
        headers=answer_headers(verdict, admit.gates.clock()) | NO_STORE,
        content_type="application/json",
    )
