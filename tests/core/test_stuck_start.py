"""The load steps from one replica to six, and the nodes have room for five: the sixth stays Pending for ever."""

import math
from dataclasses import dataclass, field
from functools import cache

import pytest

from scaler.core.capacity import Profile
from scaler.core.decision import Decision, Finding, Reason
from scaler.core.model import GateMode, Observation, Pressure, ReplicaSet, RequestClass, Started, Starting
from scaler.core.step import State, WorkloadSpec, step
from scaler.core.target import ScalingSpec
from scaler.sim import PRESETS, EngineLimits, Preset, Replica
from tests.support.law import KEY
from tests.support.virtual_fleet import Chat, VirtualFleet

SLOTS, SAFE_RATE_PER_S, HEADROOM = 20, 1.2, 0.05
"""A thousand tokens at 16 ms each in twenty slots: 1.2 requests a second, and a little more when all slots are full."""
SERVER = Preset(PRESETS["llama-3.1-70b-4xh100"].coefficients, EngineLimits(SLOTS, 8192, 483_000), 4)
UNSCHEDULABLE = "Unschedulable: 0/3 nodes are available: insufficient nvidia.com/gpu"
KEDA_POLLS_S, START_S, ROOM = 14.0, 60.0, 5
STEP_AT, LATE_AT, END_AT = 120.0, 600.0, 1200.0
BEFORE_PER_S, FOR_FIVE_PER_S, TOO_MUCH_PER_S = 0.8, 5.8, 6.8
"""By the safe rate and headroom both of the latter need six. Five can carry the first, and not the second."""


class Alike(Chat):
    """Every request is as long as the others, so that a queue comes of too much load alone."""

    def draw(self, chance) -> tuple[int, int]:
        return 50, 1000


@dataclass
class CrowdedFleet(VirtualFleet):
    """What is asked for is created at KEDA's next poll and ready a minute later, while the nodes have room. Requests come evenly.

    A gateway admits the share that it is told. ``says`` is what the platform says of a replica that has no room.
    """

    preset: Preset = SERVER
    mix: Chat = field(default_factory=Alike)
    max_replicas: int = 6
    says: str = UNSCHEDULABLE
    names: list[str] = field(default_factory=lambda: ["llama-0"])
    starting: list[Starting] = field(default_factory=list)
    started: list[Started] = field(default_factory=list)
    due: float = 0.0
    admit_ratio: float = 1.0
    owed: float = 0.0
    refused: float = 0.0

    def offer(self, rate_per_s, until: float) -> None:
        while self.due < until:
            self.owed += self.admit_ratio
            if self.owed >= 1:
                self.owed -= 1
                self._send(self.due)
            else:
                self.refused += 1
            self.due += 1 / rate_per_s(self.due)
        for engine in self.engines:
            engine.advance(until)
        self.now = until

    def scale(self, desired: int) -> None:
        """The newest go first, as those that are not ready do in Kubernetes."""
        while len(self.names) + len(self.starting) > desired:
            if self.starting:
                self.starting.pop()
            else:
                self.names.pop()
                self.engines.pop()
        while len(self.names) + len(self.starting) < desired:
            place = len(self.names) + len(self.starting)
            stuck = self.says if place >= ROOM else ""
            self.starting.append(Starting(f"llama-{place}", self.now, stuck))

    def observe(self) -> Observation:
        while self.starting and len(self.names) < ROOM and self.now - self.starting[0].since >= START_S:
            start = self.starting.pop(0)
            self.started.append(Started(start.replica, start.since, self.now))
            self.names.append(start.replica)
            self.engines.append(Replica(self.preset.coefficients, self.preset.limits, self.now))
        ready, starting = tuple(self.names), tuple(self.starting)
        told = tuple(one for one in self.started if self.now - one.ready_at < 600.0)
        current = len(ready) + len(starting)
        replicas = ReplicaSet(ready, starting, current, self.now, self.max_replicas, started=told)
        readings = tuple(engine.reading(name, self.now) for name, engine in zip(ready, self.engines, strict=True))
        return Observation(self.now, replicas, readings, refused_total=self.refused)


SPEC = WorkloadSpec(
    KEY,
    Profile(float(SLOTS), SAFE_RATE_PER_S, 0.05),
    (RequestClass("chat", ttft_s=5.0, tpot_s=0.05),),
    headroom_ratio=HEADROOM,
    scaling=ScalingSpec(max_replicas=20),
    gate=GateMode.ENFORCE,
)


@cache
def run(
    rate_per_s: float, max_replicas: int = 6, says: str = UNSCHEDULABLE, calm_at: float = math.inf
) -> list[Decision]:
    """A decision every two seconds for twenty minutes; from ``calm_at`` on the load is again what it was at first."""
    fleet, state, decisions = CrowdedFleet(max_replicas=max_replicas, says=says), State(), []
    while fleet.now < END_AT:
        fleet.offer(lambda at: rate_per_s if STEP_AT <= at < calm_at else BEFORE_PER_S, fleet.now + SPEC.tick_s)
        state, decision = step(SPEC, state, fleet.observe())
        assert isinstance(decision, Decision)
        decisions.append(decision)
        fleet.admit_ratio = decision.classes[0].admit_ratio
        if fleet.now % KEDA_POLLS_S == 0:
            fleet.scale(decision.desired)
    return decisions


