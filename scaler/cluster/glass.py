"""What an operator breaks in an emergency: annotations of a ScaledObject that count before everything else. Pure."""

from __future__ import annotations

import re
from datetime import datetime

from scaler.cluster.scaled_objects import FLOOR, GATE, NamedWorkload
from scaler.core.model import Floor, GateMode, Note

_FLOOR = re.compile(r"\s*([1-9][0-9]{0,5})\s+until\s+(\S+)\s*", re.ASCII)
_REMEDY = "write a number of replicas and a time with its zone, such as 6 until 2026-12-01T18:00Z; no floor stands"
_MODES = frozenset(GateMode)


def floor_of(written: str, offset_s: float) -> Floor | None:
    """The floor that an annotation sets, None when it sets none. ``offset_s`` is wall time minus the clock that ``until_at`` is of."""
    found = _FLOOR.fullmatch(written)
    if found is None:
        return None
    try:
        until = datetime.fromisoformat(found[2])
        if until.tzinfo is None:  # of which zone, nobody could tell
            return None
        return Floor(int(found[1]), until.timestamp() - offset_s, found[2])
    except (ValueError, OverflowError):
        return None


def glass_notes(named: NamedWorkload, floor: Floor | None, now: float) -> tuple[Note, ...]:
    """What a person should know of these annotations: each that counts now, is over, or means nothing."""
    notes = []
    if named.gate in _MODES:
        notes.append(
            Note("gate_annotated", f"the gate is {named.gate} by annotation {GATE}, whatever the trigger says")
        )
    if named.floor and floor is None:
        notes.append(Note("floor_refused", f"annotation {FLOOR}: {_REMEDY}"))
    elif floor is not None and now < floor.until_at:
        text = (
            f"at least {floor.replicas} replicas until {floor.until} by annotation {FLOOR}, whatever the load asks for"
        )
        notes.append(Note("floor", text))
    elif floor is not None:
        notes.append(Note("floor_over", f"the floor of annotation {FLOOR} ended at {floor.until}; take it away"))
    return tuple(notes)
