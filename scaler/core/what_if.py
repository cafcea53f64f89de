"""What would be published if one thing were different: the law and the stabilization, run again on the same inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scaler.core.explain_state import number
from scaler.core.stabilize import shape
from scaler.core.target import recommend

if TYPE_CHECKING:
    from scaler.core.decision import LawInputs, ShapeInputs

HEADROOM_STEP, MOST_HEADROOM = 0.1, 0.9


@dataclass(frozen=True, slots=True)
class WhatIf:
    """``desired`` is what would be published, ``recommended`` what the load would ask for, both in replicas."""

    text: str
    desired: int
    recommended: int


def what_ifs(inputs: LawInputs, seen: ShapeInputs, safe_concurrency: float) -> tuple[WhatIf, ...]:
    """What a person might turn, one at a time. Nothing while blind: the last number stands, whatever is turned."""
    if seen.blind:
        return ()
    return tuple(again(inputs, seen, text, **changes) for text, changes in _changes(inputs, safe_concurrency))


def again(inputs: LawInputs, seen: ShapeInputs, text: str, **changes: Any) -> WhatIf:
    """The number with other inputs, named as in ``LawInputs``.

    What the windows hold of earlier ticks stays as it was; what they hold of this one is what it would have been.
    """
    recommended = recommend(replace(inputs, **changes)).replicas
    alone = (seen.window_max == seen.recommended, seen.window_min == seen.recommended)
    shaped = shape(
        replace(
            seen,
            recommended=recommended,
            max_replicas=int(changes.get("max_replicas", seen.max_replicas)),
            min_replicas=int(changes.get("min_replicas", seen.min_replicas)),
            window_max=recommended if alone[0] else max(seen.window_max, recommended),
            window_min=recommended if alone[1] else min(seen.window_min, recommended),
        )
    )
    return WhatIf(text, shaped.replicas, recommended)


def with_headroom(target: float, safe_concurrency: float, headroom_ratio: float) -> float:
    """The target at another headroom. In a fleet of several kinds, where the target is a mean, nearly."""
    was = headroom_of(target, safe_concurrency)
    return target * (1 - headroom_ratio) / (1 - was)


def headroom_of(target: float, safe_concurrency: float) -> float:
    """The headroom that a target leaves. A learnt safe concurrency may be below what is tried: then none."""
    return min(MOST_HEADROOM, max(0.0, 1 - target / safe_concurrency))


def _changes(inputs: LawInputs, safe_concurrency: float) -> Iterator[tuple[str, dict[str, float]]]:
    was = headroom_of(inputs.target, safe_concurrency)
    for headroom in (max(0.0, was - HEADROOM_STEP), min(MOST_HEADROOM, was + HEADROOM_STEP)):
        if abs(headroom - was) > HEADROOM_STEP / 2:
            target = with_headroom(inputs.target, safe_concurrency, headroom)
            yield f"headroom {number(headroom)} instead of {number(was)}", {"target": target}
    if inputs.growth_ratio > 1:
        yield "without growth", {"growth_ratio": 1.0}
    if inputs.queue > 0 or inputs.arrival_per_s > inputs.drain_per_s:
        yield "without backlog", {"queue": 0.0, "arrival_per_s": min(inputs.arrival_per_s, inputs.drain_per_s)}
    if 0 < inputs.eta_s < math.inf:
        yield "the next replica ready in half the time", {"eta_s": inputs.eta_s / 2}
    more = inputs.drain_per_s + (inputs.safe_rate_per_s or 0.0)
    yield "one ready replica more now", {"current": inputs.current + 1, "drain_per_s": more}
