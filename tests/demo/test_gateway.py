"""The stand-in for a gateway: its dice, its counts, its routes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.model import WorkloadKey
from scaler.demo.cluster import Endpoint
from scaler.demo.gateway import VALID_S, Counts, Gateway, Told
from scaler.sim.clients import Refusal

KEY = WorkloadKey("demo", "llm")
A, B = Endpoint("a", "127.0.0.1:1"), Endpoint("b", "127.0.0.1:2")


def gateway(*, enforce: bool = True, endpoints: tuple[Endpoint, ...] = (A, B)) -> Gateway:
    return Gateway(KEY, lambda: endpoints, enforce=enforce, seed=1)


def test_everything_is_admitted_before_the_first_word() -> None:
    door = gateway()
    assert all(door.ask(0, float(now)) is None for now in range(100))
    assert door.counts == Counts(offered=100, admitted=100)


def test_the_dice_follow_the_fraction() -> None:
    door = gateway()
    door.hear(Told(0.25), 0.0)
    admitted = sum(door.ask(0, 1.0) is None for _ in range(4000))
    refused = 4000 - admitted
    assert 900 < admitted < 1100
    assert door.counts == Counts(offered=4000, admitted=admitted, refused=refused, refused_first=refused, polls=1)
    assert door.refused_total(KEY) == refused


def test_one_who_is_refused_again_is_no_new_demand() -> None:
    door = gateway()
    door.hear(Told(0.0), 0.0)
    for tried in (0, 1, 2, 0):
        assert door.ask(tried, 1.0) is not None
    assert door.counts == Counts(offered=4, refused=4, refused_first=2, polls=1)
    assert door.refused_total(KEY) == 2.0


@pytest.mark.parametrize(("ready", "status"), [(True, 429), (False, 503)])
def test_a_refusal_says_whether_there_is_any_capacity_and_when_to_come_back(ready, status) -> None:
    door = gateway()
    door.hear(Told(0.0, retry_after_s=4.0, ready=ready), 0.0)
    assert door.ask(0, 1.0) == Refusal(status, retry_after_s=4.0, retry_after_ms=4000.0)


@given(after_s=st.floats(0.0, 100.0), spread_s=st.floats(0.0, 100.0))
def test_nobody_is_ever_told_a_wait_outside_of_a_second_to_a_minute(after_s, spread_s) -> None:
    door = gateway()
    door.hear(Told(0.0, after_s, spread_s), 0.0)
    told = [door.ask(0, 1.0) for _ in range(20)]
    waits_ms = [refused.retry_after_ms for refused in told if refused is not None]
    assert len(waits_ms) == 20
    assert all(wait is not None and 1000.0 <= wait <= 60_000.0 for wait in waits_ms)


def test_those_who_are_refused_together_are_told_to_come_back_apart() -> None:
    door = gateway()
    door.hear(Told(0.0, 5.0, 10.0), 0.0)
    waits = {refused.retry_after_ms for _ in range(50) if (refused := door.ask(0, 1.0)) is not None}
    assert len(waits) > 40


def test_what_is_told_comes_from_the_state_and_is_no_wait_before_the_first_decision() -> None:
    decided = {"admit_ratio": 0.5, "retry_after_s": 3.0, "retry_spread_s": 2.0, "ready": 0}
    assert Told.of(decided) == Told(0.5, 3.0, 2.0, ready=False)
    assert Told.of({"admit_ratio": 1.0, "retry_after_s": 0.0}) == Told(1.0)


def test_a_gate_that_observes_admits_all_and_counts_what_it_would_have_refused() -> None:
    observing, enforcing = gateway(enforce=False), gateway()
    for door in (observing, enforcing):
        door.hear(Told(0.25), 0.0)
    assert [observing.ask(0, 1.0) for _ in range(400)] == [None] * 400
    assert sum(enforcing.ask(0, 1.0) is not None for _ in range(400)) == enforcing.counts.refused
    assert observing.refused_total(KEY) == 0.0
    assert observing.counts.would_refuse == enforcing.counts.refused


def test_a_fraction_that_is_too_old_no_longer_counts() -> None:
    door = gateway()
    door.hear(Told(0.0), 0.0)
    assert door.ask(0, VALID_S) is not None
    assert door.ask(0, VALID_S + 0.1) is None


def test_demand_is_known_for_its_own_workload_only() -> None:
    assert gateway().refused_total(WorkloadKey("demo", "other")) is None


def test_a_request_goes_where_the_fewest_are_under_way() -> None:
    door = gateway()
    with door.routed() as first, door.routed() as second:
        assert [first, second] == [A, B]
        with door.routed() as third:
            assert third == A
    with door.routed() as again:
        assert again == A


def test_without_a_replica_there_is_no_route() -> None:
    with gateway(endpoints=()).routed() as endpoint:
        assert endpoint is None
