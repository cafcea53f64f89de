"""What one level proves about the objectives.

A level *passes* when the 95 % bound of each latency is within its objective, *fails* when the latency itself is not or the engine was
overloaded, and is *not shown* when only the bound is above: more requests would tell. A level whose measurement is at fault is *not
usable*, which is neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from scaler.calibration.levels import Level
from scaler.calibration.runs import LEAST_IN_FLIGHT, MOST_IN_FLIGHT, Defect, Load, LoadKind, Setup
from scaler.core.evidence import least_samples
from scaler.errors import ConfigError

MOST_FAILED_RATIO = 0.01
MOST_CUT_OFF_RATIO = 0.05
MOST_CACHED_RATIO = 0.1
"""Up to here the hits are the chat template and the odd block that prompts share by chance."""
IN_FLIGHT_RATIO, TOO_MANY_RATIO = 0.8, 1.2
KV_USABLE_RATIO = 0.9
STEADY_S = 120.0
"""How long a rate should be held: many times the time that most requests take."""
ENOUGH_TIMES = 4
"""As many times the fewest samples that can bound a quantile: with just the fewest, the bound is the slowest request of all."""


class Verdict(StrEnum):
    """What a level proves."""

    PASSES = "passes"
    FAILS = "fails"
    NOT_SHOWN = "not shown"
    UNUSABLE = "not usable"


@dataclass(frozen=True, slots=True)
class Objectives:
    """What a replica must keep, in seconds: the time to the first token and, if given, the time per output token, at a percentile."""

    ttft_s: float
    tpot_s: float | None = None
    percentile: float = 95.0

    @property
    def share(self) -> float:
        """The percentile as a share."""
        return self.percentile / 100


@dataclass(frozen=True, slots=True)
class Check:
    """One objective at one level, in seconds. ``bound_s`` is the 95 % bound of the percentile, None when too little is known for one."""

    name: str
    samples: int
    limit_s: float
    estimate_s: float | None
    bound_s: float | None

    @property
    def passes(self) -> bool:
        """Whether the latency is within the objective for sure."""
        return self.bound_s is not None and self.bound_s <= self.limit_s

    @property
    def exceeds(self) -> bool:
        """Whether what was measured is beyond the objective, however few requests that are."""
        return self.estimate_s is not None and self.estimate_s > self.limit_s


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an engine must not be driven at a level, apart from its latencies. ``most`` is the highest concurrency without it, if known."""

    name: str
    text: str
    most: float = math.inf


