"""What becomes of a surge of k times the capacity, by what the gateway does about it. In virtual time: the same numbers on every run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from scaler.sim.play import Run
from scaler.sim.score import Score, score
from tests.support.overload import (
    AFTERWARDS_S,
    AT_MOST,
    BY_PROMETHEUS,
    GROWING,
    PROMISED,
    REPLICAS,
    RUSH,
    TPOT_BOUND,
    USUAL,
    WAYS,
    Scene,
    rushed,
)

SEEDS = range(1, 6)
SETTLED_S, GROWN_AT, GROWS_BY = 70.0, 360.0, 2.02
HEAD = "   k  gate      goodput      refused  P99 TTFT  first refusal  flips/min  recovery  retries"


def run() -> list[str]:
    """Every gate at every surge for a fleet at its maximum; then what each is worst at, and what it makes the law ask for."""
    return [
        f"{REPLICAS} replicas of 70B on 4xH100, chat, TTFT 2 s, TPOT 100 ms; capacity {AT_MOST.capacity_per_s:.1f} requests a second",
        f"k times that for {RUSH.seconds:.0f} s, {USUAL:g} times before and after; three client libraries, two retries; {len(SEEDS)} seeds",
        "goodput: served within both objectives / capacity, median and worst; all else is the worst seed",
        "first refusal: after the wait has first been beyond 0.4 x budget at the full second; recovery: until GREEN and nobody is refused",
        "retries: the most in one second / the median",
        "the fleet is at its maximum, and read every second; who polls does so every 2 s",
        HEAD,
        *_rows(AT_MOST, ("none", "on/off", "literal", "polled", "in path"), (1.2, 2.0, 3.0, 5.0, 10.0)),
        "replicas are begun and never get ready: clients are told when to come back, and do",
        HEAD,
        *_rows(PROMISED, ("on/off", "polled", "in path"), (2.0, 5.0)),
        "at its maximum again, read by a Prometheus every 15 s",
        HEAD,
        *_rows(BY_PROMETHEUS, ("polled", "in path"), (2.0, 10.0)),
        "bound by TPOT (25 ms): seconds of the surge in which no more is ongoing than is safe",
        *_within(("none", "polled", "in path"), (1.2, 2.0, 5.0)),
        "replicas that the law asks for by the flow at k = 2, where nobody comes back and where all do; and how many a fleet that can grow",
        f"has in the end at k = {GROWS_BY}",
        *_demand(("none", "in path", "counted", "polled")),
    ]


def _rows(scene: Scene, names: Iterable[str], surges: tuple[float, ...]) -> Iterator[str]:
    for times in surges:
        for name in names:
            runs = [rushed(scene.with_setting(seed=seed), WAYS[name], times) for seed in SEEDS]
            told = [score(run, scene.spec, RUSH) for run in runs]
            first = max(_first_refusal_s(scene, run) for run in runs)
            yield f"{times:4.1f}  {name:8s}  {_row(told, first)}"


def _row(told: Sequence[Score], first_s: float) -> str:
    goodput = [one.goodput_ratio for one in told]
    recovery = max(one.recovery_s for one in told)
    peaks = [one.retry_peak_ratio for one in told if not math.isnan(one.retry_peak_ratio)]
    return (
        f"{median(goodput):.2f} >= {min(goodput):.2f}  {max(one.refused_ratio for one in told):7.0%}"
        f"  {max(one.ttft_p99_s for one in told):6.1f} s"
        f"  {_since(first_s):>13s}"
        f"  {max(one.flips_per_min for one in told):9.1f}"
        f"  {f'> {AFTERWARDS_S - 10:.0f} s' if math.isinf(recovery) else f'{recovery:.0f} s':>8s}"
        f"  {f'{max(peaks):.1f}' if peaks else '-':>7s}"
    )


def _since(first_s: float) -> str:
    return "none" if math.isinf(first_s) else "before that" if first_s < 0 else f"{first_s:.1f} s"


def _first_refusal_s(scene: Scene, run: Run) -> float:
    """Negative where somebody was refused before the wait got there."""
    profile, budget_s = scene.spec.profile, scene.spec.budget_s or math.nan
    over = (
        one.at
        for one in run.seconds
        if one.at >= RUSH.begins_at
        and one.waiting + max(0.0, one.running - profile.safe_concurrency * one.ready)
        >= 0.4 * budget_s * scene.capacity_per_s
    )
    first = next((attempt.at for attempt in run.attempts if not attempt.admitted), math.inf)
    return first - next(over, RUSH.ends_at)


def _within(names: Iterable[str], surges: tuple[float, ...]) -> Iterator[str]:
    safe = TPOT_BOUND.spec.profile.safe_concurrency
    for times in surges:
        for name in names:
            runs = [rushed(TPOT_BOUND.with_setting(seed=seed), WAYS[name], times) for seed in SEEDS]
            seconds = [one for run in runs for one in run.seconds if RUSH.has(one.at)]
            within = sum(one.running + one.waiting <= safe * one.ready for one in seconds) / len(seconds)
            goodput = min(score(run, TPOT_BOUND.spec, RUSH).goodput_ratio for run in runs)
            yield f"{times:4.1f}  {name:8s}  {within:6.1%}  goodput >= {goodput:.2f}"


def _demand(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        flows = [median(_flows(scene, name)) for scene in (AT_MOST, PROMISED)]
        grown = [
            GROWING.with_setting(seed=seed).play(WAYS[name].gateway(seed), ((0.0, USUAL), (30.0, GROWS_BY)), 420.0)
            for seed in SEEDS
        ]
        counts = sorted({one.desired for run in grown for one in run.decisions if one.decided_at >= GROWN_AT})
        yield f"  {name:8s}  {flows[0]:4.1f}  {flows[1]:5.1f}  {' or '.join(map(str, counts))}"


def _flows(scene: Scene, name: str) -> list[float]:
    runs = [rushed(scene.with_setting(seed=seed), WAYS[name], 2.0) for seed in SEEDS]
    settled_at = RUSH.begins_at + SETTLED_S
    return [
        one.recommendation.terms.flow
        for run in runs
        for one in run.decisions
        if settled_at <= one.decided_at < RUSH.ends_at
    ]
