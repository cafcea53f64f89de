"""The HTTP edge: state for gateways on one port; probes, metrics, explanations and the status page on another.

Every answer is read from the board, as it must be seen at this moment. Nothing is fetched, and no answer waits for the network.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from aiohttp import web
from aiohttp.typedefs import Middleware
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from scaler.api import openapi, render
from scaler.api.openapi import GATE_PORT, OPS_PORT, Described
from scaler.api.page import status_page
from scaler.core.admission import as_of
from scaler.core.decision import Decision, Pending
from scaler.core.model import WorkloadKey
from scaler.core.plain import Json
from scaler.core.retry import UNKNOWN_HEADERS, retry, retry_headers, state_headers, verdict_for

if TYPE_CHECKING:
    from scaler.control.board import Board
    from scaler.control.ports import Clock
    from scaler.core.step import WorkloadSpec

KEEPALIVE_S = 30.0
LONGEST_LINE = 64 << 10
"""Bytes of a request line, and of a header: gateways put their clients' own paths after ours, and a 400 would be read as a refusal. Envoy
takes 60 KiB, and the longest namespace and name need half a kilobyte."""
CACHE = {"Cache-Control": "max-age=1"}
"""A second of caching is what a busy proxy needs, and less than a decision's life."""
PAGE_POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'", "Cache-Control": "no-store"}


class Workloads(Protocol):
    """Knows which workloads exist, with a decision or without one."""

    def __contains__(self, key: WorkloadKey) -> bool: ...

    def specs(self) -> Iterator[WorkloadSpec]:
        """The spec of every workload, in the order of their keys."""
        ...

    def polled(self, key: WorkloadKey) -> None:
        """Is told that somebody read the workload's admit fraction."""
        ...


@dataclass(frozen=True, slots=True)
class View:
    """What answers are made from. ``failed`` is told of a handler that raised something unexpected, by its route's path.

    ``faults`` are those of the newest configuration file; while there are any, the one before it is in use.
    """

    board: Board
    workloads: Workloads
    clock: Clock
    rng: random.Random
    failed: Callable[[str, Exception], None]
    faults: Callable[[], tuple[str, ...]] = tuple


@dataclass(frozen=True, slots=True)
class Ops:
    """What the operator's port needs beside the view. ``ready`` speaks of this process only; ``paths`` are described by others."""

    view: View
    registry: CollectorRegistry
    ready: Callable[[], bool]
    paths: Mapping[str, Json] = field(default_factory=dict)


Answer = Callable[[web.Request], web.Response]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def gate_app(view: View, more: Iterable[web.AbstractRouteDef] = ()) -> web.Application:
    """What gateways ask. ``more`` are routes of others on the same port."""
    answers = (_served(lambda _: _states(view)), _served(lambda request: _state(view, request)))
    app = _app(view, zip(GATE_ROUTES, answers, strict=True))
    app.add_routes(more)
    return app


def ops_app(ops: Ops) -> web.Application:
    """What operators, probes and Prometheus ask."""
    document = openapi.contract((*GATE_ROUTES, *OPS_ROUTES), ops.paths)
    answers = (
        _served(lambda _: web.Response(text="alive\n")),
        _served(lambda _: _readiness(ready=ops.ready())),
        _metrics(ops.registry),
        _served(lambda request: _explain(ops.view, request)),
        _served(lambda _: _json(document)),
        _served(lambda _: _page(ops.view)),
    )
    return _app(ops.view, zip(OPS_ROUTES, answers, strict=True))


def runner(app: web.Application) -> web.AppRunner:
    """How both apps are run: no access log, since a request line may hold what must not be kept."""
    return web.AppRunner(
        app,
        access_log=None,
        keepalive_timeout=KEEPALIVE_S,
        max_line_size=LONGEST_LINE,
        max_field_size=LONGEST_LINE,
    )


GATE_ROUTES = (
    Described("/v1/state", GATE_PORT, "The state of every workload", schema="Workloads"),
    Described(
        "/v1/state/{namespace}/{name}",
        GATE_PORT,
        "What share of each request class to admit, and why. Headers X-Backpressure-State, -Admit, -Gate, -Age-Ms; Retry-After below 1",
        answers=((200, "Always, for a workload that is known"), (404, "No such workload")),
        schema="State",
        takes_class=True,
    ),
)
OPS_ROUTES = (
    Described("/livez", OPS_PORT, "Whether this process serves", media="text/plain"),
    Described(
        "/readyz",
        OPS_PORT,
        "Whether this process wants to be asked",
        answers=((200, "Yes"), (503, "It starts or stops")),
        media="text/plain",
    ),
    Described("/metrics", OPS_PORT, "Prometheus metrics", media="text/plain"),
    Described(
        "/v1/explain/{namespace}/{name}",
        OPS_PORT,
        "Inputs with ages, terms, steps, the binding reason and the runner-up",
        answers=((200, "The explanation, or why there is none yet"), (404, "No such workload")),
    ),
    Described("/openapi.json", OPS_PORT, "This document"),
    Described("/", OPS_PORT, "The status page", media="text/html"),
)


