"""What share of each class is admitted, from colours and numbers, and how it fades with age."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.admission import PROBE_RATIO, PlanSpec, Verdict, as_of, plan, precedence, wanted_per_s
from scaler.core.capacity import Profile
from scaler.core.model import GateMode, Objective, Pressure, RequestClass
from scaler.core.pressure import Colour
from tests.support.law import Engine, Law, near, workload

FEW = settings(max_examples=settings().max_examples // 4)
SPEC = PlanSpec(reaction_s=4.0, budget_s=5.0, gate=GateMode.OBSERVE)
BASE = Law(workload()).steady(40.0, Engine(running=60.0), rate_per_s=5.0).estimate
CHAT = RequestClass("chat", ttft_s=5.0, order=0)
AGENT = RequestClass("agent", ttft_s=20.0, order=1)
BATCH = RequestClass("batch", objective=Objective.COMPLETION, deadline_s=600.0, order=0)


def pressed(request_class, attempts_per_s=10.0, ratio=1.0, at=-math.inf, state=Pressure.RED) -> Verdict:
    return Verdict(request_class, Colour(state), attempts_per_s, ratio, at)


def shares(*verdicts, want=8.0, **changes):
    return [verdict.admit_ratio for verdict in plan(SPEC, verdicts, replace(BASE, **changes), want)]


@pytest.mark.parametrize(
    ("running", "waiting", "keeps_tpot", "wanted"),
    [
        pytest.param(100.0, 0.0, False, 8.0 + 24.0 / 4.0, id="an-empty-queue-may-fill-to-the-set-point"),
        pytest.param(100.0, 24.0, False, 8.0, id="at-the-set-point-as-much-as-drains"),
        pytest.param(124.0, 0.0, False, 8.0, id="what-runs-above-the-safe-concurrency-is-queued"),
        pytest.param(100.0, 40.0, False, 4.0, id="above-it-less"),
        pytest.param(100.0, 400.0, False, 0.0, id="never-less-than-nothing"),
        pytest.param(100.0, 0.0, True, 8.0, id="where-tokens-have-a-pace-the-batch-is-no-place-to-wait"),
        pytest.param(116.0, 0.0, True, 4.0, id="and-what-is-too-much-in-it-goes"),
        pytest.param(80.0, 0.0, True, 13.0, id="free-places-are-filled"),
        pytest.param(20.0, 40.0, True, 4.0, id="but-what-waits-all-the-same-is-a-queue"),
    ],
)
def test_what_may_enter_steers_the_queue_to_its_set_point(running, waiting, keeps_tpot, wanted):
    believed = replace(BASE, drain_per_s=8.0, running=running, waiting=waiting)
    assert wanted_per_s(replace(SPEC, keeps_tpot=keeps_tpot), believed) == wanted


def test_what_runs_now_counts_and_not_its_average():
    believed = replace(BASE, drain_per_s=8.0, running=124.0, waiting=0.0)
    assert wanted_per_s(SPEC, replace(believed, queue=0.0)) == wanted_per_s(SPEC, replace(believed, queue=90.0)) == 8.0


@pytest.mark.parametrize(
    ("spec", "changes", "wanted"),
    [
        pytest.param(replace(SPEC, budget_s=None), {}, math.inf, id="without-a-budget-all"),
        pytest.param(SPEC, {"drain_per_s": 0.0, "queue": 0.0}, math.inf, id="without-a-rate-and-a-queue-all"),
        pytest.param(SPEC, {"drain_per_s": 0.0, "queue": 4.0, "waiting": 4.0}, 0.0, id="with-a-queue-none"),
        pytest.param(SPEC, {"ready": 0}, 0.0, id="without-a-ready-replica-none"),
    ],
)
def test_what_may_enter_at_the_edges(spec, changes, wanted):
    assert wanted_per_s(spec, replace(BASE, **changes)) == wanted


def test_the_lowest_class_is_shed_first():
    assert shares(pressed(AGENT), pressed(CHAT), want=14.0) == [pytest.approx(0.4), 1.0]


def test_a_class_that_only_has_a_deadline_takes_what_is_left_though_its_order_is_first():
    assert shares(pressed(BATCH), pressed(AGENT), want=14.0) == [pytest.approx(0.4), 1.0]


def test_floors_are_kept_below_the_classes_before():
    floored = replace(AGENT, floor_ratio=0.1)
    assert shares(pressed(CHAT), pressed(floored), want=5.0, drain_per_s=8.0) == [
        pytest.approx(0.4),
        pytest.approx(0.1),
    ]


def test_floors_together_are_at_most_a_quarter_of_the_drain():
    greedy = [pressed(replace(c, floor_ratio=0.5)) for c in (CHAT, AGENT)]
    assert shares(*greedy, want=0.0, drain_per_s=8.0) == [pytest.approx(0.1), pytest.approx(0.1)]


def test_never_less_than_a_probe():
    assert shares(pressed(CHAT), pressed(AGENT), want=0.0) == [PROBE_RATIO, PROBE_RATIO]


def test_all_are_admitted_while_all_are_green():
    green = [pressed(c, state=Pressure.GREEN, ratio=0.1) for c in (CHAT, AGENT)]
    assert shares(*green, want=0.0) == [1.0, 1.0]


def test_down_at_once_and_up_to_what_drains_and_beyond_by_a_tenth_a_reaction_time():
    falls = shares(pressed(CHAT, ratio=1.0), want=2.0)
    rises = [
        shares(pressed(CHAT, ratio=ratio, at=BASE.at - ago), want=9.5, drain_per_s=6.0)
        for ratio, ago in ((0.2, 2.0), (0.2, 4.0), (0.2, 400.0), (0.6, 4.0), (0.7, 4.0), (0.9, 4.0))
    ]
    assert falls == [0.2]
    assert rises == [[near(ratio)] for ratio in (0.65, 0.7, 0.7, 0.7, 0.8, 0.95)]


def test_while_nobody_asks_a_fraction_rises_by_a_tenth_a_reaction_time():
    """What drains is no measure then: nobody knows how many will ask."""
    assert shares(pressed(CHAT, 0.0, ratio=0.2, at=BASE.at - 4.0), want=9.0) == [near(0.3)]


def test_who_polls_the_fraction_need_not_shed_what_a_gate_in_the_path_does():
    shed = Verdict(CHAT, Colour(Pressure.YELLOW, shed_only=True), 100.0)
    assert (shares(shed, want=8.0), shares(shed, pressed(AGENT), want=8.0)) == ([1.0], [near(0.08), PROBE_RATIO])


VERDICTS = st.lists(
    st.builds(
        pressed,
        st.builds(
            RequestClass,
            name=st.sampled_from("abcd"),
            ttft_s=st.just(5.0),
            order=st.integers(0, 3),
            floor_ratio=st.floats(0.0, 1.0),
        ),
        st.floats(0.0, 1e6),
        st.floats(PROBE_RATIO, 1.0),
        state=st.sampled_from([Pressure.GREEN, Pressure.YELLOW, Pressure.RED]),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda verdict: verdict.request_class.name,
)
RATES = st.floats(0.0, 1e6)


@FEW
@given(VERDICTS, RATES, RATES, RATES)
def test_shares_are_always_within_the_probe_and_one_and_never_negative_waits(verdicts, want, drain, queue):
    made = plan(SPEC, tuple(verdicts), replace(BASE, drain_per_s=drain, queue=queue), want)
    assert all(PROBE_RATIO <= verdict.admit_ratio <= 1.0 for verdict in made)
    assert all(0.0 <= verdict.retry_after_s <= 60.0 and 0.0 <= verdict.retry_spread_s <= 60.0 for verdict in made)


@FEW
@given(VERDICTS, RATES, RATES)
def test_no_class_is_ever_admitted_less_than_one_after_it(verdicts, want, drain):
    """Not while they rise either, whatever each of them was admitted before."""
    made = plan(SPEC, tuple(verdicts), replace(BASE, drain_per_s=drain), want)
    ranked = sorted(range(len(made)), key=lambda index: precedence(verdicts[index].request_class))
    assert all(made[first].admit_ratio >= made[later].admit_ratio for first, later in pairwise(ranked))


@FEW
@given(st.floats(0.1, 100.0), RATES, RATES)
def test_what_is_admitted_beyond_floors_and_probes_never_exceeds_what_may_enter(attempts, want, drain):
    made = plan(SPEC, (pressed(CHAT, attempts), pressed(AGENT, attempts)), replace(BASE, drain_per_s=drain), want)
    assert sum(verdict.admit_ratio * attempts for verdict in made) <= want * 1.000001 + 2 * PROBE_RATIO * attempts


def test_a_decision_is_as_it_was_made_until_it_is_no_longer_valid_and_then_fades_to_admitting_all():
    law = Law(workload(Profile(100.0, 1.0)))
    decision = law.steady(30.0, Engine(running=50.0, waiting=40.0), rate_per_s=1.0)
    ratio, observed_at = decision.classes[0].admit_ratio, decision.observed_at
    faded = [as_of(decision, observed_at + age) for age in (10.0, 25.0, 40.0)]
    assert faded[0] is decision
    assert [(d.state, d.classes[0].state, d.classes[0].admit_ratio) for d in faded[1:]] == [
        (Pressure.UNKNOWN, Pressure.UNKNOWN, pytest.approx((1 + ratio) / 2)),
        (Pressure.UNKNOWN, Pressure.UNKNOWN, 1.0),
    ]
