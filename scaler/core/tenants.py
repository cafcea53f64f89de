"""Whom to refuse first when a class must be cut: tenants that ask for more than their max-min share of what is admitted.

    sum over tenants of min(asked, fair) = admit ratio x all that is asked

So a tenant below ``fair`` is not cut at all, and the class as a whole is admitted as much as without tenants.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate

MOST = 1000
"""What one workload remembers; requests of further tenants are treated as without a tenant."""
HALF_S = 30.0
"""A tenant's attempts count for one to two of these."""
RANKED_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Ranked:
    """What tenants asked for, ascending; ``reach[i]`` is what all get together when none gets more than ``asked[i]``."""

    asked: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    reach: tuple[int, ...] = ()

    def fair_share(self, ratio: float) -> float:
        """The most that one tenant gets, as a share of all that is asked, so that all together get this ratio; infinite for 1."""
        count = len(self.asked)
        total = self.reach[-1] if count else 0
        index = bisect_left(self.reach, ratio * total)
        if ratio >= 1 or index >= count:
            return math.inf
        return (ratio * total - self.before[index]) / (count - index) / total


@dataclass(frozen=True, slots=True)
class Tenants:
    """Attempts by tenant: in half minute number ``half``, and in the one before. ``total`` is of both and of all."""

    half: int = 0
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    total: int = 0
    ranked: Ranked = Ranked()
    ranked_at: float = -math.inf

    def ask(self, tenant: str, now: float, most: int = MOST) -> Tenants:
        """The same with one attempt more; one of a tenant that is new when ``most`` are known is not counted."""
        half = math.floor(now / HALF_S)
        turned = half != self.half
        counts = self._turned(half) if turned else dict(self.counts)
        total = sum(map(sum, counts.values())) if turned else self.total
        if tenant in counts or len(counts) < most:
            recent, earlier = counts.get(tenant, (0, 0))
            counts[tenant], total = (recent + 1, earlier), total + 1
        due = turned or now - self.ranked_at >= RANKED_EVERY_S
        ranked, ranked_at = (_ranked(counts), now) if due else (self.ranked, self.ranked_at)
        return Tenants(half, counts, total, ranked, ranked_at)

    def ratio(self, tenant: str, ratio: float) -> float:
        """The share of that tenant's attempts to admit while ``ratio`` of all is."""
        asked = sum(self.counts.get(tenant, (0, 0)))
        return min(1.0, self.ranked.fair_share(ratio) * self.total / asked) if asked else ratio

    def _turned(self, half: int) -> dict[str, tuple[int, int]]:
        if half - self.half > 1:
            return {}
        return {tenant: (0, recent) for tenant, (recent, _) in self.counts.items() if recent}


def _ranked(counts: Mapping[str, tuple[int, int]]) -> Ranked:
    asked = tuple(sorted(recent + earlier for recent, earlier in counts.values()))
    before = tuple(accumulate(asked[:-1], initial=0))
    reach = tuple(
        one + each * (len(asked) - index) for index, (one, each) in enumerate(zip(before, asked, strict=True))
    )
    return Ranked(asked, before, reach)
