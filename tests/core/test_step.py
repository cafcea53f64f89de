"""The law end to end: hand-made observations through `step`, one workload, seconds passed in."""

import math
from dataclasses import replace

import pytest

from scaler.core.capacity import Profile
from scaler.core.decision import Decision, Pending, Reason
from scaler.core.model import (
    Absent,
    Missing,
    Objective,
    Observation,
    Pressure,
    Reading,
    ReplicaSet,
    RequestClass,
    Starting,
)
from scaler.core.ready_latency import ReadyLatency
from scaler.core.stabilize import StabilizeSpec
from scaler.core.step import State, WorkloadSpec, resume
from scaler.core.target import ScalingSpec
from tests.support.law import CHAT, KEY, TICK_S, Engine, Law, near, observe, tick, workload

SCALE_TO_ZERO = ScalingSpec(min_replicas=0)


def engines(count: int, **state) -> list[Engine]:
    return [Engine(f"r{i}", **state) for i in range(count)]


# --- The first decision --------------------------------------------------------------------------------------------


def test_nothing_is_decided_before_somebody_says_which_replicas_exist():
    assert tick(workload(), State(), Observation(0.0, None))[1] == Pending(KEY, "no list of replicas yet")


def test_nothing_is_decided_before_every_ready_replica_was_read():
    law = Law(workload())
    outcome = law.see(Engine("a"), Engine("b", silent=True))
    assert outcome == Pending(KEY, "no reading from b (timeout)")


def test_nothing_is_ever_decided_while_no_replica_was_ever_read():
    law = Law(workload())
    assert law.steady(600.0, Engine(silent=True)) == Pending(KEY, "no reading from a (timeout)")


def test_a_silent_replica_is_waited_for_as_long_as_a_reading_stays_fresh():
    law = Law(workload())
    law.steady(14.0, Engine("a"), Engine("b", silent=True))
    assert [isinstance(outcome, Decision) for outcome in law.decisions] == [False] * 5 + [True] * 2


@pytest.mark.parametrize(
    ("current", "ongoing", "desired"),
    [
        pytest.param(7, 10.0, 7, id="what-runs-stays"),
        pytest.param(2, 500.0, 6, id="what-the-ongoing-requests-need"),
        pytest.param(1, 0.0, 3, id="the-minimum"),
        pytest.param(40, 0.0, 20, id="never-above-the-maximum"),
    ],
)
def test_the_first_decision_is_the_larger_of_what_runs_and_what_the_ongoing_requests_need(current, ongoing, desired):
    spec = workload(scaling=ScalingSpec(min_replicas=3, max_replicas=20))
    assert Law(spec).see(Engine(running=ongoing), current=current).desired == desired


def test_an_upscale_delay_holds_back_the_first_decision_too():
    spec = workload(stabilize=StabilizeSpec(upscale_delay_s=60.0), scaling=ScalingSpec(warm_replicas=5))
    assert Law(spec).see(Engine(running=90.0)).desired == 1


def test_a_restart_leaves_a_workload_that_is_at_zero_at_zero():
    law = Law(workload(scaling=SCALE_TO_ZERO))
    law.steady(20.0)
    assert {(outcome.desired, outcome.active) for outcome in law.decisions} == {(0, False)}


def test_a_workload_at_zero_wakes_when_somebody_asks_for_it():
    law = Law(workload(scaling=SCALE_TO_ZERO))
    law.steady(20.0, refused_total=0.0)
    assert law.see(refused_total=3.0).desired == 1


# --- Zero, blindness, missing replicas -----------------------------------------------------------------------------


def test_zero_comes_only_after_nothing_was_in_flight_for_the_idle_time():
    law = Law(workload(scaling=SCALE_TO_ZERO, stabilize=StabilizeSpec(downscale_delay_s=10.0, idle_s=100.0)))
    engine = Engine(running=5.0)
    law.steady(60.0, engine, rate_per_s=0.5)
    engine.running = 0.0
    quiet_from = law.now - TICK_S + 30.0  # the rate window still shows the last requests for 25 s and a tick
    law.steady(200.0, engine)
    at_zero = [outcome.decided_at for outcome in law.decisions if outcome.desired == 0]
    assert quiet_from + 90.0 <= at_zero[0] <= quiet_from + 100.0


