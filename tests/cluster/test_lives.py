"""When replicas were created, became ready and ceased to be, whatever the clocks do."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scaler.cluster.lives import KEPT_S, Life, Memory, Times, phases_of, remember
from scaler.cluster.pods import pod_of
from scaler.core.model import Phase, Started
from tests.support.cluster_objects import WALL, condition, loading, pod, serving

OFFSET = WALL - 1000.0
"""The monotonic clock shows 1000 when the wall shows WALL."""


def at(now: float, known_at: float | None = None, offset_s: float = OFFSET) -> Times:
    return Times(now, now if known_at is None else known_at, offset_s)


def seen(memory: Memory, times: Times, *items: dict) -> Memory:
    return remember(memory, map(pod_of, items), times, lambda pod: "H100" if pod.node else "")


def watched(*moments: tuple[Times, list[dict]]) -> Memory:
    memory = Memory()
    for times, items in moments:
        memory = seen(memory, times, *items)
    return memory


def life(memory: Memory, name: str = "llama-0") -> Life:
    return memory.lives[f"uid-{name}"]


def flapped(lost_at: float, name: str = "llama-0") -> dict:
    item = serving(name)
    item["status"]["conditions"][-1] = condition("Ready", "False", lost_at)
    return item


def test_a_start_is_as_old_as_its_creation_says():
    assert life(watched((at(1030.0), [loading("llama-0")]))) == Life(1000.0, 1000.0, ready=False, fresh=True)


def test_a_start_that_was_seen_to_its_end_is_told_with_its_phases():
    memory = watched((at(1000.0), []), (at(1030.0), [loading("llama-0")]), (at(1061.2), [serving("llama-0")]))

    phases = (Phase("scheduled", 1.0), Phase("image_and_init", 10.0), Phase("container", 10.0), Phase("ready", 40.0))
    assert memory.started == (Started("llama-0", 1000.0, 1061.0, "H100", phases),)


def test_a_start_is_told_once_and_for_some_minutes():
    ended = watched((at(1030.0), [loading("llama-0")]), (at(1061.0), [serving("llama-0")]))
    later = [seen(ended, at(1061.0 + after), serving("llama-0")) for after in (2.0, KEPT_S - 1, KEPT_S)]

    assert [len(memory.started) for memory in (ended, *later)] == [1, 1, 1, 0]


def test_a_start_that_ended_before_we_looked_is_not_told():
    assert watched((at(2000.0), [serving("llama-0")]), (at(2002.0), [serving("llama-0")])).started == ()


def test_a_replica_that_came_and_was_ready_between_two_looks_is_told():
    memory = watched((at(1000.0), []), (at(1100.0), [serving("llama-0")]))

    assert [(one.created_at, one.ready_at) for one in memory.started] == [(1000.0, 1061.0)]


def test_a_replica_that_loses_its_readiness_waits_since_then_and_its_return_is_no_start():
    ready = watched((at(2000.0), [serving("llama-0")]))
    lost = seen(ready, at(2002.0), flapped(WALL + 1001))
    back = seen(lost, at(2010.0), serving("llama-0", after_s=1009))

    assert (life(lost), back.started) == (Life(1000.0, 2001.0, ready=False, fresh=False), ())


def test_a_replica_that_had_lost_its_readiness_before_we_looked_is_no_start_either():
    lost = watched((at(2002.0), [flapped(WALL + 900)]))
    back = seen(lost, at(2010.0), serving("llama-0", after_s=1009))

    assert (life(lost), back.started) == (Life(1000.0, 1900.0, ready=False, fresh=False), ())


def test_a_replica_that_terminates_before_it_is_ready_is_no_start():
    leaving = serving("llama-0", metadata={"deletionTimestamp": "2026-08-20T10:00:00Z"})
    memory = watched((at(1030.0), [loading("llama-0")]), (at(1061.0), [leaving]))

    assert (dict(memory.lives), memory.started) == ({}, ())


def test_a_pod_of_the_same_name_is_another_life():
    first, second = loading("llama-0", uid="1"), loading("llama-0", uid="2", created_at=WALL + 100)
    memory = watched((at(1030.0), [first]), (at(1101.0), [second]))

    assert dict(memory.lives) == {"2": Life(1100.0, 1100.0, ready=False, fresh=True)}


def test_what_appears_under_a_live_watch_is_new_though_its_stamp_is_an_hour_old():
    memory = watched((at(2000.0), []), (at(2002.0), [loading("llama-0", created_at=WALL - 3600)]))

    assert life(memory).created_at == 2000.0


def test_what_appeared_while_the_api_server_was_away_may_be_as_old_as_the_outage():
    memory = watched(
        (at(2000.0), []), (at(2300.0, known_at=2000.0), []), (at(2301.0), [loading("llama-0", created_at=WALL + 1050)])
    )

    assert life(memory).created_at == 2050.0


def test_a_stamp_from_the_future_is_now():
    assert life(watched((at(1000.0), [loading("llama-0", created_at=WALL + 50)]))).created_at == 1000.0


def test_a_phase_whose_end_nobody_stamped_belongs_to_the_next():
    found = replace(pod_of(serving("llama-0")), initialized_at=None, started_at=None)

    assert phases_of(found) == (Phase("scheduled", 1.0), Phase("ready", 60.0))


@given(st.lists(st.none() | st.floats(0, 1e5), min_size=3, max_size=3), st.floats(0, 1e5))
def test_phases_are_never_negative_and_end_when_the_last_of_them_did(ends, ready_after):
    stamps = [None if end is None else WALL + end for end in ends]
    bare = pod_of(serving("llama-0"))
    one = replace(
        bare, scheduled_at=stamps[0], initialized_at=stamps[1], started_at=stamps[2], ready_at=WALL + ready_after
    )
    phases = phases_of(one)
    last = max(end for end in (*ends, ready_after) if end is not None)

    assert all(phase.took_s >= 0 for phase in phases)
    assert abs(sum(phase.took_s for phase in phases) - last) < 1e-3


LOOKS = st.lists(
    st.tuples(st.floats(0.1, 100), st.sampled_from(["none", "new", "ready", "lost", "leaving"])), max_size=8
)


def items(state: str) -> list[dict]:
    leaving = serving("llama-0", metadata={"deletionTimestamp": "2026-08-20T10:00:00Z"})
    made = {"new": loading("llama-0"), "ready": serving("llama-0"), "lost": flapped(WALL + 100), "leaving": leaving}
    return [made[state]] if state in made else []


@given(LOOKS, st.floats(-1e5, 1e5))
def test_no_life_is_ever_older_than_the_look_before_it_or_younger_than_now(looks, clock_error_s):
    memory, now = watched((at(1000.0), [])), 1000.0
    for step, state in looks:
        before, now = memory, now + step
        memory = seen(before, at(now, offset_s=OFFSET + clock_error_s), *items(state))
        for uid, one in memory.lives.items():
            assert before.known_at <= one.created_at <= now or before.lives[uid].created_at == one.created_at
            assert one.created_at <= one.since <= now
        for start in memory.started:
            assert 1000.0 <= start.created_at <= start.ready_at <= now


@given(LOOKS, st.floats(-7200, 7200))
def test_looking_twice_at_the_same_tells_nothing_new(looks, clock_error_s):
    memory, now = Memory(), 1000.0
    for step, state in looks:
        now += step
        memory = seen(memory, at(now, offset_s=OFFSET + clock_error_s), *items(state))

        assert seen(memory, at(now, offset_s=OFFSET + clock_error_s), *items(state)) == memory


def test_a_pod_without_conditions_lives():
    assert life(watched((at(1000.0), [pod("llama-0")]))) == Life(1000.0, 1000.0, ready=False, fresh=True)
