"""What a run showed, computed from what was recorded. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from scaler.core.model import Pressure
from scaler.demo.gateway import Counts
from scaler.demo.keda import Failure
from scaler.demo.scenario import COMPRESSIONS, MIN_REPLICAS, TPOT_BUDGET_S, TTFT_BUDGET_S, Phase, Scenario
from scaler.demo.traffic import Ending, Outcome

SERIES_S = 1.0
P95 = 0.95


@dataclass(frozen=True, slots=True)
class Sample:
    """The demo at one instant, ``at_s`` seconds after traffic began. ``asked`` is what the HPA has asked the cluster for.

    Rates are means over one interval. ``would_refuse_per_s`` is what a gate that only observes let through against its dice.
    """

    at_s: float
    offered_per_s: float
    admitted_per_s: float
    would_refuse_per_s: float
    state: Pressure
    state_because: str
    admit_ratio: float
    queue_wait_s: float
    desired: int
    asked: int
    starting: int
    ready: int
    reason: str


@dataclass(frozen=True, slots=True)
class Rpcs:
    """How KEDA's calls went: answered by name, those that failed, and what the push stream brought."""

    answered: dict[str, int]
    failures: tuple[Failure, ...]
    pushed: int


@dataclass(frozen=True, slots=True)
class Cpu:
    """Cores used on average during traffic: by the fleet's process, and by that of scaler, gateway and clients."""

    fleet: float
    rest: float


@dataclass(frozen=True, slots=True)
class Record:
    """Everything recorded in one run. ``cut_at_s``: when it was ended before its time, in seconds after traffic began."""

    scenario: Scenario
    samples: tuple[Sample, ...]
    outcomes: tuple[Outcome, ...]
    gateway: Counts
    rpcs: Rpcs
    cpu: Cpu
    cut_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class Entered:
    """A state, and when it was entered, in seconds after traffic began."""

    state: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Score:
    """How a set of requests fared. ``attained_ratio`` is the share of all offered with TTFT and TPOT within their objectives."""

    requests: int
    completed: int
    refused: int
    failed: int
    unfinished: int
    attained_ratio: float | None
    attained_of_admitted_ratio: float | None
    ttft_p95_s: float | None
    tpot_p95_s: float | None


@dataclass(frozen=True, slots=True)
class PhaseScore:
    """The requests that arrived in one phase of traffic, and the most that was desired and ready in it."""

    name: str
    start_s: float
    end_s: float
    offered_per_s: float
    admitted_per_s: float
    desired_max: int
    ready_max: int
    score: Score


@dataclass(frozen=True, slots=True)
class Summary:
    """What is printed. ``problems`` is empty when the loop worked; a run that was cut short is not judged, and has that one."""

    ok: bool
    problems: tuple[str, ...]
    seed: int
    seconds: float
    cut_at_s: float | None
    gate: str
    objectives: dict[str, float]
    compression: tuple[dict[str, Any], ...]
    states: tuple[Entered, ...]
    first_red_at_s: float | None
    green_again_at_s: float | None
    requests: Score
    would_refuse: int
    phases: tuple[PhaseScore, ...]
    rpcs: Rpcs
    cpu_cores: Cpu
    series: tuple[Sample, ...]

    def as_json(self) -> dict[str, Any]:
        """The same as a JSON object; every key is the name of its field."""
        return asdict(self)


def summarize(record: Record) -> Summary:
    """The summary of a run."""
    scenario, states = record.scenario, entered(record.samples)
    red = next((e.at_s for e in states if e.state == Pressure.RED), None)
    found = problems(record)
    return Summary(
        ok=not found,
        problems=found,
        seed=scenario.seed,
        seconds=scenario.seconds,
        cut_at_s=record.cut_at_s,
        gate=scenario.gate.value,
        objectives={"ttft_s": TTFT_BUDGET_S, "tpot_s": TPOT_BUDGET_S},
        compression=tuple({**asdict(c), "factor": c.factor} for c in COMPRESSIONS),
        states=states,
        first_red_at_s=red,
        green_again_at_s=None if red is None else _next_green(states, red),
        requests=score(record.outcomes, cut=record.cut_at_s is not None),
        would_refuse=record.gateway.would_refuse,
        phases=tuple(_phase(phase, record) for phase in _played(record)),
        rpcs=record.rpcs,
        cpu_cores=record.cpu,
        series=tuple(_thinned(record.samples)),
    )


def entered(samples: Sequence[Sample]) -> tuple[Entered, ...]:
    """The states in the order in which they were seen."""
    changed = [b for a, b in pairwise(samples) if a.state is not b.state]
    return tuple(Entered(sample.state.value, round(sample.at_s, 2)) for sample in (*samples[:1], *changed))