@pytest.mark.fault("whole fleet is unreachable")
def test_time_without_data_is_no_evidence_for_idleness():
    law = Law(workload(scaling=SCALE_TO_ZERO, stabilize=StabilizeSpec(downscale_delay_s=10.0, idle_s=100.0)))
    engine = Engine()
    law.steady(50.0, engine)
    engine.silent = True
    law.steady(200.0, engine)
    engine.silent = False
    assert law.steady(40.0, engine).desired == 1


def test_an_unknown_replica_set_is_no_evidence_for_idleness():
    law = Law(workload(scaling=SCALE_TO_ZERO, stabilize=StabilizeSpec(downscale_delay_s=10.0, idle_s=100.0)))
    law.see(starting=(Starting("a", 0.0),))
    for second in range(2, 400, 2):
        law.state, outcome = tick(law.spec, law.state, Observation(float(second), None))
    assert (outcome.desired, outcome.blind) == (1, True)


@pytest.mark.fault("whole fleet is unreachable")
def test_time_without_data_is_no_evidence_for_scaling_down():
    law = Law(workload())
    fleet = engines(10, running=80.0)
    law.steady(120.0, *fleet, rate_per_s=6.5)
    before = law.decisions[-1].desired
    for engine in fleet:
        engine.silent = True
    law.steady(400.0, *fleet)
    for engine in fleet:
        engine.silent, engine.running = False, 5.0
    after = law.steady(350.0, *fleet, rate_per_s=0.4)
    assert (before, after.desired, law.steady(60.0, *fleet, rate_per_s=0.4).desired) == (10, 10, 1)


def test_the_rates_after_a_blind_time_are_those_of_what_was_seen_since():
    law = Law(workload())
    engine = Engine(running=80.0)
    law.steady(120.0, engine, rate_per_s=6.0)
    engine.silent = True
    law.steady(300.0, engine)
    engine.silent = False
    decision = law.steady(40.0, engine, rate_per_s=6.0)
    assert (decision.estimate.arrival_per_s, decision.estimate.growth_ratio) == (near(6.0), 1.0)


@pytest.mark.fault("engine hangs")
def test_a_replica_that_returns_after_a_long_silence_is_no_growth_of_the_load():
    law = Law(workload())
    fleet = engines(4, running=60.0)
    law.steady(150.0, *fleet, rate_per_s=6.0)
    fleet[0].silent = fleet[1].silent = True
    law.steady(150.0, *fleet, rate_per_s=6.0)
    fleet[0].silent = fleet[1].silent = False
    before = len(law.decisions)
    law.steady(150.0, *fleet, rate_per_s=6.0)
    assert {outcome.estimate.growth_ratio for outcome in law.decisions[before:]} == {1.0}


def test_while_blind_the_number_stands_and_a_lower_maximum_still_binds():
    law = Law(workload())
    engine = Engine(running=80.0)
    law.steady(30.0, engine, current=9)
    engine.silent = True
    law.steady(20.0, engine, current=9)
    held = law.decisions[-1]
    law.edit(scaling=ScalingSpec(max_replicas=4))
    bound = law.see(engine, current=9)
    assert [(d.desired, d.reason, d.blind) for d in (held, bound)] == [
        (9, Reason.BLIND_HOLD, True),
        (4, Reason.MAX_REPLICAS, True),
    ]


def test_a_blind_decision_keeps_the_age_and_the_pressure_of_the_last_one_that_saw_something():
    law = Law(workload())
    seen = law.see(Engine(running=80.0))
    law.now = 60.0
    held = law.see(Engine(silent=True))
    assert held == replace(
        seen,
        sequence=1,
        decided_at=60.0,
        blind=True,
        reason=Reason.BLIND_HOLD,
        runner_up=seen.reason,
        replicas=held.replicas,
        shaped=held.shaped,
        missing=(Missing("a", "timeout"),),
    )


@pytest.mark.fault("half the fleet is unreachable")
def test_a_missing_replica_counts_as_full_going_down_and_as_empty_going_up():
    law = Law(workload(stabilize=StabilizeSpec(downscale_delay_s=30.0)))
    fleet = engines(6, running=60.0)
    law.steady(60.0, *fleet, rate_per_s=4.8)
    for engine in fleet[1:4]:
        engine.silent = True
    held = law.steady(60.0, *fleet, rate_per_s=4.8, max_replicas=50)
    assert (held.desired, held.reason) == (5, Reason.DOWNSCALE_WINDOW if held.shaped.reason else Reason.MISSING_FLOOR)


