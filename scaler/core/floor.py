"""Break glass: a person says what nothing may fall below, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scaler.core.model import Floor, ReplicaSet


def standing(replicas: ReplicaSet | None, now: float) -> Floor | None:
    """The floor that stands at ``now``. One that nobody could read again ends in time all the same."""
    floor = None if replicas is None else replicas.floor
    return floor if floor is not None and now < floor.until_at else None


def count_of(floor: Floor | None) -> int:
    """What it asks for; 0 without one."""
    return 0 if floor is None else floor.replicas