def late(decisions: list[Decision]) -> list[Decision]:
    """Those after the rush, when only the stuck one is starting and what is published has settled."""
    return [decision for decision in decisions if decision.decided_at >= LATE_AT]


CASES = [
    pytest.param(TOO_MUCH_PER_S, 6, UNSCHEDULABLE, id="too-much-for-five"),
    pytest.param(FOR_FIVE_PER_S, 6, UNSCHEDULABLE, id="enough-for-five"),
    pytest.param(FOR_FIVE_PER_S, 20, UNSCHEDULABLE, id="and-more-may-be-added"),
    pytest.param(FOR_FIVE_PER_S, 20, "", id="and-the-platform-gives-no-reason"),
]


@pytest.mark.parametrize(("rate_per_s", "max_replicas", "says"), CASES)
def test_six_stay_desired_of_which_five_are_ready_and_one_is_stuck(rate_per_s, max_replicas, says):
    found = {
        (decision.desired, decision.estimate.ready, decision.estimate.starting, decision.estimate.stuck)
        for decision in late(run(rate_per_s, max_replicas, says))
    }
    assert found == {(6, 5, 1, 1)}


@pytest.mark.parametrize(("rate_per_s", "max_replicas", "says"), CASES)
def test_no_more_is_recommended_with_a_stuck_start_than_the_load_needs(rate_per_s, max_replicas, says):
    needed = math.ceil(rate_per_s / (SAFE_RATE_PER_S * (1 - HEADROOM)))
    assert {decision.recommendation.replicas for decision in late(run(rate_per_s, max_replicas, says))} == {needed}


@pytest.mark.parametrize(
    ("rate_per_s", "state", "reasons"),
    [
        pytest.param(
            TOO_MUCH_PER_S,
            Pressure.RED,
            {Reason.FLOW, Reason.BACKLOG, Reason.MAX_REPLICAS},
            id="too-much-for-five",  # without a queue six would do, a queue may ask for a seventh
        ),
        pytest.param(FOR_FIVE_PER_S, Pressure.GREEN, {Reason.FLOW}, id="enough-for-five"),
    ],
)
def test_it_is_red_while_five_cannot_carry_the_load_and_green_while_they_can(rate_per_s, state, reasons):
    decisions = late(run(rate_per_s))
    assert ({one.state for one in decisions}, {one.reason for one in decisions}) == ({state}, reasons)


def test_no_replica_is_to_come_once_only_the_stuck_one_is_starting_and_no_more_may_be_added():
    assert {decision.estimate.eta_s for decision in late(run(TOO_MUCH_PER_S))} == {math.inf}


def test_a_whole_start_is_to_come_while_more_may_be_added():
    found = [(one.estimate.eta_s, one.estimate.replica_ready_s) for one in late(run(FOR_FIVE_PER_S, 20))]
    assert all(eta_s == ready_s for eta_s, ready_s in found)


def test_a_replica_is_to_come_while_any_of_the_five_is_starting():
    decisions = [one for one in run(TOO_MUCH_PER_S) if one.estimate.starting > one.estimate.stuck]
    assert (len(decisions) > 20, max(one.estimate.eta_s for one in decisions) <= 180.0) == (True, True)


def test_the_stuck_one_is_named_with_the_reason_of_its_platform():
    stuck = Finding(
        "stuck",
        "1 of 1 starting replicas may never be ready, and no other is asked for in their place: "
        "llama-5 (Unschedulable: 0/3 nodes are available: insufficient nvidia.com/gpu)",
    )
    assert {decision.findings for decision in late(run(FOR_FIVE_PER_S))} == {(stuck,)}


def test_without_a_reason_of_its_platform_its_age_is_named():
    (finding,) = run(FOR_FIVE_PER_S, 20, "")[-1].findings
    assert (finding.code, "llama-5 (1056 s old, and nine of ten were ready within 89 s)" in finding.text) == (
        "stuck",
        True,
    )


@pytest.mark.parametrize(
    ("says", "most_s"),
    [pytest.param(UNSCHEDULABLE, 95.0, id="by-its-platform"), pytest.param("", 180.0, id="by-its-age")],
)
def test_a_stuck_start_hardly_makes_the_next_one_look_slower(says, most_s):
    """Those that were ready took 64 s and more from being asked for; the prior was 180 s."""
    found = [decision.estimate for decision in late(run(FOR_FIVE_PER_S, 20, says))]
    assert {one.latency.origin for one in found} == {"measured"}
    assert all(80.0 < one.replica_ready_s < most_s for one in found)


def test_a_stuck_start_does_not_keep_the_fleet_from_shrinking():
    calm_at = 700.0
    decisions = [one for one in run(FOR_FIVE_PER_S, 20, "", calm_at) if one.decided_at >= calm_at]
    first = next(one.decided_at for one in decisions if one.desired == 1)
    assert first - calm_at <= 300.0 + 60.0
    assert {one.desired for one in decisions if one.decided_at >= first} == {1}
