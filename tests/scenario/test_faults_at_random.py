"""Faults at random in virtual time: a fleet that computes, a gate that is obeyed, a platform that follows, and the law over it.

``tests/demo/test_chaos.py`` does the same with processes and sockets. Here a hundred such runs are a few seconds.
"""

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.admission import as_of
from scaler.core.decision import Decision
from scaler.core.model import Missing, Observation, Pressure, ReplicaSet, RequestClass, Starting
from scaler.core.ready_latency import ReadyLatency
from scaler.core.stabilize import StabilizeSpec
from scaler.core.step import State, step
from scaler.core.target import ScalingSpec
from tests.support.law import PROFILE, TICK_S, Engine, workload

CONCURRENCY, RATE_PER_S, BUDGET_S, START_S, MOST = 100.0, 8.0, 5.0, 30.0, 8
RESIDENCE_S = CONCURRENCY / RATE_PER_S
REACTION_S, QUIET_S = 14.0, 60.0
SPEC = workload(
    PROFILE,
    (RequestClass("chat", ttft_s=BUDGET_S),),
    scaling=ScalingSpec(0, MOST),
    stabilize=StabilizeSpec(downscale_delay_s=40.0),
    latency=ReadyLatency(START_S),
)


@dataclass
class Replica:
    """Serves at most ``CONCURRENCY`` at once, each for ``RESIDENCE_S``, in the order in which they come."""

    engine: Engine
    ready_at: float
    frozen: bool = False

    def pass_time(self, arrivals: float) -> None:
        engine = self.engine
        engine.waiting += arrivals
        if self.frozen:
            return
        engine.running -= engine.running * min(1.0, TICK_S / RESIDENCE_S)
        starts = min(engine.waiting, CONCURRENCY - engine.running)
        engine.running, engine.waiting = engine.running + starts, engine.waiting - starts
        engine.emit(starts)


