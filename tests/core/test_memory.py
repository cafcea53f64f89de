"""The text that outlives a process: what it holds, how small it is, and that no text can do harm."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.admission import PROBE_RATIO, RISE_PER_REACTION
from scaler.core.capacity import AUTO, Learned, Profile
from scaler.core.decision import Decision
from scaler.core.estimate import Belief
from scaler.core.history import History
from scaler.core.learning import MOST_STEP
from scaler.core.memory import HOLD_S, MOST_BYTES, PASSING_LASTS_S, Recalled, recall, remember
from scaler.core.model import GateMode, Phase, Pressure, RequestClass
from scaler.core.pressure import Colour
from scaler.core.ready_latency import ReadyLatency
from scaler.core.shown import LEAST_STEP, MOST_LEVELS, Counts, Level, Objectives, Shown
from scaler.core.stabilize import Stabilizer, StabilizeSpec
from scaler.core.starts import ASKED, Finished, Starts
from scaler.core.step import State, step
from scaler.core.target import ScalingSpec
from scaler.core.windows import Extremes, Series
from tests.support.law import CHAT, PROFILE, Engine, Law, near, observe, workload

WALL = 1_764_531_000.0
AGENT = RequestClass("agent", ttft_s=20.0, order=1)
SPEC = workload(classes=(CHAT, AGENT), stabilize=StabilizeSpec(downscale_delay_s=300.0))
NOW = 1000.0


def red() -> Law:
    """A law whose fleet of two has been overloaded for a minute: both classes are RED."""
    law, engines = Law(replace(SPEC, gate=GateMode.ENFORCE)), (Engine("a", running=100.0), Engine("b", running=100.0))
    law.steady(60.0, *engines, rate_per_s=8.0)
    for engine in engines:
        engine.waiting = 200.0
    law.steady(60.0, *engines, rate_per_s=6.0)
    return law


def decided() -> Decision:
    decision = red().decisions[-1]
    assert isinstance(decision, Decision)
    return decision


DECISION = decided()
STATE = State(
    spec=SPEC,
    learned=Learned(12.5, 9, NOW - 45.0, 0.95, NOW - 20.0),
    belief=Belief(saturated_since=NOW - 12.0, throughput_per_s=12.0),
    stabilizer=Stabilizer(
        published=8,
        downs=Extremes(stairs=((NOW - 100.0, 8.0), (NOW - 10.0, 5.0))),
        busy_at=NOW,
        asks=((6, NOW - 30.0), (8, NOW - 10.0)),
    ),
    starts=Starts((Finished(NOW - 400.0, 183.4, "H100", (Phase(ASKED, 12.0),)), Finished(NOW - 100.0, 45.0, "L4"))),
    colours=(
        ("chat", Colour(Pressure.RED, since=NOW - 40.0, high_since=NOW - 50.0)),
        ("agent", Colour(Pressure.YELLOW, since=NOW - 5.0)),
    ),
    decision=DECISION,
)
TEXT = remember(STATE, NOW, WALL)
LATER = 5000.0
"""The clock of the next process is another one."""


def recalled(text: str = TEXT, gap_s: float = 7.0, spec=SPEC) -> Recalled:
    return recall(text, spec, LATER, WALL + gap_s)


def test_all_that_matters_comes_back_with_its_age():
    at, throughput = LATER - 7.0, DECISION.estimate.throughput_per_s or math.nan
    window = tuple((LATER - ago, value) for ago, value in ((100.0, 8.0), (10.0, 5.0)))
    seen = DECISION.estimate
    ratios = {verdict.name: round(verdict.admit_ratio, 2) for verdict in DECISION.classes}

    def steady(rate: float) -> Series:
        return Series(30.0, (LATER - 30.0, LATER), (0.0, near(30.0 * rate, rel=1e-3)))

    expected = State(
        history=History(
            first_tokens=steady(throughput),
            entered=steady(seen.arrival_per_s),
            refused=steady(seen.refused_per_s),
        ),
        belief=Belief(saturated_since=at - 12.0, throughput_per_s=near(throughput, rel=1e-3)),
        learned=Learned(12.5, 9, at - 45.0, 0.95, at - 20.0),
        stabilizer=Stabilizer(
            published=8,
            downs=Extremes(stairs=window),
            ups=Extremes(-1, ((LATER, 8.0),)),
            busy_at=LATER,
            asks=((6, at - 30.0), (8, at - 10.0)),
        ),
        starts=Starts((Finished(at - 400.0, 183.0, "H100", (Phase(ASKED, 12.0),)), Finished(at - 100.0, 45.0, "L4"))),
        colours=(
            ("chat", Colour(Pressure.RED, since=at - 40.0, high_since=at - 50.0)),
            ("agent", Colour(Pressure.YELLOW, since=at - 5.0)),
        ),
        admitted=(("chat", ratios["chat"]), ("agent", ratios["agent"])),
    )
    assert recalled() == Recalled(expected)


def test_the_text_is_json_of_short_keys_that_a_person_can_read():
    assert json.loads(TEXT) == {
        "v": 1,
        "t": WALL,
        "k": json.loads(TEXT)["k"],
        "d": [8, 0, [[100, 8], [10, 5]], [[6, 30], [8, 10]]],
        "l": [12.5, 9, 45, 0.95, 20],
        "r": [near(12.0, rel=0.1), near(12.0, rel=0.1), 0, 12],
        "c": [["chat", "R", 40, 50, PROBE_RATIO], ["agent", "Y", 5, None, PROBE_RATIO]],
        "n": ["L4", "H100"],
        "s": [[100, 45, 0], [400, 183, 1, 12]],
    }


LEARNT = Shown(Objectives(5.0, 0.1), 7, levels=(Level(-2, Counts(81.9, 0.0, 0.0)), Level(7, Counts(300.7, 4.2, 3.9))))


def text_of(shown: Shown) -> str:
    return remember(replace(STATE, learned=replace(STATE.learned, shown=shown)), NOW, WALL)


def test_what_traffic_has_shown_outlives_the_process_however_old_it_is_and_shows_no_more_than_it_did():
    text = text_of(LEARNT)
    assert json.loads(text)["a"] == [[5, 0.1, 0.95], 7, [[-2, 81, 0, 0], [7, 300, 5, 3]]]
    kept = (Level(-2, Counts(81.0, 0.0, 0.0)), Level(7, Counts(300.0, 5.0, 3.0)))
    assert recalled(text, gap_s=1e6).state.learned.shown == replace(LEARNT, levels=kept)


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(Shown(), id="nothing"),
        pytest.param(replace(LEARNT, found_at=NOW), id="what was found and not shown"),
    ],
)
def test_what_was_not_shown_is_not_kept(shown):
    assert "a" not in json.loads(text_of(shown))


@pytest.mark.parametrize(
    "kept",
    [
        [[5, 0.1, 0.95], 200, []],
        [[5, 0.1, 0.95], 7.5, []],
        [[5, 0.1, 1.0], 7, []],
        [[-5, 0.1, 0.95], 7, []],
        [[5, 0.1, 0.95], 7, [[7, 300, 5]]],
        [[5, 0.1, 0.95], 7, [[7, -1, 0, 0]]],
        [[5, 0.1, 0.95], 7, [[7, 1, 0, 0], [7, 1, 0, 0]]],
    ],
)
def test_nonsense_about_what_was_shown_is_not_believed(kept):
    text = json.dumps(json.loads(text_of(LEARNT)) | {"a": kept})
    assert recalled(text) == Recalled(State(), "what is stored makes no sense in a")


@pytest.mark.fault("clock steps")
@pytest.mark.parametrize(
    "gap_s", [pytest.param(-3600.0, id="the wall clock went back"), pytest.param(0.0, id="at once")]
)
def test_a_stamp_in_the_future_is_of_now(gap_s):
    assert recalled(gap_s=gap_s).state.colours[0][1].since == LATER - 40.0


def test_rates_and_colours_that_are_minutes_old_say_nothing_but_the_number_stands():
    state = recalled(gap_s=PASSING_LASTS_S + 1.0).state
    assert (state.history, state.colours, state.admitted, state.stabilizer.published) == (History(), (), (), 8)


def test_of_yesterday_only_starts_and_what_was_learnt_of_a_replica_count():
    recent, old = recalled().state, recalled(gap_s=86_401.0).state
    assert [start.took_s for start in old.starts.finished] == [start.took_s for start in recent.starts.finished]
    assert old == State(starts=old.starts, learned=old.learned)
    assert (old.learned.residence_s, old.learned.derate_ratio) == (12.5, 0.95)


def test_a_blind_state_stores_no_rates():
    blind = replace(STATE, decision=replace(DECISION, blind=True))
    assert "r" not in json.loads(remember(blind, NOW, WALL))


def test_a_window_that_is_about_to_let_the_number_fall_holds_it_until_there_are_rates():
    ending = replace(STATE.stabilizer, downs=Extremes(stairs=((NOW - 299.0, 8.0), (NOW - 10.0, 5.0))))
    state = recalled(remember(replace(STATE, stabilizer=ending), NOW, WALL)).state
    assert state.stabilizer.downs.stairs == ((LATER + HOLD_S - 300.0, 8.0), (LATER - 10.0, 5.0))


def test_an_edit_between_two_processes_keeps_the_number_for_a_whole_window():
    edited = replace(SPEC, scaling=ScalingSpec(min_replicas=2))
    assert recalled(spec=edited).state.stabilizer.downs == Extremes(stairs=((LATER, 8.0),))


SENSELESS = [
    pytest.param("", "what is stored is no text of ours", id="nothing"),
    pytest.param(TEXT[:-20], "what is stored is no text of ours", id="cut short"),
    pytest.param('["v"]', "what is stored is no text of ours", id="a list"),
    pytest.param("[" * 100_000, "what is stored is no text of ours", id="too deep"),
    pytest.param(TEXT.replace('"v":1', '"v":0'), "what is stored has the unknown version 0", id="an older version"),
    pytest.param(TEXT.replace('"d":[8', '"d":["8"'), "what is stored makes no sense in d", id="a wrong type"),
    pytest.param(TEXT.replace('"d":[8', '"d":[-8'), "what is stored makes no sense in d", id="a negative number"),
    pytest.param(TEXT.replace('"R"', '"B"'), "what is stored makes no sense in c", id="an unknown state"),
    pytest.param(TEXT.replace("400,183", "NaN,183"), "what is stored makes no sense in s", id="no number"),
    pytest.param(TEXT.replace("0.95", "1.5"), "what is stored makes no sense in l", id="a derating above 1"),
]


@pytest.mark.parametrize(("text", "note"), SENSELESS)
def test_what_makes_no_sense_is_as_if_nothing_were_stored_and_says_why(text, note):
    assert recalled(text) == Recalled(State(), note)


def test_a_newer_version_is_read_as_far_as_it_is_understood():
    newer = json.loads(TEXT) | {"v": 2, "c": {"chat": "RED"}, "z": [1]}
    found = recalled(json.dumps(newer))
    whole = recalled().state
    assert found == Recalled(
        replace(whole, colours=(), admitted=()), "what is stored is of the newer version 2; not understood: c"
    )


def test_an_empty_newer_text_is_a_blank_state():
    assert recalled('{"v":2,"t":0}') == Recalled(State(), "what is stored is of the newer version 2")


def test_a_dozen_starts_fit_beside_four_classes_and_a_full_window():
    colour = Colour(Pressure.YELLOW, since=NOW - 500.0, high_since=NOW - 100.0)
    crowded = replace(
        STATE,
        stabilizer=replace(
            STATE.stabilizer,
            downs=Extremes(stairs=tuple((NOW - 300.0 + 10 * n, 100.0 - n) for n in range(30))),
            asks=tuple((100 + n, NOW - 300.0 + n) for n in range(30)),
        ),
        colours=tuple((name, colour) for name in ("chat", "agent", "background", "batch")),
        starts=Starts(tuple(Finished(NOW - 9000.0 * (20 - n), 183.4, ("H100", "L4")[n % 2]) for n in range(20))),
    )
    assert len(recalled(remember(crowded, NOW, WALL)).state.starts.finished) >= 12


@pytest.mark.parametrize("letters", [pytest.param(300, id="one that fits"), pytest.param(900, id="one that does not")])
def test_of_classes_that_do_not_all_fit_those_under_pressure_are_kept(letters):
    calm, name = Colour(Pressure.GREEN, since=0.0), "x" * letters
    classes = ((name, calm), ("chat", Colour(Pressure.RED, since=0.0)), ("agent", calm))
    kept = [name for name, _ in recalled(remember(replace(STATE, colours=classes), NOW, WALL)).state.colours]
    assert kept == ["chat", *([name] if letters < MOST_BYTES / 2 else []), "agent"]


# --- properties -------------------------------------------------------------------------------------------------------

INSTANTS = st.floats(allow_nan=True, allow_infinity=True)
NUMBERS = st.floats(min_value=0.0, allow_infinity=True)
COUNTS = st.integers(0, 10**12)
NAMES = st.text(max_size=80)
SHOWN = st.builds(
    Shown,
    st.builds(Objectives, st.none() | st.floats(1e-3, 1e7), st.none() | st.floats(1e-3, 1e7), st.floats(0.5, 0.999)),
    st.none() | st.integers(LEAST_STEP, MOST_STEP),
    st.none() | INSTANTS,
    levels=st.lists(
        st.builds(Level, st.integers(LEAST_STEP, MOST_STEP), st.builds(Counts, *[st.floats(0.0, 1e7)] * 3)),
        max_size=MOST_LEVELS,
        unique_by=lambda one: one.step,
    ).map(lambda levels: tuple(sorted(levels, key=lambda one: one.step))),
)
STATES = st.builds(
    State,
    learned=st.builds(Learned, NUMBERS, COUNTS, INSTANTS, NUMBERS, INSTANTS, SHOWN),
    stabilizer=st.builds(
        Stabilizer,
        published=st.none() | COUNTS,
        downs=st.builds(
            Extremes, st.just(1), st.lists(st.tuples(INSTANTS, st.floats(0.0, 1e12)), max_size=40).map(tuple)
        ),
        busy_at=st.none() | INSTANTS,
        asks=st.lists(st.tuples(COUNTS, INSTANTS), max_size=40).map(tuple),
    ),
    starts=st.builds(
        Starts,
        st.lists(
            st.builds(
                Finished,
                INSTANTS,
                NUMBERS,
                NAMES,
                st.builds(Phase, st.sampled_from([ASKED, "ready"]), NUMBERS).map(lambda one: (one,)),
            ),
            max_size=40,
        ).map(tuple),
    ),
    colours=st.lists(
        st.tuples(NAMES, st.builds(Colour, st.sampled_from([Pressure.GREEN, Pressure.RED]), since=INSTANTS)), max_size=8
    ).map(tuple),
    decision=st.sampled_from([None, DECISION]),
)


@given(STATES, st.floats(-1e9, 1e9), st.floats(0.0, 1e11))
def test_no_state_makes_a_text_that_is_too_long_or_not_understood(state, now, wall):
    text = remember(state, now, wall)
    assert text.isascii()
    assert len(text) <= MOST_BYTES
    assert not recall(text, SPEC, now, wall).note.startswith("what is stored is no text")


@given(
    st.lists(
        st.tuples(st.integers(1, 299), st.integers(0, 400)), min_size=1, max_size=60, unique_by=lambda one: one[0]
    ),
    st.integers(0, 300),
)
def test_the_stored_window_never_says_less_than_the_real_one(samples, after_s):
    downs = Extremes()
    for ago, value in sorted(samples, reverse=True):
        downs = downs.add(NOW - ago, float(value), 300.0)
    published = int(downs.extreme() or 0)
    state = replace(STATE, stabilizer=replace(STATE.stabilizer, published=published, downs=downs))
    stored = recalled(remember(state, NOW, WALL)).state.stabilizer.downs
    real_then = downs.add(NOW + after_s, 0.0, 300.0).extreme()
    assert (stored.add(LATER + after_s, 0.0, 300.0).extreme() or 0.0) >= (real_then or 0.0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("vtkdalrcnsx"), inner, max_size=5),
    max_leaves=12,
)


@pytest.mark.fault("stored state is damaged")
@given(st.text() | JSON.map(json.dumps), st.floats(-1e12, 1e12))
def test_no_text_at_all_is_fatal(text, wall):
    assert isinstance(recall(text, SPEC, LATER, wall), Recalled)


@st.composite
def mutations(draw) -> str:
    """The text of the moment with one part of it replaced by another value, cut out, or repeated."""
    written = json.loads(text_of(LEARNT)) | {"v": draw(st.sampled_from([1, 1, 1, 2]))}
    part, key = written, draw(st.sampled_from(sorted(written)))
    while isinstance(part[key], list) and part[key] and draw(st.booleans()):
        part, key = part[key], draw(st.integers(0, len(part[key]) - 1))
    if draw(st.booleans()):
        part[key] = draw(JSON)
    elif isinstance(part, list):
        part *= draw(st.sampled_from([0, 2]))
    else:
        del part[key]
    return json.dumps(written)


@pytest.mark.fault("stored state is damaged")
@given(mutations(), st.floats(-1e3, 1e6) | st.floats(1e6, 3e9), st.sampled_from([PROFILE, AUTO]))
def test_the_law_decides_on_whatever_a_changed_text_is_read_as(text, gap_s, profile):
    state, spec = recalled(text, gap_s).state, replace(SPEC, profile=profile)
    engines = Engine("a", running=20.0), Engine("b", running=30.0, waiting=4.0)
    for tick in range(4):
        for engine in engines:
            engine.emit(6.0)
        state, decision = step(spec, state, observe(LATER + 2.0 * tick, engines))
    assert isinstance(decision, Decision)
    assert 1 <= decision.desired <= SPEC.scaling.max_replicas
    assert all(math.isfinite(verdict.admit_ratio) for verdict in decision.classes)


ROUNDED = 0.005
ORDER = (Pressure.GREEN, Pressure.YELLOW, Pressure.RED)


@dataclass(frozen=True)
class Load:
    """What each of two replicas does in one tick."""

    running: float
    waiting: float
    first_tokens: float


LOADS = st.builds(
    Load,
    st.sampled_from([0.0, 20.0, 90.0, 100.0, 140.0]),
    st.sampled_from([0.0, 3.0, 60.0, 400.0]),
    st.integers(0, 20).map(float),
)
SPECS = st.builds(
    workload,
    st.sampled_from([PROFILE, Profile(100.0)]),
    st.just((replace(CHAT, tpot_s=0.1), AGENT)),
    stabilize=st.sampled_from([None, 20.0, 1.0]).map(lambda down_s: StabilizeSpec(downscale_delay_s=down_s)),
    latency=st.builds(ReadyLatency, st.sampled_from([20.0, 600.0])),
)
STORIES = st.lists(st.tuples(LOADS, st.sampled_from([1, 4, 9])), min_size=1, max_size=6)


@pytest.mark.fault("process is killed")
@given(SPECS, STORIES, LOADS, st.sampled_from([0.0, 3.0, 20.0, 90.0]))
def test_the_first_decision_after_a_restart_is_never_below_the_stored_one_nor_laxer(spec, story, after, gap_s):
    law, engines = Law(spec), (Engine("a"), Engine("b"))

    def play(load: Load) -> Decision:
        for engine in engines:
            engine.running, engine.waiting = load.running, load.waiting
            engine.emit(load.first_tokens)
        return law.see(*engines)

    before = [play(load) for load, ticks in story for _ in range(ticks)][-1]
    text = remember(law.state, law.now - spec.tick_s, WALL)
    law.now += gap_s
    law.state = recall(text, spec, law.now, WALL + spec.tick_s + gap_s).state
    first = play(after)
    assert first.desired >= before.desired
    assert ORDER.index(first.state) >= ORDER.index(before.state)
    each_per_s = first.estimate.offered_per_s / len(first.classes)
    for now, was in zip(first.classes, before.classes, strict=True):
        lasting = first.estimate.drain_per_s / each_per_s if each_per_s > 0 else 0.0
        most = max(was.admit_ratio, lasting) + RISE_PER_REACTION + ROUNDED
        assert now.state is Pressure.GREEN or now.admit_ratio <= most
