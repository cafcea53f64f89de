"""From history to belief: drain, queue, waits, growth, what is learnt."""

import math
from dataclasses import replace
from typing import Any

import pytest

from scaler.core.capacity import Learned, Profile
from scaler.core.coming import Coming
from scaler.core.decision import QueueWait
from scaler.core.estimate import Ask, Belief, EstimateSpec, estimate, window_s
from scaler.core.history import History
from scaler.core.model import Absent, ReplicaSet, RequestClass, Starting
from scaler.core.ready_latency import ReadyLatency
from tests.support.law import Engine, Law, histogram, near, observe, tick, workload

SPEC = EstimateSpec(Profile(100.0, 8.0), 0.1, 5.0, 0.95, Coming(ReadyLatency()), 4.0, 2.0)


@pytest.mark.parametrize(
    "history", [History(), History(replicas=ReplicaSet((), (), 0, 0.0))], ids=["no-replica-set", "no-tick"]
)
def test_there_is_no_estimate_before_an_observation(history):
    with pytest.raises(ValueError, match="needs an observation"):
        estimate(SPEC, history, Belief(), Learned(), Ask(None, None, 1))


@pytest.mark.parametrize(
    ("residence_s", "window"),
    [(None, 30.0), (2.0, 15.0), (10.0, 20.0), (12.5, 25.0), (60.0, 30.0)],
)
def test_the_window_of_all_rates_is_twice_the_residence_time_within_bounds(residence_s, window):
    assert window_s(residence_s) == window


def believed(for_s: float, rate_per_s: float, spec=None, **engine):
    """What is believed of one replica after so many seconds in one state, which came after a minute of quiet."""
    law, replica = Law(spec or workload()), Engine(running=50.0)
    law.steady(60.0, replica, rate_per_s=4.0)
    for name, value in engine.items():
        setattr(replica, name, value)
    return law.steady(for_s, replica, rate_per_s=rate_per_s).estimate


@pytest.mark.parametrize(
    ("for_s", "rate_per_s", "engine", "drain"),
    [
        pytest.param(60.0, 0.0, {"running": 0.0}, 8.0, id="idle-it-is-what-could-be-started"),
        pytest.param(60.0, 12.0, {}, 12.0, id="faster-than-the-load-test"),
        pytest.param(8.0, 2.0, {"waiting": 60.0}, 8.0, id="saturated-for-less-than-ten-seconds"),
        pytest.param(60.0, 2.0, {"waiting": 60.0}, 2.0, id="saturated-it-is-what-is-measured"),
        pytest.param(60.0, 12.0, {"waiting": 60.0}, 12.0, id="saturated-and-fast"),
        pytest.param(60.0, 12.0, {"running": 160.0}, 8.0, id="not-more-than-the-safe-rate-above-the-safe-concurrency"),
        pytest.param(60.0, 0.0, {"waiting": 60.0}, 0.8, id="never-below-a-tenth-of-the-safe-rate"),
    ],
)
def test_the_drain_is_capacity_until_saturation_lasts(for_s, rate_per_s, engine, drain):
    assert believed(for_s, rate_per_s, **engine).drain_per_s == near(drain)


def test_without_a_safe_rate_the_drain_is_the_throughput():
    assert believed(40.0, 3.0, workload(Profile(1000.0))).drain_per_s == near(3.0)


def test_without_a_budget_nothing_is_ever_saturated():
    assert believed(60.0, 2.0, workload(classes=(RequestClass("plain"),)), waiting=60.0).drain_per_s == 8.0


@pytest.mark.parametrize(
    ("engine", "queue"),
    [
        pytest.param({"running": 100.0, "waiting": 7.0}, 7.0, id="what-waits"),
        pytest.param({"running": 140.0, "waiting": 7.0}, 47.0, id="and-what-runs-above-the-safe-concurrency"),
        pytest.param({"running": 20.0, "waiting": 0.0}, 0.0, id="never-less-than-nothing"),
    ],
)
def test_the_queue_is_what_waits_and_what_runs_above_the_safe_concurrency(engine, queue):
    assert believed(10.0, 8.0, **engine).queue == queue


def test_what_runs_above_the_safe_concurrency_is_averaged_over_the_reaction_time():
    law, engine = Law(workload()), Engine(running=100.0)
    law.steady(20.0, engine)
    engine.running = 130.0
    queues = [law.see(engine).estimate.queue for _ in range(3)]
    assert queues == [near(10.0), near(20.0), near(30.0)]


