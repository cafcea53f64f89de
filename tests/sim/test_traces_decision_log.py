"""Our own log, played again."""

import io
import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from scaler.control.board import Board
from scaler.core.capacity import Profile
from scaler.core.decision import Decision
from scaler.core.model import Histogram, Observation, Reading, ReplicaSet, RequestClass, Starting, WorkloadKey
from scaler.core.step import State, WorkloadSpec, step
from scaler.core.target import ScalingSpec
from scaler.errors import ConfigError
from scaler.sim.shapes import Bursty, Pulse, Ramp, Shape, rated
from scaler.sim.traces import Assumed, Recorded, read
from scaler.sim.traffic import Lengths, Rated, Spread, Stream
from scaler.telemetry import Reporter

LOG = (Path(__file__).resolve().parents[1] / "data" / "traces" / "decisions.jsonl").read_bytes()
LLAMA = Assumed(request_class="chat", workload="prod/llama")


def changed(**changes) -> bytes:
    """The log with other values in its line 3, or without those that are None."""
    lines = LOG.decode().splitlines()
    line = {**json.loads(lines[2]), **changes}
    lines[2] = json.dumps({key: value for key, value in line.items() if value is not None})
    return "\n".join(lines).encode()


def test_a_log_gives_its_load_and_what_was_decided_meanwhile():
    trace = read("log", LOG, LLAMA)
    # each rate holds around the middle of the 30 s before its line: the second line's from 12:01:40, where its window begins
    rates = ((0.0, 10.0), (90.0, 20.0), (110.0, 24.0))
    assert trace.traffic == Rated((Stream("chat", rates, Lengths(1000, 200), spread=Spread.COUNTED),), 180.0)
    assert trace.recorded == (
        Recorded(0.0, 2, 2, 0),
        Recorded(120.0, 2, 2, 0),
        Recorded(130.0, 4, 2, 2),
        Recorded(180.0, 4, 4, 0, blind=True),
    )
    assert (trace.kind, trace.notes) == (
        "our decision log",
        ("1 of 4 lines were blind; the load before them was held",),
    )


def test_a_log_whose_lines_are_not_in_order_is_put_in_order():
    lines = LOG.splitlines()
    assert read("log", b"\n".join([lines[0], lines[1], *reversed(lines[2:])]), LLAMA) == read("log", LOG, LLAMA)


def test_a_log_that_does_not_know_lengths_takes_those_that_are_assumed():
    trace = read("log", LOG.replace(b"839.2", b'"unknown"'), Assumed("chat", Lengths(7, 7), "prod/llama"))
    assert isinstance(trace.traffic, Rated)
    assert trace.traffic.streams[0].lengths == Lengths(7, 7)
    assert "the log does not tell how long requests were; lengths were assumed" in trace.notes


@pytest.mark.parametrize(
    ("content", "workload", "says"),
    [
        pytest.param(
            LOG,
            None,
            "log: several workloads; name one that is there as NAMESPACE/NAME: prod/llama, prod/other",
            id="several workloads",
        ),
        pytest.param(
            LOG,
            "prod/lama",
            "log: no decision of the workload; name one that is there as NAMESPACE/NAME: prod/llama, prod/other",
            id="unknown workload",
        ),
        pytest.param(
            LOG,
            "prod/other",
            "log: fewer than two lines that saw a load; record for longer, or over a change of the load",
            id="one line",
        ),
        pytest.param(
            LOG.replace(b'"load":', b'"loads":'),
            "prod/llama",
            'log: no line of the workload has "load"; it was written by an older release: record again',
            id="older release",
        ),
        pytest.param(
            b'{"at": "2026-03-01T12:00:00.000+00:00", "level": "info", "event": "listening"}',
            None,
            "log: no decision of the workload; name one that is there as NAMESPACE/NAME: none",
            id="no decision",
        ),
        pytest.param(
            changed(at="yesterday"),
            "prod/llama",
            "log, line 3: at: a time such as 2026-01-31T23:59:59.500+00:00 is needed here",
            id="time",
        ),
        pytest.param(
            changed(desired=None), "prod/llama", "log, line 3: desired: a number of replicas is needed here", id="none"
        ),
        pytest.param(
            changed(desired=-1),
            "prod/llama",
            "log, line 3: desired: a number from 0 to 1,000,000 is needed here",
            id="-1",
        ),
        pytest.param(
            changed(load={"ready": 2}),
            "prod/llama",
            "log, line 3: load: offered_per_s and window_s are needed here; record again",
            id="load",
        ),
    ],
)
def test_a_log_that_cannot_be_played_says_why(content, workload, says):
    with pytest.raises(ConfigError) as refused:
        read("log", content, Assumed(workload=workload))
    assert str(refused.value) == says


