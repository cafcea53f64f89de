"""Starts as they are seen: each counted once, from when it was asked for until it was ready."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.model import Histogram, Phase, Reading, ReplicaSet, Started, Starting
from scaler.core.starts import Finished, Seen, Starts, follow, lag_s

STALE_S = 10.0
Asks = tuple[tuple[int, float], ...]


def reading(replica: str, at: float, first_tokens: float | None) -> Reading:
    ttft = None if first_tokens is None else Histogram((1.0,), (first_tokens, first_tokens), 0.0)
    return Reading(replica, at, 1.0, 0.0, ttft=ttft)


@dataclass
class Watch:
    """Looks at a platform. Replicas have names of one letter."""

    starts: Starts = field(default_factory=Starts)

    def look(  # noqa: PLR0917 - a row of a table
        self,
        at: float,
        ready: str = "",
        starting: tuple[Starting, ...] = (),
        started: tuple[Started, ...] = (),
        asks: Asks = (),
        current: int | None = None,
        readings: tuple[Reading, ...] = (),
    ) -> tuple[Finished, ...]:
        """One look, and the starts that have ended by then. `current` is as many as there are, unless said otherwise."""
        asked = len(ready) + len(starting) if current is None else current
        listed = ReplicaSet(tuple(ready), starting, asked, at, started=started)
        self.starts = follow(self.starts, Seen(listed, readings, asks, STALE_S))
        return self.starts.finished

    def wait(self, begin: float, end: float, *args, **rest) -> tuple[Finished, ...]:
        """The same look every two seconds."""
        at = begin
        while at <= end:
            self.look(at, *args, **rest)
            at += 2.0
        return self.starts.finished


PHASES = (Phase("scheduled", 1.0), Phase("image_and_init", 20.0), Phase("container", 9.0), Phase("ready", 30.0))
TWO: Asks = ((2, 10.0),)


def asked_and_created() -> Watch:
    """One exists, another is asked for at 10, and created at 25."""
    watch = Watch()
    watch.look(8.0, "a")
    watch.wait(12.0, 24.0, "a", asks=TWO)
    watch.look(26.0, "a", (Starting("b", 25.0),), asks=TWO)
    return watch


# --- From when to when ---------------------------------------------------------------------------------------------


def test_a_start_counts_from_when_it_was_asked_for_until_its_platform_says_that_it_was_ready():
    watch = asked_and_created()
    watch.wait(28.0, 84.0, "a", (Starting("b", 25.0, node_class="H100"),))
    ended = Started("b", 25.0, 85.0, "H100", PHASES)
    assert watch.look(86.0, "ab", started=(ended,)) == (Finished(85.0, 75.0, "H100", (Phase("asked", 15.0), *PHASES)),)


def test_where_the_platform_does_not_say_a_start_ends_when_it_is_seen_to():
    watch = asked_and_created()
    watch.wait(28.0, 84.0, "a", (Starting("b", 25.0, node_class="H100"),))
    assert watch.look(86.0, "ab") == (Finished(86.0, 76.0, "H100", (Phase("asked", 15.0),)),)


def test_where_the_platform_lists_no_starting_replicas_one_that_appears_was_asked_for():
    watch = Watch()
    watch.look(8.0, "a")
    watch.wait(12.0, 84.0, "a", asks=TWO)
    assert watch.look(86.0, "ab", asks=TWO) == (Finished(86.0, 76.0),)


def test_a_number_is_owed_until_so_many_exist_though_the_platform_has_taken_it_for_its_own():
    watch = Watch()
    watch.look(8.0, "a")
    watch.look(12.0, "a", asks=TWO)
    watch.wait(14.0, 40.0, "a", current=2)  # what stabilization owes is paid
    assert watch.look(42.0, "ab", current=2) == (Finished(42.0, 32.0),)


def test_each_was_asked_for_by_the_first_number_that_exceeds_what_existed_before_it():
    asks: Asks = ((3, 10.0), (5, 20.0))
    watch = Watch()
    watch.look(8.0, "a")
    watch.wait(12.0, 20.0, "a", asks=asks[:1])
    watch.look(22.0, "a", asks=asks)
    created = tuple(Starting(name, 23.0 + i) for i, name in enumerate("bcde"))
    watch.look(28.0, "a", created, asks=asks)
    ended = watch.look(30.0, "abcde", asks=asks)
    assert [(start.took_s, start.phases) for start in ended] == [
        (20.0, (Phase("asked", 13.0),)),
        (20.0, (Phase("asked", 14.0),)),
        (10.0, (Phase("asked", 5.0),)),
        (10.0, (Phase("asked", 6.0),)),
    ]


@pytest.mark.parametrize(
    ("asks", "current"),
    [
        pytest.param((), 1, id="withdrawn"),
        pytest.param(((2, 40.0),), 2, id="asked-for-after-it-was-created"),
        pytest.param(((2, -4000.0),), 2, id="asked-for-more-than-an-hour-before"),
    ],
)
def test_a_replica_that_was_created_for_another_reason_is_no_scale_up(asks, current):
    watch = Watch()
    watch.look(8.0, "a")
    watch.look(12.0, "a", asks=TWO)
    watch.wait(14.0, 28.0, "a", asks=asks, current=1)
    watch.look(30.0, "a", (Starting("b", 29.0),), asks=asks, current=current)
    assert watch.look(32.0, "ab", asks=asks, current=current) == (Finished(32.0, 3.0),)


def test_a_start_of_less_than_no_time_took_none():
    watch = asked_and_created()
    assert watch.look(28.0, "ab", started=(Started("b", 9.0, 9.0),)) == (
        Finished(9.0, 0.0, "", (Phase("asked", 0.0),)),
    )


# --- Replacements --------------------------------------------------------------------------------------------------


def scaled_up_once() -> Watch:
    """A start that was created 15 s after it was asked for."""
    watch = asked_and_created()
    watch.wait(28.0, 84.0, "a", (Starting("b", 25.0),))
    watch.look(86.0, "ab")
    return watch


def test_a_replacement_counts_from_its_creation_with_the_usual_time_from_asking_to_creation_in_front():
    watch = scaled_up_once()
    watch.look(88.0, "a", (Starting("c", 88.0),))
    assert watch.look(94.0, "ac")[1:] == (Finished(94.0, 6.0 + 15.0),)


def test_a_replacement_whose_platform_tells_of_its_start_counts_with_its_phases():
    watch = scaled_up_once()
    ended = Started("c", 88.0, 90.0, "A100", PHASES)
    assert watch.look(92.0, "ac", started=(ended,))[1:] == (Finished(90.0, 2.0 + 15.0, "A100", PHASES),)


def test_a_replacement_that_nobody_saw_created_is_not_timed():
    watch = Watch()
    watch.look(0.0, "ab")
    assert watch.wait(2.0, 20.0, "ac") == ()


def test_the_usual_time_from_asking_to_creation_is_a_median_and_none_while_unknown():
    finished = [Finished(0.0, 60.0, phases=(Phase("asked", lag), Phase("ready", 9.0))) for lag in (1.0, 90.0, 15.0)]
    assert (lag_s(finished), lag_s([Finished(0.0, 60.0)])) == (15.0, 0.0)


# --- Exactly once --------------------------------------------------------------------------------------------------

TOLD = (Started("b", 25.0, 85.0),)


def test_what_exists_when_a_process_starts_was_not_timed():
    watch = Watch()
    watch.look(0.0, "a", (Starting("b", -50.0),))
    assert watch.look(2.0, "ab") == ()


def test_what_exists_when_a_process_starts_counts_when_its_platform_has_timed_it():
    watch = Watch()
    watch.look(0.0, "a", (Starting("b", -50.0),))
    assert watch.look(2.0, "ab", started=(Started("b", -50.0, 1.0),)) == (Finished(1.0, 51.0),)


@pytest.mark.parametrize(
    ("remembered_at", "count"),
    [
        pytest.param(85.4, 1, id="remembered"),
        pytest.param(60.0, 2, id="not-remembered"),
        pytest.param(None, 1, id="nothing-is"),
    ],
)
def test_what_a_platform_tells_again_after_a_restart_counts_only_if_it_is_not_remembered(remembered_at, count):
    remembered = () if remembered_at is None else (Finished(remembered_at, 75.0),)
    watch = Watch(Starts(finished=remembered))
    assert len(watch.wait(100.0, 110.0, "ab", started=TOLD)) == count


def test_a_start_counts_once_however_long_its_platform_tells_of_it():
    watch = asked_and_created()
    watch.wait(28.0, 84.0, "a", (Starting("b", 25.0),))
    assert len(watch.wait(86.0, 700.0, "ab", started=TOLD)) == 1


def test_a_start_that_was_seen_to_end_before_its_platform_tells_of_it_counts_once():
    watch = scaled_up_once()
    assert watch.wait(88.0, 100.0, "ab", started=TOLD) == (Finished(86.0, 76.0, "", (Phase("asked", 15.0),)),)


def test_two_that_end_at_once_are_two():
    watch = Watch()
    watch.look(8.0, "a")
    watch.wait(12.0, 20.0, "a", asks=((3, 10.0),))
    told = (Started("b", 12.0, 21.0), Started("c", 12.0, 21.0))
    assert len(watch.wait(22.0, 40.0, "abc", started=told)) == 2


def test_a_replica_that_loses_its_readiness_and_regains_it_has_not_started_again():
    watch = scaled_up_once()
    watch.wait(88.0, 120.0, "a", (Starting("b", 87.0),))
    assert len(watch.look(122.0, "ab")) == 1


@pytest.mark.parametrize(
    ("away_s", "starts"),
    [
        pytest.param(40.0, 0, id="the-same-one-within-a-minute"),
        pytest.param(80.0, 1, id="another-one-later"),
    ],
)
def test_a_replica_that_was_cut_from_a_list_has_not_started_again(away_s, starts):
    asks: Asks = ((3, 2.0),)
    watch = Watch()
    watch.look(0.0, "ab")
    watch.wait(2.0, away_s, "a", asks=asks)
    assert len(watch.wait(away_s + 2.0, away_s + 4.0, "ab", asks=asks)) == starts


def test_a_starting_replica_that_was_cut_from_a_list_is_still_the_one_that_was_asked_for():
    watch = asked_and_created()
    watch.look(28.0, "a")
    watch.look(30.0, "a", (Starting("b", 25.0),))
    assert watch.look(32.0, "ab") == (Finished(32.0, 22.0, "", (Phase("asked", 15.0),)),)


def test_a_name_that_is_used_again_is_another_replica_when_it_was_created_since():
    watch = scaled_up_once()
    watch.look(88.0, "a", asks=((2, 87.0),))
    watch.look(92.0, "a", (Starting("b", 91.0),), asks=((2, 87.0),))
    assert watch.look(96.0, "ab", started=(*TOLD, Started("b", 91.0, 95.0)))[1:] == (
        Finished(95.0, 8.0, "", (Phase("asked", 4.0),)),
    )


def test_what_came_while_nobody_looked_is_timed_by_its_platform_or_not_at_all():
    watch = asked_and_created()
    told = Started("c", 30.0, 400.0)
    watch.look(600.0, "abc", started=(told,))
    assert watch.look(602.0, "abc", started=(told,)) == (Finished(400.0, 370.0),)


def test_without_a_list_nothing_happens():
    starts = scaled_up_once().starts
    assert follow(starts, Seen(None, (), (), STALE_S)) is starts


def test_the_last_forty_starts_are_kept_the_newest_last():
    watch = Watch(Starts(finished=tuple(Finished(float(at), 60.0) for at in range(-40, 0))))
    watch.look(8.0, "a")
    watch.look(12.0, "a", asks=TWO)
    finished = watch.look(14.0, "ab", asks=TWO)
    assert (len(finished), finished[0].at, finished[-1].at) == (40, -39.0, 14.0)


# --- First tokens --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token_at", "phases"),
    [
        pytest.param(90.0, (Phase("asked", 15.0), Phase("first_token", 4.0)), id="soon"),
        pytest.param(600.0, (Phase("asked", 15.0),), id="when-somebody-asked-for-one"),
    ],
)
def test_the_time_to_the_first_token_is_beside_the_phases(token_at, phases):
    watch = scaled_up_once()
    watch.wait(88.0, token_at - 2.0, "ab", readings=(reading("b", 88.0, 0.0), reading("a", 88.0, 9.0)))
    watch.wait(token_at, token_at + 4.0, "ab", readings=(reading("b", token_at, 3.0),))
    assert watch.starts.finished == (Finished(86.0, 76.0, "", phases),)


def test_without_a_count_of_first_tokens_there_is_no_such_phase():
    watch = scaled_up_once()
    watch.wait(88.0, 90.0, "ab", readings=(reading("b", 88.0, None),))
    assert watch.starts.finished == (Finished(86.0, 76.0, "", (Phase("asked", 15.0),)),)


def test_a_replica_that_is_gone_gives_no_first_token():
    watch = scaled_up_once()
    watch.look(88.0, "a")
    watch.look(90.0, "ab", readings=(reading("b", 90.0, 3.0),))
    assert watch.starts.finished == (Finished(86.0, 76.0, "", (Phase("asked", 15.0),)),)


def test_a_first_token_that_may_have_come_before_anybody_looked_is_not_timed():
    watch = Watch()
    watch.look(100.0, "ab", started=TOLD, readings=(reading("b", 100.0, 3.0),))
    watch.look(102.0, "ab", started=TOLD, readings=(reading("b", 102.0, 4.0),))
    assert watch.starts.finished == (Finished(85.0, 60.0),)


def test_a_start_that_is_no_longer_kept_needs_no_first_token():
    watch = scaled_up_once()
    watch.starts = replace(watch.starts, finished=())
    assert watch.look(88.0, "ab", readings=(reading("b", 88.0, 3.0),)) == ()


# --- Any story -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pod:
    """Created so many ticks after it was asked for, ready so many after that; cut from the list at some ticks."""

    name: str
    created: int
    took: int
    away: frozenset[int]

    @property
    def ready(self) -> int:
        return self.created + self.took

    def seen_ready(self) -> int:
        return next(tick for tick in range(self.ready, END) if tick not in self.away)


END = 120
PODS = st.lists(
    st.builds(Pod, st.sampled_from("abcde"), st.integers(1, 20), st.integers(1, 30), st.frozensets(st.integers(1, 25))),
    max_size=5,
    unique_by=lambda pod: pod.name,
)
ASKED_AT = 2.0


def watched(pods: list[Pod], *, lists: bool, tells: bool) -> list[float]:
    """How long the starts took, in order, as counted over some minutes in which all were asked for at once."""
    watch, number = Watch(), 1 + len(pods)
    watch.look(0.0, "z")
    for tick in range(1, END):
        listed = [pod for pod in pods if tick not in pod.away]
        created = [pod for pod in listed if pod.created <= tick < pod.ready]
        ready = [pod for pod in pods if pod.ready <= tick]
        watch.look(
            2.0 * tick,
            "".join(["z", *(pod.name for pod in listed if pod in ready)]),
            tuple(Starting(pod.name, 2.0 * pod.created) for pod in created if lists),
            tuple(Started(pod.name, 2.0 * pod.created, 2.0 * pod.ready) for pod in ready if tells),
            asks=((number, ASKED_AT),) if tick == 1 else (),
            current=number,
        )
    return sorted(start.took_s for start in watch.starts.finished)


@given(PODS, st.booleans())
def test_each_start_counts_once_and_as_soon_as_it_is_seen(pods, lists):
    assert watched(pods, lists=lists, tells=False) == sorted(2.0 * pod.seen_ready() - ASKED_AT for pod in pods)


@given(PODS, st.booleans())
def test_each_start_that_its_platform_tells_of_counts_once_whatever_its_list_leaves_out(pods, lists):
    assert len(watched(pods, lists=lists, tells=True)) == len(pods)


@given(PODS)
def test_each_start_that_its_platform_lists_and_tells_of_took_what_it_says(pods):
    whole = [replace(pod, away=frozenset()) for pod in pods]
    assert watched(whole, lists=True, tells=True) == sorted(2.0 * pod.ready - ASKED_AT for pod in pods)