def test_a_sleeping_engine_is_no_capacity():
    awake, asleep = Engine("a", running=50.0), Engine("b", awake=False)
    estimate = Law(workload()).see(awake, asleep).estimate
    assert (estimate.ready, estimate.current, estimate.drain_per_s) == (1, 2, 8.0)


@pytest.mark.fault("engine reports what is no number")
def test_a_reading_without_its_gauges_makes_its_replica_missing_and_says_which_metric_it_lacks():
    seen = Observation(
        0.0,
        ReplicaSet(("a", "b"), (), 2, 0.0),
        (Engine("a").read(0.0), Reading("b", 0.0, running=Absent.UNKNOWN, absent=("vllm:num_requests_running",))),
    )
    assert tick(workload(), State(), seen)[1] == Pending(
        KEY, "no reading from b (metric absent: vllm:num_requests_running)"
    )


# --- Pressure from what is waiting ---------------------------------------------------------------------------------


def drained(rate_per_s: float) -> Law:
    """A replica with 15 requests waiting for half a minute, of which so many a second start and are replaced."""
    law = Law(workload(Profile(100.0, rate_per_s)))
    engine = Engine(running=50.0)
    law.steady(60.0, engine, rate_per_s=rate_per_s)
    engine.waiting = 15.0
    law.steady(30.0, engine, rate_per_s=rate_per_s)
    return law


@pytest.mark.parametrize(
    ("rate_per_s", "wait_s", "state"),
    [
        pytest.param(10.0, 1.5, Pressure.GREEN, id="gone-in-a-second-and-a-half"),
        pytest.param(1.0, 15.0, Pressure.RED, id="gone-in-fifteen-seconds"),
    ],
)
def test_the_same_queue_is_green_or_red_by_how_fast_it_drains(rate_per_s, wait_s, state):
    decision = drained(rate_per_s).decisions[-1]
    assert (decision.estimate.queue_wait.by_drain_s, decision.state) == (near(wait_s), state)


@pytest.mark.parametrize(
    ("rate_per_s", "wait_s", "state"),
    [
        pytest.param(10.0, 1.5, Pressure.GREEN, id="gone-in-a-second-and-a-half"),
        pytest.param(1.0, 15.0, Pressure.RED, id="gone-in-fifteen-seconds"),
    ],
)
def test_it_is_so_too_when_only_the_safe_concurrency_is_known(rate_per_s, wait_s, state):
    law = Law(workload(Profile(100.0)))
    engine = Engine(running=10.0)
    law.steady(60.0, engine, rate_per_s=rate_per_s)
    engine.waiting = 15.0
    decision = law.steady(30.0, engine, rate_per_s=rate_per_s)
    assert (decision.estimate.queue_wait.by_drain_s, decision.state) == (near(wait_s), state)


@pytest.mark.fault("engine stands still")
@pytest.mark.parametrize("waiting_before", [0.0, 1.0])
@pytest.mark.parametrize("budget_s", [1.0, 5.0, 30.0])
@pytest.mark.parametrize("profile", [Profile(100.0, 8.0), Profile(100.0)], ids=["load-tested", "concurrency-only"])
def test_a_frozen_engine_is_red_within_its_budget_and_two_ticks(profile, budget_s, waiting_before):
    law = Law(workload(profile, (RequestClass("chat", budget_s),)))
    engine = Engine(running=20.0, waiting=waiting_before)
    law.steady(60.0, engine, rate_per_s=4.0)
    engine.waiting = 1.0
    frozen_at = law.now
    law.steady(budget_s + 20.0, engine)  # the page goes on showing the same numbers
    red_at = next(d.decided_at for d in law.decisions if d.state is Pressure.RED)
    assert red_at <= frozen_at + budget_s + 2 * TICK_S


@pytest.mark.fault("engine hangs")
def test_a_page_that_is_not_answered_for_some_seconds_is_no_stalled_engine():
    law = Law(workload(classes=(RequestClass("chat", 2.0),)))
    engine = Engine(running=50.0, waiting=1.0)
    before = law.steady(60.0, engine, rate_per_s=5.0)
    engine.silent = True
    held = law.steady(10.0, engine)
    assert (held.blind, held.state, held.estimate.queue_wait.s, held.estimate.throughput_per_s) == (
        False,
        before.state,
        near(before.estimate.queue_wait.s),
        before.estimate.throughput_per_s,
    )


def test_red_holds_the_number_and_lets_it_rise():
    law = drained(1.0)
    assert (law.decisions[-1].state, law.decisions[-1].reason, law.decisions[-1].desired > 1) == (
        Pressure.RED,
        Reason.BACKLOG,
        True,
    )


