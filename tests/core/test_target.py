"""The replica law: golden numbers, every reason, and what must hold for any load."""

import math
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.decision import LawInputs, Reason, Terms
from scaler.core.target import ScalingSpec, recommend, whole
from tests.support.law import near

FEW = settings(max_examples=settings().max_examples // 2)
GOLDEN = LawInputs(
    offered_per_s=30.0,
    arrival_per_s=30.0,
    drain_per_s=16.0,
    queue=40.0,
    ongoing=240.0,
    running=200.0,
    eta_s=90.0,
    growth_ratio=1.0,
    residence_s=12.5,
    safe_rate_per_s=8.0,
    target=80.0,
    drain_deadline_s=60.0,
    deadline_s=None,
    missing=0,
    current=2,
    warm_replicas=0,
    min_replicas=1,
    max_replicas=100,
)
CALM = replace(GOLDEN, offered_per_s=4.0, arrival_per_s=4.0, queue=0.0, ongoing=50.0, running=50.0)


def test_the_golden_numbers():
    recommendation = recommend(GOLDEN)
    terms = recommendation.terms
    assert (recommendation.replicas, recommendation.reason, recommendation.runner_up) == (
        8,
        Reason.BACKLOG,
        Reason.FLOW,
    )
    assert (round(terms.flow, 2), terms.backlog_at_ready_requests, round(terms.backlog, 2)) == (4.69, 1300.0, 2.71)


def test_the_terms_by_name():
    assert recommend(replace(GOLDEN, growth_ratio=1.5, missing=2)).terms == Terms(
        flow=4.6875,
        flow_with_growth=7.03125,
        backlog_at_ready_requests=1300.0,
        backlog=near(2.7083333),
        load=near(7.3958333),
        running_floor=2.5,
        missing_floor=near(9.3958333),
    )


@pytest.mark.parametrize(
    ("inputs", "replicas", "reason"),
    [
        pytest.param(replace(CALM, offered_per_s=12.0), 2, Reason.FLOW, id="flow"),
        pytest.param(replace(GOLDEN, growth_ratio=1.5, queue=0.0, arrival_per_s=16.0), 8, Reason.GROWTH, id="growth"),
        pytest.param(GOLDEN, 8, Reason.BACKLOG, id="backlog"),
        pytest.param(replace(GOLDEN, residence_s=None, safe_rate_per_s=None), 3, Reason.ONGOING, id="ongoing"),
        pytest.param(replace(GOLDEN, deadline_s=1.0), 5, Reason.COMPLETION, id="completion"),
        pytest.param(replace(CALM, current=9, running=400.0), 5, Reason.RUNNING_FLOOR, id="running-floor"),
        pytest.param(
            replace(CALM, current=3, running=800.0), 3, Reason.RUNNING_FLOOR, id="running-floor-never-above-current"
        ),
        pytest.param(replace(CALM, current=9, missing=4), 5, Reason.MISSING_FLOOR, id="missing-floor"),
        pytest.param(
            replace(CALM, current=9, missing=4, warm_replicas=2),
            7,
            Reason.MISSING_FLOOR,
            id="missing-floor-beside-warm",
        ),
        pytest.param(
            replace(CALM, current=2, missing=4), 2, Reason.MISSING_FLOOR, id="missing-floor-never-above-current"
        ),
        pytest.param(replace(CALM, min_replicas=3), 3, Reason.MIN_REPLICAS, id="minimum"),
        pytest.param(replace(GOLDEN, max_replicas=6), 6, Reason.MAX_REPLICAS, id="maximum"),
        pytest.param(replace(CALM, warm_replicas=2), 3, Reason.FLOW, id="warm-replicas-on-top"),
    ],
)
def test_every_reason_binds_where_its_term_is_the_largest(inputs, replicas, reason):
    recommendation = recommend(inputs)
    assert (recommendation.replicas, recommendation.reason) == (replicas, reason)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        pytest.param(replace(GOLDEN, eta_s=math.inf), 40.0, id="only-the-queue-of-now-when-none-will-come"),
        pytest.param(
            replace(GOLDEN, eta_s=math.inf, queue=0.0, arrival_per_s=16.0), 0.0, id="nothing-times-infinity-is-nothing"
        ),
        pytest.param(replace(GOLDEN, arrival_per_s=1.0), 0.0, id="what-drains-before-it-comes"),
        pytest.param(replace(GOLDEN, eta_s=0.0), 40.0, id="a-replica-that-is-ready-now"),
        pytest.param(replace(GOLDEN, offered_per_s=500.0), 1300.0, id="what-was-refused-does-not-wait"),
    ],
)
def test_the_backlog_when_a_replica_could_help(inputs, expected):
    assert recommend(inputs).terms.backlog_at_ready_requests == expected