def test_a_queue_counts_by_its_smallest_drain_time_of_the_last_five_seconds():
    law, engine = Law(workload()), Engine(running=50.0)
    law.steady(60.0, engine, rate_per_s=8.0)
    engine.waiting = 16.0
    waits = []
    for _ in range(4):
        engine.emit(16.0)
        waits.append(law.see(engine).estimate.queue_wait.by_drain_s)
    assert waits == [0.0, 0.0, near(2.0), near(2.0)]


@pytest.mark.parametrize(
    ("waiting", "by_ttft"),
    [
        pytest.param(1.0, None, id="no-queue-to-speak-of"),
        pytest.param(4.0, near(3.0, abs=1.0), id="more-than-a-quarter-second-of-drain"),
    ],
)
def test_measured_first_tokens_count_only_while_there_is_a_queue(waiting, by_ttft):
    law = Law(workload(Profile(100.0, 8.0, unloaded_ttft_s=1.0)))
    engine = Engine(running=50.0, waiting=waiting)
    for _ in range(10):
        engine.emit(16.0, ttft_s=4.0)
        decision = law.see(engine)
    assert decision.estimate.queue_wait.by_ttft_s == by_ttft


def test_first_tokens_that_are_not_measured_say_nothing():
    seen = observe(0.0, [Engine(running=50.0, waiting=10.0)])
    law = Law(workload())
    for at in (0.0, 2.0):
        readings = tuple(replace(r, observed_at=at, ttft=None) for r in seen.readings)
        law.state, decision = tick(law.spec, law.state, replace(seen, at=at, readings=readings))
    assert (decision.estimate.queue_wait.by_ttft_s, decision.estimate.ttft_s) == (None, Absent.UNKNOWN)


def test_a_stall_lasts_since_the_later_of_the_last_first_token_and_the_first_sight_of_a_waiter():
    law, engine = Law(workload()), Engine(running=50.0)
    law.steady(60.0, engine)
    engine.waiting = 1.0
    stalls = [law.see(engine).estimate.queue_wait.by_stall_s for _ in range(3)]
    engine.emit(1.0)
    stalls += [law.see(engine).estimate.queue_wait.by_stall_s for _ in range(2)]
    assert stalls == [0.0, 2.0, 4.0, 0.0, 2.0]


@pytest.mark.parametrize(
    ("waiting", "wait"),
    [
        pytest.param(3.0, QueueWait(180.0), id="until-one-is-ready"),
        pytest.param(0.0, QueueWait(0.0), id="nobody-waits"),
    ],
)
def test_without_a_ready_replica_the_wait_is_the_time_until_there_is_one(waiting, wait):
    decision = Law(workload()).see(Engine(awake=False, waiting=waiting))
    assert (decision.estimate.ready, decision.estimate.queue_wait) == (0, QueueWait(near(wait.s)))


# --- Growth --------------------------------------------------------------------------------------------------------


def growth(*rates: float, ready_s: float = 180.0, scale: float = 1.0) -> float:
    """The growth after minutes of these rates."""
    law, engine = Law(workload(latency=ReadyLatency(ready_s))), Engine(running=50.0)
    for rate in rates:
        decision = law.steady(60.0, engine, rate_per_s=rate * scale)
    law.see(engine)
    return decision.estimate.growth_ratio


@pytest.mark.parametrize(
    ("rates", "ratio"),
    [
        pytest.param((4.0, 6.0), 1.0, id="not-before-two-minutes-were-seen"),
        pytest.param((4.0, 4.0, 4.0), 1.0, id="steady"),
        pytest.param((8.0, 8.0, 6.0), 1.0, id="falling"),
        pytest.param((40.0, 40.0, 49.0), 1.0, id="less-than-a-quarter"),
        pytest.param((1.0, 1.0, 1.5), 1.0, id="within-three-sigma"),
        pytest.param(
            (40.0, 40.0, 52.0), 1 + 0.5 * (12.0 / 60.0) * 120.0 / 52.0, id="half-of-what-two-more-minutes-would-add"
        ),
        pytest.param((1.0, 1.0, 30.0), 1.25, id="at-most-a-quarter-more"),
    ],
)
def test_growth_needs_a_rise_that_is_no_noise(rates, ratio):
    assert growth(*rates) == near(ratio, rel=0.03)


def test_growth_looks_no_further_ahead_than_a_replica_needs():
    assert growth(40.0, 40.0, 60.0, ready_s=30.0) == near(1 + 0.5 * (20.0 / 60.0) * 30.0 / 60.0, rel=0.03)


def test_growth_of_nothing_is_none():
    assert growth(0.0, 0.0, 0.0) == 1.0


# --- Learning and drift --------------------------------------------------------------------------------------------


