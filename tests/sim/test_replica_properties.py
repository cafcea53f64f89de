"""What always holds for the replica model, and that its spans agree with a naive one, a step at a time."""

from dataclasses import dataclass, field
from math import nextafter

from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.sim import Coefficients, EngineLimits, Event, Finished, FirstToken, Preempted, Replica, Request, RequestId
from scaler.sim.span import Span
from tests.support.naive_replica import NaiveReplica

# Powers of two: sums are exact, so that times can be compared exactly and ties are real ties.
EXACT = Coefficients(a_s=2**-6, b_s=2**-10, c_s=2**-12, d_s=2**-16, overhead_s=2**-5)
TICKING = Coefficients(a_s=2**-6, b_s=0.0, c_s=0.0, d_s=0.0, overhead_s=0.0)  # arrivals and aborts meet step ends
INEXACT = Coefficients(a_s=0.0117, b_s=0.00031, c_s=0.000071, d_s=1.3e-6, overhead_s=0.015)
repeatable = settings(derandomize=True, deadline=None, max_examples=200)


@dataclass(frozen=True)
class Scenario:
    limits: EngineLimits
    requests: list[Request]
    cancels: dict[RequestId, float]
    looks: list[float]
    """Times at which the owner asks in between."""


@st.composite
def scenarios(draw: st.DrawFn, *, cancels: bool = True) -> Scenario:
    instants = st.integers(0, 256).map(lambda n: n / 64)
    arrivals = sorted(draw(st.lists(instants, min_size=1, max_size=12)))
    requests = [Request(i, at, draw(st.integers(1, 40)), draw(st.integers(1, 30))) for i, at in enumerate(arrivals)]
    max_num_seqs = draw(st.integers(1, 6))
    limits = EngineLimits(max_num_seqs, draw(st.integers(max_num_seqs, 48)), draw(st.integers(70, 160)))
    gone = draw(st.dictionaries(st.sampled_from(requests), instants, max_size=4)) if cancels else {}
    looks = draw(st.lists(instants, max_size=20))
    return Scenario(limits, requests, {request.id: request.arrived_at + wait for request, wait in gone.items()}, looks)


@dataclass
class Seen:
    replica: Replica
    events: list[Event] = field(default_factory=list)
    progress: list[tuple[float, RequestId, int]] = field(default_factory=list)
    balances: list[tuple[int, int]] = field(default_factory=list)
    loads: list[tuple[int, int]] = field(default_factory=list)

    def look(self, at: float, ids: list[RequestId]) -> None:
        replica = self.replica
        self.events += replica.advance(at)
        gone = {event.id for event in self.events if isinstance(event, Finished)}
        self.progress += [(at, i, replica.generated(i)) for i in ids if i not in gone]
        counters = replica.counters
        here = replica.entering + replica.waiting + replica.running
        self.balances.append((counters.submitted, here + counters.finished + counters.cancelled))
        self.loads.append((replica.running, replica.kv_tokens))


def drive(scenario: Scenario, looks: list[float], cost: Coefficients = EXACT) -> Seen:
    """Submit, cancel and look, each at its time; then let it run dry by its own word."""
    seen = Seen(Replica(cost, scenario.limits))
    ids: list[RequestId] = []
    submits = [(request.arrived_at, 0, request) for request in scenario.requests]
    cancels = [(at, 1, request_id) for request_id, at in scenario.cancels.items()]
    for at, _, what in sorted([*submits, *cancels, *((at, 2, None) for at in looks)], key=lambda step: step[:2]):
        if what is None:
            seen.look(at, ids)
        elif isinstance(what, Request):
            seen.replica.submit(what, at)
            ids.append(what.id)
        else:
            seen.replica.cancel(what, at)
            ids.remove(what)
    while (next_at := seen.replica.next_event_at()) is not None:
        seen.look(next_at, ids)
    return seen


def in_order(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda event: (event.at, type(event).__name__, event.id))


@repeatable
@given(scenarios(), st.sampled_from([EXACT, TICKING]))
def test_spans_give_exactly_what_single_steps_give(scenario: Scenario, cost: Coefficients) -> None:
    naive = NaiveReplica(cost, scenario.limits)
    token_times = naive.simulate(scenario.requests, scenario.cancels)
    seen = drive(scenario, scenario.looks, cost)
    assert in_order(seen.events) == in_order(naive.events)
    assert seen.progress == [(at, i, sum(time <= at for time in token_times[i])) for at, i, _ in seen.progress]


@repeatable
@given(scenarios(), st.lists(st.floats(0.0, 5.0), max_size=30), st.sampled_from([INEXACT, TICKING]))
def test_how_often_it_is_asked_changes_nothing(scenario: Scenario, looks: list[float], cost: Coefficients) -> None:
    assert drive(scenario, [*looks, *scenario.looks], cost).events == drive(scenario, [], cost).events


@repeatable
@given(scenarios())
def test_every_request_is_always_in_exactly_one_place(scenario: Scenario) -> None:
    balances = drive(scenario, scenario.looks).balances
    assert [there for _, there in balances] == [submitted for submitted, _ in balances]


@repeatable
@given(scenarios())
def test_never_runs_more_sequences_or_holds_more_kv_than_allowed(scenario: Scenario) -> None:
    limits = scenario.limits
    loads = drive(scenario, scenario.looks).loads
    assert all(running <= limits.max_num_seqs and 0 <= kv <= limits.kv_tokens for running, kv in loads)


@repeatable
@given(scenarios())
def test_events_come_in_order_of_time(scenario: Scenario) -> None:
    times = [event.at for event in drive(scenario, scenario.looks).events]
    assert times == sorted(times)


@repeatable
@given(scenarios(cancels=False))
def test_no_token_is_ever_lost(scenario: Scenario) -> None:
    counters = drive(scenario, scenario.looks).replica.counters
    assert (counters.finished, counters.first_tokens) == (len(scenario.requests), len(scenario.requests))
    assert counters.prompt_tokens == sum(request.prompt_tokens for request in scenario.requests)
    assert counters.generation_tokens == sum(request.output_tokens for request in scenario.requests)


@repeatable
@given(scenarios(cancels=False))
def test_first_tokens_come_in_order_of_arrival(scenario: Scenario) -> None:
    events = drive(scenario, []).events
    ids = [event.id for event in events if isinstance(event, FirstToken)]
    assert ids == sorted(ids)


@repeatable
@given(scenarios(cancels=False))
def test_asking_at_the_time_it_names_never_finds_a_token_that_is_older(scenario: Scenario) -> None:
    replica = Replica(EXACT, scenario.limits)
    for request in scenario.requests:
        replica.submit(request, request.arrived_at)
    late = replica.advance(scenario.requests[-1].arrived_at)
    found: list[Event] = []
    while (at := replica.next_event_at()) is not None:
        events = replica.advance(at)
        assert {event.at for event in events if not isinstance(event, Preempted)} <= {at}
        found += events
    assert sum(isinstance(event, Finished) for event in (*late, *found)) == len(scenario.requests)


@repeatable
@given(st.floats(0.0, 1e6), st.floats(1e-3, 0.1), st.floats(0.0, 1e-4), st.integers(1, 3000))
def test_a_span_counts_a_step_from_the_very_instant_of_its_end(
    start: float, first_s: float, growth_s: float, steps: int
) -> None:
    span = Span(start, first_s, growth_s, [])
    span.extend(steps + 1)
    end = span.boundary(steps)
    assert (span.steps_by(nextafter(end, start)), span.steps_by(end)) == (steps - 1, steps)
