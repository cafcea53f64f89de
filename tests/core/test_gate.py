"""One verdict a request, on hand-made traffic between two decisions of the real law."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from scaler.core.counted import ClassCounted, Counted
from scaler.core.decision import Decision, QueueWait
from scaler.core.gate import GateState, Request, Verdict, Why, ask, followed
from scaler.core.gate_plan import Buckets, GatePlan, Level, gate_plan
from scaler.core.model import GateMode, Pressure
from tests.support import decisions as made
from tests.support.law import near

# Two replicas of safe concurrency 100 that start 8 requests a second each; budget 2 s. 40 run on each.
GREEN, RED = made.green(), made.red()
DRAIN_PER_S, EDGE, SET_POINT = 16.0, 12.8, 19.2
FREE = 200.0 - 80.0
SLOW_START = replace(made.SPEC, profile=replace(made.SPEC.profile, unloaded_ttft_s=None))
UNPACED = replace(SLOW_START, classes=(replace(made.CHAT, tpot_s=None), made.AGENT, made.BATCH))
ANY, FRESH = Request(), GateState()
NOW = 39.0
"""A second after the decision and its readings."""


def plan_of(decision: Decision = GREEN, spec=made.SPEC, **estimate) -> GatePlan:
    return gate_plan(replace(decision, estimate=replace(decision.estimate, **estimate)), spec)


def verdicts(
    plan: GatePlan, count: int, request: Request = ANY, coin: float = 0.5, state: GateState = FRESH
) -> tuple[GateState, list[Verdict]]:
    """As many requests in one instant."""
    told = []
    for _ in range(count):
        state, verdict = ask(state, plan, request, NOW, coin)
        told.append(verdict)
    return state, told


def admitted(plan: GatePlan, count: int, request: Request = ANY, coin: float = 0.5) -> int:
    return sum(verdict.admit for verdict in verdicts(plan, count, request, coin)[1])


def enforced(decision: Decision, gate: GateMode) -> Decision:
    return replace(decision, classes=tuple(replace(verdict, gate=gate) for verdict in decision.classes))


def test_all_are_admitted_while_little_is_under_way():
    _, told = verdicts(plan_of(), 12)
    assert {(v.admit, v.why, v.state, v.admit_ratio, v.nudge) for v in told} == {
        (True, None, Pressure.GREEN, 1.0, False)
    }


def test_a_burst_is_cut_at_the_set_point_and_the_loop_is_told_once():
    state, told = verdicts(plan_of(), 200)
    assert sum(v.admit for v in told) == math.floor(SET_POINT)
    assert [index for index, v in enumerate(told) if v.nudge] == [math.ceil(EDGE)]
    assert (told[-1].state, told[-1].why) == (Pressure.YELLOW, Why.CONTENDED)
    assert state.level.starting == math.floor(SET_POINT)


@pytest.mark.parametrize(
    ("spec", "most"),
    [
        pytest.param(UNPACED, SET_POINT, id="and-the-queue-to-the-set-point"),
        pytest.param(SLOW_START, 1.0, id="and-no-more-where-tokens-are-promised-at-a-pace"),
    ],
)
def test_without_knowing_how_long_a_prompt_takes_a_burst_fills_the_free_places(spec, most):
    plan = plan_of(spec=spec)
    level = followed(FRESH, plan, NOW).level.queue
    assert plan.seen == -FREE
    assert level < -FREE  # some have finished since the observation
    assert admitted(plan, 400, coin=0.06) == math.floor(most - level)


def test_places_are_not_counted_on_unless_the_wait_is_short():
    waits = plan_of(replace(GREEN, state=Pressure.YELLOW), spec=UNPACED, queue_wait=QueueWait(0.8))
    assert (waits.seen, waits.places, admitted(waits, 400)) == (0.0, 0.0, math.floor(SET_POINT))


@pytest.mark.parametrize(
    ("state", "tick_s", "margin"),
    [
        pytest.param(
            Pressure.YELLOW, 2.0, 2.5 * math.sqrt(32.0), id="by-what-may-end-less-by-chance-until-the-next-look"
        ),
        pytest.param(Pressure.YELLOW, 60.0, 20.0, id="by-the-headroom-at-most"),
        pytest.param(Pressure.GREEN, 2.0, 0.0, id="and-not-at-all-while-green"),
    ],
)
def test_under_pressure_what_is_ongoing_is_kept_below_the_safe_concurrency(state, tick_s, margin):
    plan = plan_of(replace(GREEN, state=state), spec=replace(SLOW_START, tick_s=tick_s), running=170.0)
    after, _ = verdicts(plan, 100, coin=0.06)
    assert math.floor(1 - margin) - 1 < after.level.queue <= 1 - margin


@pytest.mark.parametrize("waiting", [0.0, 10.0])
def test_requests_that_wait_for_their_prompts_to_be_computed_take_no_places(waiting):
    plan = plan_of(running=150.0 - waiting, waiting=waiting, queue=waiting, spec=SLOW_START)
    assert plan.seen - plan.waiting_free == -50.0


def test_below_the_edge_the_published_fraction_holds():
    plan = plan_of(RED, queue=0.0, running=0.0, waiting=0.0)
    _, told = verdicts(plan, 3, Request("agent"), coin=0.06)
    assert [(v.admit, v.admit_ratio, v.state, v.why) for v in told] == [
        (False, RED.classes[1].admit_ratio, Pressure.RED, Why.CONTENDED)
    ] * 3


def test_a_published_fraction_that_is_smaller_than_our_own_holds():
    """The queue is at the edge and hardly anybody asks: our own fraction is 1."""
    plan = plan_of(RED, queue=EDGE, running=0.0, waiting=0.0, offered_per_s=0.1)
    told = ask(FRESH, plan, ANY, RED.observed_at, 0.5)[1]
    assert (plan.past_edge(Level(plan.seen)), told.admit_ratio) == (True, RED.classes[0].admit_ratio)


def test_attempts_are_at_least_those_that_are_published():
    """The first request of a process that has just started, in a load of ten times what drains."""
    plan = plan_of(queue=17.0, running=150.0, waiting=17.0, offered_per_s=160.0)
    want = DRAIN_PER_S + (SET_POINT - 17.0) / 1.5
    assert ask(FRESH, plan, ANY, 38.0, 0.5)[1].admit_ratio == pytest.approx(want / 160.0)


def test_what_runs_now_counts_and_not_its_average():
    assert plan_of(running=230.0, queue=0.0).seen == 30.0


def test_one_request_a_replica_that_has_just_come_in_makes_no_queue_of_an_idle_fleet():
    """Where only the safe concurrency is known, an idle fleet drains hardly anything as far as anybody can tell."""
    idle = plan_of(drain_per_s=0.1, offered_per_s=0.1, running=0.0, waiting=2.0, queue=2.0, spec=SLOW_START)
    assert (idle.seen, admitted(idle, 100)) == (2.0 - 198.0, 100)


def test_while_no_rate_is_known_and_nothing_queues_one_is_admitted_after_the_other():
    plan = plan_of(replace(GREEN, state=Pressure.YELLOW), drain_per_s=0.0, running=0.0, queue_wait=QueueWait(0.8))
    assert [verdict.admit for verdict in verdicts(plan, 3)[1]] == [True, False, False]


def test_readings_of_several_times_count_as_of_their_middle():
    apart = tuple(replace(reading, observed_at=at) for reading, at in zip(GREEN.readings, (36.0, 38.0), strict=True))
    assert gate_plan(replace(GREEN, readings=apart), made.SPEC).observed_at == 37.0


def test_a_burst_into_free_places_makes_those_who_come_next_wait():
    state, _ = verdicts(plan_of(), 12)
    plan = state.plan
    assert plan is not None
    assert [ask(state, plan, Request(deadline_s=s), NOW, 0.0)[1].why for s in (0.7, 0.8)] == [Why.DEADLINE, None]


def test_what_drains_makes_room_again():
    plan = plan_of()
    state, _ = verdicts(plan, 200)
    refused, admits = (ask(state, plan, ANY, NOW + later, 0.9)[1].admit for later in (0.1, 1.0))
    assert (refused, admits) == (False, True)


@pytest.mark.parametrize(
    ("observed_at", "queue"),
    [
        pytest.param(37.0, 17.6, id="all came after the observation"),
        pytest.param(38.05, 21.8, id="of a stretch that was under way all are taken to have"),
        pytest.param(38.5, 13.6, id="only the later ones did"),
        pytest.param(39.5, 7.6, id="none did"),
    ],
)
def test_a_new_decision_adds_what_was_admitted_after_it_was_observed(observed_at, queue):
    """Ten requests at 38 s and ten at 39 s. The decision saw ten in the queue, four a second leave it, and now it is 40.1 s."""
    state = FRESH
    for at in (38.0, 39.0):
        for _ in range(10):
            state, _ = ask(state, plan_of(), ANY, at, 0.0)
    seen = plan_of(replace(GREEN, state=Pressure.YELLOW), queue=10.0, drain_per_s=4.0)
    now = followed(state, replace(seen, observed_at=observed_at), 40.1)
    assert now.level.queue == pytest.approx(queue)


def test_with_no_ready_replica_nobody_is_admitted_and_all_are_wanted():
    plan = gate_plan(made.nothing_ready(), made.SPEC)
    state, told = verdicts(plan, 3, coin=0.0)
    assert [(v.admit, v.why, v.admit_ratio, v.nudge) for v in told] == [
        (False, Why.NO_CAPACITY, 0.0, True),
        (False, Why.NO_CAPACITY, 0.0, False),
        (False, Why.NO_CAPACITY, 0.0, False),
    ]
    assert [state.counted(at).wanted for at in (NOW, NOW + 60.0, NOW + 80.0)] == [3, 3, 0]


def test_what_an_observing_gate_lets_in_without_a_replica_is_in_no_queue():
    state, told = verdicts(gate_plan(enforced(made.nothing_ready(), GateMode.OBSERVE), made.SPEC), 3)
    assert ([v.admit for v in told], state.admitted, state.level) == ([True] * 3, Buckets(), Level())


def test_those_who_waited_for_the_first_replica_are_not_wanted_any_more_once_it_is_ready():
    state, _ = verdicts(gate_plan(made.nothing_ready(), made.SPEC), 3)
    assert followed(state, plan_of(), NOW).counted(NOW).wanted == 0


@pytest.mark.parametrize(("eta_s", "seconds", "futile"), [(20.0, (20, 60), False), (math.inf, (30, 60), True)])
def test_with_no_ready_replica_the_next_one_says_when_to_come_back(eta_s, seconds, futile):
    plan = plan_of(made.nothing_ready(), eta_median_s=eta_s)
    told = [ask(FRESH, plan, ANY, NOW, coin)[1].retry for coin in (0.0, 0.5, 0.999)]
    assert all(retry is not None and seconds[0] <= retry.seconds <= seconds[1] for retry in told)
    assert {retry.futile for retry in told if retry is not None} == {futile}


@pytest.mark.parametrize(
    ("gate", "admit", "why", "counted"),
    [
        pytest.param(GateMode.ENFORCE, False, Why.CONTENDED, ClassCounted("chat", refused=1), id="enforce"),
        pytest.param(GateMode.OBSERVE, True, Why.CONTENDED, ClassCounted("chat", 1, would_refuse=1), id="observe"),
        pytest.param(GateMode.OFF, True, None, ClassCounted("chat", 1), id="off"),
    ],
)
def test_only_an_enforced_gate_refuses(gate, admit, why, counted):
    state, (told,) = verdicts(gate_plan(enforced(RED, gate), made.SPEC), 1, coin=0.9)
    assert (told.admit, told.why, told.would_refuse) == (admit, why, admit and why is not None)
    assert state.counted(NOW).classes[0] == counted


@pytest.mark.parametrize(("named", "decided"), [("agent", "agent"), (None, "chat"), ("nobody", "chat"), ("", "chat")])
def test_a_request_without_a_class_has_the_default_one_and_never_a_lower(named, decided):
    assert verdicts(plan_of(), 1, Request(named))[1][0].request_class == decided


def test_a_request_that_will_not_wait_long_enough_is_refused_though_there_is_room():
    waits = plan_of(queue_wait=QueueWait(0.5))
    told = [ask(FRESH, waits, Request(deadline_s=s), NOW, 0.0)[1].why for s in (0.4, 0.6, None)]
    assert told == [Why.DEADLINE, None, None]


def test_announced_retries_are_told_apart_and_are_no_new_demand():
    plan = gate_plan(RED, made.SPEC)
    state, _ = verdicts(plan, 2, Request(retries=1), coin=0.0)
    state, _ = verdicts(plan, 3, Request(retries=2), coin=0.9, state=state)
    state, _ = verdicts(plan, 4, ANY, coin=0.9, state=state)
    counted = state.counted(NOW).classes[0]
    assert counted == ClassCounted("chat", 2, 2, 7, 3)
    assert (counted.attempts, counted.offered, counted.refused_first) == (9, 4, 4)


@pytest.mark.parametrize(("retries", "futile"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_client_that_has_tried_as_often_as_its_class_may_is_told_to_give_up(retries, futile):
    often = replace(made.SPEC, classes=(replace(made.CHAT, max_retries=2), made.AGENT, made.BATCH))
    brief = replace(RED, estimate=replace(RED.estimate, eta_median_s=5.0, queue=0.0))
    _, (told,) = verdicts(gate_plan(brief, often), 1, Request(retries=retries), coin=0.9)
    assert told.retry is not None
    assert told.retry.futile is futile


@pytest.mark.fault("whole fleet is unreachable")
@pytest.mark.parametrize(
    ("age_s", "state", "ratio"),
    [
        pytest.param(10.0, Pressure.RED, 0.05, id="still valid"),
        pytest.param(25.0, Pressure.UNKNOWN, 0.525, id="half faded"),
        pytest.param(40.0, Pressure.UNKNOWN, 1.0, id="faded"),
        pytest.param(1e6, Pressure.UNKNOWN, 1.0, id="a dead loop"),
    ],
)
def test_a_decision_that_is_no_longer_valid_fades_to_admitting_all(age_s, state, ratio):
    _, told = ask(FRESH, gate_plan(RED, made.SPEC), ANY, RED.observed_at + age_s, 0.0)
    assert (told.state, told.admit_ratio, told.nudge) == (state, near(ratio), False)


@pytest.mark.fault("whole fleet is unreachable")
def test_a_silent_fleet_says_nothing_against_admitting():
    plan = plan_of(ready=2, missing=2, drain_per_s=0.0, running=0.0)
    assert (plan.queue, admitted(plan, 500)) == (None, 500)


def test_the_first_class_has_room_that_the_last_one_has_not():
    burst = plan_of()
    assert [admitted(burst, 200, Request(name), coin=0.6) for name in ("chat", "agent", "batch")] == [19, 17, 14]


def test_what_was_counted_for_a_class_that_is_gone_is_still_told():
    state, _ = verdicts(plan_of(), 3, Request("batch"))
    fewer = replace(GREEN, classes=GREEN.classes[:1])
    state, _ = verdicts(gate_plan(fewer, made.SPEC), 2, state=state)
    assert state.counted(NOW) == Counted((ClassCounted("chat", 2), ClassCounted("agent"), ClassCounted("batch", 3)), 0)


def test_of_two_tenants_the_one_that_asks_for_more_is_refused_first():
    halved = replace(RED, classes=tuple(replace(verdict, admit_ratio=0.5) for verdict in RED.classes))
    plan, state, told = replace(gate_plan(halved, made.SPEC), queue=None, starts=None, batch=None), FRESH, []
    for index in range(400):
        tenant = "small" if index % 10 == 0 else "large"
        state, verdict = ask(state, plan, Request(tenant=tenant), NOW + index / 100, index * 0.37 % 1)
        told.append((tenant, verdict.admit, verdict.why))
    settled = told[200:]
    assert [one for one in settled if one[0] == "small"] == [("small", True, None)] * 20
    assert {why for tenant, _, why in settled if tenant == "large"} == {None, Why.TENANT}
    assert sum(admit for _, admit, _ in settled) == pytest.approx(100, abs=5)
