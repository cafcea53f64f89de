"""What readings add up to over time, through restarts, silences and replicas that come and go."""

from dataclasses import replace

import pytest

from scaler.core.history import History, is_blind
from scaler.core.ingest import ingest
from scaler.core.model import Absent, Missing, Observation, Reading, Signal
from tests.support.law import Engine, histogram, observe

STALE_S = 10.0


def told(*observations: Observation, stale_s: float = STALE_S) -> History:
    history = History()
    for seen in observations:
        history = ingest(history, seen, stale_s)
    return history


def page(at: float, first_tokens: float, waiting: Signal = 0.0, name: str = "a", **rest) -> Reading:
    return replace(Engine(name, ttft={0.3: first_tokens}).read(at), waiting=waiting, **rest)


def seen(at: float, *readings: Reading, ready: tuple[str, ...] | None = None, **rest) -> Observation:
    names = ready if ready is not None else tuple(reading.replica for reading in readings)
    return replace(observe(at, [Engine(name) for name in names], **rest), readings=readings)


def rows(series):
    return list(zip(series.times, series.values, strict=True))


def test_counters_start_from_zero_at_the_first_observation_whatever_they_show():
    history = told(seen(0.0, page(0.0, 5000.0)), seen(2.0, page(2.0, 5007.0)))
    assert rows(history.first_tokens) == [(0.0, 0.0), (2.0, 7.0)]


def test_a_restart_counts_what_the_new_process_has_done_and_forgets_what_waited_in_the_old_one():
    history = told(seen(0.0, page(0.0, 5000.0, waiting=40.0)), seen(2.0, page(2.0, 3.0, waiting=2.0)))
    assert (rows(history.first_tokens), rows(history.entered)) == ([(0.0, 0.0), (2.0, 3.0)], [(0.0, 0.0), (2.0, 5.0)])


def test_what_entered_is_what_started_and_what_began_to_wait():
    history = told(seen(0.0, page(0.0, 10.0, waiting=4.0)), seen(2.0, page(2.0, 13.0, waiting=9.0)))
    assert rows(history.entered) == [(0.0, 0.0), (2.0, 8.0)]


def test_what_was_offered_is_what_entered_and_what_was_refused_here_or_by_the_engine():
    history = told(
        seen(0.0, page(0.0, 10.0, rejections_total=5.0), refused_total=100.0),
        seen(2.0, page(2.0, 13.0, rejections_total=6.0), refused_total=107.0),
    )
    assert (rows(history.refused), rows(history.offered)) == ([(0.0, 0.0), (2.0, 8.0)], [(0.0, 0.0), (2.0, 11.0)])


def test_a_count_of_refusals_that_starts_over_is_not_negative():
    history = told(seen(0.0, page(0.0, 0.0), refused_total=100.0), seen(2.0, page(2.0, 0.0), refused_total=3.0))
    assert rows(history.refused) == [(0.0, 0.0), (2.0, 3.0)]


def test_a_replica_that_comes_or_goes_changes_no_count():
    history = told(
        seen(0.0, page(0.0, 10.0, waiting=5.0)),
        seen(2.0, page(2.0, 12.0, waiting=5.0), page(2.0, 9000.0, waiting=50.0, name="b")),
        seen(4.0, page(4.0, 9001.0, waiting=50.0, name="b")),
    )
    assert rows(history.entered) == [(0.0, 0.0), (2.0, 2.0), (4.0, 3.0)]


def test_a_silent_replica_is_held_for_as_long_as_its_reading_is_fresh_and_then_missing():
    held = told(seen(0.0, page(0.0, 1.0, waiting=3.0)), seen(10.0, ready=("a",)))
    gone = ingest(held, seen(10.5, ready=("a",)), STALE_S)
    assert [(h.missing, h.waiting.values[-1]) for h in (held, gone)] == [
        ((), 3.0),
        ((Missing("a", "no reading"),), 3.0),
    ]


def test_a_tick_without_news_adds_no_zeros():
    held = told(seen(0.0, page(0.0, 1.0)), seen(2.0, page(2.0, 9.0)), seen(4.0, ready=("a",)), seen(6.0, ready=("a",)))
    assert (rows(held.first_tokens), held.running.times[-1]) == ([(0.0, 0.0), (2.0, 8.0)], 6.0)


