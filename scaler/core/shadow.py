"""A shadow: everything is computed and published, and nobody acts on it."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from scaler.core.model import GateMode

if TYPE_CHECKING:
    from scaler.core.step import WorkloadSpec

NOTE = "shadow: nobody acts on this number; what would differ is in the explanation"
UNENFORCED = "shadow: gate enforce counts as observe, a shadow refuses nothing"


class ShadowRole(Enum):
    """What a shadow is to KEDA, should it ask all the same."""

    ALONE = auto()
    """The only trigger of its ScaledObject: what it says is what happens, so it says what there is."""
    BESIDE = auto()
    """One of several triggers: the largest counts, so it says 0."""
    UNREAD = auto()
    """Nobody can say which of the two."""


def as_shadow(spec: WorkloadSpec) -> WorkloadSpec:
    """The spec of a workload that is looked at only."""
    enforces = GateMode.ENFORCE in {spec.gate, *(one.gate for one in spec.classes)}
    classes = tuple(replace(one, gate=_seen(one.gate)) for one in spec.classes)
    warnings = (NOTE, *((UNENFORCED,) if enforces else ()), *spec.warnings)
    return replace(spec, gate=_seen(spec.gate) or spec.gate, classes=classes, warnings=warnings, shadow=True)


def _seen(gate: GateMode | None) -> GateMode | None:
    return GateMode.OBSERVE if gate is GateMode.ENFORCE else gate
