"""Values to places on a drawing, and the round values to write beside an axis."""

from __future__ import annotations

import math
from dataclasses import dataclass

ROUND = (1.0, 2.0, 5.0, 10.0)
MOST_TICKS, MOST_ROUND = 8, 6


@dataclass(frozen=True, slots=True)
class LogAxis:
    """From ``low`` at ``start`` to ``high`` at ``end``, where doubling is the same way everywhere. 0 < low < high."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a value stands."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    @property
    def ticks(self) -> tuple[float, ...]:
        """1, 2, 5, 10 … within the axis; the powers of ten alone where these are too many."""
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for digits in (ROUND[:3], ROUND[:1]):
            found = tuple(
                value
                for decade in decades
                for digit in digits
                if self.low <= (value := digit * 10.0**decade) <= self.high
            )
            if len(found) <= MOST_TICKS:
                break
        return found


@dataclass(frozen=True, slots=True)
class LinearAxis:
    """From 0 at ``start`` to ``high`` at ``end``."""

    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a value stands."""
        return self.start + value / self.high * (self.end - self.start)

    @property
    def ticks(self) -> tuple[float, ...]:
        """0 and multiples of 1, 2 or 5 times a power of ten."""
        rough = self.high / (MOST_ROUND - 1)
        power = 10.0 ** math.floor(math.log10(rough))
        step = power * next(digit for digit in ROUND if digit * power >= rough * (1 - 1e-9))
        return tuple(number * step for number in range(math.floor(self.high / step + 1e-9) + 1))


def around(values: list[float], room: float) -> tuple[float, float]:
    """The ends of a logarithmic axis that has all values, and this factor more at both ends."""
    return min(values) / room, max(values) * room
