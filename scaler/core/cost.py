"""What a workload's GPUs did and what that cost: GPU-seconds by product and phase, tokens, and the one arithmetic of money.

    cost                    = sum over products of GPU-hours x price of a GPU-hour
    tokens per GPU-second   = tokens / GPU-seconds
    cost per million tokens = cost / tokens x 1,000,000

Tokens are prompt and generated ones. What is served, simulated and planned is charged by the same functions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from scaler.core.model import GpuPhase, GpuUse, Observation, Reading

HOUR_S, MINUTE_S, MILLION = 3600.0, 60.0, 1e6
MOST_PRODUCTS, OTHER = 3, "other"
"""Products that are told apart in one workload; nodes of every further kind are ``other``, so that no label grows without end."""
LATELY_S, MARK_EVERY_S = 3600.0, 60.0
"""Over how long the cost of late is taken, and how often the totals are kept for it."""
PART_OF_A_GPU = frozenset({"mig", "shared"})
"""Words by which NVIDIA's device plugin names what is less than a whole GPU."""
_WORD = re.compile(r"[a-z0-9]+")
_Tokens = tuple[float | None, float | None]
UNTOLD: _Tokens = (None, None)


@dataclass(frozen=True, slots=True)
class Spent:
    """GPU-seconds by product and phase, and tokens, cumulative. Tokens None: no engine has said."""

    gpu_s: Mapping[GpuUse, float] = field(default_factory=lambda: MappingProxyType({}))
    prompt_tokens: float | None = None
    generation_tokens: float | None = None

    def since(self, earlier: Spent) -> Spent:
        """What was added after another time."""
        return Spent(
            {use: total - earlier.gpu_s.get(use, 0.0) for use, total in self.gpu_s.items()},
            _less(self.prompt_tokens, earlier.prompt_tokens),
            _less(self.generation_tokens, earlier.generation_tokens),
        )


@dataclass(frozen=True, slots=True)
class Bill:
    """What was spent.

    ``starting_ratio`` is the share of the GPU-seconds in which replicas were not ready. None: there were no GPU-seconds, or no tokens, or a
    product of which the price is not known; ``unpriced`` names those, where there are prices at all. ``lasted_s``: over how many seconds.
    """

    gpu_s: float
    starting_ratio: float | None
    tokens: float | None
    tokens_per_gpu_s: float | None
    cost: float | None
    cost_per_million_tokens: float | None
    cost_per_million_generated: float | None
    unpriced: tuple[str, ...] = ()
    lasted_s: float | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """What was spent since it began. ``charged_at`` is until when GPUs are, ``counted`` are each replica's counters as they were last read.

    ``marks`` are the totals of the last hour, one a minute, the oldest first.
    """

    spent: Spent = Spent()
    charged_at: float | None = None
    counted: Mapping[str, _Tokens] = field(default_factory=lambda: MappingProxyType({}))
    marks: tuple[tuple[float, Spent], ...] = ()

    def lately(self, now: float, prices: Mapping[str, float]) -> Bill | None:
        """The bill of the last hour, or since the first look; None where nobody tells of GPUs."""
        if not self.marks or not self.spent.gpu_s:
            return None
        began_at, before = self.marks[0]
        return replace(bill(self.spent.since(before), prices), lasted_s=now - began_at)


def follow(ledger: Ledger, seen: Observation) -> Ledger:
    """The ledger after one observation.

    What is held now is charged since the look before, in the phase that it is in now: by when its product is known, a replica has been
    looked at once. A counter of tokens that is new, or that fell, begins anew.
    """
    gpu_s, charged_at = _charged(ledger, seen)
    prompt, generated = _tokens(ledger, seen)
    spent = Spent(gpu_s, prompt, generated)
    listed = None if seen.replicas is None else {*seen.replicas.ready, *(one.replica for one in seen.replicas.starting)}
    kept = {name: was for name, was in ledger.counted.items() if listed is None or name in listed}
    counted = kept | {one.replica: _newest(kept.get(one.replica, UNTOLD), _counters(one)) for one in seen.readings}
    return Ledger(spent, charged_at, counted, _marked(ledger.marks, seen.at, spent))


def bill(spent: Spent, prices: Mapping[str, float]) -> Bill:
    """What that comes to. ``prices`` are those of a GPU-hour, by the name of the GPU."""
    gpu_s = math.fsum(spent.gpu_s.values())
    starting = math.fsum(each for use, each in spent.gpu_s.items() if use.phase is GpuPhase.STARTING)
    said = [each for each in (spent.prompt_tokens, spent.generation_tokens) if each is not None]
    tokens, money = sum(said) if said else None, cost(spent.gpu_s, prices)
    return Bill(
        gpu_s=gpu_s,
        starting_ratio=starting / gpu_s if gpu_s else None,
        tokens=tokens,
        tokens_per_gpu_s=tokens / gpu_s if tokens is not None and gpu_s else None,
        cost=money,
        cost_per_million_tokens=per_million(money, tokens),
        cost_per_million_generated=per_million(money, spent.generation_tokens),
        unpriced=_unpriced(spent.gpu_s, prices) if prices else (),
    )


