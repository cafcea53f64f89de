"""The stand-in for a gateway: its dice, its counts, its routes."""

from scaler.core.model import WorkloadKey
from scaler.demo.cluster import Endpoint
from scaler.demo.gateway import VALID_S, Counts, Gateway

KEY = WorkloadKey("demo", "llm")
A, B = Endpoint("a", "127.0.0.1:1"), Endpoint("b", "127.0.0.1:2")


def gateway(*, enforce: bool = True, endpoints: tuple[Endpoint, ...] = (A, B)) -> Gateway:
    return Gateway(KEY, lambda: endpoints, enforce=enforce, seed=1)


def test_everything_is_admitted_before_the_first_word() -> None:
    door = gateway()
    assert all(door.admit(float(now)) for now in range(100))
    assert door.counts == Counts(offered=100, admitted=100)


def test_the_dice_follow_the_fraction() -> None:
    door = gateway()
    door.hear(0.25, 0.0)
    admitted = sum(door.admit(1.0) for _ in range(4000))
    assert 900 < admitted < 1100
    assert door.counts == Counts(offered=4000, admitted=admitted, refused=4000 - admitted, polls=1)
    assert door.refused_total(KEY) == 4000 - admitted


def test_a_gate_that_observes_admits_all_and_counts_what_it_would_have_refused() -> None:
    observing, enforcing = gateway(enforce=False), gateway()
    for door in (observing, enforcing):
        door.hear(0.25, 0.0)
    assert [observing.admit(1.0) for _ in range(400)] == [True] * 400
    assert [enforcing.admit(1.0) for _ in range(400)].count(False) == enforcing.counts.refused
    assert observing.refused_total(KEY) == 0.0
    assert observing.counts.would_refuse == enforcing.counts.refused


def test_a_fraction_that_is_too_old_no_longer_counts() -> None:
    door = gateway()
    door.hear(0.0, 0.0)
    assert not door.admit(VALID_S)
    assert door.admit(VALID_S + 0.1)


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