# --- From the law through the log and back ----------------------------------------------------------------------------

KEY = WorkloadKey("prod", "llama")
SPEC = WorkloadSpec(
    KEY, Profile(100.0, 10.0), (RequestClass("chat", ttft_s=2.0),), scaling=ScalingSpec(max_replicas=20)
)
RESIDENCE_S, SYNC_S, START_S = 10.0, 16.0, 60.0


@dataclass
class Member:
    """A replica that serves its share of all arrivals without a queue."""

    name: str
    ready_at: float
    started: float = 0.0

    def reading(self, at: float, running: float) -> Reading:
        return Reading(
            self.name, at, running, 0.0, 0.3, ttft=Histogram((1.0,), (self.started,) * 2, 0.1 * self.started)
        )


def played(times: Sequence[float], until: float) -> list[Decision]:
    """What the law decides, tick by tick, while an HPA follows it every 16 s, in whole ticks, and a start takes a minute."""
    members, state, decisions = [Member("0", 0.0), Member("1", 0.0)], State(), []
    for tick in range(int(until / SPEC.tick_s)):
        now = tick * SPEC.tick_s
        came, before, gone = (bisect_right(times, at) for at in (now, now - SPEC.tick_s, now - RESIDENCE_S))
        ready = [member for member in members if member.ready_at <= now]
        for member in ready:
            member.started += (came - before) / len(ready)
        replicas = ReplicaSet(
            tuple(member.name for member in ready),
            tuple(Starting(member.name, member.ready_at - START_S) for member in members if member.ready_at > now),
            len(members),
            now,
        )
        readings = tuple(member.reading(now, (came - gone) / len(ready)) for member in ready)
        state, outcome = step(SPEC, state, Observation(now, replicas, readings))
        if not isinstance(outcome, Decision):
            continue
        decisions.append(outcome)
        if not now % SYNC_S:
            members = members[: outcome.desired]
            members += [Member(f"{now}-{i}", now + START_S) for i in range(outcome.desired - len(members))]
    return decisions


def logged(decisions: Sequence[Decision]) -> bytes:
    stream, now = io.StringIO(), 0.0
    reporter = Reporter(Board(), lambda: now, lambda: 1.8e9 + now, stream)
    for decision in decisions:
        now = decision.decided_at
        reporter.ticked(decision, 0.001)
    return stream.getvalue().encode()


@dataclass(frozen=True)
class Replay:
    """What was desired at each sync: as decided, as the log has it, and as it was decided when the log was played again."""

    times: list[float]
    decided: list[int]
    logged: list[int]
    again: list[int]


def replayed(shape: Shape, seed: int) -> Replay:
    decided = played([row.at for row in rated(shape, seed).arrivals(seed)], shape.duration_s)
    trace, began_at = read("log", logged(decided), Assumed("chat")), decided[0].decided_at
    times = [row.at + began_at for row in trace.traffic.arrivals(seed + 1)]
    again = {one.decided_at: one.desired for one in played(times, began_at + trace.traffic.duration_s)}
    syncs = {one.decided_at: one.desired for one in decided if not one.decided_at % SYNC_S and one.decided_at in again}
    told = [(began_at + line.at, line.desired) for line in trace.recorded]
    return Replay(
        list(syncs),
        list(syncs.values()),
        [[desired for at, desired in told if at <= sync + 0.01][-1] for sync in syncs],
        [again[sync] for sync in syncs],
    )


RISE = Ramp(low_per_s=15, high_per_s=60, begins_at_s=600, lasts_s=120, duration_s=1500)
BURSTS = Bursty(mean_per_s=30, cv=0.4, burst_s=300, duration_s=1500)
JUMP = Pulse(low_per_s=15, high_per_s=60, begins_at_s=600, lasts_s=300, duration_s=1500)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "shape", [pytest.param(RISE, id="a rise"), pytest.param(BURSTS, id="bursts"), pytest.param(JUMP, id="a jump")]
)
def test_a_logged_incident_played_again_agrees_within_one_replica_at_every_sync(shape, seed):
    replay = replayed(shape, seed)
    assert replay.logged == replay.decided
    assert len(set(replay.decided)) > 2
    assert max(abs(one - other) for one, other in zip(replay.decided, replay.again, strict=True)) <= 1
