"""What holds whatever a fleet does: random replicas, restarts, silences, refusals, absurd numbers and edits, through `step`."""

import itertools
import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.admission import PROBE_RATIO, as_of
from scaler.core.capacity import AUTO, Profile
from scaler.core.decision import Decision
from scaler.core.model import Observation, Pressure, ReplicaSet, RequestClass, Starting
from scaler.core.ready_latency import ReadyLatency
from scaler.core.stabilize import StabilizeSpec
from scaler.core.step import State, step
from scaler.core.target import ScalingSpec
from tests.support.law import TICK_S, Engine, workload

GREEN = Pressure.GREEN
EXAMPLES = settings(max_examples=settings().max_examples // 10)


@dataclass(frozen=True)
class Happening:
    """What one replica does in one tick."""

    name: str
    running: float = 0.0
    waiting: float = 0.0
    first_tokens: float = 0.0
    rejections: float = 0.0
    restarts: bool = False
    silent: bool = False
    awake: bool = True


@dataclass(frozen=True)
class Tick:
    """What happens in one tick, over all replicas that are ready."""

    happenings: tuple[Happening, ...]
    starting: int = 0
    current: int = 1
    refused: float = 0.0
    listed: bool = True
    max_replicas: int | None = None


NAMES = ("a", "b", "c")
GAUGES = st.sampled_from([0.0, 1.0, 40.0, 120.0, 1e7]) | st.integers(0, 300).map(float)
COUNTS = st.sampled_from([0.0, 1e9]) | st.integers(0, 60).map(float)


def happenings(gauges=GAUGES, counts=COUNTS):
    return st.builds(
        Happening,
        name=st.sampled_from(NAMES),
        running=gauges,
        waiting=gauges,
        first_tokens=counts,
        rejections=counts,
        restarts=st.sampled_from([False] * 9 + [True]),
        silent=st.sampled_from([False] * 4 + [True]),
        awake=st.sampled_from([True] * 9 + [False]),
    )


def ticks(happening):
    fleet = st.lists(happening, max_size=3, unique_by=lambda one: one.name).map(tuple)
    return st.builds(
        Tick,
        fleet,
        starting=st.integers(0, 2),
        current=st.integers(0, 12),
        refused=COUNTS,
        listed=st.sampled_from([True] * 9 + [False]),
        max_replicas=st.none() | st.integers(1, 9),
    )


def stretches(one_tick, size=6):
    """Ticks of which each is repeated for a while, so that windows fill."""
    pair = st.tuples(one_tick, st.sampled_from([1, 2, 8, 16]))
    return st.lists(pair, min_size=1, max_size=size).map(
        lambda pairs: [tick for tick, times in pairs for _ in range(times)]
    )


AGENT = RequestClass("agent", ttft_s=20.0, order=1, floor_ratio=0.05)
CHAT = RequestClass("chat", ttft_s=4.0, tpot_s=0.1, floor_ratio=0.02)
WORKLOADS = st.builds(
    workload,
    st.sampled_from([Profile(100.0, 8.0), Profile(20.0), AUTO]),
    st.sampled_from([(CHAT,), (CHAT, AGENT)]),
    scaling=st.builds(ScalingSpec, st.integers(0, 2), st.integers(3, 12), st.integers(0, 2)),
    stabilize=st.builds(StabilizeSpec, st.sampled_from([0.0, 20.0]), st.sampled_from([None, 20.0]), st.just(60.0)),
    latency=st.builds(ReadyLatency, st.sampled_from([20.0, 180.0])),
)


def observations(story, begin: float = 0.0, order=tuple) -> list[Observation]:
    """A story as the sources would tell it."""
    engines: dict[str, Engine] = {}
    refused, seen, now = 0.0, [], begin
    for tick in story:
        refused += tick.refused
        for one in tick.happenings:
            engine = engines.setdefault(one.name, Engine(one.name))
            if one.restarts:
                engine.restart()
            engine.running, engine.waiting, engine.awake, engine.silent = (
                one.running,
                one.waiting,
                one.awake,
                one.silent,
            )
            engine.rejections += one.rejections
            engine.emit(one.first_tokens)
        ready = [engines[one.name] for one in tick.happenings]
        listed = ReplicaSet(
            tuple(order(engine.name for engine in ready)),
            tuple(Starting(f"s{i}", begin) for i in range(tick.starting)),
            tick.current,
            now,
            tick.max_replicas,
        )
        readings = tuple(order(engine.read(now) for engine in ready if not engine.silent))
        seen.append(Observation(now, listed if tick.listed else None, readings, refused_total=refused))
        now += TICK_S
    return seen


def told(spec, seen, edits=()):
    """The outcome of every observation; `edits` are (index, changes) of the spec."""
    state, outcomes = State(), []
    for index, observation in enumerate(seen):
        for at, changes in edits:
            spec = replace(spec, **changes) if at == index else spec
        state, outcome = step(spec, state, observation)
        outcomes.append(outcome)
    return outcomes


def decisions(spec, seen, edits=()):
    return [outcome for outcome in told(spec, seen, edits) if isinstance(outcome, Decision)]


def bound(decision) -> int:
    return decision.shaped.inputs.max_replicas


ABSURD = stretches(ticks(happenings()))
EDITS = st.lists(
    st.tuples(
        st.integers(1, 60),
        st.fixed_dictionaries(
            {},
            optional={
                "headroom_ratio": st.sampled_from([0.0, 0.5]),
                "profile": st.sampled_from([Profile(10.0, 1.0), Profile(1000.0, 100.0), Profile(50.0), AUTO]),
                "scaling": st.builds(ScalingSpec, st.just(1), st.sampled_from([6, 12]), st.integers(0, 2)),
                "stabilize": st.builds(StabilizeSpec, st.sampled_from([0.0, 20.0]), st.sampled_from([None, 60.0])),
            },
        ),
    ),
    max_size=3,
)


@pytest.mark.fault("engine reports what is no number")
@EXAMPLES
@given(WORKLOADS, ABSURD, EDITS)
def test_the_number_is_always_a_whole_one_within_zero_and_the_maximum(spec, story, edits):
    for decision in decisions(spec, observations(story), edits):
        assert isinstance(decision.desired, int)
        assert 0 <= decision.desired <= bound(decision)


@pytest.mark.fault("engine reports what is no number")
@EXAMPLES
@given(WORKLOADS, ABSURD)
def test_no_rate_wait_or_share_is_ever_negative_or_not_a_number(spec, story):
    for decision in decisions(spec, observations(story)):
        believed = decision.estimate
        for number in (
            believed.throughput_per_s or 0.0,
            believed.arrival_per_s,
            believed.offered_per_s,
            believed.refused_per_s,
            believed.drain_per_s,
            believed.queue,
            believed.queue_wait.s,
            believed.eta_s,
            *(verdict.retry_after_s for verdict in decision.classes),
        ):
            assert number >= 0
        assert math.isfinite(believed.queue_wait.s) or not believed.ready


@EXAMPLES
@given(WORKLOADS, ABSURD)
def test_the_share_that_is_admitted_is_within_the_probe_and_one_and_one_while_all_is_green(spec, story):
    for decision in decisions(spec, observations(story)):
        ratios = [verdict.admit_ratio for verdict in decision.classes]
        assert all(PROBE_RATIO <= ratio <= 1.0 for ratio in ratios)
        assert decision.blind or decision.state is not GREEN or set(ratios) == {1.0}


@pytest.mark.fault("whole fleet is unreachable")
@EXAMPLES
@given(WORKLOADS, ABSURD, EDITS)
def test_blind_or_red_never_lowers_the_number_but_for_a_lower_maximum(spec, story, edits):
    made = decisions(spec, observations(story), edits)
    for before, after in itertools.pairwise(made):
        if after.blind or after.state is Pressure.RED:
            assert after.desired >= min(before.desired, bound(after))


@EXAMPLES
@given(WORKLOADS, ABSURD)
def test_a_published_scale_down_is_never_below_the_largest_recommendation_of_the_window(spec, story):
    made = decisions(spec, observations(story))
    for index in range(1, len(made)):
        before, after = made[index - 1], made[index]
        if after.desired < min(before.desired, bound(after)):
            window = spec.stabilize.down_s(after.estimate.replica_ready_s)
            recent = [d for d in made[: index + 1] if not d.blind and d.decided_at > after.decided_at - window]
            assert after.desired >= min(before.desired, bound(after), *[max(d.recommendation.replicas for d in recent)])


@EXAMPLES
@given(WORKLOADS, ABSURD, st.sampled_from(["reversed", "sorted"]))
def test_the_order_of_replicas_and_readings_is_irrelevant(spec, story, order):
    orders = {"reversed": lambda items: reversed(list(items)), "sorted": lambda items: sorted(items, key=str)}
    told_so = told(spec, observations(story, order=orders[order]))
    plain = told(spec, observations(story))
    assert [_timeless(outcome) for outcome in told_so] == [_timeless(outcome) for outcome in plain]


@EXAMPLES
@given(WORKLOADS, ABSURD, st.sampled_from([2.0**12, 2.0**20]))
def test_shifting_all_times_changes_nothing(spec, story, shift):
    early, late = told(spec, observations(story)), told(spec, observations(story, shift))
    assert [_timeless(outcome) for outcome in late] == [_timeless(outcome) for outcome in early]


def _timeless(outcome):
    if not isinstance(outcome, Decision):
        return outcome
    return replace(
        outcome,
        decided_at=0.0,
        observed_at=0.0,
        readings=(),
        replicas=None,
        estimate=replace(outcome.estimate, at=0.0, observed_at=0.0),
        classes=tuple(replace(verdict, since=outcome.decided_at - verdict.since) for verdict in outcome.classes),
    )


@EXAMPLES
@given(WORKLOADS, ABSURD)
def test_a_colour_never_falls_within_its_dwell(spec, story):
    order = (GREEN, Pressure.YELLOW, Pressure.RED)
    for name in (c.name for c in spec.classes):
        since, before = -math.inf, GREEN
        for decision in decisions(spec, observations(story)):
            state = next(verdict.state for verdict in decision.classes if verdict.name == name)
            if order.index(state) < order.index(before):
                assert decision.decided_at - since >= 10.0
            since = decision.decided_at if state is not before else since
            before = state


@pytest.mark.fault("whole fleet is unreachable")
@EXAMPLES
@given(WORKLOADS, ABSURD)
def test_with_age_a_decision_fades_steadily_to_admitting_all(spec, story):
    for decision in decisions(spec, observations(story))[-1:]:
        moments = [decision.observed_at + late for late in (0.0, 9.0, 11.0, 20.0, 30.0, 39.0, 41.0, 400.0)]
        ratios = [[verdict.admit_ratio for verdict in as_of(decision, now).classes] for now in moments]
        for shares in zip(*ratios, strict=True):
            assert list(shares) == sorted(shares)
            assert shares[-1] == 1.0


# --- Edits ---------------------------------------------------------------------------------------------------------


@EXAMPLES
@given(WORKLOADS, stretches(ticks(happenings()), size=6), EDITS)
def test_an_edit_by_itself_never_lowers_the_number_but_for_a_lower_maximum(spec, story, edits):
    spec = replace(spec, stabilize=replace(spec.stabilize, downscale_delay_s=None))
    seen = observations(story)
    state = State()
    for observation in seen:
        state, before = step(spec, state, observation)
    for _, changes in edits:
        again = replace(seen[-1], at=seen[-1].at + TICK_S)
        after = step(replace(spec, **changes), state, again)[1]
        if isinstance(before, Decision) and isinstance(after, Decision):
            assert after.desired >= min(before.desired, bound(after))


# --- More load -----------------------------------------------------------------------------------------------------

SENSIBLE = stretches(
    st.builds(
        lambda fleet: Tick(tuple(fleet), current=4),
        st.tuples(
            *[
                st.builds(
                    Happening,
                    name=st.just(name),
                    running=st.integers(0, 150).map(float),
                    waiting=st.integers(0, 60).map(float),
                    first_tokens=st.integers(0, 40).map(float),
                )
                for name in NAMES
            ]
        ),
    ),
    size=5,
)


def _scaled(story, factor):
    return [
        replace(
            tick,
            happenings=tuple(
                replace(
                    one,
                    running=one.running * factor,
                    waiting=one.waiting * factor,
                    first_tokens=one.first_tokens * factor,
                )
                for one in tick.happenings
            ),
        )
        for tick in story
    ]


@EXAMPLES
@given(SENSIBLE, st.sampled_from([1.01, 1.5, 2.0, 10.0]))
def test_more_of_everything_never_wants_fewer_replicas(story, factor):
    spec = workload(scaling=ScalingSpec(max_replicas=500))
    fewer = decisions(spec, observations(story))
    more = decisions(spec, observations(_scaled(story, factor)))
    for low, high in zip(fewer, more, strict=True):
        # a replica that is on its way already shortens the time to ready, which rightly lowers the backlog: compared at equal times
        if low.estimate.eta_s == high.estimate.eta_s:
            assert high.recommendation.replicas >= low.recommendation.replicas


@EXAMPLES
@given(SENSIBLE, st.integers(1, 200))
def test_more_that_is_refused_never_wants_fewer_replicas(story, refused):
    spec = workload(scaling=ScalingSpec(max_replicas=500))
    fewer = decisions(spec, observations(story))
    more = decisions(spec, observations([replace(tick, refused=float(refused)) for tick in story]))
    for low, high in zip(fewer, more, strict=True):
        # a steady addition makes the same rise a smaller share of the load, so that it may no longer count as growth
        alike = low.estimate.eta_s == high.estimate.eta_s and low.estimate.growth_ratio <= high.estimate.growth_ratio
        assert not alike or high.recommendation.replicas >= low.recommendation.replicas


# --- Idle ----------------------------------------------------------------------------------------------------------

IDLE = stretches(
    st.builds(
        lambda fleet, starting: Tick(tuple(fleet), starting=starting, current=len(fleet) + starting),
        st.lists(
            st.builds(
                Happening,
                name=st.sampled_from(NAMES),
                restarts=st.booleans(),
                silent=st.booleans(),
            ),
            min_size=1,
            max_size=2,
            unique_by=lambda one: one.name,
        ),
        st.integers(0, 1),
    ),
)


@pytest.mark.fault("engine restarts")
@EXAMPLES
@given(IDLE)
def test_an_idle_service_has_no_phantom_load_whatever_its_replicas_do(story):
    spec = workload(scaling=ScalingSpec(min_replicas=3))
    found = {
        (d.desired, d.state, d.classes[0].admit_ratio, d.estimate.offered_per_s)
        for d in decisions(spec, observations(story))
    }
    assert found <= {(3, GREEN, 1.0, 0.0)}


def test_an_idle_service_stays_at_its_minimum_for_hours():
    quiet, silent = Tick((Happening("a"),)), Tick((Happening("a", silent=True),))
    reborn, other = Tick((Happening("a", restarts=True),)), Tick((Happening("b"),))
    hours = ([quiet] * 600 + [silent] * 30 + [reborn] + [other] * 60) * 2
    found = {(d.desired, d.state, d.classes[0].admit_ratio) for d in decisions(workload(), observations(hours))}
    assert found == {(1, GREEN, 1.0)}


# --- No data -------------------------------------------------------------------------------------------------------


@pytest.mark.fault("half the fleet is unreachable")
@EXAMPLES
@given(SENSIBLE, st.sets(st.sampled_from(NAMES), min_size=1))
def test_replicas_that_fall_silent_never_scale_down_what_they_may_need(story, silent):
    spec = workload(stabilize=StabilizeSpec(downscale_delay_s=20.0))
    last = replace(story[-1], current=4)
    mute = replace(last, happenings=tuple(replace(one, silent=one.name in silent) for one in last.happenings))
    made = decisions(spec, observations([*story, *[last] * 8, *[mute] * 20]))
    after = made[-1]
    rest = after.recommendation.terms.load
    assert after.blind or after.desired >= min(4, rest + len(silent))
