"""The colours: the whole table, what makes each condition true, hysteresis and dwell."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.decision import Capacity, Estimate, QueueWait
from scaler.core.model import Absent, Objective, Pressure, RequestClass
from scaler.core.pressure import (
    Colour,
    Condition,
    Door,
    PressureSpec,
    RedRule,
    judge,
    next_state,
    projected_rise_s,
    queue_limit,
    tpot_pressed,
)
from scaler.core.ready_latency import ReadyLatency

FEW = settings(max_examples=settings().max_examples // 4)
CHAT = RequestClass("chat", ttft_s=5.0, tpot_s=0.1)
CALM = Estimate(
    at=0.0,
    observed_at=0.0,
    ready=2,
    starting=0,
    stuck=0,
    missing=0,
    current=2,
    max_replicas=None,
    running=100.0,
    waiting=0.0,
    running_smoothed=100.0,
    queue=0.0,
    queue_grows=False,
    throughput_per_s=8.0,
    arrival_per_s=8.0,
    offered_per_s=8.0,
    refused_per_s=0.0,
    drain_per_s=16.0,
    growth_ratio=1.0,
    queue_wait=QueueWait(0.0),
    ttft_s=Absent.IDLE,
    ttft_p99_s=Absent.IDLE,
    tpot_s=0.05,
    tpot_before_s=0.05,
    ttft_samples=100.0,
    tpot_samples=100.0,
    queue_time_s=Absent.IDLE,
    kv_usage_ratio=0.5,
    preempting=False,
    eta_s=180.0,
    eta_median_s=130.0,
    replica_ready_s=180.0,
    latency=ReadyLatency(),
    start_phases=(),
    capacity=Capacity(100.0, 90.0, 8.0, 12.5),
)
GREEN, YELLOW, RED = Pressure.GREEN, Pressure.YELLOW, Pressure.RED

# --- The table -----------------------------------------------------------------------------------------------------

ORDER = (
    Condition.OVER_LIMIT,
    Condition.CALM,
    Condition.SETTLED,
    Condition.BREACHING,
    Condition.EASED,
    Condition.PRESSED,
)
# One column a condition, in the order above: 1 holds, 0 does not, . either.
CELLS = {
    GREEN: {"1.....": RED, "01....": GREEN, "00.1..": RED, "00.0.1": YELLOW, "00.0.0": GREEN},
    YELLOW: {"1.....": RED, "0.1...": GREEN, "0.01..": RED, "0.00..": YELLOW},
    RED: {"1.....": RED, "0.1...": GREEN, "0.01..": RED, "0.001.": YELLOW, "0.000.": RED},
}
EVERY = [(before, "".join(bits)) for before in CELLS for bits in itertools.product("01", repeat=len(ORDER))]


def fits(pattern: str, bits: str) -> bool:
    return all(wanted in (".", bit) for wanted, bit in zip(pattern, bits, strict=True))


@pytest.mark.parametrize(("before", "bits"), EVERY, ids=[f"{before}-{bits}" for before, bits in EVERY])
def test_the_table_in_full(before, bits):
    conditions = frozenset(condition for condition, bit in zip(ORDER, bits, strict=True) if bit == "1")
    (after,) = [after for pattern, after in CELLS[before].items() if fits(pattern, bits)]
    assert next_state(before, conditions)[0] is after


def test_the_table_knows_every_condition():
    assert set(ORDER) == set(Condition)


# --- What makes a condition true -----------------------------------------------------------------------------------


def waits(seconds: float, **rest) -> Estimate:
    return replace(CALM, queue_wait=QueueWait(seconds), **rest)


def coloured(*seen: Estimate, request_class=CHAT, spec=None, admits_all=True, before=None) -> list[Pressure]:
    """The states at 0, 2, 4 ... seconds."""
    colour, states = before or Colour(), []
    for tick, estimate in enumerate(seen):
        colour = judge(
            spec or PressureSpec(), request_class, colour, replace(estimate, at=tick * 2.0), Door(admits_all)
        )
        states.append(colour.state)
    return states


@pytest.mark.parametrize(
    ("estimate", "state"),
    [
        pytest.param(CALM, GREEN, id="calm"),
        pytest.param(waits(1.99, queue_grows=True), GREEN, id="below-the-edge"),
        pytest.param(waits(2.0), GREEN, id="at-the-edge-for-the-first-time"),
        pytest.param(waits(2.0, queue_grows=True), YELLOW, id="at-the-edge-and-growing"),
        pytest.param(
            waits(2.0, queue_grows=True, offered_per_s=17.0), RED, id="at-the-edge-and-more-offered-than-drains"
        ),
        pytest.param(waits(5.0, queue_grows=True), RED, id="the-budget-is-gone"),
        pytest.param(waits(0.0, offered_per_s=1000.0), GREEN, id="no-wait-however-much-is-offered"),
        pytest.param(waits(0.0, queue=80.1), RED, id="more-queued-than-starts-within-the-budget"),
        pytest.param(waits(0.0, queue=80.0), GREEN, id="just-as-many-queued"),
        pytest.param(waits(0.0, tpot_s=0.2), GREEN, id="slow-tokens-for-one-window"),
        pytest.param(waits(0.0, tpot_s=0.2, tpot_before_s=0.2), YELLOW, id="slow-tokens-for-two-windows"),
        pytest.param(waits(0.0, tpot_s=0.2, tpot_before_s=0.2, tpot_samples=19.0), GREEN, id="slow-tokens-but-too-few"),
        pytest.param(
            waits(0.0, tpot_s=0.2, tpot_before_s=0.2, running=201.0), RED, id="slow-tokens-above-the-safe-concurrency"
        ),
        pytest.param(waits(0.0, kv_usage_ratio=0.9, preempting=True), YELLOW, id="full-cache-and-preemptions"),
        pytest.param(waits(0.0, kv_usage_ratio=0.9), GREEN, id="full-cache-without-preemptions"),
        pytest.param(waits(0.0, kv_usage_ratio=Absent.UNKNOWN, preempting=True), GREEN, id="unknown-cache"),
        pytest.param(replace(CALM, queue_wait=QueueWait(5.0, by_stall_s=5.0)), RED, id="stalled-for-the-budget"),
        pytest.param(
            replace(CALM, queue_wait=QueueWait(4.9, by_stall_s=4.9)), GREEN, id="stalled-for-nearly-the-budget"
        ),
    ],
)
def test_what_one_look_says_from_green(estimate, state):
    assert coloured(estimate) == [state]


def test_a_wait_that_stays_high_for_ten_seconds_is_pressure():
    assert coloured(*[waits(2.0)] * 6) == [GREEN] * 5 + [YELLOW]


def test_back_to_green_only_after_ten_quiet_seconds():
    quiet = [waits(0.9)] * 6
    assert coloured(waits(2.0, queue_grows=True), *quiet) == [YELLOW] * 6 + [GREEN]


@pytest.mark.parametrize(
    ("estimate", "admits_all"),
    [
        pytest.param(waits(1.0), True, id="the-wait-is-not-below-half-the-edge"),
        pytest.param(waits(0.0), False, id="more-is-offered-than-may-enter"),
        pytest.param(waits(0.0, tpot_s=0.2), True, id="tokens-are-slow"),
        pytest.param(waits(0.0, kv_usage_ratio=0.95, preempting=True), True, id="the-cache-is-full"),
    ],
)
def test_it_stays_yellow_as_long_as(estimate, admits_all):
    assert set(coloured(*[estimate] * 20, admits_all=admits_all, before=Colour(YELLOW))) == {YELLOW}


SHEDS, ALL_IN = Door(admits_all=False, sheds=True), Door(admits_all=True)


def through(*doors: Door, estimate: Estimate = CALM) -> list[tuple[Pressure, bool]]:
    """States at 0, 2, 4 ... seconds and whether each is for a gate in the path alone, while no request has to wait."""
    colour, seen = Colour(), []
    for tick, door in enumerate(doors):
        colour = judge(PressureSpec(), CHAT, colour, replace(estimate, at=tick * 2.0), door)
        seen.append((colour.state, colour.shed_only))
    return seen


def test_what_a_gate_in_the_path_has_to_refuse_is_pressure_though_nothing_waits():
    assert through(ALL_IN, SHEDS) == [(GREEN, False), (YELLOW, True)]


def test_it_stays_yellow_while_more_is_offered_than_may_enter_and_for_ten_seconds():
    full = Door(admits_all=False)
    assert through(SHEDS, full, full, *[ALL_IN] * 6) == [(YELLOW, True)] * 8 + [(GREEN, False)]


def test_a_wait_that_is_pressure_by_itself_is_not_for_a_gate_alone():
    assert through(SHEDS, SHEDS, estimate=waits(2.0, queue_grows=True)) == [(YELLOW, False)] * 2


def test_between_the_edges_the_state_stays():
    assert set(coloured(*[waits(1.5)] * 20, before=Colour(RED))) == {RED}


def test_red_gives_way_to_yellow_only_after_ten_seconds_without_a_breach():
    breach, pressed = waits(5.0, queue_grows=True), waits(2.5, queue_grows=True)
    assert coloured(breach, *[pressed] * 6) == [RED] * 6 + [YELLOW]


def test_a_queue_above_its_limit_is_red_for_ten_seconds_at_least_even_if_it_drains_at_once():
    spec = PressureSpec(max_queued_requests=3.0)
    assert coloured(CALM, replace(CALM, queue=4.0), *[CALM] * 6, spec=spec) == [GREEN, *[RED] * 6, GREEN]


def test_the_textbook_rule_is_red_wherever_the_chosen_rule_would_be_yellow():
    spec = PressureSpec(red_rule=RedRule.BUDGET)
    assert coloured(CALM, waits(2.0, queue_grows=True), spec=spec) == [GREEN, RED]


def test_both_rules_are_always_published():
    colour = judge(PressureSpec(), CHAT, Colour(), CALM, Door(admits_all=True))
    assert (colour.red_projected, colour.red_budget) == (False, True)


@pytest.mark.parametrize(
    "request_class",
    [RequestClass("batch", objective=Objective.COMPLETION, deadline_s=60.0), RequestClass("plain")],
    ids=["completion", "without-a-budget"],
)
def test_a_class_without_a_budget_for_its_first_token_takes_no_colour(request_class):
    worst = waits(99.0, queue=1e6, queue_grows=True)
    assert judge(PressureSpec(), request_class, Colour(RED), worst, Door(admits_all=False)) == Colour()


def test_a_class_without_an_objective_for_tokens_is_not_pressed_by_them():
    assert tpot_pressed(RequestClass("chat", 5.0), replace(CALM, tpot_s=9.0, tpot_before_s=9.0)) is False


@pytest.mark.parametrize(
    ("changes", "rise"),
    [
        pytest.param({"offered_per_s": 24.0}, 90.0, id="half-as-much-again-as-drains"),
        pytest.param({"offered_per_s": 16.0, "eta_s": math.inf}, 0.0, id="nothing-times-infinity"),
        pytest.param({"offered_per_s": 16.1, "eta_s": math.inf}, math.inf, id="something-times-infinity"),
        pytest.param({"drain_per_s": 0.0}, math.inf, id="measured-and-nothing-drains"),
        pytest.param({"drain_per_s": 0.0, "throughput_per_s": None}, 0.0, id="not-measured-yet"),
    ],
)
def test_how_far_the_wait_will_have_risen_when_the_next_replica_is_ready(changes, rise):
    assert projected_rise_s(replace(CALM, **changes)) == rise


@pytest.mark.parametrize(
    ("spec", "changes", "limit"),
    [
        pytest.param(PressureSpec(), {}, 80.0, id="what-starts-within-the-budget"),
        pytest.param(PressureSpec(max_queued_requests=7.0), {}, 7.0, id="what-was-configured"),
        pytest.param(PressureSpec(), {"capacity": Capacity(100.0, 90.0, None, None)}, math.inf, id="unknown-rate"),
        pytest.param(PressureSpec(), {"ready": 0}, math.inf, id="no-replica"),
    ],
)
def test_the_queue_that_is_red_at_once(spec, changes, limit):
    assert queue_limit(spec, 5.0, replace(CALM, **changes)) == limit


def test_the_defaults_of_pressure():
    assert PressureSpec() == PressureSpec(red_rule=RedRule.PROJECTED, max_queued_requests=None)


LOOKS = st.builds(
    lambda wait, stall, rest: replace(CALM, queue_wait=QueueWait(max(wait, stall or 0.0), by_stall_s=stall), **rest),
    st.sampled_from([0.0, 0.9, 1.5, 2.5, 6.0]),
    st.none() | st.sampled_from([1.0, 5.0]),
    st.fixed_dictionaries(
        {
            "queue": st.sampled_from([0.0, 4.0, 100.0]),
            "queue_grows": st.booleans(),
            "offered_per_s": st.sampled_from([8.0, 17.0]),
            "tpot_s": st.sampled_from([0.05, 0.2]),
            "tpot_before_s": st.sampled_from([0.05, 0.2]),
            "running": st.sampled_from([100.0, 250.0]),
            "preempting": st.booleans(),
            "kv_usage_ratio": st.sampled_from([0.5, 0.95]),
        }
    ),
)
SPECS = st.builds(PressureSpec, st.sampled_from(RedRule), st.none() | st.just(3.0))
SEVERITY = (GREEN, YELLOW, RED)


@FEW
@given(SPECS, st.lists(st.tuples(LOOKS, st.booleans()), min_size=1, max_size=60))
def test_pressure_always_rises_at_once_and_never_falls_within_its_dwell(spec, looks):
    colour, worst_at = Colour(), dict.fromkeys(SEVERITY, -math.inf)
    for tick, (estimate, admits_all) in enumerate(looks):
        now, before = tick * 1.0, colour.state
        colour = judge(spec, CHAT, colour, replace(estimate, at=now), Door(admits_all))
        if SEVERITY.index(colour.state) < SEVERITY.index(before):
            assert now - worst_at[before] >= 10.0
        elif colour.state is not before:
            worst_at[colour.state] = now
