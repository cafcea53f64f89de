"""What to do about an answer: the level to test next, and what looks odd about the test."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scaler.calibration.choose import FINE_STEP, Calibration, Outcome
from scaler.calibration.judge import Judged, Verdict, enough_requests, limits
from scaler.calibration.levels import Level
from scaler.calibration.runs import Load, LoadKind, Setup
from scaler.core.evidence import rising

MORE_TIMES = 4
"""As many times the requests halve the distance between a percentile and its bound."""
NOISE_RATIO, KNEE_GAIN, TPOT_FALL = 0.2, 0.1, 0.1


@dataclass(frozen=True, slots=True)
class NextTest:
    """The level to test next, and with how many requests."""

    load: Load
    requests: int


def next_test(found: Calibration) -> NextTest | None:
    """What to test next; None when the answer is fine enough, or no level can help."""
    safe, stopper, share = found.safe, found.stopper, found.objectives.share
    if found.outcome is Outcome.UNUSABLE or found.ceiling is not None:
        return None
    if found.outcome is Outcome.NOT_ENOUGH:
        return again(next(judged for judged in found.levels if judged.verdict is not Verdict.PASSES), share)
    if safe is None:
        load = found.levels[0].level.load
        lower = Load(load.kind, _round(load, math.sqrt(load.value)))
        return _fresh(lower, share) if lower.value < load.value else None
    if stopper is None:
        return _fresh(_above(safe.level, found.sweep.setup), share)
    if stopper.verdict is not Verdict.FAILS:
        return again(stopper, share)
    middle = between(safe.level.load, stopper)
    return None if middle is None else _fresh(middle, share)


def _above(level: Level, setup: Setup) -> Load:
    """Twice the load, but no more requests in flight than the engine is known to hold."""
    load = level.load
    most = min((limit.most for limit in limits(level, setup)), default=math.inf)
    twice = 2 * load.value
    if load.kind is LoadKind.CONCURRENCY and most < twice:
        return Load(load.kind, float(max(1, math.floor(most))))
    return Load(load.kind, _round(load, twice))


def between(low: Load, stopper: Judged) -> Load | None:
    """A load between one that passes and one that fails, None when they are near, or are not told in the same terms."""
    high = stopper.level.load
    most = min((trouble.most for trouble in stopper.troubles), default=math.inf)
    if most < math.inf and low.kind is LoadKind.CONCURRENCY:
        middle = float(math.floor(most)) if most > FINE_STEP * low.value else low.value
    elif low.kind is high.kind and high.value > FINE_STEP * low.value:
        middle = _round(low, math.sqrt(low.value * high.value))
    else:
        return None
    return Load(low.kind, middle) if low.value < middle < high.value else None


def again(judged: Judged, share: float) -> NextTest:
    """The same level with as many requests as should settle it."""
    level = judged.level
    more = MORE_TIMES * level.completed if judged.verdict is Verdict.NOT_SHOWN else 0
    return NextTest(level.load, max(enough_requests(level.load, share), 10 * math.ceil(more / 10)))


def _fresh(load: Load, share: float) -> NextTest:
    return NextTest(load, enough_requests(load, share))


def _round(load: Load, value: float) -> float:
    """A concurrency is a whole number, not nought; a rate has three digits that matter."""
    return float(max(1, round(value))) if load.kind is LoadKind.CONCURRENCY else float(f"{value:.3g}")


def notes(found: Calibration) -> Iterator[str]:
    """What looks odd, and what was taken instead of what a file does not tell."""
    yield from found.sweep.notes
    yield from _noise(found.levels)
    if found.safe is None:
        return
    tested = [judged.level for judged in found.levels[: found.levels.index(found.safe) + 1]]
    yield from _knee(tested)
    if found.sweep.setup.max_num_seqs is None:
        yield from _cap(tested)
    yield from _lengths(found.safe.level, found.sweep.setup)


def _lengths(level: Level, setup: Setup) -> Iterator[str]:
    prompts, outputs, samples = level.prompts, level.outputs, level.options.samples
    if prompts.p50 is None and prompts.mean is not None:
        wish = f"; {samples} tells it" if samples else ""
        yield f"mix.in_p50 is the mean length, as the files have no median: right where all are alike, else correct it{wish}"
    if setup.kv_tokens is None or (prompts.p95 is not None and outputs.p95 is not None):
        return
    if prompts.mean is None or outputs.mean is None:
        yield "the KV cache was not checked, as the files have no lengths"
    else:
        yield "the KV cache was checked with mean lengths, as the files have no P95 of them"


def _noise(levels: Sequence[Judged]) -> Iterator[str]:
    """A time to the first token that falls under more load is chance, for all that an engine can do."""
    told = [(judged.level, estimate) for judged in levels if (estimate := judged.checks[0].estimate_s or 0) > 0]
    fit = rising([math.log(estimate) for _, estimate in told], [float(level.completed) for level, _ in told])
    apart = [
        level
        for (level, estimate), fitted in zip(told, fit, strict=True)
        if abs(math.log(estimate) - fitted) > NOISE_RATIO
    ]
    if apart:
        yield f"the time to the first token does not rise with the load at {_listed(apart)}: noise, which more requests reduce"


def _knee(levels: Sequence[Level]) -> Iterator[str]:
    """Where throughput stops to grow, more requests in flight only wait."""
    for low, high in pairwise(levels):
        if min(low.concurrency, low.rate_per_s, high.rate_per_s) <= 0 or high.concurrency <= low.concurrency:
            continue
        doublings = math.log2(high.concurrency / low.concurrency)
        gain = (high.rate_per_s / low.rate_per_s) ** (1 / doublings) - 1
        if gain < KNEE_GAIN:
            yield f"from {low.load} to {high.load} throughput grows by {gain:.0%} a doubling: what is added mostly waits"


def _cap(levels: Sequence[Level]) -> Iterator[str]:
    """Above its own cap an engine queues; who runs is then faster, and TPOT says nothing about the cap itself."""
    for low, high in pairwise(levels):
        before, after = low.tpot.estimate(0.5), high.tpot.estimate(0.5)
        if before and after and after < (1 - TPOT_FALL) * before:
            yield (
                f"TPOT falls from {before:.3g} s at {low.load} to {after:.3g} s at {high.load}: the engine may be above its own cap, "
                "where it queues; name the cap with --max-num-seqs"
            )


def _listed(levels: Sequence[Level]) -> str:
    return ", ".join(str(level.load) for level in levels)