def test_growth_and_backlog_answer_the_same_surge_and_the_larger_counts():
    terms = recommend(replace(GOLDEN, growth_ratio=1.5)).terms
    assert terms.load == max(terms.flow_with_growth, terms.flow + terms.backlog)


def test_a_completion_workload_without_a_queue_goes_down_to_its_minimum():
    idle = replace(CALM, deadline_s=600.0, ongoing=0.0, running=0.0, current=5)
    assert recommend(idle).replicas == 1


def test_a_completion_workload_whose_rate_is_unknown_follows_what_is_ongoing():
    assert recommend(replace(GOLDEN, deadline_s=1.0, residence_s=None, safe_rate_per_s=None)).replicas == 3


@pytest.mark.parametrize(
    ("replicas", "covered"),
    [(4.0, 4), (4.000000000001, 4), (4.01, 5), (0.0, 0), (-0.0, 0)],
)
def test_float_noise_buys_no_replica(replicas, covered):
    assert whole(replicas) == covered


def test_the_defaults_of_scaling():
    assert ScalingSpec() == ScalingSpec(min_replicas=1, max_replicas=100, warm_replicas=0, drain_deadline_s=120.0)


AMOUNTS = st.floats(0.0, 1e9)
LAW_INPUTS = st.builds(
    LawInputs,
    offered_per_s=AMOUNTS,
    arrival_per_s=AMOUNTS,
    drain_per_s=AMOUNTS,
    queue=AMOUNTS,
    ongoing=AMOUNTS,
    running=AMOUNTS,
    eta_s=st.floats(0.0, 1e4) | st.just(math.inf),
    growth_ratio=st.floats(1.0, 1.5),
    residence_s=st.none() | st.floats(0.01, 1e3),
    safe_rate_per_s=st.none() | st.floats(0.01, 1e3),
    target=st.floats(0.1, 1e4),
    drain_deadline_s=st.floats(1.0, 600.0),
    deadline_s=st.none() | st.floats(1.0, 1e5),
    missing=st.integers(0, 50),
    current=st.integers(0, 200),
    warm_replicas=st.integers(0, 10),
    min_replicas=st.integers(0, 10),
    max_replicas=st.integers(1, 200),
)
LOADS = ("offered_per_s", "arrival_per_s", "queue", "ongoing", "running", "growth_ratio", "missing")


@FEW
@given(LAW_INPUTS)
def test_a_recommendation_is_always_within_the_bounds_and_finite(inputs):
    recommendation = recommend(inputs)
    assert min(inputs.min_replicas, inputs.max_replicas) <= recommendation.replicas <= inputs.max_replicas
    assert all(math.isfinite(getattr(recommendation.terms, f.name)) for f in fields(Terms))


@FEW
@given(LAW_INPUTS, st.sampled_from(LOADS), st.floats(1.0, 100.0))
def test_more_load_never_wants_fewer_replicas(inputs, name, factor):
    more = replace(inputs, **{name: type(getattr(inputs, name))(getattr(inputs, name) * factor)})
    assert recommend(more).replicas >= recommend(inputs).replicas


@FEW
@given(LAW_INPUTS, st.floats(1.0, 100.0))
def test_a_faster_drain_never_wants_more_replicas(inputs, factor):
    assert recommend(replace(inputs, drain_per_s=inputs.drain_per_s * factor)).replicas <= recommend(inputs).replicas


@FEW
@given(LAW_INPUTS, st.integers(0, 50))
def test_replicas_without_a_reading_never_raise_the_number_above_what_runs(inputs, missing):
    fewer, more = recommend(replace(inputs, missing=0)), recommend(replace(inputs, missing=missing))
    assert more.replicas <= max(fewer.replicas, inputs.current)


@FEW
@given(LAW_INPUTS)
def test_the_reason_and_the_runner_up_differ_and_the_same_inputs_give_the_same_answer(inputs):
    recommendation = recommend(inputs)
    assert recommendation.reason is not recommendation.runner_up
    assert recommend(recommendation.inputs) == recommendation
