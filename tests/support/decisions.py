"""Real decisions: the law run on hand-made observations of one workload."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from scaler.core.capacity import Profile
from scaler.core.decision import Decision, Pending
from scaler.core.model import (
    GateMode,
    Histogram,
    Missing,
    Objective,
    Observation,
    Reading,
    ReplicaSet,
    RequestClass,
    WorkloadKey,
)
from scaler.core.step import State, WorkloadSpec, step
from scaler.core.target import ScalingSpec

KEY = WorkloadKey("prod", "llama")
CHAT = RequestClass("chat", ttft_s=2.0, tpot_s=0.1, floor_ratio=0.02)
AGENT = RequestClass("agent", ttft_s=5.0, order=1, floor_ratio=0.05)
BATCH = RequestClass("batch", objective=Objective.COMPLETION, deadline_s=86400.0, order=3)
SPEC = WorkloadSpec(
    key=KEY,
    profile=Profile(safe_concurrency=100, safe_rate_per_s=8.0, unloaded_ttft_s=0.15, name="llama-8b-chat"),
    classes=(CHAT, AGENT, BATCH),
    scaling=ScalingSpec(max_replicas=10),
    gate=GateMode.ENFORCE,
)
EDGES = (0.5, 1.0, 2.5)


@dataclass(frozen=True)
class Load:
    """What each of the ready replicas shows, and how it changes with every tick."""

    running: float
    waiting: float = 0.0
    waiting_rise: float = 0.0
    starts_per_s: float = 5.0
    ready: int = 2


def observations(load: Load, ticks: int) -> Iterator[Observation]:
    names = tuple(f"llama-{i}" for i in range(load.ready))
    for tick in range(ticks):
        at = tick * SPEC.tick_s
        started = load.starts_per_s * at
        waiting = load.waiting + tick * load.waiting_rise
        ttft = Histogram(EDGES, (started, started, started, started), started / 4)
        readings = tuple(Reading(n, at, load.running, waiting, 0.25, ttft=ttft, tpot=None) for n in names)
        yield Observation(at, ReplicaSet(names, (), load.ready, at), readings)


def run(seen: Iterable[Observation], spec: WorkloadSpec = SPEC) -> Decision | Pending:
    state, outcome = State(), None
    for observation in seen:
        state, outcome = step(spec, state, observation)
    assert outcome is not None
    return outcome


def decided(load: Load, ticks: int = 20, spec: WorkloadSpec = SPEC) -> Decision:
    outcome = run(observations(load, ticks), spec)
    assert isinstance(outcome, Decision)
    return outcome


def green(spec: WorkloadSpec = SPEC) -> Decision:
    return decided(Load(running=40), spec=spec)


def yellow(spec: WorkloadSpec = SPEC) -> Decision:
    """A queue that stays: it waits longer than the edge, and not longer than the budget."""
    return decided(Load(running=90, waiting=9, starts_per_s=8), spec=spec)


def red(spec: WorkloadSpec = SPEC) -> Decision:
    return decided(Load(running=100, waiting=20, waiting_rise=8, starts_per_s=8), spec=spec)


def nothing_ready(spec: WorkloadSpec = SPEC) -> Decision:
    return decided(Load(running=0, ready=0), spec=spec)


def blind() -> Decision:
    """Twenty ticks of GREEN, then silence until no reading is fresh any more."""
    known = list(observations(Load(running=40), 20))
    silent = [
        replace(known[-1], at=known[-1].at + 2 * i, readings=(), missing=_refusing(known[-1])) for i in range(1, 10)
    ]
    outcome = run([*known, *silent])
    assert isinstance(outcome, Decision)
    return outcome


def pending() -> Pending:
    first = next(observations(Load(running=40), 1))
    outcome = run([replace(first, readings=first.readings[:1], missing=_refusing(first)[1:])])
    assert isinstance(outcome, Pending)
    return outcome


def _refusing(seen: Observation) -> tuple[Missing, ...]:
    return tuple(Missing(reading.replica, "connection refused") for reading in seen.readings)
