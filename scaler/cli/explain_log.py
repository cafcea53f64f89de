"""``slo-scaler explain --log``: a decision of the past, made again from the inputs that its log line holds."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_type_hints

from scaler.core.decision import LawInputs, ShapeInputs
from scaler.core.explain import recompute
from scaler.core.plain import restore
from scaler.core.what_if import WhatIf, again, what_ifs, with_headroom
from scaler.errors import ConfigError

HEADROOM = "headroom"
MOST_HEADROOM = 0.9
MOST_NAMED = 3
"""Workloads that an error names; a log may hold a thousand."""
_KINDS = get_type_hints(LawInputs)


@dataclass(frozen=True, slots=True)
class Past:
    """A decision as it was logged. ``safe_concurrency`` None: the line is of a release that did not write it."""

    at: str
    desired: int
    state: str
    reason: str
    because: str
    inputs: LawInputs
    shape: ShapeInputs
    safe_concurrency: float | None


def explained(workload: str, log: Path, at: str | None, changes: Sequence[str]) -> Iterator[str]:
    """The last decision of a workload before a time, as lines for a person, with what would have been. Raises ConfigError."""
    wished = None if at is None else _instant("--at", at)
    past, ends = last_before(workload, _lines(log), wished)
    wanted = _wanted(changes, past)
    yield f"{workload} at {past.at}: {_count(past.desired)}, {past.state}"
    if wished is not None and wished > _instant("at", ends):
        yield f"  remark    the log's decisions of {workload} end at {ends}, before the time that was asked for"
    yield f"  because   {past.because} [{past.reason}]"
    yield f"  again     {_again(past)}"
    if wanted:
        one = again(past.inputs, past.shape, ", ".join(changes), **wanted)
        yield from _told([one], past, "with")
    elif past.safe_concurrency is not None:
        yield from _told(what_ifs(past.inputs, past.shape, past.safe_concurrency), past, "what if")


def last_before(workload: str, lines: Iterable[str], at: float | None) -> tuple[Past, str]:
    """The last decision at or before ``at``, in seconds since 1970; the last at all for None. And when the log's last one of it was made.

    Raises ConfigError.
    """
    found, spans = None, dict[str, tuple[str, str]]()
    for line in lines:
        told = _decision(line)
        if told is None:
            continue
        key, when = f"{told.get('namespace')}/{told.get('name')}", str(told["at"])
        spans[key] = (spans.get(key, (when,))[0], when)
        if key == workload and (at is None or _instant("at", when) <= at):
            found = told
    if found is None:
        raise ConfigError(_instead(workload, spans))
    return _past(found), spans[workload][1]


def _instead(workload: str, spans: Mapping[str, tuple[str, str]]) -> str:
    """What a log holds in which the decision is not: by workload, the time of the first and of the last."""
    if workload in spans:
        return f"--at: the log's decisions of {workload} are from {' to '.join(spans[workload])}"
    if not spans:
        return '--log: no decision in it; the lines that the scaler logs with "event": "decision" are needed, as JSON'
    near = get_close_matches(workload, spans, MOST_NAMED) or sorted(spans)[:MOST_NAMED]
    named = ", ".join(f"{key} ({' to '.join(spans[key])})" for key in near)
    more = f" and {len(spans) - len(near)} more" if len(spans) > len(near) else ""
    return f"--log: no decision of {workload} in it, but of {named}{more}; name the workload as NAMESPACE/NAME"


def _lines(log: Path) -> Iterator[str]:
    if str(log) == "-":
        yield from sys.stdin
        return
    try:
        with log.open(encoding="utf-8", errors="replace") as file:
            yield from file
    except OSError as error:
        raise ConfigError(
            f"--log: {log} cannot be read: {error.strerror}; name the file that the scaler's log went to, or - for stdin"
        ) from None


def _decision(line: str) -> Mapping[str, Any] | None:
    """What a line holds if it is a decision. What a log collector has put before the JSON is passed over."""
    start = line.find("{")
    if start < 0 or '"decision"' not in line:
        return None
    try:
        told = json.loads(line[start:])
    except ValueError:
        return None
    return told if isinstance(told, dict) and told.get("event") == "decision" and "at" in told else None


def _past(told: Mapping[str, Any]) -> Past:
    try:
        capacity = told.get("capacity") or {}
        return Past(
            at=str(told["at"]),
            desired=told["desired"],
            state=told["state"],
            reason=told["reason"],
            because=told["because"],
            inputs=restore(LawInputs, told["inputs"]),
            shape=restore(ShapeInputs, told["shape"]),
            safe_concurrency=capacity.get("safe_concurrency"),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"--log: the decision of {told['at']} is of another version: {error!r}") from None


def _again(past: Past) -> str:
    try:
        number = recompute(past.inputs, past.shape)
    except ValueError as error:
        return (
            f"cannot be made again: {error}; a hold while blind keeps the inputs of before"
            if past.shape.blind
            else str(error)
        )
    return "the same number" if number == past.desired else f"{_count(number)}: the law has changed since"


def _wanted(changes: Sequence[str], past: Past) -> dict[str, float]:
    """What ``--set`` asks for, as inputs of the law."""
    found: dict[str, float] = {}
    for written in changes:
        name, _, value = written.partition("=")
        number = _number(name, value)
        if name == HEADROOM:
            found["target"] = _target(past, number)
        elif name in _KINDS:
            found[name] = int(number) if _KINDS[name] is int else number
        else:
            raise ConfigError(f"--set {name}: not an input; there are {HEADROOM}, {', '.join(_KINDS)}")
    if found.get("target", 1.0) <= 0:
        raise ConfigError("--set target: above 0")
    return found


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise ConfigError(f"--set {name}: write NAME=NUMBER, such as headroom=0.3") from None
    if not 0 <= number < float("inf"):
        raise ConfigError(f"--set {name}: 0 or more")
    return number


def _target(past: Past, headroom: float) -> float:
    if headroom > MOST_HEADROOM:
        raise ConfigError(f"--set headroom: 0 to {MOST_HEADROOM}")
    if past.safe_concurrency is None:
        raise ConfigError(
            "--set headroom: this line does not tell the safe concurrency; set target, in requests a replica"
        )
    return with_headroom(past.inputs.target, past.safe_concurrency, headroom)


def _told(found: Iterable[WhatIf], past: Past, title: str) -> Iterator[str]:
    if past.shape.blind:
        yield "  blind     the last number stood, whatever its inputs"
    for one in found:
        rest = "" if one.recommended == one.desired else f"; the load alone asks for {one.recommended}"
        yield f"  {title:<9} {one.text}: {_count(one.desired)}{rest}"


def _instant(name: str, written: str) -> float:
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        raise ConfigError(f"{name}: a time such as 2026-01-31T18:00Z is needed") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def _count(replicas: int) -> str:
    return "1 replica" if replicas == 1 else f"{replicas} replicas"