def test_pressure_does_not_wait_for_the_upscale_delay():
    spec = workload(Profile(100.0, 1.0), stabilize=StabilizeSpec(upscale_delay_s=600.0))
    law, engine = Law(spec), Engine(running=50.0)
    held = law.steady(60.0, engine, rate_per_s=1.0)
    engine.waiting = 15.0
    pressed = law.steady(20.0, engine, rate_per_s=1.0)
    assert [(d.recommendation.replicas, d.desired) for d in (held, pressed)] == [(2, 1), (3, 3)]


def test_tokens_that_come_too_slowly_below_the_safe_concurrency_derate_the_profile_until_they_do_not():
    chat = RequestClass("chat", 5.0, tpot_s=0.05)
    law = Law(workload(classes=(chat,)))
    engine = Engine(running=90.0)
    for _ in range(300):
        engine.emit(12.0, tpot_s=0.2)
        decision = law.see(engine)
    assert decision.estimate.capacity.derate_ratio == near(0.5)


def test_first_tokens_that_come_too_late_while_the_model_says_green_derate_the_profile():
    law = Law(workload())
    engine = Engine(running=90.0)
    for _ in range(16):
        engine.emit(12.0, ttft_s=9.0)
        decision = law.see(engine)
    assert (decision.state, decision.estimate.capacity.derate_ratio) == (Pressure.GREEN, 0.95)


def test_an_idle_replica_with_slow_answers_derates_nothing():
    law = Law(workload())
    engine = Engine(running=50.0)
    for _ in range(100):
        engine.emit(12.0, ttft_s=9.0, tpot_s=9.0)
        decision = law.see(engine)
    assert decision.estimate.capacity.derate_ratio == 1.0


def test_nothing_is_contradicted_while_a_silent_replica_hides_how_full_it_is():
    law = Law(workload(classes=(RequestClass("chat", 60.0, tpot_s=0.05),)))
    full, silent = Engine(running=170.0), Engine("b")
    law.steady(4.0, full, silent)
    silent.silent = True
    for _ in range(100):
        full.emit(12.0, tpot_s=0.2)
        decision = law.see(full, silent)
    assert (decision.estimate.missing, decision.estimate.capacity.derate_ratio) == (1, 1.0)


# --- What was asked for and has not come ---------------------------------------------------------------------------


def test_the_time_to_ready_counts_from_when_the_number_was_raised():
    law = Law(workload(Profile(100.0, 1.0), latency=ReadyLatency(100.0, 0.25)))
    engine = Engine(running=50.0, waiting=15.0)
    law.steady(30.0, engine, rate_per_s=1.0)
    raised = next(d for d in law.decisions if d.desired > 1)
    latest = law.decisions[-1]
    assert latest.estimate.eta_s == near(law.spec.latency.remaining(0.9, latest.decided_at - raised.decided_at))


def test_a_raise_that_the_platform_has_followed_does_not_age_the_next_one():
    spec = workload(latency=ReadyLatency(100.0, 0.25))
    law = Law(spec)
    ready = Engine("a", running=90.0, waiting=0.0)
    law.see(ready)
    for minute in range(1, 8):  # every minute more is asked for, and the platform follows half a minute late
        ready.waiting = 2000.0 * minute
        law.steady(30.0, ready, current=law.decisions[-1].desired)
        law.steady(30.0, ready, current=law.decisions[-1].desired - 1)
    last = law.decisions[-1]
    assert last.estimate.eta_s > 50.0


def test_only_stuck_starts_and_no_room_for_more_mean_that_none_will_come():
    spec = workload(scaling=ScalingSpec(max_replicas=2))
    decision = Law(spec).see(
        Engine(running=90.0, waiting=500.0), starting=(Starting("b", 0.0, stuck="ImagePullBackOff"),)
    )
    assert (
        decision.estimate.eta_s,
        decision.estimate.stuck,
        decision.recommendation.terms.backlog_at_ready_requests,
    ) == (
        math.inf,
        1,
        500.0,
    )


def test_no_more_replicas_are_asked_for_than_the_platform_and_the_spec_both_allow():
    spec = workload(scaling=ScalingSpec(max_replicas=3))
    decisions = [Law(spec).see(Engine(running=2000.0), max_replicas=bound).desired for bound in (None, 9, 2)]
    assert decisions == [3, 3, 2]


