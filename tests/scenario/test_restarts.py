"""A process that is killed again and again, against one that never is: through the loop, in virtual time.

The fleet does not follow what is decided, so both are told the same of it, and whatever differs is what was forgotten.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from scaler.control.board import Board
from scaler.control.loop import ControlLoop, Parts
from scaler.control.ports import Memory, Scrape, Snapshot, StateStore
from scaler.core import memory
from scaler.core.capacity import Profile
from scaler.core.decision import Decision
from scaler.core.model import GateMode, Observation, Pressure, RequestClass
from scaler.core.stabilize import StabilizeSpec
from scaler.core.step import State, WorkloadSpec, step
from scaler.core.target import ScalingSpec
from scaler.store import FileStore, WholeState
from tests.support.builders import KEY
from tests.support.parts import SeldomStore
from tests.support.virtual_fleet import Chat, VirtualFleet

REPLICAS, WINDOW_S = 5, 120.0
SPEC = WorkloadSpec(
    KEY,
    Profile(20.0, 1.2, 0.05),
    (RequestClass("chat", ttft_s=5.0, tpot_s=0.05),),
    scaling=ScalingSpec(max_replicas=REPLICAS),
    stabilize=StabilizeSpec(downscale_delay_s=WINDOW_S),
    gate=GateMode.ENFORCE,
    tick_s=3.0,
)
KILLS, FIRST_KILL_S, LONGEST_GAP_S, END_S = 50, 60.0, 60.0, 3000.0
MOST_DEARER = 0.12
"""A process that remembered nothing, or no rates, would begin a scale-down window at each start: that is 15 % and more."""
WALL_S = 1_764_531_000.0
SEEDS = [pytest.param(seed, id=f"seed {seed}") for seed in (1, 2, 3)]
ORDER = (Pressure.GREEN, Pressure.YELLOW, Pressure.RED)


def traffic(seed: int):
    """Minutes of level load, steps, ramps and overload, by chance."""
    chance = random.Random(seed)
    ends = [0.0, *accumulate(chance.uniform(60.0, 300.0) for _ in range(60))]
    rates = [0.5, *(chance.choice([0.3, 0.8, 1.5, 2.5, 4.0, 5.0, 7.0]) for _ in ends)]
    ramps = [chance.random() < 0.5 for _ in ends]

    def rate_per_s(at: float) -> float:
        index = next(index for index, (_, end) in enumerate(pairwise(ends)) if at < end)
        (begin, end), before, after = (ends[index], ends[index + 1]), rates[index], rates[index + 1]
        return before + (after - before) * (at - begin) / (end - begin) if ramps[index] else after

    return rate_per_s


@cache
def uninterrupted(seed: int) -> list[tuple[Observation, Decision]]:
    fleet = VirtualFleet(replicas=REPLICAS, seed=seed, mix=Chat(prompt_tokens=50, output_tokens=1000))
    rate_per_s, state, run = traffic(seed), State(), []
    while fleet.now < END_S:
        fleet.offer(rate_per_s, fleet.now + SPEC.tick_s)
        seen = fleet.observe()
        state, decision = step(SPEC, state, seen)
        assert isinstance(decision, Decision)
        run.append((seen, decision))
    return run


@dataclass
class Playback:
    """All ports of a loop but the store, fed with what was seen once."""

    seen: Observation

    def clock(self) -> float:
        return self.seen.at

    def wall(self) -> float:
        return WALL_S + self.seen.at

    def source(self, spec) -> Playback:
        return self

    def demand(self, spec) -> None:
        return None

    def why(self, key) -> str:
        return ""

    def snapshot(self, key) -> Snapshot:
        assert self.seen.replicas is not None
        return Snapshot(self.seen.replicas, ())

    async def read(self, ask) -> Scrape:
        return Scrape(self.seen.readings, self.seen.missing)

    def ticked(self, outcome, took_s) -> None: ...
    def looked(self, key, missing) -> None: ...
    def crashed(self, key, error) -> None: ...
    def recalled(self, key, note) -> None: ...
    def forgotten(self, key) -> None: ...


@dataclass
class Host:
    """Where processes run one after the other, each with what the one before it stored."""

    playback: Playback
    memory: Memory
    store: StateStore
    loop: ControlLoop | None = None
    board: Board = field(default_factory=Board)

    def kill(self) -> None:
        self.loop = None
        if isinstance(self.store, SeldomStore):
            self.store = SeldomStore(self.playback.clock, texts=self.store.texts)
        elif isinstance(self.store, FileStore):
            self.store.close()
            self.store = opened(self.store._directory)

    async def tick(self) -> Decision:
        if self.loop is None:
            ports, self.board = self.playback, Board()
            parts = Parts(ports, ports, self.board, ports, ports.clock, self.store, self.memory, ports.wall)
            self.loop = ControlLoop(SPEC, parts)
        await self.loop.tick()
        decision = self.board.latest(KEY)
        assert isinstance(decision, Decision)
        return decision


def opened(directory: Path) -> FileStore:
    store = FileStore(directory, pytest.fail)
    store.load()
    return store


@dataclass(frozen=True)
class Kill:
    """A process is killed at a time, and the next one begins some seconds later."""

    at: float
    down_s: float


def kills(seed: int, *, down: bool) -> Iterator[Kill]:
    """Fifty of them with gaps of up to a minute; with ``down``, after two of five the next process takes as long to begin."""
    chance, at = random.Random(seed), FIRST_KILL_S
    for _ in range(KILLS):
        at += chance.uniform(1.0, LONGEST_GAP_S)
        away_s = chance.uniform(1.0, LONGEST_GAP_S) if down and chance.random() < 0.4 else 0.0
        yield Kill(at, away_s)
        at += away_s


@dataclass(frozen=True)
class Told:
    """What one tick told, None while no process ran, beside what the uninterrupted run told, and the last word of a dead process."""

    at: float
    decision: Decision | None
    whole: Decision
    before: Decision | None


async def interrupted(host: Host, seed: int, deaths: list[Kill], until: float = END_S) -> list[Told]:
    waiting, told, back_at, last = list(deaths), list[Told](), 0.0, None
    for seen, whole in uninterrupted(seed):
        if seen.at > until:
            break
        before = None
        host.playback.seen = seen
        while waiting and waiting[0].at < seen.at:
            kill = waiting.pop(0)
            host.kill()
            back_at = kill.at + kill.down_s
        if seen.at < back_at:
            told.append(Told(seen.at, None, whole, None))
            continue
        before = last if host.loop is None else None
        last = await host.tick()
        told.append(Told(seen.at, last, whole, before))
    return told


def seldom(seed: int) -> Host:
    playback = Playback(uninterrupted(seed)[0][0])
    return Host(playback, memory, SeldomStore(playback.clock))


def filed(seed: int, directory: Path) -> Host:
    return Host(Playback(uninterrupted(seed)[0][0]), WholeState(), opened(directory))


def firsts(told: list[Told]) -> list[tuple[Decision, Decision, Decision]]:
    """At each restart: the last word of the dead process, the first of the next, and that of the uninterrupted one."""
    found = [(one.before, one.decision, one.whole) for one in told]
    restarts = [(was, now, whole) for was, now, whole in found if was is not None and now is not None]
    assert len(restarts) >= KILLS / 2
    return restarts


def severity(decision: Decision) -> int:
    return ORDER.index(decision.state)


def settled(told: list[Told], deaths: list[Kill]) -> list[tuple[Decision | None, Decision]]:
    """What both runs told from two windows after the last kill on."""
    since = deaths[-1].at + deaths[-1].down_s + 2 * WINDOW_S
    after = [(one.decision, one.whole) for one in told if one.at > since]
    assert len(after) * SPEC.tick_s > 2 * WINDOW_S
    return after


def differing(pairs: list[tuple[Decision | None, Decision]]) -> list[tuple[Decision | None, Decision]]:
    return [
        pair
        for pair in pairs
        if pair[0] is None or (pair[0].desired, pair[0].state) != (pair[1].desired, pair[1].state)
    ]


def dearer_by(told: list[Told]) -> float:
    """By what share more replicas were desired than by the uninterrupted run, over the time in which both ran."""
    pairs = [(one.decision.desired, one.whole.desired) for one in told if one.decision is not None]
    return sum(now for now, _ in pairs) / sum(whole for _, whole in pairs) - 1


@pytest.mark.fault("process is killed")
@pytest.mark.parametrize("seed", SEEDS)
async def test_fifty_kills_with_a_store_that_is_written_seldom_lower_nothing_and_leave_no_trace(seed):
    deaths = list(kills(seed, down=True))
    told = await interrupted(seldom(seed), seed, deaths)
    assert [(was.desired, now.desired) for was, now, _ in firsts(told) if now.desired < was.desired] == []
    assert [(was.state, now.state) for was, now, _ in firsts(told) if severity(now) < severity(was)] == []
    assert differing(settled(told, deaths)) == []
    assert dearer_by(told) < MOST_DEARER


@pytest.mark.parametrize("seed", SEEDS)
async def test_fifty_kills_between_two_ticks_with_a_file_are_not_to_be_seen_at_all(seed, tmp_path):
    deaths = list(kills(seed, down=False))
    told = await interrupted(filed(seed, tmp_path), seed, deaths, deaths[-1].at + LONGEST_GAP_S)
    assert firsts(told)
    assert [one.decision for one in told] == [one.whole for one in told]


async def test_after_some_time_without_any_process_a_file_is_no_worse_and_leaves_no_trace_either(tmp_path):
    deaths = list(kills(1, down=True))
    told = await interrupted(filed(1, tmp_path), 1, deaths)
    assert [now for was, now, whole in firsts(told) if now.desired < min(was.desired, whole.desired)] == []
    assert [now for was, now, whole in firsts(told) if severity(now) < min(severity(was), severity(whole))] == []
    assert differing(settled(told, deaths)) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_the_traffic_of_these_runs_takes_the_fleet_through_all_that_it_can_do(seed):
    run = [decision for _, decision in uninterrupted(seed)]
    assert {decision.state for decision in run} >= {Pressure.GREEN, Pressure.RED}
    assert len({decision.desired for decision in run}) >= 4
    assert sum(later.desired < sooner.desired for sooner, later in pairwise(run)) >= 3
