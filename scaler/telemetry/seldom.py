"""What goes on is told once a minute."""

from __future__ import annotations

from collections.abc import Hashable

REPEAT_S = 60.0
"""How often a failure that goes on is told again."""
REMEMBERED_KINDS = 256


class Seldom:
    """Lets the first of a kind through, then one a minute, with the number of those that were held back."""

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[float, int]] = {}
        self._enough = REMEMBERED_KINDS

    def held_back(self, kind: Hashable, now: float) -> int | None:
        """How many of that kind were held back before this one; None when this one is, too."""
        told_at, held = self._last.get(kind, (None, 0))
        if told_at is not None and now - told_at < REPEAT_S:
            self._last[kind] = told_at, held + 1
            return None
        if len(self._last) >= self._enough:
            self._last = {k: last for k, last in self._last.items() if now - last[0] < REPEAT_S}
            self._enough = max(
                REMEMBERED_KINDS, 2 * len(self._last)
            )  # so that cleaning is rare even when all are fresh
        self._last[kind] = now, 0
        return held