def told(of: Bill) -> str:
    """A bill in one line. Whose money it is, the price list knows."""
    starting = "" if of.starting_ratio is None else f" ({of.starting_ratio:.0%} of it starting)"
    lasted = "" if of.lasted_s is None else f" in {_lasting(of.lasted_s)}"
    parts = [f"{_number(of.gpu_s / HOUR_S)} GPU-hours{lasted}{starting}"]
    if of.tokens_per_gpu_s is not None:
        parts.append(f"{_number(of.tokens_per_gpu_s)} tokens per GPU-second")
    if of.cost is not None:
        parts.append(f"cost {_number(of.cost)}")
    if of.cost_per_million_tokens is not None:
        generated = of.cost_per_million_generated
        alone = "" if generated is None else f" ({_number(generated)} per million generated)"
        parts.append(f"{_number(of.cost_per_million_tokens)} per million tokens{alone}")
    if of.unpriced:
        parts.append(f"no price for {', '.join(of.unpriced)}")
    return ", ".join(parts)


def cost(gpu_s: Mapping[GpuUse, float], prices: Mapping[str, float]) -> float | None:
    """What the GPU-seconds cost; None where the price of any that were used is not known."""
    each = [(seconds, price_of(prices, use.gpu)) for use, seconds in gpu_s.items() if seconds]
    known = [charged(seconds, price) for seconds, price in each if price is not None]
    return math.fsum(known) if len(known) == len(each) else None


def charged(gpu_s: float, price: float) -> float:
    """What so many GPU-seconds cost at a price of a GPU-hour."""
    return gpu_s / HOUR_S * price


def per_million(money: float | None, tokens: float | None) -> float | None:
    """The cost of a million tokens; None where either is not known, and where there were none."""
    return money / tokens * MILLION if money is not None and tokens else None


def price_of(prices: Mapping[str, float], gpu: str) -> float | None:
    """The price of a GPU-hour: of the names whose words are all in that of the GPU, the one with the most.

    Of equals the dearest. What is a part of a GPU has no price but one that names it as such: a slice of an H100 is not charged as an H100.
    """
    found = _words(gpu)
    named = [
        (len(words), price)
        for name, price in prices.items()
        if found & PART_OF_A_GPU <= (words := _words(name)) <= found and words
    ]
    return max(named)[1] if named else None


def _charged(ledger: Ledger, seen: Observation) -> tuple[Mapping[GpuUse, float], float | None]:
    """The GPU-seconds with those since the last look, and when this one was. A product that appears has all its phases, at zero."""
    listed, before = seen.replicas, ledger.charged_at
    if listed is None or (before is not None and listed.observed_at <= before):
        return ledger.spent.gpu_s, before
    gpu_s = dict(ledger.spent.gpu_s)
    for use, count in _bounded(listed.gpus, {use.gpu for use in gpu_s}).items():
        for phase in GpuPhase:
            gpu_s.setdefault(GpuUse(use.gpu, phase), 0.0)
        if before is not None:
            gpu_s[use] += count * (listed.observed_at - before)
    return gpu_s, listed.observed_at


def _bounded(held: Mapping[GpuUse, int], known: set[str]) -> Mapping[GpuUse, int]:
    """The same with what there are too many kinds of as ``other``."""
    found: dict[GpuUse, int] = {}
    named = set(known)
    for (gpu, phase), count in sorted(held.items()):
        name = gpu if gpu in named or len(named) < MOST_PRODUCTS else OTHER
        named.add(name)
        use = GpuUse(name, phase)
        found[use] = found.get(use, 0) + count
    return found


def _tokens(ledger: Ledger, seen: Observation) -> _Tokens:
    """The totals with what each replica added since it was last read."""
    totals = [ledger.spent.prompt_tokens, ledger.spent.generation_tokens]
    for reading in seen.readings:
        before = ledger.counted.get(reading.replica, UNTOLD)
        for place, (was, now) in enumerate(zip(before, _counters(reading), strict=True)):
            if now is not None:
                grown = now - was if was is not None and now >= was else 0.0
                totals[place] = (totals[place] or 0.0) + grown
    return totals[0], totals[1]


def _counters(reading: Reading) -> _Tokens:
    return reading.prompt_tokens_total, reading.generation_tokens_total


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits


def _lasting(seconds: float) -> str:
    return f"{seconds / MINUTE_S:.0f} min" if seconds >= 2 * MINUTE_S else f"{seconds:.0f} s"


def _unpriced(gpu_s: Mapping[GpuUse, float], prices: Mapping[str, float]) -> tuple[str, ...]:
    used = sorted({use.gpu for use, seconds in gpu_s.items() if seconds})
    return tuple(gpu or "a GPU of an unknown product" for gpu in used if price_of(prices, gpu) is None)


def _newest(before: _Tokens, now: _Tokens) -> _Tokens:
    return (
        now if None not in now else (before[0] if now[0] is None else now[0], before[1] if now[1] is None else now[1])
    )


def _marked(marks: tuple[tuple[float, Spent], ...], at: float, spent: Spent) -> tuple[tuple[float, Spent], ...]:
    if marks and at - marks[-1][0] < MARK_EVERY_S:
        return marks
    return (*(mark for mark in marks if at - mark[0] <= LATELY_S), (at, spent))


def _less(later: float | None, earlier: float | None) -> float | None:
    return None if later is None else later - (earlier or 0.0)


def _words(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(name.lower()))