@dataclass
class Story:
    """A run: what exists, what is asked of it, and what has held. ``troubled_at``: when a fault was last at work. ``owed_s``: for how
    long nothing could be known or done, since the queue was last worked off.
    """

    now: float = 0.0
    offered_per_s: float = 8.0
    refused: float = 0.0
    wanted: int = 2
    made: int = 0
    listed: bool = True
    state: State = field(default_factory=State)
    decision: Decision | None = None
    replicas: list[Replica] = field(default_factory=list)
    troubled_at: float = -math.inf
    owed_s: float = 0.0
    dark_s: float = 0.0
    calm_s: float = 0.0

    def __post_init__(self) -> None:
        self._follow(0.0)

    @property
    def ready(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.ready_at <= self.now]

    @property
    def waiting(self) -> float:
        return sum(replica.engine.waiting for replica in self.replicas)

    def tick(self) -> None:
        """Requests come and go, the law looks, the platform does what it says, and all is checked."""
        told = None if self.decision is None else as_of(self.decision, self.now)
        admitted = 1.0 if told is None else told.classes[0].admit_ratio
        for replica in self.ready:
            replica.pass_time(self.offered_per_s * admitted * TICK_S / len(self.ready))
        self.refused += self.offered_per_s * (1.0 - admitted) * TICK_S
        self.now += TICK_S
        seen = self._look()
        self.state, outcome = step(SPEC, self.state, seen)
        if isinstance(outcome, Decision):
            self.decision, self.wanted = outcome, outcome.desired
            self._check(outcome, seen)
        self._follow(START_S)

    def _look(self) -> Observation:
        ready = self.ready
        starting = tuple(Starting(r.engine.name, r.ready_at - START_S) for r in self.replicas if r not in ready)
        names = tuple(replica.engine.name for replica in ready)
        replicas = ReplicaSet(names, starting, len(self.replicas), self.now) if self.listed else None
        engines = [replica.engine for replica in ready]
        return Observation(
            self.now,
            replicas,
            tuple(engine.read(self.now) for engine in engines if not engine.silent),
            tuple(Missing(engine.name, "timeout") for engine in engines if engine.silent),
            self.refused,
        )

    def _follow(self, start_s: float) -> None:
        """As the HPA and the Deployment do: what does not serve yet goes first."""
        while len(self.replicas) > max(1, self.wanted):
            self.replicas.remove(max(self.replicas, key=lambda one: one.ready_at))
        while len(self.replicas) < max(1, self.wanted):
            self.made += 1
            self.replicas.append(Replica(Engine(f"r{self.made}"), self.now + start_s))

    def _check(self, decision: Decision, seen: Observation) -> None:
        read = sum(reading.running for reading in seen.readings if isinstance(reading.running, float))
        assert decision.desired >= min(MOST, math.ceil(round(read / CONCURRENCY, 6))), "below what runs"
        assert decision.desired >= 1, "zero while there is traffic"
        troubled = not self.listed or any(r.engine.silent or r.frozen for r in self.ready) or not self.ready
        self.troubled_at = self.now if troubled else self.troubled_at
        since_s = self.now - self.troubled_at
        self.owed_s += TICK_S * troubled
        assert self.waiting <= max(RATES_PER_S) * (self.owed_s + REACTION_S), "an unbounded queue"
        if not troubled and self.waiting < RATE_PER_S:
            self.owed_s = 0.0
        flowing = [r.engine.waiting / RATE_PER_S for r in self.ready if not r.frozen]
        dark = decision.state is Pressure.GREEN and since_s > REACTION_S and min(flowing, default=0.0) > BUDGET_S
        self.dark_s = self.dark_s + TICK_S if dark else 0.0
        assert self.dark_s <= REACTION_S, "GREEN though whoever comes waits longer than the budget"
        calm = decision.state is Pressure.RED and since_s > QUIET_S and self.waiting < 1.0
        self.calm_s = self.calm_s + TICK_S if calm else 0.0
        assert self.calm_s <= QUIET_S, "RED without a cause"

    # --- what happens -------------------------------------------------------------------------------------------------

    def some(self, share: int) -> list[Replica]:
        return self.ready[: max(1, len(self.ready) * share // 4)]

    def silence(self, share: int) -> None:
        for replica in self.some(share):
            replica.engine.silent = True

    def speak(self, _: int) -> None:
        for replica in self.replicas:
            replica.engine.silent = replica.frozen = False
        self.listed = True

    def freeze(self, share: int) -> None:
        for replica in self.some(share):
            replica.frozen = True

    def restart(self, share: int) -> None:
        for replica in self.some(share):
            replica.engine.restart()

    def die(self, share: int) -> None:
        for replica in self.some(share):
            self.replicas.remove(replica)

    def lose_the_list(self, _: int) -> None:
        self.listed = False

    def stall(self, share: int) -> None:
        """The process stands still while the engines work on."""
        for _ in range(4 * share):
            for replica in self.ready:
                replica.pass_time(self.offered_per_s * TICK_S / len(self.ready))
            self.now += TICK_S
            self.owed_s += TICK_S
        self.troubled_at = self.now

    def load(self, share: int) -> None:
        self.offered_per_s = RATES_PER_S[share]


RATES_PER_S = (1.0, 8.0, 24.0, 48.0, 100.0)
HAPPENINGS = (
    Story.silence, Story.speak, Story.freeze, Story.restart, Story.die, Story.lose_the_list, Story.stall, Story.load,
)  # fmt: skip
STORIES = st.lists(
    st.tuples(st.sampled_from(HAPPENINGS), st.integers(1, 4), st.sampled_from([1, 3, 8, 20, 40])), max_size=12
)


@pytest.mark.fault("half the fleet is unreachable", "engine stands still", "engine restarts", "event loop stalls")
@settings(max_examples=settings().max_examples // 2)
@given(STORIES)
def test_whatever_fails_the_number_holds_the_load_the_queue_is_bounded_and_no_state_lies(happenings):
    story = Story()
    for _ in range(30):
        story.tick()
    for happens, share, ticks in happenings:
        happens(story, share)
        for _ in range(ticks):
            story.tick()
