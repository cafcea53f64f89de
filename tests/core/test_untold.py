"""What the law does when engines do not tell, tell wrongly, come and go, or are not looked at: an unknown is never a zero."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.capacity import Profile
from scaler.core.model import Absent, Objective, Pressure, RequestClass
from scaler.core.stabilize import StabilizeSpec
from scaler.core.target import ScalingSpec
from tests.support.law import Engine, Law, near, workload

FEW = settings(max_examples=settings().max_examples // 20)
STRICT = RequestClass("chat", ttft_s=2.0)
SHORT = StabilizeSpec(downscale_delay_s=60.0)


def engines(count: int, **state) -> list[Engine]:
    return [Engine(f"r{n}", **state) for n in range(count)]


def codes(decision) -> list[str]:
    return [finding.code for finding in decision.findings]


def texts(decision, code: str) -> list[str]:
    return [finding.text for finding in decision.findings if finding.code == code]


def red(law: Law) -> bool:
    return any(decision.state is Pressure.RED for decision in law.decisions)


# --- First tokens that are not told --------------------------------------------------------------------------------


def lose(fleet: list[Engine], beat: int) -> None:
    for engine in fleet:
        engine.lacks = True


def flap(fleet: list[Engine], beat: int) -> None:
    for engine in fleet:
        engine.lacks = beat % 3 > 0


def alternate(fleet: list[Engine], beat: int) -> None:
    for engine in fleet:
        engine.off = 1e7 * (beat % 2)


def rename(fleet: list[Engine], beat: int) -> None:
    for number, engine in enumerate(fleet):
        engine.name = f"r{number}-{beat}"


WAYS = pytest.mark.parametrize("way", [lose, flap, alternate, rename])


def untold(law: Law, fleet: list[Engine], way, beats: int, rate_per_s: float):
    decision = None
    for beat in range(beats):
        way(fleet, beat)
        for engine in fleet:
            engine.emit(rate_per_s * law.spec.tick_s)
        decision = law.see(*fleet)
    return decision


@WAYS
@pytest.mark.parametrize(("count", "running", "rate"), [(8, 64.0, 7.0), (1, 20.0, 4.0), (3, 95.0, 7.6)])
@pytest.mark.parametrize("profile", [Profile(100.0, 8.0), Profile(100.0)], ids=["load-tested", "concurrency-only"])
def test_the_number_does_not_fall_and_nothing_is_red_when_nobody_tells_first_tokens(profile, count, running, rate, way):
    law, fleet = Law(workload(profile, stabilize=SHORT)), engines(count, running=running, waiting=1.0)
    before = law.steady(240.0, *fleet, rate_per_s=rate)
    after = untold(law, fleet, way, 200, rate)
    assert (after.desired >= before.desired, red(law), after.classes[0].admit_ratio) == (True, False, 1.0)
    assert after.estimate.queue_wait.by_stall_s is None or way is flap
    assert "signal_absent" in codes(after) or way is flap


@WAYS
def test_a_number_that_never_knew_a_rate_follows_what_is_ongoing(way):
    law, fleet = Law(workload()), engines(2, running=100.0, waiting=3.0)
    decision = untold(law, fleet, way, 60, 8.0) if way is not flap else untold(law, fleet, lose, 60, 8.0)
    assert (decision.desired, decision.state, decision.estimate.throughput_per_s) == (3, Pressure.GREEN, None)


def test_while_no_rate_is_known_the_number_rises_with_what_is_ongoing():
    law, fleet = Law(workload()), engines(2, running=80.0)
    law.steady(60.0, *fleet, rate_per_s=6.0)
    untold(law, fleet, lose, 10, 6.0)
    for engine in fleet:
        engine.running, engine.waiting = 100.0, 120.0
    assert untold(law, fleet, lose, 5, 6.0).desired == 5


def test_once_first_tokens_are_told_again_the_rates_are_those_of_now():
    law, fleet = Law(workload()), engines(4, running=60.0)
    law.steady(60.0, *fleet, rate_per_s=5.0)
    untold(law, fleet, lose, 60, 5.0)
    for engine in fleet:
        engine.lacks = False
    after = law.steady(30.0, *fleet, rate_per_s=5.0)
    assert (after.estimate.throughput_per_s, codes(after), after.estimate.growth_ratio) == (near(20.0), [], 1.0)


@pytest.mark.parametrize("lacking", [1, 2, 3])
def test_replicas_that_do_not_tell_count_like_those_that_do(lacking):
    law, fleet = Law(workload(stabilize=SHORT)), engines(4, running=85.0)
    before = law.steady(120.0, *fleet, rate_per_s=6.8)
    for engine in fleet[:lacking]:
        engine.lacks = True
    after = law.steady(240.0, *fleet, rate_per_s=6.8)
    assert (after.estimate.offered_per_s, after.desired) == (near(27.2, rel=1e-6), before.desired)
    assert texts(after, "signal_absent")[0].startswith("ttft absent or not to be compared on r0")


def test_other_edges_at_each_scrape_hide_the_latency_but_not_how_many_there_were():
    law, fleet = Law(workload()), engines(4, running=80.0)
    for beat in range(100):
        for engine in fleet:
            engine.edges = (0.1, 1.0 + beat)
            engine.emit(14.0)
        decision = law.see(*fleet)
    assert (decision.estimate.throughput_per_s, decision.estimate.ttft_s) == (near(28.0), Absent.UNKNOWN)


@pytest.mark.fault("engine stands still")
def test_a_frozen_replica_is_red_though_another_does_not_tell():
    law, fleet = Law(workload()), engines(2, running=50.0)
    law.steady(60.0, *fleet, rate_per_s=4.0)
    fleet[1].lacks, fleet[0].waiting = True, 5.0
    assert law.steady(30.0, *fleet).state is Pressure.RED


def test_a_workload_that_promises_completion_needs_no_rate():
    batch = RequestClass("batch", objective=Objective.COMPLETION, deadline_s=100.0)
    law, fleet = Law(workload(classes=(batch,), stabilize=SHORT)), engines(1, running=60.0)
    untold(law, fleet, lose, 2, 8.0)
    desired = []
    for waiting in (4000.0, 2000.0):
        fleet[0].waiting = waiting
        desired.append(untold(law, fleet, lose, 60, 8.0).desired)
    assert desired == [5, 3]


def test_with_the_concurrency_alone_the_gate_goes_on_with_the_last_rate_it_knew():
    law, fleet = Law(workload(Profile(1000.0))), engines(2, running=80.0)
    law.steady(60.0, *fleet, rate_per_s=5.0)
    assert untold(law, fleet, lose, 30, 5.0).estimate.drain_per_s == near(10.0)


def test_an_idle_fleet_that_shows_no_histogram_yet_goes_down_to_its_minimum():
    law, fleet = Law(workload(stabilize=SHORT)), engines(3, lacks=True)
    assert law.steady(120.0, *fleet).desired == 1


# --- Counters that cannot be -----------------------------------------------------------------------------------------


@pytest.mark.fault("counters go backwards or jump")
@pytest.mark.parametrize("off", [-2.0, -5000.0, 1e5, 1e15])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_counter_that_jumps_moves_neither_the_rate_nor_the_number(count, off):
    law, fleet = Law(workload()), engines(count, running=5.0)
    for engine in fleet:
        engine.emit(1e6)
    before = law.steady(200.0, *fleet, rate_per_s=0.5)
    fleet[0].off = off
    jumped = law.steady(2.0, *fleet, rate_per_s=0.5)
    law.steady(120.0, *fleet, rate_per_s=0.5)
    offered = {round(decision.estimate.offered_per_s, 6) for decision in law.decisions[-61:]}
    assert (offered, law.decisions[-1].desired) == ({round(before.estimate.offered_per_s, 6)}, before.desired)
    assert texts(jumped, "counter_doubted")[0].startswith("r0: ")
    assert "counter_doubted" not in codes(law.decisions[-1])


@pytest.mark.fault("counters go backwards or jump")
def test_two_processes_behind_one_address_are_no_load():
    law, young, old = Law(workload()), Engine("vip", running=5.0), Engine("vip", running=5.0)
    old.emit(50_000.0)
    young.emit(500.0)
    for beat in range(200):
        young.emit(1.0)
        old.emit(1.0)
        law.see(old if beat % 2 else young)
    assert {decision.desired for decision in law.decisions} == {1}


@pytest.mark.fault("engine restarts")
def test_a_restart_counts_at_once():
    law, fleet = Law(workload()), engines(2, running=60.0)
    law.steady(60.0, *fleet, rate_per_s=5.0)
    fleet[0].restart()
    fleet[0].running = 60.0
    after = law.steady(4.0, *fleet, rate_per_s=5.0)
    assert (after.estimate.throughput_per_s, codes(after)) == (near(10.0), [])


# --- Replicas that come and go -----------------------------------------------------------------------------------------


@FEW
@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(0, 99), st.booleans())
def test_replicas_that_come_and_go_are_no_burst_while_each_of_them_has_room(sizes, running, other):
    law = Law(workload(classes=(STRICT,)))
    for number, (size, beats) in enumerate(itertools.product(sizes, (1, 3))):
        fleet = [Engine(f"r{n}-{number if other else 0}", running=float(running)) for n in range(size)]
        decision = law.steady(beats * 2.0, *fleet)
        assert (decision.estimate.queue, decision.state) == (0.0, Pressure.GREEN)
        assert decision.estimate.running_smoothed == near(float(size * running))


@pytest.mark.parametrize(("before", "after"), [(2, 1), (4, 2), (10, 6), (10, 5), (5, 10)])
def test_a_burst_that_comes_with_other_replicas_is_still_seen(before, after):
    law = Law(workload(classes=(STRICT,)))
    law.steady(60.0, *engines(before, running=80.0), rate_per_s=6.0)
    decision = law.steady(8.0, *engines(after, running=130.0), rate_per_s=6.0)
    assert decision.estimate.queue == near(30.0 * after)


def test_nothing_is_learnt_of_a_fleet_that_changes():
    law = Law(workload(Profile(100.0)))
    for beat in range(20):
        law.steady(20.0, *engines(3 + beat % 2, running=50.0), rate_per_s=5.0)
    assert law.decisions[-1].estimate.capacity.residence_s is None


@pytest.mark.parametrize("held", [1, 2, 3, 5])
@pytest.mark.parametrize("parts", [2, 3])
def test_a_list_that_alternates_hides_no_load(parts, held):
    """Each answer names one of so many parts of twelve replicas, and stands for so many ticks."""
    law, fleet, rates = Law(workload()), engines(12, running=60.0), []
    law.steady(200.0, *fleet, rate_per_s=56.0 / 12)
    for beat in range(300):
        for engine in fleet:
            engine.emit(2 * 56.0 / 12)
        rates.append(law.see(*fleet[beat // held % parts :: parts]).estimate.offered_per_s)
    settled = rates[30:]
    assert sum(settled) / len(settled) == near(56.0, rel=0.06)
    assert min(decision.desired for decision in law.decisions) >= 8


def test_the_gauges_of_a_replica_that_is_no_longer_listed_are_gone_at_once():
    law, fleet = Law(workload()), engines(4, running=60.0, waiting=2.0)
    law.steady(20.0, *fleet, rate_per_s=5.0)
    estimate = law.see(fleet[0]).estimate
    assert (estimate.running, estimate.waiting, estimate.ready) == (60.0, 2.0, 1)


# --- Slow beats, and times in which nobody looked ---------------------------------------------------------------------


@pytest.mark.parametrize("tick_s", [1.0, 2.0, 7.0, 20.0, 30.0, 31.0, 45.0, 59.0, 60.0, 90.0, 120.0, 300.0])
def test_rates_are_right_at_any_beat(tick_s):
    law, fleet = Law(workload(tick_s=tick_s)), engines(8, running=64.0)
    law.steady(max(300.0, 8 * tick_s), *fleet, rate_per_s=7.0)
    settled = law.decisions[-1].estimate
    assert (settled.throughput_per_s, settled.growth_ratio) == (near(56.0, rel=1e-6), 1.0)
    assert {decision.desired for decision in law.decisions} == {8}


@pytest.mark.parametrize("tick_s", [2.0, 20.0, 60.0, 300.0])
def test_slow_tokens_are_seen_at_any_beat(tick_s):
    law = Law(workload(classes=(RequestClass("chat", 5.0, tpot_s=0.1),), tick_s=tick_s))
    engine = Engine(running=90.0)
    for _ in range(40):
        engine.emit(8.0 * tick_s, tpot_s=0.3)
        decision = law.see(engine)
    assert (decision.estimate.tpot_before_s, decision.state) == (near(0.3, abs=0.2), Pressure.YELLOW)


@pytest.mark.fault("event loop stalls")
@pytest.mark.parametrize("gap_s", [11.0, 30.0, 120.0, 310.0, 600.0, 3600.0, 86400.0])
@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("profile", [Profile(100.0, 8.0), Profile(100.0)], ids=["load-tested", "concurrency-only"])
def test_nothing_falls_when_the_process_stood_still(profile, quiet, gap_s):
    law, fleet = Law(workload(profile)), engines(8, running=64.0)
    before = law.steady(400.0, *fleet, rate_per_s=7.0)
    law.now += gap_s
    for engine in fleet:
        engine.emit(7.0 * gap_s)
        engine.running = 0.0 if quiet else 64.0
    law.steady(200.0, *fleet, rate_per_s=0.0 if quiet else 7.0)
    after = law.decisions[-100:]
    assert {decision.desired for decision in after} == {before.desired}
    assert max(decision.estimate.offered_per_s for decision in after) <= 56.0 + 1e-6


@pytest.mark.fault("event loop stalls")
def test_a_standstill_is_no_idle_time():
    law = Law(workload(scaling=ScalingSpec(min_replicas=0), stabilize=StabilizeSpec(10.0, 10.0, idle_s=100.0)))
    law.steady(50.0, Engine())
    law.now += 500.0
    assert law.steady(60.0, Engine()).desired == 1


# --- One that stands still ----------------------------------------------------------------------------------------------


@pytest.mark.fault("engine stands still")
@pytest.mark.parametrize("stuck", [1, 5])
def test_replicas_that_stand_still_while_others_flow_are_named(stuck):
    law, fleet = Law(workload(classes=(STRICT,))), engines(8, running=50.0, generation=0.0)
    for beat in range(20):
        for engine in fleet[stuck:]:
            engine.emit(8.0)
            engine.generation = 500.0 * beat
        decision = law.see(*fleet)
        assert ("stalled_replica" in codes(decision)) is (beat >= 5)
    names = ", ".join(f"r{n}" for n in range(min(stuck, 3))) + (" and 2 more" if stuck == 5 else "")
    assert texts(decision, "stalled_replica")[0].startswith(f"{names}: ")
    fleet[0].running = 0.0
    assert ("stalled_replica" in codes(law.see(*fleet))) is (stuck > 1)


def test_one_look_is_not_enough_to_call_a_replica_stuck():
    law, engine = Law(workload(tick_s=30.0)), Engine(running=50.0, generation=5.0)
    said = ["stalled_replica" in codes(law.see(engine)) for _ in range(4)]
    assert said == [False, False, True, True]


def test_a_replica_that_stands_still_and_then_falls_silent_is_missing():
    law, fleet = Law(workload()), engines(2, running=50.0, generation=5.0)
    law.steady(30.0, *fleet)
    fleet[0].silent = True
    held = [codes(law.see(*fleet)) for _ in range(8)]
    assert ("stalled_replica" in held[0], held[-1].count("stalled_replica"), "missing" in held[-1]) == (True, 1, True)