def test_what_built_up_over_a_long_silence_counts_only_for_what_the_rate_windows_see():
    others = [seen(at, page(at, 0.0, name="b"), ready=("a", "b")) for at in (20.0, 40.0, 58.0)]
    begin, end = (seen(at, page(at, count), page(at, 0.0, name="b")) for at, count in ((0.0, 0.0), (60.0, 100.0)))
    history = told(begin, *others, end, stale_s=100.0)
    assert history.first_tokens.values[-1] == 50.0


@pytest.mark.parametrize("beat_s", [31.0, 60.0, 300.0])
def test_at_a_slow_beat_all_that_built_up_since_the_last_one_counts(beat_s):
    history = told(*(seen(n * beat_s, page(n * beat_s, 100.0 * n)) for n in range(4)), stale_s=3 * beat_s)
    assert history.first_tokens.values[-1] == 300.0


def test_a_replica_that_returns_from_a_silence_brings_no_burst():
    history = told(
        seen(0.0, page(0.0, 0.0), page(0.0, 0.0, name="b")),
        seen(10.0, page(10.0, 4.0, name="b"), ready=("a", "b")),
        seen(20.0, page(20.0, 9.0, name="b"), ready=("a", "b")),
        seen(22.0, page(22.0, 900.0), page(22.0, 10.0, name="b")),
        seen(24.0, page(24.0, 901.0), page(24.0, 11.0, name="b")),
    )
    assert (history.first_tokens.values[-1], history.rejoined_at) == (12.0, 22.0)


def test_nothing_is_counted_across_a_time_in_which_nothing_was_known():
    history = told(
        seen(0.0, page(0.0, 0.0)), seen(2.0, page(2.0, 8.0)), seen(20.0, ready=("a",)), seen(400.0, page(400.0, 9000.0))
    )
    assert (rows(history.first_tokens), rows(history.entered)) == ([(400.0, 0.0)], [(400.0, 0.0)])


def test_without_replicas_nothing_waits_and_nothing_runs_and_that_is_known():
    history = told(seen(0.0), seen(2.0))
    assert (rows(history.running), history.observed_at, is_blind(history, seen(2.0))) == (
        [(0.0, 0.0), (2.0, 0.0)],
        2.0,
        False,
    )


@pytest.mark.parametrize(
    ("observations", "blind"),
    [
        pytest.param([Observation(0.0, None)], False, id="nobody-ever-said-what-exists"),
        pytest.param([seen(0.0, ready=("a",))], True, id="no-reading-at-all"),
        pytest.param([seen(0.0), Observation(2.0, None)], True, id="nobody-says-any-more-that-there-is-nothing"),
        pytest.param([seen(0.0, page(0.0, 1.0)), Observation(2.0, None)], False, id="a-fresh-reading-and-no-list"),
    ],
)
def test_when_nothing_is_known(observations, blind):
    assert is_blind(told(*observations), observations[-1]) is blind


def test_before_anybody_said_what_exists_nothing_is_remembered():
    history = History()
    assert ingest(history, Observation(0.0, None, (page(0.0, 1.0),)), STALE_S) is history


def test_a_reading_of_a_replica_that_is_not_ready_does_not_count():
    assert told(seen(0.0, page(0.0, 1.0), page(0.0, 1.0, name="b"), ready=("a",))).reporting == (page(0.0, 1.0),)


def test_a_page_read_twice_counts_once():
    same = page(2.0, 9.0)
    history = told(seen(0.0, page(0.0, 1.0)), seen(2.0, same), seen(4.0, same))
    assert history.first_tokens.values[-1] == 8.0


def test_why_a_replica_is_missing_is_said():
    unusable = Reading("b", 0.0, running=Absent.UNKNOWN, absent=("num_requests_running",))
    history = told(replace(seen(0.0, unusable, ready=("a", "b", "c")), missing=(Missing("a", "timeout"),)))
    assert history.missing == (
        Missing("a", "timeout"),
        Missing("b", "metric absent: num_requests_running"),
        Missing("c", "no reading"),
    )


