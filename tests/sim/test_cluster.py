"""A simulated fleet: who is there when, who gets what, and that no request is ever lost or made up."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.capacity import Profile
from scaler.core.model import ReplicaSet, RequestClass, Started, Starting, WorkloadKey, known
from scaler.core.step import WorkloadSpec
from scaler.core.target import ScalingSpec
from scaler.errors import ConfigError
from scaler.sim import PRESETS, Event, Finished, FirstToken, Request, RequestId
from scaler.sim.clients import OLD
from scaler.sim.cluster import Fleet, Life, Platform, Warming
from scaler.sim.gateways import Open
from scaler.sim.play import Play, Run
from scaler.sim.routing import LeastLoaded, RoundRobin, Sticky
from scaler.sim.stage import Setting, Source
from scaler.sim.starts import NEVER, Fixed, Lognormal, Measured, Mixture, Normal, quantile_s
from scaler.sim.traffic import Arrival

PRESET = PRESETS["llama-3.1-8b-h100"]
ONE = Platform(PRESET, 1, 8, Fixed(60.0))
SPEC = WorkloadSpec(
    WorkloadKey("prod", "llama"),
    Profile(100.0, 10.0, 0.1),
    (RequestClass("chat", ttft_s=2.0),),
    scaling=ScalingSpec(min_replicas=1, max_replicas=4),
)


def request(number: int, at: float = 0.0, output_tokens: int = 10) -> Request:
    return Request(number, at, 100, output_tokens)


def lives(fleet: Fleet) -> list[tuple[float, float, float, float]]:
    return [(one.created_at, one.ready_at, one.removed_at, one.gone_at) for one in fleet.lives()]


def test_a_replica_that_was_asked_for_is_starting_and_then_ready_and_listed_as_started():
    fleet = Fleet(ONE)
    fleet.resize(2, 10.0)
    new = "replica-1"
    assert fleet.replica_set(69.0) == ReplicaSet(("replica-0",), (Starting(new, 10.0),), 2, 69.0, 8)
    assert fleet.replica_set(70.0) == ReplicaSet(("replica-0", new), (), 2, 70.0, 8, (Started(new, 10.0, 70.0),))
    assert fleet.replica_set(370.0) == ReplicaSet(("replica-0", new), (), 2, 370.0, 8)


def test_a_fleet_never_grows_beyond_what_its_platform_has():
    fleet = Fleet(ONE)
    fleet.resize(99, 0.0)
    assert (fleet.existing, fleet.ready(60.0)) == (8, 8)


def test_those_that_are_not_ready_are_removed_first_and_then_the_newest():
    fleet = Fleet(replace(ONE, starts=Measured((30.0,))))
    fleet.resize(2, 10.0)
    fleet.resize(3, 20.0)
    fleet.resize(2, 41.0)
    fleet.resize(1, 42.0)
    inf = math.inf
    assert lives(fleet) == [(0.0, 0.0, inf, inf), (10.0, 40.0, 42.0, 42.0), (20.0, 50.0, 41.0, 41.0)]


def test_a_replica_that_is_removed_ends_what_it_has_and_has_its_gpus_until_then():
    fleet = Fleet(ONE)
    fleet.send(request(1, output_tokens=1000), 0.0)
    fleet.resize(0, 1.0)
    assert not fleet.send(request(2, 1.0), 1.0)
    finished = [event for event in fleet.advance(100.0) if isinstance(event, Finished)]
    assert fleet.lives() == [Life("replica-0", 0.0, 0.0, 1.0, finished[0].at)]
    assert fleet.lives()[0].seconds(100.0) == finished[0].at
    assert fleet.lives()[0].seconds(3.0) == 3.0


def test_a_page_can_be_read_until_the_last_request_has_left():
    fleet = Fleet(ONE)
    fleet.send(request(1, output_tokens=1000), 0.0)
    fleet.resize(0, 1.0)
    page = fleet.page("replica-0", 2.0)
    assert page is not None
    assert page.running == 1.0
    assert fleet.page("replica-0", 100.0) is None
    assert fleet.page("replica-7", 100.0) is None


def test_a_client_that_goes_away_sets_the_replica_free():
    fleet = Fleet(ONE)
    fleet.send(request(1, output_tokens=1000), 0.0)
    fleet.resize(0, 1.0)
    assert fleet.cancel(1, 2.0)
    assert not fleet.cancel(1, 2.5)
    assert fleet.lives()[0].gone_at == 2.0


def test_a_full_replica_is_sent_no_more():
    fleet = Fleet(replace(ONE, limit=2))
    assert [fleet.send(request(number), 0.0) for number in range(3)] == [True, True, False]
    assert fleet.send(request(3, 60.0), 60.0)


@pytest.mark.parametrize(
    ("router", "shares"), [(LeastLoaded, [4, 4, 4]), (RoundRobin, [4, 4, 4]), (lambda: Sticky(sessions=1), [0, 0, 12])]
)
def test_a_router_chooses_among_the_ready(router, shares):
    fleet = Fleet(Platform(PRESET, 3, 3, router=router))
    for number in range(12):
        fleet.send(request(number, 0.0, 500), 0.0)
    pages = [fleet.page(f"replica-{number}", 1.0) for number in range(3)]
    assert sorted(known(page.running) or 0 for page in pages if page) == shares


@dataclass(frozen=True)
class Named:
    name: str
    load: int = 0


def test_a_session_stays_where_it_is_when_another_replica_comes_or_goes():
    router, many = Sticky(sessions=50), [request(number) for number in range(200)]
    three = [Named(f"replica-{number}") for number in range(3)]
    before = [router.choose(three, one).name for one in many]
    after = [router.choose(three[:2], one).name for one in many]
    assert [new for old, new in zip(before, after, strict=True) if old != "replica-2"] == [
        old for old in before if old != "replica-2"
    ]
    assert len(set(before)) == 3


def ttfts(warming: Warming | None, starts: float, at: tuple[float, ...]) -> list[float]:
    fleet = Fleet(Platform(PRESET, 0, 1, Fixed(starts), warming))
    fleet.resize(1, 0.0)
    for number, when in enumerate(at):
        fleet.send(request(number, when), when)
    return [event.ttft_s - 0.015 for event in fleet.advance(500.0) if isinstance(event, FirstToken)]


def test_a_replica_is_slow_for_its_first_seconds():
    usual = ttfts(None, 10.0, (11.0,))[0]
    slow, quick = ttfts(Warming(times=3.0, seconds=30.0), 10.0, (11.0, 41.0))
    assert slow == pytest.approx(3 * usual)
    assert quick == pytest.approx(usual)


def test_or_for_its_first_requests():
    usual = ttfts(None, 10.0, (11.0,))[0]
    slow, also, quick = ttfts(Warming(times=3.0, requests=2), 10.0, (11.0, 21.0, 31.0))
    assert (slow, also) == pytest.approx((3 * usual, 3 * usual))
    assert quick == pytest.approx(usual)


def test_looking_more_often_changes_nothing():
    def finishes(looks: int) -> list[tuple[float, RequestId]]:
        fleet, chance, seen = Fleet(Platform(PRESET, 2, 4, Fixed(3.0), Warming(2.0, 4.0))), Random(1), list[Event]()
        fleet.resize(4, 1.0)
        at = 1.0
        for number in range(200):
            gap = chance.expovariate(20.0)
            for look in range(looks):
                fleet.in_engines(at + gap * look / looks)
            at += gap
            fleet.send(request(number, at, chance.randint(1, 100)), at)
            seen += fleet.advance(at)
        seen += fleet.advance(at + 100)
        return sorted((round(event.at, 6), event.id) for event in seen if isinstance(event, Finished))

    assert finishes(5) == finishes(0)
    assert len(finishes(0)) == 200


def test_starts_are_drawn_by_the_seed():
    def ready_at(seed: int) -> list[float]:
        fleet = Fleet(Platform(PRESET, 0, 5, Lognormal(180.0, 260.0)), seed)
        fleet.resize(5, 0.0)
        return [one.ready_at for one in fleet.lives()]

    assert ready_at(1) == ready_at(1)
    assert ready_at(1) != ready_at(2)


@pytest.mark.parametrize(
    ("starts", "median_s", "p95_s"),
    [
        (Fixed(7.0), 7.0, 7.0),
        (Lognormal(180.0, 260.0), 180.0, 260.0),
        (Normal(240.0, 30.0), 240.0, 289.3),
        (Measured((10.0, 20.0, 30.0)), 20.0, 30.0),
        (Mixture(((0.8, Fixed(4.0)), (0.2, Fixed(85.0)))), 4.0, 85.0),
        (Mixture(((0.5, Fixed(4.0)), (0.5, NEVER))), 4.0, 4.0),
    ],
)
def test_a_distribution_of_starts_has_its_quantiles(starts, median_s, p95_s):
    assert (quantile_s(starts, 0.5), quantile_s(starts, 0.95)) == pytest.approx((median_s, p95_s), rel=0.05)


def test_of_starts_that_never_end_there_is_no_quantile():
    assert math.isnan(quantile_s(NEVER, 0.5))


@pytest.mark.parametrize("wrong", [lambda: Lognormal(0.0, 1.0), lambda: Lognormal(2.0, 1.0), lambda: Measured(())])
def test_a_distribution_that_cannot_be_is_refused(wrong):
    with pytest.raises(ConfigError, match="start times"):
        wrong()


counts = st.lists(st.tuples(st.floats(0.0, 60.0), st.integers(0, 6)), max_size=8)


@st.composite
def loads(draw: st.DrawFn) -> list[Arrival]:
    sdk = replace(OLD, timeout_s=draw(st.sampled_from([0.3, 3.0, math.inf])), retries=draw(st.integers(0, 2)))
    instants = sorted(draw(st.lists(st.floats(0.0, 60.0), max_size=40)))
    return [Arrival(at, "chat", draw(st.integers(1, 3000)), draw(st.integers(1, 400)), sdk) for at in instants]


@given(loads(), counts, st.sampled_from([None, 1, 3]), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_no_request_is_ever_lost_or_made_up(load, sizes, limit, seed):
    platform = Platform(
        PRESET, 1, 4, Mixture(((0.8, Normal(5.0, 2.0)), (0.2, NEVER))), Warming(2.0, 3.0, 2), limit=limit
    )
    run = Play(Setting(SPEC, platform, seed=seed), Open(), Scripted(sizes)).until(70.0, load)
    finished = sum(call.finished for call in run.calls)
    gave_up = sum(call.gave_up for call in run.calls)
    waiting = {call.id for call in run.calls if not call.finished and not call.gave_up}
    last = run.seconds[-1]
    assert len(run.calls) == len(load)
    assert finished + gave_up + len(waiting) == len(load)
    assert last.running + last.waiting <= len(waiting)
    assert all(call.admitted_at is not None for call in run.calls if call.finished)
    assert Counter(attempt.tried for attempt in run.attempts)[0] == len(load)


@given(counts, st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_a_life_is_in_order_and_as_many_live_as_there_are(sizes, seed):
    platform = Platform(PRESET, 1, 4, Normal(5.0, 2.0))
    load = [Arrival(at / 2, "chat", 500, 200) for at in range(120)]
    run = Play(Setting(SPEC, platform, seed=seed), Open(), Scripted(sizes)).until(70.0, load)
    for life in run.replicas:
        assert life.created_at <= min(life.ready_at, life.removed_at) <= life.gone_at
        assert life.removed_at <= life.gone_at
    for second in run.seconds:
        assert second.existing == sum(one.created_at <= second.at < one.removed_at for one in run.replicas)
        assert second.ready == sum(one.ready_at <= second.at < one.removed_at for one in run.replicas)


class Scripted:
    """A law that resizes the fleet at given times."""

    follows = None

    def __init__(self, sizes: list[tuple[float, int]]) -> None:
        self._sizes = sizes

    def start(self, stage) -> "Scripted":
        for at, count in self._sizes:
            stage.agenda.at(at, lambda now, count=count: stage.fleet.resize(count, now))
        return self

    def value(self, now: float) -> None:
        return None

    def active(self, now: float) -> bool:
        return True

    def nudge(self, now: float) -> None: ...


def test_the_same_seed_gives_the_same_run():
    def play(seed: int) -> Run:
        platform = Platform(PRESET, 1, 4, Lognormal(20.0, 40.0))
        chance = Random(7)
        load = [Arrival(at / 20, "chat", chance.randint(1, 2000), chance.randint(1, 300)) for at in range(2400)]
        return Play(Setting(SPEC, platform, Source(scrape_s=15.0), 15.0, seed), Open()).until(120.0, load)

    assert play(1) == play(1)
    assert play(1) != play(2)
