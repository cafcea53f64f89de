"""What a whole replay was worth: to those who asked, to those who pay, and to those who watch it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from scaler.core.decision import Decision
from scaler.core.model import Pressure, RequestClass
from scaler.core.step import WorkloadSpec
from scaler.sim.cluster import Life
from scaler.sim.play import Attempt, Call, Run, Second
from scaler.sim.score import kept, quantile
from scaler.sim.stage import Asked

MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Seconds."""

    p50_s: float
    p95_s: float
    p99_s: float


@dataclass(frozen=True, slots=True)
class Worth:
    """One run. A request counts once, whatever its attempts, and all that were offered count.

    ``ttft_ratio`` and ``tpot_ratio``: served within that objective; ``kept_ratio`` within both, ``goodput_per_s`` likewise a second, and
    ``first_try_ratio`` without having been refused before. TTFT is from the attempt that was admitted; who was refused for good is not
    within it. ``ttft`` is of the admitted; who has no first token at the end of the run waited until then. ``refused_ratio``: refused at
    the first attempt; ``lost_ratio``: never served.

    ``unsafe_ratio``: of the seconds of ready replicas, those above the safe concurrency, by the mean of the fleet. ``surprised_ratio``:
    of the requests that came while the workload was GREEN, those that were not served within the objectives; None for a law without
    colours. ``violation_min``: minutes of arrivals of which fewer were served within than promised. ``turns``: how often the count of
    replicas changed its direction. ``gpu_hours`` are from the creation of a replica until it is gone, ``starting_gpu_hours`` those of them
    before it was ready. Tokens are those of the requests that were served.
    """

    offered: int
    ttft_ratio: float
    tpot_ratio: float
    kept_ratio: float
    first_try_ratio: float
    goodput_per_s: float
    ttft: Quantiles
    tpot_p95_s: float
    refused_ratio: float
    lost_ratio: float
    unsafe_ratio: float
    surprised_ratio: float | None
    violation_min: int
    turns: int
    gpu_hours: float
    mean_replicas: float
    most_replicas: int
    starting_gpu_hours: float
    prompt_tokens: int
    generation_tokens: int


def worth(run: Run, spec: WorkloadSpec, gpus: int, ends_at: float) -> Worth:
    """What a run was worth whose traffic ended then, and which went on until it was served. ``gpus`` are those of one replica.

    A class that the workload has not is its default, the first, as at a gate.
    """
    promised = {one.name: one for one in spec.classes}
    judged = [(call, promised.get(call.arrival.request_class, spec.classes[0])) for call in run.calls]
    good = [kept(call, of) for call, of in judged]
    over_at = run.seconds[-1].at
    during = [second for second in run.seconds if second.at <= ends_at]
    replica_s = math.fsum(max(0.0, life.seconds(ends_at)) for life in run.replicas)
    return Worth(
        offered=len(judged),
        ttft_ratio=_share(_ttft_kept(call, of) for call, of in judged),
        tpot_ratio=_share(_tpot_kept(call, of) for call, of in judged),
        kept_ratio=_share(good),
        first_try_ratio=_share(was and not call.tried for was, call in zip(good, run.calls, strict=True)),
        goodput_per_s=sum(good) / ends_at,
        ttft=_quantiles([_waited_s(call, over_at) for call in run.calls if call.admitted_at is not None]),
        tpot_p95_s=quantile([call.tpot_s for call in run.calls if call.tpot_s is not None], 0.95),
        refused_ratio=_refused_first(run.attempts) / max(1, len(judged)),
        lost_ratio=_share(not call.finished for call in run.calls),
        unsafe_ratio=_unsafe_ratio(during, spec.profile.safe_concurrency),
        surprised_ratio=_surprised_ratio(run.decisions, run.calls, good),
        violation_min=_violations(run.calls, good, spec.slo_quantile),
        turns=turns([one for one in run.asked if one.at <= ends_at]),
        gpu_hours=replica_s * gpus / 3600,
        mean_replicas=replica_s / ends_at,
        most_replicas=max((second.existing for second in during), default=0),
        starting_gpu_hours=math.fsum(_starting_s(life, ends_at) for life in run.replicas) * gpus / 3600,
        prompt_tokens=sum(call.arrival.prompt_tokens for call in run.calls if call.finished),
        generation_tokens=sum(call.arrival.output_tokens for call in run.calls if call.finished),
    )


def _starting_s(life: Life, ends_at: float) -> float:
    return max(0.0, min(life.ready_at, life.gone_at, ends_at) - life.created_at)


def turns(asked: Iterable[Asked]) -> int:
    """How often the count of replicas began to fall after it had risen, or to rise after it had fallen."""
    changes = [after.replicas - before.replicas for before, after in pairwise(asked)]
    moved = [change > 0 for change in changes if change]
    return sum(before is not after for before, after in pairwise(moved))


def _ttft_kept(call: Call, of: RequestClass) -> bool:
    return call.ttft_s is not None and (of.ttft_s is None or call.ttft_s <= of.ttft_s)


def _tpot_kept(call: Call, of: RequestClass) -> bool:
    return call.finished and (of.tpot_s is None or call.tpot_s is None or call.tpot_s <= of.tpot_s)


def _waited_s(call: Call, over_at: float) -> float:
    return call.ttft_s if call.ttft_s is not None else over_at - (call.admitted_at or 0.0)


def _quantiles(values: Sequence[float]) -> Quantiles:
    return Quantiles(*(quantile(values, q) for q in (0.5, 0.95, 0.99)))


def _refused_first(attempts: Iterable[Attempt]) -> int:
    return sum(not attempt.admitted and not attempt.tried for attempt in attempts)


def _share(each: Iterable[bool]) -> float:
    """Of nothing all is well."""
    flags = list(each)
    return fmean(flags) if flags else 1.0


def _unsafe_ratio(seconds: Iterable[Second], safe_concurrency: float) -> float:
    ready = unsafe = 0
    for second in seconds:
        ready += second.ready
        if second.running + second.waiting > safe_concurrency * second.ready:
            unsafe += second.ready
    return unsafe / ready if ready else 0.0


def _surprised_ratio(decisions: Sequence[Decision], calls: Sequence[Call], good: Sequence[bool]) -> float | None:
    if not decisions:
        return None
    came = surprised = 0
    index = -1
    for call, was_good in zip(calls, good, strict=True):
        while index + 1 < len(decisions) and decisions[index + 1].decided_at <= call.arrival.at:
            index += 1
        if index >= 0 and decisions[index].state is Pressure.GREEN:
            came += 1
            surprised += not was_good
    return surprised / came if came else 0.0


def _violations(calls: Sequence[Call], good: Sequence[bool], promised: float) -> int:
    minutes: dict[int, list[bool]] = defaultdict(list)
    for call, was_good in zip(calls, good, strict=True):
        minutes[int(call.arrival.at / MINUTE_S)].append(was_good)
    return sum(sum(each) < promised * len(each) for each in minutes.values())
