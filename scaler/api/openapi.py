"""The HTTP contract as OpenAPI 3.1, made from the route tables that serve it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from scaler import __version__
from scaler.core.model import Pressure
from scaler.core.plain import Json
from scaler.core.pressure import Condition

GATE_PORT, OPS_PORT = 8080, 8081
JSON = "application/json"
READ_BY_PEOPLE = frozenset({"text/plain", "text/html"})


@dataclass(frozen=True, slots=True)
class Described:
    """What a reader must know of one GET path. ``takes_class``: it has the optional ``class`` query parameter.

    ``guarded``: it is not for everybody who reaches the port, see ``access``.
    """

    path: str
    port: int
    summary: str
    answers: tuple[tuple[int, str], ...] = ((200, ""),)
    media: str = JSON
    schema: str | None = None
    takes_class: bool = False
    guarded: bool = True


ACCESS: Mapping[str, str] = {
    "401": "A token is wanted that is for this (access in the configuration)",
    "503": "The token cannot be reviewed now",
}


def _each(names: Iterable[str], schema: Json) -> dict[str, Json]:
    return dict.fromkeys(names, schema)


NUMBER: Json = {"oneOf": [{"type": "number"}, {"enum": ["inf"]}]}
MAYBE: Json = {"type": ["number", "null"]}
COUNT: Json = {"type": "integer", "minimum": 0}
TEXT: Json = {"type": "string"}
FLAG: Json = {"type": "boolean"}
RATIO: Json = {"type": "number", "minimum": 0, "maximum": 1}
STATE: Json = {"enum": [state.value for state in Pressure]}
VERDICT: Mapping[str, Json] = {
    "state": STATE,
    "objective": {"enum": ["latency", "completion"]},
    "budget_s": MAYBE,
    "remaining_budget_s": MAYBE,
    "admit_ratio": RATIO,
    "admit_per_s": MAYBE,
    "retry_after_s": {"type": "number", "minimum": 0, "maximum": 60},
    "retry_spread_s": {"type": "number", "minimum": 0, "maximum": 60},
    "red_projected": FLAG,
    "red_budget": FLAG,
    "rule": {
        "enum": [*(condition.name.lower() for condition in Condition), None],
        "description": "What gave the state at the last tick; null where nothing did, so that it stayed",
    },
    "state_age_s": {
        "type": ["number", "null"],
        "minimum": 0,
        "description": "For how long the state has been what it is; null where it never was another",
    },
}
STATE_FIELDS: Mapping[str, Json] = {
    "namespace": TEXT,
    "name": TEXT,
    "class": TEXT,
    "note": TEXT,
    **VERDICT,
    "workload_state": STATE,
    **_each(("queue", "offered_per_s", "arrival_per_s", "drain_per_s", "refused_per_s"), {"type": "number"}),
    "throughput_per_s": MAYBE,
    **_each(("queue_wait_s", "eta_s", "eta_median_s", "saturation_ratio", "surge_ratio"), NUMBER),
    **_each(("ready", "starting", "stuck", "current", "desired", "sequence"), COUNT),
    "missing": {"type": "integer", "minimum": 0, "description": "Ready replicas without a fresh reading"},
    **_each(("active", "blind"), FLAG),
    **_each(("reason", "runner_up"), TEXT),
    "because": {"type": "string", "description": "Why that many replicas are desired, in one sentence"},
    "state_because": {"type": "string", "description": "Why the workload's state is what it is, in one sentence"},
    "findings": {"type": "array", "items": {"type": "object"}},
    "gate": {"enum": ["off", "observe", "enforce"]},
    "floor": {
        "type": "object",
        "description": "Only while a person has set one by annotation",
        "properties": {"replicas": COUNT, "until": TEXT, "ends_in_s": NUMBER},
    },
    "shed_status": {"enum": ["auto", "429", "503"]},
    **_each(("reaction_s", "age_s", "valid_s"), {"type": "number"}),
    "classes": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": TEXT, "gate": {"enum": ["off", "observe", "enforce"]}, **VERDICT},
        },
    },
}
POINT_FIELDS: Mapping[str, Json] = {
    "age_s": {"type": "number", "minimum": 0, "description": "How long ago it was decided"},
    **_each(
        ("offered_per_s", "arrival_per_s", "refused_per_s", "queue_wait_s"),
        {"oneOf": [{"type": ["number", "null"]}, {"enum": ["inf"]}], "description": "null: not known, blind"},
    ),
    "budget_s": MAYBE,
    **_each(("desired", "starting", "ready"), COUNT),
}
EVENT_FIELDS: Mapping[str, Json] = {
    **_each(("namespace", "name"), TEXT),
    "state": STATE,
    "sequence": COUNT,
    **POINT_FIELDS,
}
SCHEMAS: dict[str, Json] = {
    "Error": {
        "type": "object",
        "description": "What every refusal says, as clients of OpenAI-like interfaces read it",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "param", "code"],
                "properties": {**_each(("message", "type", "code"), TEXT), "param": {"type": "null"}},
            }
        },
    },
    "Event": {"type": "object", "required": [*EVENT_FIELDS], "properties": dict(EVENT_FIELDS)},
    "History": {
        "type": "object",
        "required": ["namespace", "name", "span_s", "points"],
        "properties": {
            **_each(("namespace", "name"), TEXT),
            "span_s": {"type": "number"},
            "points": {
                "type": "array",
                "description": "The oldest first",
                "items": {"type": "object", "required": [*POINT_FIELDS], "properties": dict(POINT_FIELDS)},
            },
        },
    },
    "State": {
        "type": "object",
        "description": 'Seconds end in _s, requests a second in _per_s, shares in _ratio. A number that is infinite is the string "inf".',
        "required": ["namespace", "name", "state", "admit_ratio", "reason", "because", "classes"],
        "properties": dict(STATE_FIELDS),
    },
    "Workloads": {
        "type": "object",
        "required": ["workloads", "configuration"],
        "properties": {
            "workloads": {"type": "array", "items": {"$ref": "#/components/schemas/State"}},
            "configuration": {
                "type": "object",
                "description": "Whether the newest configuration file is the one in use, and why not",
                "required": ["valid", "faults"],
                "properties": {"valid": FLAG, "faults": {"type": "array", "items": TEXT}},
            },
        },
    },
}


def contract(described: Iterable[Described], more_paths: Mapping[str, Json]) -> dict[str, Json]:
    """The document. ``more_paths`` are path items of routes that others serve on the same ports."""
    paths: dict[str, Json] = {entry.path: _path(entry) for entry in described}
    return {
        "openapi": "3.1.0",
        "info": {"title": "SLO scaler", "version": __version__},
        "paths": paths | dict(more_paths),
        "components": {"schemas": SCHEMAS},
    }


def _path(entry: Described) -> Json:
    names = [part[1:-1] for part in entry.path.split("/") if part.startswith("{")]
    parameters: list[Json] = [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in names]
    if entry.takes_class:
        parameters.append({"name": "class", "in": "query", "required": False, "schema": TEXT})
    responses: dict[str, Json] = {
        str(status): {"description": text or entry.summary, "content": _content(entry, status)}
        for status, text in entry.answers
    }
    if entry.guarded:
        responses |= {status: {"description": text} for status, text in ACCESS.items() if status not in responses}
    return {
        "servers": [{"url": f"http://localhost:{entry.port}"}],
        "get": {"summary": entry.summary, "parameters": parameters, "responses": responses},
    }


def _content(entry: Described, status: int) -> Json:
    """Pages for people and probes are refused in their own form, and everything else in JSON."""
    if entry.media in READ_BY_PEOPLE:
        return {entry.media: {"schema": TEXT}}
    if status != HTTPStatus.OK:
        return {JSON: {"schema": _named("Error")}}
    return {entry.media: {"schema": {"type": "object"} if entry.schema is None else _named(entry.schema)}}


def _named(schema: str) -> Json:
    return {"$ref": f"#/components/schemas/{schema}"}
