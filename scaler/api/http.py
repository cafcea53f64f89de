"""The HTTP edge: state for gateways on one port; probes, metrics, explanations and the status page on another.

Every answer is read from the board, as it must be seen at this moment. Nothing is fetched, and no answer waits for the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from aiohttp import web
from aiohttp.typedefs import Middleware
from prometheus_client import CollectorRegistry

from scaler.api import exposed, openapi, render, status
from scaler.api.access import EVERYBODY, Keeper, Reach, on_gate, on_ops, reach_of
from scaler.api.doors import answering
from scaler.api.openapi import GATE_PORT, OPS_PORT, Described
from scaler.api.streams import Streams
from scaler.api.view import Handler, View, asked_for, json_answer, served, unknown_workload
from scaler.control.changes import SPAN_S
from scaler.core.decision import Decision, Pending
from scaler.core.plain import Json, plain
from scaler.core.retry import UNKNOWN_HEADERS, retry, retry_headers, state_headers, verdict_for

KEEPALIVE_S = 30.0
LONGEST_LINE = 64 << 10
"""Bytes of a request line, and of a header: gateways put their clients' own paths after ours, and a 400 would be read as a refusal. Envoy
takes 60 KiB, and the longest namespace and name need half a kilobyte."""
CACHE = {"Cache-Control": "max-age=1"}
"""A second of caching is what a busy proxy needs, and less than a decision's life."""


@dataclass(frozen=True, slots=True)
class Ops:
    """What the operator's port needs beside the view. ``ready`` speaks of this process only; ``paths`` are described by others."""

    view: View
    registry: CollectorRegistry
    ready: Callable[[], bool]
    paths: Mapping[str, Json] = field(default_factory=dict)
    keeper: Keeper = EVERYBODY


def gate_app(view: View, more: Iterable[web.AbstractRouteDef] = (), keeper: Keeper = EVERYBODY) -> web.Application:
    """What gateways ask. ``more`` are routes of others on the same port, who ask the ``keeper`` themselves."""
    answers = (served(lambda request: _states(view, reach_of(request))), served(lambda request: _state(view, request)))
    app = _app(view, zip(GATE_ROUTES, answers, strict=True), on_gate(keeper, _guarded(GATE_ROUTES)))
    app.add_routes(more)
    return app


def ops_app(ops: Ops) -> web.Application:
    """What operators, probes and Prometheus ask."""
    document, streams = openapi.contract((*GATE_ROUTES, *OPS_ROUTES), ops.paths), Streams(ops.view)
    answers = (
        served(lambda _: web.Response(text="alive\n")),
        served(lambda _: _readiness(ready=ops.ready())),
        exposed.page(ops.registry),
        served(lambda request: _explain(ops.view, request)),
        served(lambda _: json_answer(document)),
        *status.answers(ops.view, streams),
    )
    guarded = on_ops(ops.keeper, _guarded(OPS_ROUTES))
    app = _app(ops.view, zip(OPS_ROUTES, answers, strict=True), guarded)
    app.add_routes(status.assets())
    app.on_shutdown.append(streams.end)
    return app


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
    Described("/livez", OPS_PORT, "Whether this process serves", media="text/plain", guarded=False),
    Described(
        "/readyz",
        OPS_PORT,
        "Whether this process wants to be asked",
        answers=((200, "Yes"), (503, "It starts or stops")),
        media="text/plain",
        guarded=False,
    ),
    # Kubelet and Prometheus come from other machines and, as most set them up, without a token.
    Described("/metrics", OPS_PORT, "Prometheus metrics", media="text/plain", guarded=False),
    Described(
        "/v1/explain/{namespace}/{name}",
        OPS_PORT,
        "Inputs with ages, terms, steps, the binding reason and the runner-up",
        answers=((200, "The explanation, or why there is none yet"), (404, "No such workload")),
    ),
    Described("/openapi.json", OPS_PORT, "This document", guarded=False),
    *status.ROUTES,
)


def _guarded(routes: Iterable[Described]) -> frozenset[str]:
    return frozenset(described.path for described in routes if described.guarded)


def _app(view: View, routes: Iterable[tuple[Described, Handler]], admission: Middleware) -> web.Application:
    app = web.Application(middlewares=[_guard(view), admission])
    app.add_routes([web.get(described.path, handler) for described, handler in routes])
    return app


def _guard(view: View) -> Middleware:
    """Every refusal is JSON, and a bug shows no traceback to a stranger."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        body = request.content_length if request.content_length is not None or request.body_exists else 0
        try:
            with answering(request.transport, body):
                return await handler(request)
        except web.HTTPException as refusal:
            headers = {name: value for name, value in refusal.headers.items() if name == "Allow"}
            return json_answer(render.error_body("not_served", refusal.reason), refusal.status, headers)
        except Exception as error:  # noqa: BLE001 - one request's bug must not reach the others
            view.failed(_path(request), error)
            return json_answer(
                render.error_body("internal", "the answer could not be made; see this process's log"), 500
            )

    return guard


def _path(request: web.Request) -> str:
    """The route's own path: what a stranger asked for must not become a label."""
    resource = request.match_info.route.resource
    return "" if resource is None else resource.canonical


def _states(view: View, reach: Reach) -> web.Response:
    now = view.clock()
    bodies: list[Json] = [
        render.state_body(o, verdict_for(o, None)[0], now) if isinstance(o, Decision) else render.pending_body(o)
        for o in view.every(now)
        if o.key.namespace in reach
    ]
    faults = view.faults()
    # They may name workloads of any namespace.
    configuration: Json = {"valid": not faults, "faults": list(faults) if reach.whole else []}
    return json_answer({"workloads": bodies, "configuration": configuration}, headers=CACHE)


def _state(view: View, request: web.Request) -> web.Response:
    now = view.clock()
    outcome = view.seen(asked_for(request), now)
    if outcome is None:
        return unknown_workload()
    if isinstance(outcome, Pending):
        return json_answer(render.pending_body(outcome), headers={**UNKNOWN_HEADERS, **CACHE})
    view.workloads.polled(outcome.key)
    verdict, note = verdict_for(outcome, request.query.get("class"))
    headers = state_headers(outcome, verdict, now) | CACHE
    if verdict.admit_ratio < 1:
        headers |= retry_headers(retry(verdict, view.rng.random()))
    return json_answer(render.state_body(outcome, verdict, now, note), headers=headers)


def _explain(view: View, request: web.Request) -> web.Response:
    now, key = view.clock(), asked_for(request)
    outcome = view.seen(key, now)
    if outcome is None:
        return unknown_workload([known for known in view.known() if known.namespace in reach_of(request)], key)
    if isinstance(outcome, Pending):
        return json_answer(render.pending_body(outcome))
    changes = view.board.changes.since(key, now - SPAN_S)
    compared, bill = view.board.comparisons.of(key), view.bill(key, now)
    # What a person decided stands beside it, so that ``slo-scaler check`` needs no files.
    spec = next((one for one in view.workloads.specs() if one.key == key), None)
    decided = (
        {} if spec is None else {"spec": plain(replace(spec, model_name=None))}
    )  # a text that may come from a Secret
    asked = view.asked(key)
    counted = {"asked": plain(asked.classes)} if asked.classes else {}
    return json_answer(render.explain_body(outcome, now, changes, compared, bill) | counted | decided)


def _readiness(*, ready: bool) -> web.Response:
    return web.Response(text="ready\n") if ready else web.Response(text="not ready\n", status=503)
