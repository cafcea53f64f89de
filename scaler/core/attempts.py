"""How many attempts a second each class makes, from what gates in the path counted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scaler.core.counted import ClassCounted

FADE_S = 10.0
"""The mean age of what a rate is made of: some ticks, and less than a minute's change of the mix."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts by class, fading exponentially, as of ``at``."""

    weights: tuple[tuple[str, float], ...] = ()
    at: float = -math.inf

    def seen(self, asked: Iterable[ClassCounted], now: float) -> Attempts:
        """These attempts and those that were counted since."""
        ages = (now - self.at) / FADE_S
        fade = math.exp(-ages)
        left = (1 - fade) / ages if 0 < ages < math.inf else 1.0  # of those that came evenly since
        weights = {name: weight * fade for name, weight in self.weights}
        for one in asked:
            weights[one.name] = weights.get(one.name, 0.0) + one.attempts * left
        return Attempts(tuple(weights.items()), now)

    def rates_per_s(self, classes: Sequence[str], offered_per_s: float) -> list[float]:
        """Attempts a second of each class. No fewer in all than are offered: not every gateway asks; equal shares while none does."""
        known = dict(self.weights)
        counted = [known.get(name, 0.0) / FADE_S for name in classes]
        total = sum(counted)
        if total <= 0:
            return [offered_per_s / len(classes)] * len(classes)
        return [rate * max(1.0, offered_per_s / total) for rate in counted]
