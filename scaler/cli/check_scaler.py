"""What a running scaler explains, as facts for the checks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic import TypeAdapter

from scaler.checks import Live, LiveClass
from scaler.cli.reach import NoAnswer, fetched
from scaler.core.counted import ClassCounted
from scaler.core.decision import Finding
from scaler.core.model import Absent, Missing, Signal, WorkloadKey
from scaler.core.step import WorkloadSpec
from scaler.errors import ConfigError


def ask(ops: str, key: WorkloadKey) -> tuple[Live | None, str]:
    """The explanation of one workload, or None and why there is none. Raises ConfigError when no scaler answers there."""
    try:
        body = fetched(ops, f"/v1/explain/{key}")
    except NoAnswer as silent:
        if silent.status == HTTPStatus.NOT_FOUND:
            return None, f"the scaler at {ops} does not know {key}: {silent}"
        raise ConfigError(f"--ops: {silent}") from None
    if "binding" not in body:
        return None, f"{key}: the scaler has no decision yet: {body.get('because', 'it does not say why')}"
    try:
        return live_of(body), ""
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"--ops: {ops} gives no explanation of this version ({error!r})") from None


def live_of(body: Mapping[str, Any]) -> Live:
    """An explanation from its JSON. Raises KeyError, TypeError or ValueError for one of another version."""
    latency = body["latency"]
    return Live(
        age_s=body["age_s"],
        blind=body["blind"],
        read=len(body["readings"]),
        missing=tuple(Missing(one["replica"], one["why"]) for one in body["missing"]),
        absent=tuple(sorted({name for reading in body["readings"] for name in reading["absent"]})),
        signals={one["name"]: _signal(one["value"]) for one in body["signals"]},
        ready_p90_s=latency["p90_s"],
        samples=latency["samples"],
        origin=latency["origin"],
        load=body["terms"]["load"],
        desired=body["desired"],
        max_replicas=body["inputs"]["max_replicas"],
        classes=tuple(
            LiveClass(one["name"], one["gate"], one["state"], one["budget_s"], one["admit_ratio"])
            for one in body["classes"]
        ),
        findings=tuple(Finding(one["code"], one["text"], one.get("warm_replicas")) for one in body["findings"]),
        spec=TypeAdapter(WorkloadSpec).validate_python(body["spec"]) if "spec" in body else None,
        asked=tuple(ClassCounted(**one) for one in body.get("asked", ())),
    )


def _signal(value: object) -> Signal:
    if isinstance(value, str):
        return Absent.IDLE if value == Absent.IDLE.value else math.inf if value == "inf" else Absent.UNKNOWN
    return Absent.UNKNOWN if value is None else float(str(value))