def test_idle_gauges_count_as_zero():
    idle = page(0.0, 1.0, running=Absent.IDLE, waiting=Absent.IDLE)
    history = told(seen(0.0, idle))
    assert (history.reporting, history.running.values, history.waiting.values) == ((idle,), (0.0,), (0.0,))


def test_the_stall_clock_starts_when_something_is_first_seen_waiting_and_with_every_first_token():
    history = told(
        seen(0.0, page(0.0, 1.0)),
        seen(2.0, page(2.0, 2.0)),
        seen(4.0, page(4.0, 2.0, 1.0)),
        seen(6.0, page(6.0, 2.0, 3.0)),
    )
    empty = ingest(history, seen(8.0, page(8.0, 5.0)), STALE_S)
    assert [(h.first_token_at, h.waiting_since) for h in (history, empty)] == [(2.0, 4.0), (8.0, None)]


def test_an_engine_that_has_observed_nothing_yet_is_idle_and_one_without_the_histogram_unknown():
    history = told(seen(0.0, page(0.0, 0.0, queue_time=histogram())))
    answers = [series.quantile(0.5, -1.0, 1.0) for series in (history.queue_time, history.prompt_tokens)]
    assert answers == [Absent.IDLE, Absent.UNKNOWN]


def test_an_engine_without_first_token_counts_and_with_something_to_do_tells_no_increase():
    blank = page(0.0, 0.0, ttft=None)
    history = told(seen(0.0, blank), seen(2.0, replace(blank, observed_at=2.0, waiting=4.0)))
    assert (rows(history.first_tokens), rows(history.entered), set(history.lacking)) == (
        [(0.0, 0.0)],
        [(0.0, 0.0)],
        {"a"},
    )


def test_what_was_not_told_for_a_tick_was_as_in_the_next_one():
    pages = [page(0.0, 0.0), page(2.0, 16.0), replace(page(4.0, 0.0, running=9.0), ttft=None), page(6.0, 48.0)]
    history = told(*(seen(one.observed_at, one) for one in [*pages, page(8.0, 64.0)]))
    assert rows(history.first_tokens)[-2:] == [(2.0, 16.0), (8.0, 64.0)]


def test_refusals_upstream_that_fall_by_a_little_or_rise_out_of_all_bounds_add_nothing():
    for jump in (9_999.0, 1e15):
        history = told(
            seen(0.0, page(0.0, 0.0), refused_total=10_000.0),
            seen(2.0, page(2.0, 0.0), refused_total=jump),
            seen(4.0, page(4.0, 0.0), refused_total=jump + 6.0),
        )
        assert (history.refused.values[-1], list(history.doubted)) == (6.0, ["the count of refusals upstream"])


def test_histograms_that_nobody_shows_any_more_are_unknown_after_a_while_and_idle_never():
    full = page(0.0, 0.0, queue_time=histogram((0.3, 5.0)))
    pages = [full, replace(full, observed_at=2.0, queue_time=histogram((0.3, 9.0)))]
    pages += [replace(full, observed_at=at, queue_time=None) for at in (6.0, 12.0, 18.0)]
    histories = [told(*(seen(one.observed_at, one) for one in pages[: n + 1])) for n in range(5)]
    samples = [history.queue_time.quantile(0.5, -1.0, 20.0) for history in histories]
    assert [known if isinstance(known, Absent) else known.samples for known in samples] == [
        *(Absent.IDLE, 4.0, 4.0, 4.0),
        Absent.UNKNOWN,
    ]


def test_the_counters_of_replicas_that_are_not_listed_are_remembered_for_a_minute_and_for_a_hundred_of_them():
    fleet = [page(0.0, 0.0, name=f"r{n:03}") for n in range(150)]
    alone = [seen(at, page(at, 0.0, name="z")) for at in (2.0, 8.0, 16.0, 24.0, 32.0, 40.0, 48.0, 56.0, 62.0)]
    states = [told(seen(0.0, *fleet), *alone[:n]) for n in (1, 8, 9)]
    assert [len(history.departed) for history in states] == [100, 100, 0]
    assert [len(history.last) for history in states] == [1, 1, 1]
