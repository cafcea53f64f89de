"""Virtual time: what is to happen, and when."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

Doing = Callable[[float], None]
"""Is called with the time at which it happens."""


class Agenda:
    """Mutable, one owner. What is due at one instant happens in the order in which it was entered."""

    def __init__(self) -> None:
        """Nothing is to happen."""
        self._due: list[tuple[float, int, Doing]] = []
        self._entered = 0

    def at(self, when: float, do: Doing) -> None:
        """Let something happen at a time that has not passed."""
        self._entered += 1
        heappush(self._due, (when, self._entered, do))

    def every(self, period_s: float, first: float, do: Doing) -> None:
        """Let something happen again and again."""

        def again(now: float) -> None:
            do(now)
            self.at(now + period_s, again)

        self.at(first, again)

    def run(self, until: float) -> None:
        """Let all happen that is due by then."""
        due = self._due
        while due and due[0][0] <= until:
            when, _, do = heappop(due)
            do(when)