@dataclass(frozen=True, slots=True)
class Judged:
    """A level and what it proves."""

    level: Level
    checks: tuple[Check, ...]
    troubles: tuple[Trouble, ...] = ()
    defects: tuple[Defect, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """What it proves."""
        if self.troubles:
            return Verdict.FAILS
        if self.defects:
            return Verdict.UNUSABLE
        if any(check.exceeds for check in self.checks):
            return Verdict.FAILS
        return Verdict.PASSES if all(check.passes for check in self.checks) else Verdict.NOT_SHOWN

    @property
    def stops(self) -> bool:
        """Whether no higher level can be safe. A level that cannot be used and shows nothing bad is as good as not tested."""
        if self.verdict is Verdict.UNUSABLE:
            return any(check.exceeds for check in self.checks)
        return self.verdict is not Verdict.PASSES

    @property
    def worst(self) -> Check:
        """The objective that is nearest to being broken, or farthest beyond."""
        return max(self.checks, key=lambda check: (check.bound_s or check.estimate_s or 0.0) / check.limit_s)


def judge(level: Level, objectives: Objectives, setup: Setup, *, shared_prefix: bool = False) -> Judged:
    """What a level proves. Raises ConfigError when its file lacks a latency that an objective is about."""
    checks = tuple(_checks(level, objectives))
    return Judged(
        level=level,
        checks=checks,
        troubles=tuple(_troubles(level, setup)),
        defects=tuple(_defects(level, checks, objectives, shared_prefix=shared_prefix)),
    )


def enough_requests(load: Load, share: float, fewest: int | None = None) -> int:
    """How many requests make a level worth testing: those that find an empty engine must be too few to decide the percentile.

    ``fewest`` replaces what a low load is given besides.
    """
    steady = load.value / (1 - share) if load.kind is LoadKind.CONCURRENCY else STEADY_S * load.value
    enough = max(steady, fewest or ENOUGH_TIMES * least_samples(share))
    return 10 * math.ceil(enough / 10 - 1e-9)


def limits(level: Level, setup: Setup) -> Iterator[Trouble]:
    """What bounds the concurrency whatever the latencies are: the engine's own cap, and the KV cache, as far as they are named.

    The cache must hold as many requests as have the P95 of both lengths, or else their means.
    """
    if setup.max_num_seqs is not None:
        text = f"the engine runs {setup.max_num_seqs:g} requests (max_num_seqs), the rest waits in its queue"
        yield Trouble("engine_cap", text, setup.max_num_seqs)
    prompt, output = (side.p95 or side.mean for side in (level.prompts, level.outputs))
    if setup.kv_tokens is not None and prompt is not None and output is not None and prompt + output > 0:
        most = KV_USABLE_RATIO * setup.kv_tokens / (prompt + output)
        text = f"the KV cache holds {most:.1f} requests for sure (0.9 × {setup.kv_tokens:g} tokens ÷ P95 of input and output)"
        yield Trouble("kv_cache", text, most)


def _checks(level: Level, objectives: Objectives) -> Iterator[Check]:
    options = level.options
    asked = (
        ("ttft", objectives.ttft_s, level.ttft, options.ttft_field, options.percentiles),
        ("tpot", objectives.tpot_s, level.tpot, options.tpot_field, options.tpot),
    )
    for name, limit_s, latency, field, option in asked:
        if limit_s is None:
            continue
        if level.completed and latency.estimate(objectives.share) is None:
            place = field.format(f"{objectives.percentile:g}")
            text = f"{place}: missing, and no higher percentile is there; {options.tool} writes it with {option}"
            raise ConfigError(f"{level.files}: {text}")
        yield Check(name, latency.n, limit_s, latency.estimate(objectives.share), latency.bound(objectives.share))


def _troubles(level: Level, setup: Setup) -> Iterator[Trouble]:
    failed, preemptions = level.failed or 0, sum(run.preemptions or 0 for run in level.runs)
    if failed > MOST_FAILED_RATIO * (failed + level.completed):
        yield Trouble("errors", f"{failed} of {failed + level.completed} requests failed")
    if preemptions:
        yield Trouble("preemptions", f"{preemptions:g} preemptions: the KV cache was full")
    if any(run.saturated for run in level.runs):
        yield Trouble(
            "saturation", f"served {level.rate_per_s:.4g} of {level.load.value:.4g} requests/s: the engine fell behind"
        )
    yield from (limit for limit in limits(level, setup) if limit.most < level.concurrency)


def _defects(
    level: Level, checks: tuple[Check, ...], objectives: Objectives, *, shared_prefix: bool
) -> Iterator[Defect]:
    judged_by = {"", *(check.name for check in checks)}
    yield from dict.fromkeys(defect for run in level.runs for defect in run.defects if defect.about in judged_by)
    if not level.completed:
        yield Defect("no request succeeded")
        return
    yield from _unplaced(level)
    causes = tuple(_too_short(level, checks, objectives))
    if causes:
        options = level.options
        more = f"{options.tool} {options.level(level.load, enough_requests(level.load, objectives.share))}"
        start = any(run.from_empty for run in level.runs)
        without = f", or add {options.samples}, which lets the first be left out" if start and options.samples else ""
        yield Defect(f"{'; '.join(causes)}. Repeat it with {more}{without}", short=True)
    elif any(check.bound_s is None for check in checks):
        text = f"the highest percentile in the file does not bound the P{objectives.percentile:g} of {level.completed} requests"
        yield Defect(f"{text}; add {level.options.samples or level.options.percentiles}", short=True)
    elif _idle(level):
        yield Defect(f"{_in_flight(level)}: the load tester did not keep up")
    if level.load.kind is LoadKind.CONCURRENCY and (level.little or 0.0) > TOO_MANY_RATIO * level.load.value:
        yield Defect(f"{_in_flight(level)}: did several tests run at once?")
    cached = max((run.cached_ratio or 0.0 for run in level.runs), default=0.0)
    if cached > MOST_CACHED_RATIO and not shared_prefix:
        yield Defect(f"the prefix cache was warm: {cached:.0%} of the prompt tokens were in it. {level.options.cold}")
    if any(run.ttft.quantiles and run.ttft.quantiles[0][1] < 0 for run in level.runs):
        yield Defect("a time to the first token is negative: the load tester's clock is at fault")


def _unplaced(level: Level) -> Iterator[Defect]:
    """Why a level is at no concurrency that could be called safe."""
    if level.load.kind is LoadKind.RATE and level.little is None:
        missing = "the mean latency of whole requests (e2e_mean_s in a CSV)"
        yield Defect(f"how many requests were in flight is not known without {missing}")
    elif not LEAST_IN_FLIGHT <= level.concurrency <= MOST_IN_FLIGHT:
        within = f"it is from {LEAST_IN_FLIGHT:g} to {MOST_IN_FLIGHT:g}"
        yield Defect(f"{level.concurrency:.3g} requests in flight are no safe concurrency; {within}")


def _too_short(level: Level, checks: tuple[Check, ...], objectives: Objectives) -> Iterator[str]:
    """What more requests would cure."""
    percentile, share = f"P{objectives.percentile:g}", objectives.share
    told, least = min(check.samples for check in checks), least_samples(share)
    if told < least:
        yield f"{told} requests bound no {percentile}, {least} are the least"
    first = math.fsum(min(run.concurrency, run.completed) for run in level.runs if run.from_empty)
    if first > (1 - share) * level.completed * (1 + 1e-9):
        yield f"the first {first:.0f} of {level.completed} requests find an empty engine and can decide {percentile} alone"
    cut_off = sum(run.cut_off for run in level.runs)
    if cut_off > MOST_CUT_OFF_RATIO * (cut_off + level.completed):
        yield f"{cut_off} of {cut_off + level.completed} requests were cut off at the end, the longest of all"
    if _idle(level) and level.completed < enough_requests(level.load, share):
        yield _in_flight(level)


def _idle(level: Level) -> bool:
    """Whether clearly fewer requests were in flight than the load tester was told to keep there."""
    known = level.load.kind is LoadKind.CONCURRENCY and level.little is not None
    return known and (level.little or 0.0) < IN_FLIGHT_RATIO * level.load.value


def _in_flight(level: Level) -> str:
    return f"{level.little or 0.0:.3g} requests were in flight (requests/s × mean latency), not {level.load.value:g}"
