"""How what a law asks for becomes replicas: on which beat, within which bounds, and what the HPA and KEDA make of it."""

from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.capacity import Profile
from scaler.core.hpa import DEFAULT_BEHAVIOR, Generation, Tolerance
from scaler.core.model import RequestClass, WorkloadKey
from scaler.core.step import WorkloadSpec
from scaler.core.target import ScalingSpec
from scaler.sim import PRESETS
from scaler.sim.actuators import Direct, Keda, MetricType
from scaler.sim.cluster import Platform
from scaler.sim.gateways import Open
from scaler.sim.play import Play, Run
from scaler.sim.stage import Asked, Follows, Setting, Stage
from scaler.sim.starts import Fixed

SPEC = WorkloadSpec(
    WorkloadKey("prod", "llama"),
    Profile(100.0, 10.0, 0.1),
    (RequestClass("chat", ttft_s=2.0),),
    scaling=ScalingSpec(min_replicas=1, max_replicas=40),
)
NO_TOLERANCE = Tolerance(0.0, 0.0)


@dataclass(frozen=True)
class Says:
    """A law that asks for what is written, from when on; below zero: it does not know. It is active while it asks for something."""

    values: tuple[tuple[float, float], ...]
    follows: Follows

    def start(self, stage: Stage) -> "Says":
        return self

    def value(self, now: float) -> float | None:
        value = [value for at, value in self.values if at <= now][-1]
        return None if value < 0 else value

    def active(self, now: float) -> bool:
        return self.value(now) != 0.0

    def nudge(self, now: float) -> None: ...


def play(follows: Follows, *values: tuple[float, float], first: int = 1, least: int = 1, until: float = 600.0) -> Run:
    spec = replace(SPEC, scaling=ScalingSpec(least, 40))
    platform = Platform(PRESETS["llama-3.1-8b-h100"], first, 40, Fixed(20.0))
    return Play(Setting(spec, platform), Open(), Says(values, follows)).until(until, ())


def counts(run: Run) -> list[int]:
    """How many replicas there were, each once in a row."""
    each = [asked.replicas for asked in run.asked]
    return [now for before, now in zip([None, *each], each, strict=False) if now != before]


def test_a_controller_that_owns_the_fleet_is_followed_at_its_beat():
    run = play(Direct(10.0, phase_s=5.0), (0.0, 3.2), until=20.0)
    assert run.asked == [Asked(5.0, 3.2, 4), Asked(15.0, 3.2, 4)]


def test_while_it_does_not_know_the_fleet_stays():
    assert counts(play(Direct(10.0), (0.0, 3.0), (100.0, -1.0), (200.0, 1.0))) == [3, 1]
    assert counts(play(Keda(), (0.0, 3.0), (100.0, -1.0), (200.0, 1.0))) == [3, 1]


def test_the_hpa_looks_every_15_s_at_a_phase_of_its_own():
    syncs = [asked.at for asked in play(Keda(), (0.0, 1.0), until=100.0).asked]
    assert {round(later - earlier, 6) for earlier, later in pairwise(syncs)} == {15.0}
    assert 0 < syncs[0] < 15


def test_kedas_default_goes_up_by_doubling_and_holds_a_peak_for_five_minutes():
    keda = Keda(behavior=None, tolerance=Tolerance())
    assert counts(play(keda, (0.0, 30.0), (100.0, 1.0), until=390.0)) == [4, 8, 16, 30]
    assert counts(play(keda, (0.0, 30.0), (100.0, 1.0), until=600.0)) == [4, 8, 16, 30, 1]


def test_with_a_behavior_it_goes_up_by_the_larger_of_four_and_all():
    assert counts(play(Keda(behavior=DEFAULT_BEHAVIOR, tolerance=Tolerance()), (0.0, 30.0))) == [5, 10, 20, 30]


@pytest.mark.parametrize(
    ("tolerance", "ends"), [(Tolerance(), 10), (Tolerance(generation=Generation.OLD), 11), (NO_TOLERANCE, 11)]
)
def test_within_the_tolerance_the_hpa_stays_and_generations_differ_at_its_edge(tolerance, ends):
    assert play(Keda(tolerance=tolerance), (0.0, 11.0), first=10).seconds[-1].existing == ends


def test_a_value_is_of_the_whole_and_its_target_of_one():
    assert counts(play(Keda(target=5.0), (0.0, 14.0))) == [3]


def test_of_type_value_the_ready_are_multiplied_and_none_ready_is_the_minimum():
    keda = Keda(target=10.0, metric=MetricType.VALUE, tolerance=Tolerance())
    assert counts(play(keda, (0.0, 20.0), first=3, until=100.0)) == [6, 12, 24, 40]  # of six ready, and so on
    assert counts(play(keda, (0.0, 10.5), first=3, until=100.0)) == [3]
    loading = play(replace(keda, pushes=True), (0.0, 1000.0), first=0, least=0, until=19.0)
    assert {asked.replicas for asked in loading.asked} == {1}


def test_at_zero_only_keda_looks_and_it_takes_one_replica():
    run = play(Keda(), (0.0, 0.0), (100.0, 4.0), first=0, least=0, until=200.0)
    assert counts(run) == [1, 4]
    assert 100.0 <= run.asked[0].at <= 130.0


def test_who_pushes_is_heard_at_once():
    run = play(Keda(pushes=True), (0.0, 0.0), (100.5, 4.0), first=0, least=0, until=200.0)
    assert run.asked[0] == Asked(101.0, 4.0, 1)


def test_keda_goes_to_zero_in_one_step_when_nothing_was_active_for_the_cooldown():
    run = play(Keda(cooldown_s=100.0), (0.0, 6.0), (60.0, 0.0), least=0, until=300.0)
    zero_at = next(second.at for second in run.seconds if second.existing == 0)
    assert counts(run) == [5, 6, 1, 0]
    assert 130.0 <= zero_at <= 191.0  # the last active poll is up to 30 s before 60, and a poll is up to 30 s late


values = st.lists(st.tuples(st.floats(0.0, 300.0), st.floats(-1.0, 1e4)), max_size=8).map(sorted)
keda = st.builds(
    Keda,
    target=st.sampled_from([1.0, 5.0, 80.0]),
    metric=st.sampled_from(MetricType),
    behavior=st.sampled_from([None, DEFAULT_BEHAVIOR, Keda().behavior]),
    tolerance=st.sampled_from([Tolerance(), Tolerance(generation=Generation.OLD), NO_TOLERANCE]),
    pushes=st.booleans(),
)


@given(values, st.one_of(keda, st.builds(Direct, every_s=st.floats(1.0, 60.0))), st.integers(0, 3), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_the_fleet_is_never_outside_its_bounds(said, follows, least, first):
    run = play(follows, (0.0, 1.0), *said, first=max(least, first), least=least, until=300.0)
    assert all(least <= second.existing <= 40 for second in run.seconds)