def _app(view: View, routes: Iterable[tuple[Described, Handler]]) -> web.Application:
    app = web.Application(middlewares=[_guard(view)])
    app.add_routes([web.get(described.path, handler) for described, handler in routes])
    return app


def _served(answer: Answer) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        return answer(request)

    return handler


def _guard(view: View) -> Middleware:
    """Every refusal is JSON, and a bug shows no traceback to a stranger."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException as refusal:
            headers = {name: value for name, value in refusal.headers.items() if name == "Allow"}
            return _json(render.error_body("not_served", refusal.reason), refusal.status, headers)
        except Exception as error:  # noqa: BLE001 - one request's bug must not reach the others
            view.failed(_path(request), error)
            return _json(render.error_body("internal", "the answer could not be made; see this process's log"), 500)

    return guard


def _path(request: web.Request) -> str:
    """The route's own path: what a stranger asked for must not become a label."""
    resource = request.match_info.route.resource
    return "" if resource is None else resource.canonical


def _json(body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    text = json.dumps(body, allow_nan=False, ensure_ascii=False)
    return web.Response(text=text, status=status, headers=headers, content_type="application/json")


def _key(request: web.Request) -> WorkloadKey:
    return WorkloadKey(request.match_info["namespace"], request.match_info["name"])


def _seen(view: View, key: WorkloadKey, now: float) -> Decision | Pending | None:
    """The newest outcome as it must be read now; None when nobody knows the workload."""
    outcome = view.board.latest(key)
    if isinstance(outcome, Decision):
        return as_of(outcome, now)
    if outcome is None and key in view.workloads:
        return Pending(key, "its first look at the engines has not ended")
    return outcome


def _all(view: View, now: float) -> Iterator[Decision | Pending]:
    waiting = {outcome.key for outcome in view.board.pending()}
    for key in sorted(waiting | {spec.key for spec in view.workloads.specs()}):
        outcome = _seen(view, key, now)
        if outcome is not None:
            yield outcome


def _states(view: View) -> web.Response:
    now = view.clock()
    bodies: list[Json] = [
        render.state_body(o, verdict_for(o, None)[0], now) if isinstance(o, Decision) else render.pending_body(o)
        for o in _all(view, now)
    ]
    faults = view.faults()
    configuration: Json = {"valid": not faults, "faults": list(faults)}
    return _json({"workloads": bodies, "configuration": configuration}, headers=CACHE)


def _state(view: View, request: web.Request) -> web.Response:
    now = view.clock()
    outcome = _seen(view, _key(request), now)
    if outcome is None:
        return _unknown()
    if isinstance(outcome, Pending):
        return _json(render.pending_body(outcome), headers={**UNKNOWN_HEADERS, **CACHE})
    view.workloads.polled(outcome.key)
    verdict, note = verdict_for(outcome, request.query.get("class"))
    headers = state_headers(outcome, verdict, now) | CACHE
    if verdict.admit_ratio < 1:
        headers |= retry_headers(retry(verdict, view.rng.random()))
    return _json(render.state_body(outcome, verdict, now, note), headers=headers)


def _explain(view: View, request: web.Request) -> web.Response:
    now = view.clock()
    outcome = _seen(view, _key(request), now)
    if outcome is None:
        return _unknown()
    return _json(render.pending_body(outcome) if isinstance(outcome, Pending) else render.explain_body(outcome, now))


def _unknown() -> web.Response:
    message = "no such workload: a workload is the namespace and the name of a ScaledObject that names this scaler"
    return _json(render.error_body("unknown_workload", message), 404)


def _readiness(*, ready: bool) -> web.Response:
    return web.Response(text="ready\n") if ready else web.Response(text="not ready\n", status=503)


@dataclass(frozen=True, slots=True, eq=False)
class _Collected(Collector):
    """Families that were collected already."""

    families: tuple[Metric, ...]

    def collect(self) -> Iterable[Metric]:
        return self.families


def _metrics(registry: CollectorRegistry) -> Handler:
    """Collected here, where nothing changes meanwhile; written as text in a thread, since a thousand workloads take 0.2 s of it.

    A thread of its own, so that nothing that hangs in the shared ones keeps Prometheus waiting.
    """
    thread = ThreadPoolExecutor(1, "metrics")

    async def handler(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        collected = CollectorRegistry()
        collected.register(_Collected(tuple(registry.collect())))
        body = await asyncio.get_running_loop().run_in_executor(thread, encode, collected)
        return web.Response(body=body, headers={"Content-Type": content_type})

    return handler


def _page(view: View) -> web.Response:
    now = view.clock()
    return web.Response(
        text=status_page(_all(view, now), now, view.faults()), content_type="text/html", headers=PAGE_POLICY
    )
