"""Whether the load is spread over the replicas. Where it is not, more of them do not help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from scaler.core.decision import Finding
from scaler.core.model import known

if TYPE_CHECKING:
    from scaler.core.decision import Capacity
    from scaler.core.model import Reading

IMBALANCED_RATIO = 2.0


def imbalanced(readings: tuple[Reading, ...], capacity: Capacity) -> Iterator[Finding]:
    """The fullest replica holds at least twice the mean, and as much as it should: below that nobody waits for it.

    A replica that has just become ready lowers the mean, too; then this ends with the requests of before it.
    """
    held = {one.replica: (known(one.running) or 0.0) + (known(one.waiting) or 0.0) for one in readings if one.awake}
    if len(held) < 2:  # noqa: PLR2004 - one alone is its own mean
        return
    fullest, mean = max(sorted(held), key=lambda name: held[name]), sum(held.values()) / len(held)
    if held[fullest] >= max(capacity.target, IMBALANCED_RATIO * mean):
        yield Finding(
            "imbalanced",
            f"{fullest} holds {held[fullest]:.0f} requests and the mean of {len(held)} replicas is {mean:.0f}: more replicas will not help "
            "while requests are not spread; look for a gateway that keeps to connections or sessions",
        )