# --- Edits, crashes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"headroom_ratio": 0.0}, id="less-headroom"),
        pytest.param({"profile": Profile(400.0, 32.0)}, id="a-larger-profile"),
        pytest.param({"scaling": ScalingSpec(min_replicas=1, warm_replicas=0)}, id="no-warm-replicas"),
        pytest.param({"stabilize": StabilizeSpec(downscale_delay_s=60.0)}, id="a-shorter-window"),
    ],
)
def test_an_edit_at_peak_keeps_the_number_for_one_whole_window(edit):
    law = Law(workload(scaling=ScalingSpec(min_replicas=2, warm_replicas=2)))
    fleet = engines(6, running=80.0)
    before = law.steady(120.0, *fleet, rate_per_s=6.4)
    law.edit(**edit)
    law.steady(50.0, *fleet, rate_per_s=6.4)
    assert {d.desired for d in law.decisions[-25:]} == {before.desired}


@pytest.mark.fault("bug in a tick")
def test_after_a_crash_the_published_number_stands_for_one_whole_window():
    spec = workload()
    law = Law(spec, resume(7, 0.0), now=2.0)
    law.steady(356.0, Engine(), current=7)
    held = law.decisions[-1].desired
    law.steady(10.0, Engine(), current=7)
    assert (held, law.decisions[-1].desired) == (7, 1)


def test_after_a_crash_the_upscale_delay_still_holds():
    spec = workload(stabilize=StabilizeSpec(upscale_delay_s=60.0), scaling=ScalingSpec(warm_replicas=3))
    law = Law(spec, resume(2, 0.0), now=2.0)
    assert law.see(Engine(), Engine("b")).desired == 2


# --- Kinds of workloads --------------------------------------------------------------------------------------------

BATCH = RequestClass("batch", objective=Objective.COMPLETION, deadline_s=100.0)


def test_a_workload_that_promises_completion_gets_as_many_replicas_as_clear_the_queue_in_time():
    law = Law(workload(classes=(BATCH, replace(BATCH, name="nightly", deadline_s=900.0))))
    engine = Engine(running=60.0)
    law.steady(30.0, engine, rate_per_s=5.0)
    engine.waiting = 4000.0
    decision = law.steady(30.0, engine, rate_per_s=8.0)
    assert (decision.desired, decision.state, decision.reason) == (5, Pressure.GREEN, Reason.COMPLETION)


def test_a_workload_that_promises_completion_goes_down_to_its_minimum_when_it_is_empty():
    law = Law(workload(classes=(BATCH,)))
    law.steady(30.0, *engines(5, running=100.0, waiting=800.0), rate_per_s=8.0)
    assert law.steady(400.0, *engines(5)).desired == 1


def test_a_latency_class_beside_a_batch_class_scales_by_its_load_and_the_batch_class_takes_no_colour():
    law = Law(workload(Profile(100.0, 1.0), (CHAT, BATCH)))
    decision = law.steady(40.0, Engine(running=50.0, waiting=40.0), rate_per_s=1.0)
    assert [(verdict.name, verdict.state) for verdict in decision.classes] == [
        ("chat", Pressure.RED),
        ("batch", Pressure.GREEN),
    ]


def test_the_strictest_budget_makes_the_state_and_every_class_has_its_own():
    patient = RequestClass("agent", ttft_s=60.0, order=1)
    law = Law(workload(Profile(100.0, 2.0), (CHAT, patient)))
    decision = law.steady(40.0, Engine(running=50.0, waiting=15.0), rate_per_s=2.0)
    assert (decision.state, [verdict.state for verdict in decision.classes]) == (
        Pressure.RED,
        [Pressure.RED, Pressure.GREEN],
    )


def test_the_defaults_of_a_workload():
    spec = WorkloadSpec(KEY, Profile(100.0), (CHAT,))
    assert (spec.headroom_ratio, spec.slo_quantile, spec.tick_s, spec.stale_s, spec.reaction_s, spec.budget_s) == (
        0.1,
        0.95,
        2.0,
        10.0,
        4.0,
        5.0,
    )
    assert (replace(spec, tick_s=15.0).stale_s, replace(spec, classes=(BATCH,)).budget_s) == (45.0, None)


def test_a_workload_is_called_by_its_namespace_and_name():
    assert str(KEY) == "prod/llama"


def test_the_surge_that_is_absorbed_follows_from_budget_and_reaction_time():
    decision = tick(workload(), State(), observe(0.0, [Engine()]))[1]
    assert decision.surge_ratio == near(1 + 0.6 * 5.0 / 4.0)
