"""What a run was worth: for the users, and for those who watch it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from scaler.core.model import Pressure, RequestClass

if TYPE_CHECKING:
    from scaler.core.decision import Decision
    from scaler.core.step import WorkloadSpec
    from scaler.sim.play import Call, Run

SETTLED_S = 30.0
"""Colours are counted from then on after a load has begun: until then they are news."""
FEW_RETRIES = 10
QUIET_S = 10.0
"""What happened so shortly before the end of a run may go on after it."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time, its end not included."""

    begins_at: float
    ends_at: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.ends_at - self.begins_at

    def has(self, at: float) -> bool:
        """Whether an instant is in it."""
        return self.begins_at <= at < self.ends_at


@dataclass(frozen=True, slots=True)
class Score:
    """How a load was borne.

    ``goodput_ratio``: admitted meanwhile and served within the TTFT and TPOT objectives, over the safe rate of the ready replicas.
    ``refused_ratio`` is of all attempts. ``ttft_p99_s`` of those admitted meanwhile counts who has no first token as if it came at the
    end of the run. ``longest_wait_s``: the queue, with what runs above the safe concurrency, over the safe rate. ``recovery_s``: from the
    end of the load until all is GREEN and nobody is refused for good, infinite if that does not come. ``retry_peak_ratio``: see there.
    """

    goodput_ratio: float
    refused_ratio: float
    ttft_p99_s: float
    longest_wait_s: float
    flips_per_min: float
    recovery_s: float
    retry_peak_ratio: float


def score(run: Run, spec: WorkloadSpec, load: Window) -> Score:
    """How a load was borne, of which the run goes on for some time afterwards. The safe rate must be known."""
    safe_rate = spec.profile.safe_rate_per_s or math.nan
    during = [second for second in run.seconds if load.has(second.at)]
    capacity = safe_rate * sum(second.ready for second in during) / len(during)
    admitted = [call for call in run.calls if call.admitted_at is not None and load.has(call.admitted_at)]
    promised = {one.name: one for one in spec.classes}
    good = sum(kept(call, promised[call.arrival.request_class]) for call in admitted)
    attempts = [attempt for attempt in run.attempts if load.has(attempt.at)]
    excess = [one.waiting + max(0.0, one.running - spec.profile.safe_concurrency * one.ready) for one in during]
    return Score(
        goodput_ratio=good / load.seconds / capacity,
        refused_ratio=sum(not attempt.admitted for attempt in attempts) / len(attempts),
        ttft_p99_s=quantile([_ttft_s(call, run.seconds[-1].at) for call in admitted], 0.99),
        longest_wait_s=max(over / (safe_rate * one.ready) for over, one in zip(excess, during, strict=True)),
        flips_per_min=flips_per_min(run.decisions, Window(load.begins_at + SETTLED_S, load.ends_at)),
        recovery_s=_recovery_s(run, load.ends_at),
        retry_peak_ratio=retry_peak_ratio(run),
    )


def kept(call: Call, promised: RequestClass) -> bool:
    """Whether a request was served within its objectives; TTFT counts from the attempt that was admitted."""
    if not call.finished or call.ttft_s is None:
        return False
    in_time = promised.ttft_s is None or call.ttft_s <= promised.ttft_s
    return in_time and (promised.tpot_s is None or call.tpot_s is None or call.tpot_s <= promised.tpot_s)


def flips_per_min(decisions: Iterable[Decision], window: Window) -> float:
    """How often the workload's colour changes, a minute."""
    seen = [decision.state for decision in decisions if window.has(decision.decided_at)]
    return sum(before is not after for before, after in pairwise(seen)) / window.seconds * 60


def retry_peak_ratio(run: Run) -> float:
    """The most retries in one second over the median of the seconds with any; NaN where that is so small that chance makes the peaks."""
    each = Counter(int(attempt.at) for attempt in run.attempts if attempt.tried).values()
    usual = median(each) if each else 0.0
    return max(each) / usual if usual >= FEW_RETRIES else math.nan


def quantile(values: Sequence[float], q: float) -> float:
    """The value that a share ``q`` does not exceed; NaN of none."""
    return sorted(values)[min(len(values) - 1, int(q * len(values)))] if values else math.nan


def _ttft_s(call: Call, end: float) -> float:
    if call.ttft_s is not None:
        return call.ttft_s
    return math.nan if call.admitted_at is None else end - call.admitted_at


def _recovery_s(run: Run, since: float) -> float:
    refused = (attempt.at for attempt in run.attempts if attempt.at > since and not attempt.admitted)
    pressed = (one.decided_at for one in run.decisions if one.decided_at > since and one.state is not Pressure.GREEN)
    last = max((*refused, *pressed), default=since)
    return math.inf if last > run.seconds[-1].at - QUIET_S else last - since
