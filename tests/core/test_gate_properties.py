"""What the gate in the path never does, whatever was decided and whoever asks."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.admission import PROBE_RATIO, as_of, precedence
from scaler.core.counted import ClassCounted
from scaler.core.decision import Decision, QueueWait
from scaler.core.gate import GateState, Request, Why, ask
from scaler.core.gate_plan import GatePlan, gate_plan
from scaler.core.model import GateMode, Pressure
from tests.support import decisions as made

FEW = settings(max_examples=settings().max_examples // 4)
DECIDED = (made.green(), made.yellow(), made.red(), made.blind(), made.nothing_ready())
FLOOR = 0.05
"""The largest floor of the classes."""
amounts = st.floats(0.0, 400.0) | st.sampled_from([0.0, 0.5, 1.0])
rates = st.floats(0.0, 200.0) | st.sampled_from([0.0, 0.01, 1.0])
waits = st.floats(0.0, 1e4) | st.just(math.inf)


@st.composite
def decisions(draw, pool=DECIDED) -> Decision:
    """A decision whose numbers are anything, and whose classes are admitted in the order of their precedence."""
    base = draw(st.sampled_from(pool))
    ratios = sorted((draw(st.floats(PROBE_RATIO, 1.0)) for _ in base.classes), reverse=True)
    if base.state is Pressure.GREEN:
        ratios = [1.0] * len(ratios)
    ready, drain = draw(st.integers(0, 4)), draw(rates)
    estimate = replace(
        base.estimate,
        ready=ready,
        missing=draw(st.integers(0, ready)),
        running=draw(amounts),
        waiting=draw(amounts),
        queue=draw(amounts | st.floats(0.0, 1.5).map(drain.__mul__)),
        drain_per_s=drain,
        offered_per_s=draw(rates),
        eta_median_s=draw(waits),
        queue_wait=QueueWait(draw(waits)),
    )
    classes = tuple(
        replace(verdict, admit_ratio=ratio, gate=draw(st.sampled_from(GateMode)))
        for verdict, ratio in zip(base.classes, ratios, strict=True)
    )
    return replace(base, estimate=estimate, classes=classes)


names = st.sampled_from(["chat", "agent", "batch", "nobody", None])
coins = st.floats(0.0, 1.0, exclude_max=True)
requests = st.builds(
    Request,
    request_class=names,
    deadline_s=st.none() | st.floats(0.01, 100.0),
    retries=st.integers(0, 3),
)
asks = st.lists(st.tuples(requests, st.floats(0.0, 1.0) | st.just(0.0), coins), min_size=1, max_size=60)


def plan_of(decision: Decision) -> GatePlan:
    return gate_plan(decision, made.SPEC)


def told(plan: GatePlan, asked, start: float | None = None):
    """Every state with the verdict that led to it, and when."""
    state, now = GateState(), plan.decision.observed_at if start is None else start
    for request, later, coin in asked:
        now += later
        state, verdict = ask(state, plan, request, now, coin)
        yield state, verdict, now


@FEW
@given(decisions(), asks)
def test_it_is_never_laxer_than_what_is_published(decision, asked):
    for _, verdict, now in told(plan_of(decision), asked):
        published = next(v for v in as_of(decision, now).classes if v.name == verdict.request_class)
        assert verdict.admit_ratio <= published.admit_ratio + 1e-12


@FEW
@given(decisions(), asks)
def test_a_class_is_never_admitted_less_than_one_after_it(decision, asked):
    plan = plan_of(decision)
    *_, (state, _, now) = told(plan, asked)
    ranked = sorted(plan.classes, key=precedence)
    ratios = [ask(state, plan, Request(one.name), now, 0.5)[1].admit_ratio for one in ranked]
    assert all(first >= later - 1e-9 for first, later in pairwise(ratios))


@FEW
@given(decisions(), asks)
def test_with_a_ready_replica_no_class_is_ever_admitted_less_than_a_probe(decision, asked):
    for _, verdict, now in told(plan_of(decision), asked):
        valid = now <= decision.observed_at + decision.valid_s
        assert verdict.admit_ratio >= PROBE_RATIO or (valid and not decision.estimate.ready)


@FEW
@given(decisions(), asks)
def test_every_attempt_is_either_admitted_or_refused(decision, asked):
    expected = {name: ClassCounted(name) for name in ("chat", "agent", "batch")}
    last = GateState()
    for (request, _, _), (state, verdict, _) in zip(asked, told(plan_of(decision), asked), strict=True):
        last = state
        was, again = expected[verdict.request_class], request.retries > 0
        expected[verdict.request_class] = ClassCounted(
            was.name,
            was.admitted + verdict.admit,
            was.admitted_retries + (verdict.admit and again),
            was.refused + (not verdict.admit),
            was.refused_retries + (not verdict.admit and again),
            was.would_refuse + verdict.would_refuse,
        )
    counted = last.counted(0.0).classes
    assert counted == tuple(expected.values())
    assert sum(one.attempts for one in counted) == len(asked)
    assert sum(one.offered for one in counted) == sum(request.retries == 0 for request, _, _ in asked)


@pytest.mark.fault("engine reports what is no number")
@FEW
@given(decisions(), asks)
def test_retry_after_is_always_within_a_minute(decision, asked):
    for _, verdict, _ in told(plan_of(decision), asked):
        assert verdict.admit or verdict.retry is not None
        assert verdict.retry is None or (1 <= verdict.retry.seconds <= 60 and 1000 <= verdict.retry.ms <= 60_000)


@FEW
@given(decisions(), asks)
def test_a_gate_that_is_not_enforced_never_refuses(decision, asked):
    relaxed = replace(decision, classes=tuple(replace(v, gate=GateMode.OBSERVE) for v in decision.classes))
    assert all(verdict.admit for _, verdict, _ in told(plan_of(relaxed), asked))


@FEW
@given(decisions(), asks)
def test_nobody_is_refused_once_nothing_has_been_known_for_long(decision, asked):
    long_ago = decision.observed_at + decision.valid_s + 31.0
    assert all(verdict.admit for _, verdict, _ in told(plan_of(decision), asked, long_ago))


@given(decisions(), asks, st.floats(FLOOR, 1.0, exclude_max=True))
def test_no_admission_but_of_floors_takes_more_under_way_than_its_limit(decision, asked, coin):
    plan = plan_of(decision)
    if plan.queue is None:
        return
    before = math.inf
    for state, verdict, _ in told(plan, [(request, later, coin) for request, later, _ in asked]):
        enforced = plan.decision.classes[plan.index(verdict.request_class)].gate is GateMode.ENFORCE
        if verdict.admit and enforced and not plan.starved:
            assert state.level.queue <= max(plan.queue.limit(), before) + 1e-9
            assert plan.batch is None or state.level.queue - plan.waiting_free <= max(plan.batch.limit(), before) + 1e-9
            assert plan.starts is None or state.level.starting <= max(plan.starts.limit(), before) + 1e-9
        before = max(state.level.queue, state.level.starting)


@FEW
@given(st.floats(1.0, 100.0), st.floats(0.5, 10.0), st.floats(1.0, 10.0), st.integers(1, 4))
def test_a_surge_between_two_ticks_never_takes_the_queue_above_its_set_point(drain, budget_s, surge, ready):
    """Two seconds at several times what drains, from half load, with nothing but coins that no floor admits."""
    spec = replace(made.SPEC, classes=(replace(made.CHAT, ttft_s=budget_s),))
    green = made.green()
    half = replace(green.estimate, ready=ready, drain_per_s=drain, offered_per_s=drain / 2, running=50.0 * ready)
    classes = (replace(green.classes[0], budget_s=budget_s, gate=GateMode.ENFORCE),)
    plan = gate_plan(replace(green, estimate=half, classes=classes), spec)
    assert plan.queue is not None
    state, now, each = GateState(), green.observed_at, 1 / (surge * drain)
    for index in range(min(2000, math.ceil(2.0 / each))):
        state, _ = ask(state, plan, Request("chat"), now + index * each, FLOOR + (1 - FLOOR) * (index * 0.37 % 1))
        assert state.level.queue <= plan.queue.limit()


@FEW
@given(st.floats(0.1, 0.95), st.floats(0.5, 100.0), st.floats(0.5, 10.0), st.integers(1, 8))
def test_a_steady_load_below_the_drain_rate_is_always_admitted_however_old_the_decision(load, drain, budget_s, ready):
    """Ongoing requests are what Little's law makes of that load."""
    spec = replace(made.SPEC, classes=(replace(made.CHAT, ttft_s=budget_s),))
    green, held = made.green(), 100.0 * ready
    steady = replace(
        green.estimate, ready=ready, drain_per_s=drain, offered_per_s=load * drain, running=load * held, queue=0.0
    )
    classes = (replace(green.classes[0], budget_s=budget_s, gate=GateMode.ENFORCE),)
    plan = gate_plan(replace(green, estimate=steady, classes=classes), spec)
    each = 1 / (load * drain)
    arrivals = [(Request("chat"), each, 0.999) for _ in range(min(500, math.floor(green.valid_s / each)))]
    assert all(verdict.why is None for _, verdict, _ in told(plan, arrivals))


@given(st.lists(st.sampled_from([0, 1]), min_size=1, max_size=40), decisions())
def test_the_level_does_not_depend_on_how_often_it_is_looked_at(steps, decision):
    plan = plan_of(decision)
    whole = plan.passed(replace(GateState().level, queue=plan.seen, starting=5.0), float(len(steps)))
    parts = replace(GateState().level, queue=plan.seen, starting=5.0)
    for _ in steps:
        parts = plan.passed(parts, 1.0)
    assert parts.queue == pytest.approx(whole.queue, abs=1e-6)
    assert parts.starting == pytest.approx(whole.starting, abs=1e-6)


def test_why_a_request_is_let_in_or_not_has_a_code_that_fits_in_a_header():
    assert all(why.value.replace("-", "").isalpha() and len(why.value) <= 20 for why in Why)
