"""Several profiles in one workload: which one each replica brings, and what they make together."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.capacity import Learned, Match, Profile, capacity
from scaler.core.decision import Decision, Pending
from scaler.core.explain import explain
from scaler.core.fleet import Fleet, fleet_of, in_use, profile_of, sized, unclear, unmatched
from scaler.core.history import History
from scaler.core.model import Kind, Reading, ReplicaSet
from scaler.core.step import State, step
from tests.support.law import Engine, near, observe, workload

FEW = settings(max_examples=settings().max_examples // 4)
H100, L40S, A100 = (Kind(f"NVIDIA-{gpu}", "0.32.1") for gpu in ("H100-80GB-HBM3", "L40S", "A100-SXM4-80GB"))
BIG = Profile(100.0, 8.0, 0.1, 1000.0, name="big", match=Match("H100"))
SMALL = Profile(40.0, 2.0, 0.3, 1000.0, name="small", match=Match("L40S"))
BOTH = replace(BIG, alternatives=(SMALL,))


def listed(*kinds: Kind, newest: Kind | None = None, cap: int | None = None) -> ReplicaSet:
    names = tuple(f"r{number}" for number in range(len(kinds)))
    return ReplicaSet(
        names, (), len(names), 0.0, engine_cap=cap, kinds=dict(zip(names, kinds, strict=True)), newest=newest
    )


def fleet(profile: Profile, *kinds: Kind, **more) -> Fleet:
    return fleet_of(profile, History(), listed(*kinds, **more))


@pytest.mark.parametrize(
    ("match", "kind", "fits"),
    [
        pytest.param(Match(), Kind(), True, id="anywhere"),
        pytest.param(Match("h100"), Kind("NVIDIA-H100-80GB-HBM3"), True, id="a-word-in-any-case"),
        pytest.param(Match("A100 80GB"), Kind("NVIDIA-A100-SXM4-80GB"), True, id="words-with-others-between"),
        pytest.param(Match("A100 40GB"), Kind("NVIDIA-A100-SXM4-80GB"), False, id="one-word-is-another"),
        pytest.param(Match("L4"), Kind("NVIDIA-L40S"), False, id="an-l4-is-no-l40s"),
        pytest.param(Match("A10"), Kind("NVIDIA-A100-SXM4-80GB"), False, id="an-a10-is-no-a100"),
        pytest.param(Match("H100"), Kind("nvidia-h100-mega-80gb"), True, id="as-gke-writes-it"),
        pytest.param(Match("MI300X"), Kind("AMD_Instinct_MI300X_OAM"), True, id="as-amd-writes-it"),
        pytest.param(Match("p5"), Kind("p5.48xlarge"), True, id="a-kind-of-machine"),
        pytest.param(Match("H100"), Kind("", "0.32.0"), None, id="a-gpu-that-is-not-known"),
        pytest.param(Match("", "0.32"), Kind("", "0.32.1"), True, id="the-beginning-of-a-version"),
        pytest.param(Match("", "v0.32"), Kind("", "0.32.1"), True, id="with-a-v"),
        pytest.param(Match("", "0.32.0rc1"), Kind("", "0.32.0"), True, id="a-candidate-is-as-good"),
        pytest.param(Match("", "0.3"), Kind("", "0.32.1"), False, id="part-by-part"),
        pytest.param(Match("", "0.32.0"), Kind("", "0.32.1"), False, id="a-whole-version-means-what-it-says"),
        pytest.param(Match("", "0.32.1"), Kind("", "0.32"), False, id="less-is-told-than-asked-for"),
        pytest.param(Match("", "0.32"), Kind("H100"), None, id="a-version-that-is-not-known"),
        pytest.param(Match("", "nightly"), Kind("", "0.32.1"), False, id="no-version"),
        pytest.param(Match("H100", "0.32"), Kind("H100", "0.31.0"), False, id="both-are-needed"),
        pytest.param(Match("H100", "0.32"), Kind("", "0.31.0"), False, id="one-that-fails-is-enough"),
        pytest.param(Match("H100", "0.32"), Kind("", "0.32.0"), None, id="one-that-fits-is-not"),
    ],
)
def test_a_profile_is_for_a_kind_of_gpu_and_a_version(match, kind, fits):
    assert match.fits(kind) is fits


ANYWHERE = Profile(60.0, 4.0, name="anywhere")


@pytest.mark.parametrize(
    ("alternatives", "kind", "name"),
    [
        pytest.param((SMALL,), H100, "big", id="the-one-that-matches"),
        pytest.param((SMALL,), L40S, "small", id="also-when-it-is-named-later"),
        pytest.param((SMALL,), A100, "small", id="none-matches-the-smallest"),
        pytest.param((SMALL,), Kind(), "big", id="nothing-is-known-the-first"),
        pytest.param((SMALL, ANYWHERE), A100, "anywhere", id="one-without-match-takes-the-rest"),
        pytest.param((SMALL, ANYWHERE), Kind(), "anywhere", id="also-what-is-not-known"),
        pytest.param((replace(SMALL, match=Match("H100")),), H100, "big", id="the-first-of-two"),
        pytest.param((), A100, "big", id="the-only-one"),
    ],
)
def test_a_replica_brings_the_first_profile_that_is_for_it(alternatives, kind, name):
    assert profile_of(replace(BIG, alternatives=alternatives), kind).name == name


def test_a_mixed_fleet_can_do_what_its_replicas_can_together():
    assert fleet(BOTH, H100, L40S, L40S, newest=L40S) == Fleet(
        mean=Profile(60.0, 4.0, 0.3, 1000.0), more=SMALL, ready=3
    )


def test_a_replica_that_sleeps_brings_nothing_and_one_that_is_silent_does():
    history = History(last={"r1": Reading("r1", 0.0, awake=False)})
    assert fleet_of(BOTH, history, listed(H100, L40S, newest=H100)) == Fleet(BOTH, BOTH, 1)


def test_with_nothing_ready_the_fleet_is_what_the_next_replica_will_be():
    assert [fleet(BOTH, newest=H100), fleet(BOTH)] == [Fleet(BOTH, BOTH, 0), Fleet(SMALL, SMALL, 0)]


def test_what_one_profile_does_not_know_is_not_known_of_the_fleet():
    untested = replace(BIG, alternatives=(Profile(40.0, name="small", match=Match("L40S")),))
    assert fleet(untested, H100, L40S, newest=H100).mean == Profile(70.0, None, 0.1, None)


def test_what_the_engines_run_at_once_bounds_every_profile():
    capped = replace(SMALL, safe_concurrency=20.0, safe_rate_per_s=1.0)
    assert fleet(BOTH, H100, L40S, newest=L40S, cap=20) == Fleet(Profile(20.0, near(1.3), 0.3, 1000.0), capped, 2)


def test_profiles_in_use_are_those_of_ready_replicas():
    assert [
        [one.name for one in in_use(BOTH, replicas)]
        for replicas in (None, listed(), listed(L40S, L40S), listed(L40S, H100))
    ] == [["big"], ["big"], ["small"], ["big", "small"]]


def test_replicas_that_no_profile_is_for_are_not_those_that_too_little_is_known_of():
    replicas = listed(H100, A100, Kind(), Kind("", "0.32.1"))
    versioned = replace(BIG, match=Match("H100", "0.32"), alternatives=(replace(SMALL, match=Match("L40S", "0.31")),))
    assert (unmatched(BOTH, replicas), unclear(BOTH, replicas)) == (("r1",), ("r2", "r3"))
    assert unclear(versioned, replicas) == ("r2",)  # the version is enough to tell
    assert (unmatched(BIG, replicas), unclear(BIG, replicas)) == (("r1",), ())  # there is nothing to choose
    assert unclear(replace(BIG, alternatives=(ANYWHERE,)), replicas) == ("r2", "r3")


# --- What the load asks for -----------------------------------------------------------------------------------------


def asked(one: Fleet, offered_per_s: float, headroom: float = 0.1) -> float:
    """The replicas that the flow asks for."""
    cap = capacity(one.mean, headroom, Learned(), 1.0)
    assert cap.residence_s is not None
    return offered_per_s * cap.residence_s / sized(cap, one, 0.0, offered_per_s).target


def test_what_the_ready_replicas_cannot_carry_is_counted_in_replicas_of_the_newest_kind():
    two = fleet(BOTH, H100, H100, newest=L40S)
    carried = 0.9 * 16.0
    assert [asked(two, rate) for rate in (carried / 2, carried, carried + 0.9 * 2.0, carried + 0.9 * 20.0)] == [
        near(1.0),
        near(2.0),
        near(3.0),
        near(12.0),
    ]


def test_without_a_known_rate_what_is_ongoing_is_counted_so():
    untested = replace(BIG, safe_rate_per_s=None, alternatives=(replace(SMALL, safe_rate_per_s=None),))
    one = fleet(untested, H100, H100, newest=L40S)
    cap = capacity(one.mean, 0.1, Learned(), 1.0)
    assert 252.0 / sized(cap, one, 252.0, 5.0).target == near(4.0)


def test_when_the_rate_is_lost_what_is_ongoing_counts():
    one = fleet(BOTH, H100, H100, newest=L40S)
    cap = capacity(one.mean, 0.1, Learned(), 1.0)
    assert [sized(cap, one, ongoing, None).target for ongoing in (180.0, 360.0)] == [90.0, near(360.0 / (2 + 8.0))]


concurrencies, rates = st.floats(0.1, 1e6), st.floats(1e-3, 1e7)
GPUS = ("H100", "L40S", "A100", "T4")
profiles = st.lists(st.builds(Profile, concurrencies, rates), min_size=1, max_size=len(GPUS)).map(
    lambda found: [replace(one, name=gpu, match=Match(gpu)) for one, gpu in zip(found, GPUS, strict=False)]
)
kinds = st.lists(st.sampled_from([Kind(gpu) for gpu in (*GPUS, "B200", "")]), max_size=6)
SLACK = 1 + 1e-9


def named(found: list[Profile]) -> Profile:
    return replace(found[0], alternatives=tuple(found[1:]))


@given(profiles, kinds, st.none() | st.sampled_from([Kind(gpu) for gpu in GPUS]), st.floats(0.0, 1e9))
def test_a_mix_is_never_more_than_its_largest_profile_and_never_less_than_its_smallest(found, there, newest, offered):
    one = fleet(named(found), *there, newest=newest)
    safe, rate = [p.safe_concurrency for p in found], [p.safe_rate_per_s or 0.0 for p in found]
    assert min(safe) / SLACK <= one.mean.safe_concurrency <= max(safe) * SLACK
    assert min(rate) / SLACK <= (one.mean.safe_rate_per_s or 0.0) <= max(rate) * SLACK
    needed = asked(one, offered)
    assert offered / 0.9 / max(rate) / SLACK <= needed <= offered / 0.9 / min(rate) * SLACK


@given(profiles, kinds)
def test_the_capacity_of_a_fleet_is_the_sum_of_its_replicas(found, there):
    one = fleet(named(found), *there)
    each = [profile_of(named(found), kind) for kind in there]
    assert one.mean.safe_concurrency * len(there) == near(math.fsum(p.safe_concurrency for p in each), rel=1e-9)
    assert (one.mean.safe_rate_per_s or 0.0) * len(there) == near(
        math.fsum(p.safe_rate_per_s or 0.0 for p in each), rel=1e-9
    )


@given(profiles.flatmap(lambda found: st.tuples(st.just(found), st.permutations(found))), kinds, st.data())
def test_the_order_of_profiles_is_irrelevant_where_each_replica_has_one(orders, there, data):
    known = [kind for kind in there if kind.node_class]
    newest = data.draw(st.none() | st.sampled_from([Kind(one.name) for one in orders[0]]))
    first, second = (fleet(named(order), *known, newest=newest) for order in orders)
    bare = [
        (replace(one.mean, alternatives=()), replace(one.more, alternatives=()), one.ready) for one in (first, second)
    ]
    assert bare[0] == bare[1]


@given(profiles, kinds, st.floats(0.0, 1e9), st.floats(0.0, 1e9))
def test_more_load_never_asks_for_fewer_replicas(found, there, offered, more):
    one = fleet(named(found), *there, newest=Kind(GPUS[0]))
    assert asked(one, offered) <= asked(one, offered + more) * SLACK


# --- In the law -----------------------------------------------------------------------------------------------------


def decided(profile: Profile, *ticks: ReplicaSet, rate_per_s: float = 20.0, running: float = 50.0) -> Decision:
    """The last decision on replicas that start so many requests a second together."""
    spec, state, result = workload(profile), State(), None
    engines = [Engine(name, running=running) for name in ticks[0].ready]
    for number, replicas in enumerate(ticks):
        for engine in engines:
            engine.emit(rate_per_s * spec.tick_s / len(engines))
        seen = observe(number * spec.tick_s, engines)
        state, result = step(spec, state, replace(seen, replicas=replace(replicas, observed_at=seen.at)))
    assert isinstance(result, Decision)
    return result


@FEW
@given(
    st.lists(st.sampled_from([H100, L40S, A100, Kind()]), min_size=3, max_size=3),
    st.none() | st.sampled_from([H100, L40S, Kind()]),
    st.floats(0.0, 60.0),
    st.floats(0.0, 150.0),
)
def test_kinds_of_replicas_change_nothing_for_a_workload_with_one_profile(there, newest, rate_per_s, running):
    ticks = [listed(*there)] * 20
    bare = decided(replace(BIG, match=Match()), *ticks, rate_per_s=rate_per_s, running=running)
    told = decided(BIG, *[replace(one, newest=newest) for one in ticks], rate_per_s=rate_per_s, running=running)
    assert replace(told, findings=(), replicas=None) == replace(bare, findings=(), replicas=None)


@FEW
@given(st.sampled_from([H100, L40S]), st.floats(0.0, 60.0), st.floats(0.0, 150.0))
def test_a_fleet_of_one_kind_is_as_if_its_profile_were_the_only_one(kind, rate_per_s, running):
    ticks, only = [listed(kind, kind, newest=kind)] * 20, profile_of(BOTH, kind)
    mixed = decided(BOTH, *ticks, rate_per_s=rate_per_s, running=running)
    alone = decided(replace(only, alternatives=()), *ticks, rate_per_s=rate_per_s, running=running)
    assert mixed == alone


def test_a_fleet_that_grows_on_smaller_gpus_is_asked_for_at_once_and_can_be_explained():
    ticks = [listed(H100, H100, newest=L40S)] * 40
    decision = decided(BOTH, *ticks, rate_per_s=18.0, running=85.0)
    even = decided(BOTH, *[replace(one, newest=H100) for one in ticks], rate_per_s=18.0, running=85.0)
    assert (even.recommendation.terms.flow, decision.recommendation.terms.flow) == (near(2.5), near(4.0))
    assert explain(decision, decision.decided_at).recomputed == decision.desired


@pytest.mark.parametrize(
    ("profile", "kind", "pending"),
    [
        pytest.param(BOTH, Kind(), 5, id="until-a-reading-would-be-old"),
        pytest.param(BOTH, H100, 0, id="its-kind-is-known"),
        pytest.param(BIG, Kind(), 0, id="there-is-nothing-to-choose"),
    ],
)
def test_before_the_first_decision_the_kind_of_a_replica_is_waited_for(profile, kind, pending):
    spec, state, outcomes = workload(profile), State(), []
    for number in range(6):
        seen = observe(number * spec.tick_s, [Engine("r0", running=50.0)])
        state, outcome = step(spec, state, replace(seen, replicas=replace(listed(kind), observed_at=seen.at)))
        outcomes.append(outcome)
    why = Pending(spec.key, "too little is known of r0 to choose its profile")
    assert [outcome == why for outcome in outcomes] == [number < pending for number in range(6)]


def test_the_queue_is_what_runs_above_what_all_replicas_hold_together():
    decision = decided(BOTH, *[listed(H100, L40S, newest=H100)] * 20, running=80.0)
    assert (decision.estimate.capacity.safe_concurrency, decision.estimate.queue) == (70.0, 20.0)
