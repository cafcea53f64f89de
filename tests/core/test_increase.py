"""What counters grew by between two readings, and what of it is believed."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.increase import Limit, added, counter_increase, grown, histogram_increase
from scaler.core.model import Absent, Histogram
from tests.support.law import EDGES, Engine, histogram, near

FEW = settings(max_examples=settings().max_examples // 4)
LIMIT = Limit(grown=50.0, fresh=10.0)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(3.0, 8.0, 5.0, id="grown"),
        pytest.param(8.0, 8.0, 0.0, id="unchanged"),
        pytest.param(1000.0, 3.0, 3.0, id="restarted"),
        pytest.param(1000.0, 999.0, None, id="a-step-back-is-no-restart"),
        pytest.param(0.0, 1e15, None, id="more-than-can-have-been"),
        pytest.param(None, 3.0, None, id="new"),
        pytest.param(3.0, None, None, id="gone"),
        pytest.param(3.0, float("nan"), None, id="no-number"),
    ],
)
def test_a_counter_grows_by_what_it_shows_since_the_last_scrape_or_since_its_restart(before, after, expected):
    assert counter_increase(before, after, LIMIT) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(histogram((0.3, 2)), histogram((0.3, 2), (3.0, 1)), histogram((3.0, 1)), id="grown"),
        pytest.param(histogram((0.3, 5)), histogram((3.0, 1)), histogram((3.0, 1)), id="restarted"),
        pytest.param(
            histogram((3.0, 2)),
            histogram((0.3, 2), (20.0, 1)),
            histogram((0.3, 2), (20.0, 1)),
            id="restarted-with-more",
        ),
        pytest.param(histogram((0.3, 500)), histogram((0.3, 499)), None, id="a-step-back-is-no-restart"),
        pytest.param(histogram((0.3, 500)), histogram((0.3, 499), (3.0, 9)), None, id="one-bucket-steps-back"),
        pytest.param(histogram(), histogram((0.3, 51)), None, id="more-than-can-have-been"),
        pytest.param(None, histogram((0.3, 5)), None, id="new"),
        pytest.param(histogram((0.3, 5)), None, None, id="gone"),
        pytest.param(histogram((0.3, 5), edges=(1.0,)), histogram((0.3, 5)), None, id="other-edges"),
    ],
)
def test_a_histogram_grows_by_what_it_shows_since_the_last_scrape_or_since_its_restart(before, after, expected):
    grown = histogram_increase(before, after, LIMIT)
    assert (grown and (grown.edges, grown.counts)) == (expected and (expected.edges, expected.counts))


def cumulative(buckets) -> Histogram:
    counts = tuple(float(sum(buckets[: n + 1])) for n in range(len(buckets)))
    return Histogram(EDGES, counts, counts[-1])


@FEW
@given(*[st.lists(st.integers(0, 5), min_size=7, max_size=7)] * 2)
def test_a_histogram_never_grows_by_less_than_nothing(before, after):
    grown = histogram_increase(cumulative(before), cumulative(after))
    assert grown is not None
    assert (min(grown.counts) >= 0, grown.sum >= 0) == (True, True)


LOADS = st.integers(0, 200).map(float)
TOTALS = st.sampled_from([0.0, 5.0, 1e3, 1e6, 1e15]) | st.integers(0, 10_000).map(float)


@FEW
@given(st.tuples(LOADS, LOADS), TOTALS, TOTALS, st.sampled_from([0.5, 2.0, 60.0, 300.0]), st.booleans())
def test_what_is_believed_of_a_replica_is_never_more_than_it_can_have_done(loads, first, second, gap_s, trusted):
    busy, later = loads
    before = Engine(running=busy, ttft={0.3: first}, rejections=first, preemptions=second).read(0.0)
    after = Engine(running=later, ttft={0.3: second}, rejections=second, preemptions=first).read(gap_s)
    found = grown(before, after, step_s=gap_s, trusted=trusted)
    most = gap_s * (200.0 + 20.0 * (busy + later))
    for increase in (found.first_tokens, found.refused, found.preemptions):
        assert increase is None or 0 <= increase <= most
    assert found.doubtful is (found.first_tokens is None)


IDLE, BUSY = Engine(), Engine(running=50.0)


def page(engine: Engine, at: float, first_tokens: float | None, **rest):
    reading = replace(engine, ttft={0.3: first_tokens or 0.0}, lacks=first_tokens is None).read(at)
    return replace(reading, **rest)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(page(BUSY, 0.0, 5.0), page(BUSY, 2.0, 9.0), 4.0, id="told"),
        pytest.param(page(BUSY, 0.0, None), page(BUSY, 2.0, None), None, id="never-told"),
        pytest.param(page(BUSY, 0.0, 5.0), page(BUSY, 2.0, None), None, id="no-longer-told"),
        pytest.param(page(BUSY, 0.0, None), page(BUSY, 2.0, 9e6), None, id="told-again"),
        pytest.param(page(IDLE, 0.0, None), page(BUSY, 2.0, 9.0), 9.0, id="shown-once-there-is-something-in-it"),
        pytest.param(page(IDLE, 0.0, None), page(BUSY, 2.0, 9e6), None, id="shown-with-more-than-can-have-been"),
        pytest.param(page(IDLE, 0.0, None), page(BUSY, 2.0, None), None, id="not-told-while-busy"),
        pytest.param(page(IDLE, 0.0, None), page(IDLE, 2.0, None), 0.0, id="nothing-to-tell"),
        pytest.param(
            page(IDLE, 0.0, None, running=Absent.IDLE, waiting=Absent.IDLE),
            page(IDLE, 2.0, None, running=Absent.IDLE, waiting=Absent.IDLE),
            0.0,
            id="an-engine-that-says-it-is-idle",
        ),
        pytest.param(
            page(BUSY, 0.0, 5.0, ttft=histogram((0.3, 5.0), edges=(1.0,))), page(BUSY, 2.0, 9.0), 4.0, id="other-edges"
        ),
    ],
)
def test_first_tokens_of_one_replica(before, after, expected):
    assert grown(before, after, step_s=2.0).first_tokens == expected


def fleet(*each: tuple[float, float | None, bool]):
    """What is added by replicas that each have so many running, that many first tokens, and are awake or not."""
    before, after = {}, {}
    for number, (running, first_tokens, awake) in enumerate(each):
        engine = Engine(f"r{number}", running=running, awake=awake)
        before[engine.name] = page(engine, 0.0, None if first_tokens is None else 0.0)
        after[engine.name] = page(engine, 2.0, first_tokens)
    return added(before, after, step_s=2.0, doubted={})


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        pytest.param([(9.0, 4.0, True), (9.0, 6.0, True)], 10.0, id="all-tell"),
        pytest.param([(9.0, 4.0, True), (9.0, None, True)], 8.0, id="those-that-do-not-tell-are-as-the-others"),
        pytest.param([(9.0, 4.0, True), (19.0, None, True)], 12.0, id="by-how-much-they-run"),
        pytest.param([(9.0, 4.0, True), (9.0, None, False)], 4.0, id="one-that-sleeps-does-nothing"),
        pytest.param([(9.0, None, True), (9.0, None, True)], None, id="nobody-tells"),
        pytest.param([(9.0, None, True), (0.0, None, True)], None, id="an-idle-one-says-nothing-of-a-busy-one"),
        pytest.param([(90.0, None, True), (0.0, 0.0, True)], None, id="nor-does-one-that-did-nothing"),
        pytest.param([(90.0, None, True), (90.0, 0.0, True)], 0.0, id="but-one-that-should-have-done-as-much-does"),
        pytest.param([(0.0, None, True), (0.0, None, True)], 0.0, id="all-idle"),
    ],
)
def test_first_tokens_of_a_fleet(each, expected):
    assert fleet(*each).first_tokens == (expected if expected is None else near(expected))


def test_a_page_that_was_read_before_is_no_news():
    reading = page(BUSY, 0.0, 5.0)
    found = added({"a": reading}, {"a": reading}, step_s=2.0, doubted={})
    assert (found.news, found.compared) == (0, frozenset())


@pytest.mark.parametrize(
    ("before", "after", "still"),
    [
        pytest.param({"running": 5.0}, {"running": 5.0, "generation": 7.0}, True, id="no-token"),
        pytest.param({"running": 5.0}, {"running": 5.0, "generation": 8.0}, False, id="a-token-of-a-long-answer"),
        pytest.param({"running": 5.0}, {"running": 5.0, "generation": 7.0, "first": 1.0}, False, id="a-first-token"),
        pytest.param({"waiting": 5.0}, {"waiting": 5.0}, True, id="waiting-and-no-first-token"),
        pytest.param({"running": 5.0}, {"running": 5.0}, False, id="running-and-nobody-counts-tokens"),
        pytest.param({"waiting": 5.0}, {"waiting": 0.0, "generation": 7.0}, False, id="nothing-left-to-do"),
        pytest.param({"waiting": 5.0}, {"waiting": 5.0, "lacks": True}, False, id="nobody-counts-anything"),
        pytest.param({"waiting": 5.0}, {"waiting": 5.0, "lacks": True, "generation": 7.0}, True, id="tokens-alone"),
    ],
)
def test_a_replica_stands_still_when_it_has_work_and_does_none_of_it(before, after, still):
    counted = 7.0 if "generation" in after else None
    earlier = Engine(**{"generation": counted, **before}).read(0.0)
    later = Engine(**{name: value for name, value in after.items() if name != "first"})
    later.emit(after.get("first", 0.0))
    assert grown(earlier, later.read(2.0), step_s=2.0).still is still