def learnt(running: float, rate_per_s: float, waiting: float = 0.0, for_s: float = 200.0):
    law = Law(workload(Profile(100.0)))
    return law.steady(for_s, Engine(running=running, waiting=waiting), rate_per_s=rate_per_s).estimate.capacity


def test_with_the_safe_concurrency_alone_the_residence_is_learnt_from_three_steady_windows():
    before, after = learnt(50.0, 5.0, for_s=80.0), learnt(50.0, 5.0)
    assert (before.residence_s, after.residence_s, after.safe_rate_per_s, after.origin) == (
        None,
        near(10.0),
        near(10.0),
        "learned",
    )


@pytest.mark.parametrize(
    ("running", "rate_per_s", "waiting"),
    [
        pytest.param(150.0, 5.0, 0.0, id="above-the-safe-concurrency"),
        pytest.param(50.0, 5.0, 3.0, id="while-something-waits"),
        pytest.param(50.0, 0.0, 0.0, id="while-nothing-starts"),
        pytest.param(0.0, 0.0, 0.0, id="idle"),
    ],
)
def test_nothing_is_learnt(running, rate_per_s, waiting):
    assert learnt(running, rate_per_s, waiting).residence_s is None


@pytest.mark.parametrize("signal", ["prompt_tokens", "output_tokens"])
def test_longer_prompts_or_answers_than_in_the_load_test_make_the_residence_longer(signal):
    law = Law(workload(Profile(100.0, 8.0, input_p50=700.0, output_p50=700.0)))
    edges = (500.0, 1000.0, 2000.0, 5000.0)
    for beat in range(20):
        seen = observe(law.now, [Engine(running=50.0)])
        lengths: dict[str, Any] = {signal: histogram((1500.0, 20.0 * beat), edges=edges)}
        seen = replace(seen, readings=tuple(replace(reading, **lengths) for reading in seen.readings))
        law.state, decision = tick(law.spec, law.state, seen)
        law.now += 2.0
    assert decision.estimate.capacity.residence_s == near(12.5 * (1 + 0.6 * (1500.0 / 700.0 - 1)))


# --- What else is in it --------------------------------------------------------------------------------------------


def test_the_cache_is_that_of_the_fullest_replica():
    decision = Law(workload()).see(Engine("a", kv=0.2), Engine("b", kv=0.7))
    assert decision.estimate.kv_usage_ratio == 0.7


@pytest.mark.parametrize(
    ("usages", "expected"),
    [
        pytest.param((Absent.IDLE, Absent.UNKNOWN), Absent.IDLE, id="idle"),
        pytest.param((Absent.UNKNOWN, Absent.UNKNOWN), Absent.UNKNOWN, id="unknown"),
        pytest.param((Absent.UNKNOWN, 0.3), 0.3, id="one-known"),
    ],
)
def test_a_cache_that_is_idle_or_unknown_is_not_empty(usages, expected):
    law = Law(workload())
    seen = observe(0.0, [Engine("a"), Engine("b")])
    readings = tuple(replace(r, kv_usage_ratio=usage) for r, usage in zip(seen.readings, usages, strict=True))
    assert tick(law.spec, law.state, replace(seen, readings=readings))[1].estimate.kv_usage_ratio is expected


def test_preemptions_count_for_half_a_minute():
    law, engine = Law(workload()), Engine(running=50.0)
    law.steady(20.0, engine)
    engine.preemptions = 3.0
    during, after = law.steady(20.0, engine).estimate, law.steady(40.0, engine).estimate
    assert (during.preempting, after.preempting) == (True, False)


def test_stuck_starts_are_counted_apart_and_the_others_say_when_the_next_is_ready():
    starting = (Starting("b", -100.0), Starting("c", -9000.0), Starting("d", 0.0, stuck="Unschedulable"))
    decision = Law(workload()).see(Engine("a"), starting=starting)
    believed = decision.estimate
    assert (believed.starting, believed.stuck, believed.eta_s) == (3, 2, believed.latency.remaining(0.9, 100.0))


def test_with_nothing_to_come_the_wait_is_infinite_and_nothing_is_not_a_number():
    law = Law(workload())
    decision = law.see(Engine("a", running=90.0), max_replicas=1)
    assert (decision.estimate.eta_s, math.isnan(decision.recommendation.terms.load)) == (math.inf, False)


@pytest.mark.parametrize("tick_s", [2.0, 15.0, 30.0, 60.0])
def test_a_growing_queue_is_seen_to_grow_at_any_beat(tick_s):
    law, engine = Law(workload(tick_s=tick_s)), Engine(running=50.0)
    for beat in range(12):
        engine.waiting = 5.0 * beat
        engine.emit(1.0)
        decision = law.see(engine)
    assert decision.estimate.queue_grows is True