def score(outcomes: Iterable[Outcome], *, cut: bool = False) -> Score:
    """How these requests fared. In a run that was cut short, those under way then have missed nothing, and are left out of shares."""
    found = tuple(outcomes)
    by = {ending: [o for o in found if o.ending is ending] for ending in Ending}
    attained = sum(map(attains, found))
    offered = len(found) - (len(by[Ending.UNFINISHED]) if cut else 0)
    admitted = offered - len(by[Ending.REFUSED])
    return Score(
        requests=len(found),
        completed=len(by[Ending.COMPLETED]),
        refused=len(by[Ending.REFUSED]),
        failed=len(by[Ending.FAILED]),
        unfinished=len(by[Ending.UNFINISHED]),
        attained_ratio=round(attained / offered, 4) if offered else None,
        attained_of_admitted_ratio=round(attained / admitted, 4) if admitted else None,
        ttft_p95_s=quantile([o.ttft_s for o in by[Ending.COMPLETED] if o.ttft_s is not None], P95),
        tpot_p95_s=quantile([o.tpot_s for o in by[Ending.COMPLETED] if o.tpot_s is not None], P95),
    )


def attains(outcome: Outcome) -> bool:
    """Whether a request got what was promised; one that was refused or did not end did not."""
    if outcome.ending is not Ending.COMPLETED or outcome.ttft_s is None or outcome.tpot_s is None:
        return False
    return outcome.ttft_s <= TTFT_BUDGET_S and outcome.tpot_s <= TPOT_BUDGET_S


def quantile(values: Iterable[float], q: float) -> float | None:
    """The smallest value that a share ``q`` does not exceed; None without values."""
    ordered = sorted(values)
    return round(ordered[max(0, math.ceil(q * len(ordered)) - 1)], 4) if ordered else None


def problems(record: Record) -> tuple[str, ...]:
    """Why the loop did not work, a sentence each; nothing when it did."""
    if record.cut_at_s is not None:
        return (f"cut short after {record.cut_at_s:g} s",)
    late = [failure for failure in record.rpcs.failures if not failure.cold]
    desired = max((sample.desired for sample in record.samples), default=0)
    ready = max((sample.ready for sample in record.samples), default=0)
    found = []
    if not record.rpcs.answered.get("GetMetrics"):
        found.append("GetMetrics was never answered")
    if late:
        found.append(f"{len(late)} RPCs failed after the first value, first {late[0].rpc} with {late[0].code}")
    if not record.gateway.polls:
        found.append("the gateway never got a state")
    if desired <= MIN_REPLICAS:
        found.append(f"desired never rose above {MIN_REPLICAS}")
    elif ready <= MIN_REPLICAS:
        found.append(f"desired rose to {desired}, but never more than {ready} replicas were ready")
    return tuple(found)


def _played(record: Record) -> Iterable[Phase]:
    """The phases as far as they were played."""
    until_s = record.scenario.seconds if record.cut_at_s is None else record.cut_at_s
    for phase in record.scenario.phases:
        if phase.start_s < until_s:
            yield replace(phase, end_s=min(phase.end_s, until_s))


def _phase(phase: Phase, record: Record) -> PhaseScore:
    outcomes = [o for o in record.outcomes if phase.start_s <= o.at_s < phase.end_s]
    samples = [s for s in record.samples if phase.start_s <= s.at_s < phase.end_s]
    found, length_s = score(outcomes, cut=record.cut_at_s is not None), phase.end_s - phase.start_s
    return PhaseScore(
        name=phase.name,
        start_s=phase.start_s,
        end_s=phase.end_s,
        offered_per_s=round(found.requests / length_s, 3),
        admitted_per_s=round((found.requests - found.refused) / length_s, 3),
        desired_max=max((s.desired for s in samples), default=0),
        ready_max=max((s.ready for s in samples), default=0),
        score=found,
    )


def _next_green(states: Sequence[Entered], after_s: float) -> float | None:
    return next((e.at_s for e in states if e.state == Pressure.GREEN and e.at_s > after_s), None)


def _thinned(samples: Iterable[Sample]) -> Iterable[Sample]:
    """One sample a second, rounded: enough to draw."""
    due_s = 0.0
    for sample in samples:
        if sample.at_s >= due_s:
            due_s = sample.at_s + SERIES_S - 0.05
            yield replace(
                sample,
                at_s=round(sample.at_s, 2),
                offered_per_s=round(sample.offered_per_s, 2),
                admitted_per_s=round(sample.admitted_per_s, 2),
                would_refuse_per_s=round(sample.would_refuse_per_s, 2),
                admit_ratio=round(sample.admit_ratio, 3),
                queue_wait_s=round(min(sample.queue_wait_s, 3600.0), 3),
            )
