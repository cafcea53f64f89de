"""Who leads: the decision as values, and elections in virtual time over a Lease that answers late, fails and loses answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import looptime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.cluster.api import Conflict, Forbidden, Json, NotFound, Unreachable
from scaler.cluster.lease import LEASE, Elector, Member, Record, Seen, Step, decide, observe
from tests.support.parts import passing

ME, OTHER = "me_1", "other_2"
HELD = Record(OTHER, 15.0, "7")


@pytest.mark.parametrize(
    ("record", "now", "step"),
    [
        pytest.param(None, 0.0, Step.CREATE, id="there is none"),
        pytest.param(HELD, 14.9, Step.WAIT, id="another holds it"),
        pytest.param(HELD, 15.0, Step.TAKE, id="another held it and has not renewed"),
        pytest.param(replace(HELD, duration_s=40.0), 39.9, Step.WAIT, id="another of longer duration holds it"),
        pytest.param(replace(HELD, holder=""), 0.0, Step.TAKE, id="it was released"),
        pytest.param(replace(HELD, holder=ME), 0.0, Step.RENEW, id="mine"),
        pytest.param(replace(HELD, holder=ME), 99.0, Step.RENEW, id="mine, long not renewed, and nobody took it"),
        pytest.param(replace(HELD, version=""), 14.9, Step.WAIT, id="deleted, and its holder may not know"),
        pytest.param(replace(HELD, version=""), 15.0, Step.CREATE, id="deleted long ago"),
        pytest.param(replace(HELD, holder=ME, version=""), 0.0, Step.CREATE, id="mine, deleted"),
    ],
)
def test_what_to_do_about_a_record_first_seen_so_at_zero(record, now, step):
    assert decide(Seen(record, 0.0), ME, now) is step


@pytest.mark.parametrize(
    ("record", "seen"),
    [
        pytest.param(HELD, Seen(HELD, 3.0), id="nothing changed"),
        pytest.param(replace(HELD, version="8"), Seen(replace(HELD, version="8"), 9.0), id="renewed"),
        pytest.param(None, Seen(replace(HELD, version=""), 9.0), id="deleted"),
    ],
)
def test_a_record_counts_from_when_its_change_was_seen(record, seen):
    assert observe(Seen(HELD, 3.0), record, 9.0) == seen


def test_a_deleted_record_counts_from_when_it_was_first_missed():
    missed = observe(Seen(HELD, 3.0), None, 9.0)
    assert observe(missed, None, 11.0) == missed


@dataclass
class Lease:
    """The one Lease, with the server's rule: who writes must have seen the newest version."""

    stored: Json | None = None
    version: int = 0

    def read(self) -> Json:
        if self.stored is None:
            raise NotFound("no Lease")
        return self.stored

    def write(self, body: Json, seen: str | None) -> Json:
        now = None if self.stored is None else str(self.version)
        if seen != now:
            raise Conflict("somebody was quicker")
        self.version += 1
        self.stored = {**body, "metadata": {"name": LEASE, "resourceVersion": str(self.version)}}
        return self.stored


@dataclass
class Line:
    """One pod's way to it, as an Api: each direction takes up to ``slowest_s``, and of a hundred messages some are ``lost``.

    ``cut``: nothing comes through any more, and nothing says so.
    """

    lease: Lease
    chance: random.Random = field(default_factory=random.Random)
    lost: float = 0.0
    slowest_s: float = 0.0
    cut: bool = False
    refusal: Exception | None = None

    async def get(self, path: str) -> Json:
        return await self._carry(self.lease.read)

    async def create(self, path: str, body: Json) -> Json:
        return await self._carry(lambda: self.lease.write(body, None))

    async def replace(self, path: str, body: Json) -> Json:
        return await self._carry(lambda: self.lease.write(body, body["metadata"]["resourceVersion"]))

    async def _carry(self, work: Callable[[], Json]) -> Json:
        await self._travel()
        done = work()
        await self._travel()
        return done

    async def _travel(self) -> None:
        if self.refusal is not None:
            raise self.refusal
        with suppress(TimeoutError):
            async with asyncio.timeout(None if self.cut else self.chance.uniform(0.0, self.slowest_s)):
                await asyncio.Event().wait()
        if self.chance.random() * 100 < self.lost:
            raise Unreachable("lost")


@dataclass
class Process:
    """An elector that runs, on a clock that shows ``fast_s`` more than the others' and a wall clock that shows anything."""

    line: Line
    member: Member = Member("scaler", "slo-scaler-a", "1")
    fast_s: float = 0.0
    wall: Callable[[], float] = lambda: 1.8e9

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.elector = Elector(self.line, self.member, lambda: loop.time() + self.fast_s, self.wall)  # type: ignore[arg-type]
        self.task = asyncio.create_task(self.elector.run())

    async def die(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def leave(self) -> None:
        with suppress(Conflict, Unreachable, TimeoutError):
            async with asyncio.timeout(6.0):
                await self.elector.release()
        await self.die()


@dataclass
class Chaos:
    """Pods that come, go and die, over lines that delay and lose; all by the numbers of one seed."""

    seed: int
    lost: float
    slowest_s: float
    wall: Callable[[], float] = lambda: 1.8e9

    async def run(self) -> list[tuple[str, ...]]:
        """Who believed to lead, twice a second; at last everything works for 40 s."""
        self.chance, self.lease, self.born = random.Random(self.seed), Lease(), 0
        self.alive = [self._started(), self._started()]
        self.seen: list[tuple[str, ...]] = []
        for _ in range(20):
            await self._one_event()
            await self._watched(self.chance.uniform(0.0, 20.0))
        self.alive.append(self._started())
        for process in self.alive:
            process.line.lost, process.line.slowest_s, process.line.cut = 0.0, 0.1, False
        await self._watched(40.0)
        for process in self.alive:
            await process.die()
        return self.seen

    async def _one_event(self) -> None:
        match self.chance.randrange(8):
            case 0 | 1 if len(self.alive) < 4:
                self.alive.append(self._started())
            case 2 if self.alive:
                await self._some().die()
            case 3 if self.alive:
                leaving = asyncio.create_task(self._some().leave())
                await self._watched(1.0)
                await leaving
            case 4 if self.alive:
                restarted = self._some()
                await restarted.die()
                self.alive.append(Process(restarted.line, restarted.member, self.chance.uniform(-1e5, 1e5), self.wall))
            case 5 | 6 | 7:
                for process in self.alive:
                    process.line.cut = self.chance.random() < (0.8 if process.elector.leads() else 0.2)

    def _some(self) -> Process:
        return self.alive.pop(self.chance.randrange(len(self.alive)))

    def _started(self) -> Process:
        self.born += 1
        line = Line(self.lease, random.Random(self.chance.random()), self.lost, self.slowest_s)
        member = Member("scaler", f"pod-{self.chance.randrange(3)}", str(self.born))
        return Process(line, member, self.chance.uniform(-1e5, 1e5), self.wall)

    async def _watched(self, seconds: float) -> None:
        for _ in range(int(2 * seconds)):
            self.seen.append(tuple(one.member.identity for one in self.alive if one.elector.leads()))
            await passing(0.5)


def in_virtual_time(work):
    # Nothing here waits for a thread or a socket, so that each instant needs no idle rounds.
    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(noop_cycles=0)) as runner:
        return runner.run(work)


@pytest.mark.fault("two scalers at once")
@settings(max_examples=50)
@given(st.integers(0, 2**32), st.floats(0.0, 40.0), st.floats(0.0, 2.0))
def test_two_never_believe_to_lead_and_once_all_works_one_does(seed, lost, slowest_s):
    seen = in_virtual_time(Chaos(seed, lost, slowest_s).run())
    most, at_last = max(map(len, seen)), {len(leading) for leading in seen[-30:]}
    assert (most <= 1, at_last) == (True, {1})


@pytest.mark.fault("clock steps")
@settings(max_examples=8)
@given(st.integers(0, 2**32), st.floats(0.0, 20.0), st.floats(0.0, 2.0))
def test_wall_clocks_that_step_by_a_day_change_nothing(seed, lost, slowest_s):
    dice = random.Random(seed)

    def stepping() -> float:
        return 1.8e9 + dice.choice((-86400.0, 0.0, 86400.0))

    steady = in_virtual_time(Chaos(seed, lost, slowest_s).run())
    assert in_virtual_time(Chaos(seed, lost, slowest_s, stepping).run()) == steady


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.floats(0.0, 12.0))
def test_whenever_a_holder_leaves_the_lease_is_free(seed, after_s):
    async def leaving() -> tuple[str, bool]:
        lease = Lease()
        process = Process(Line(lease, random.Random(seed), slowest_s=0.5))
        await passing(2.0 + after_s)
        await process.leave()
        await passing(5.0)
        return lease.read()["spec"]["holderIdentity"], process.elector.leads()

    assert in_virtual_time(leaving()) == ("", False)


@pytest.mark.fault("API server falls silent", "two scalers at once")
@pytest.mark.looptime
async def test_a_holder_that_gets_no_answer_gives_up_before_another_takes_over():
    lease = Lease()
    first = Process(Line(lease))
    await passing(1.0)
    second = Process(Line(lease), Member("scaler", "slo-scaler-b", "2"), fast_s=-50.0)
    await passing(60.0)
    first.line.cut = True
    seen = []
    for _ in range(400):
        seen.append((first.elector.leads(), second.elector.leads()))
        await passing(0.1)
    assert list(dict.fromkeys(seen)) == [(True, False), (False, False), (False, True)]
    assert "did not answer" in first.elector.why
    await first.die()
    await second.die()


@pytest.mark.looptime
async def test_a_container_restarted_in_its_pod_leads_on_and_a_new_pod_of_its_name_waits():
    lease = Lease()
    first = Process(Line(lease))
    await passing(7.0)
    await first.die()
    restarted = Process(Line(lease))
    await passing(0.1)
    led_on = restarted.elector.leads()
    await restarted.die()
    renamed = Process(Line(lease), Member("scaler", "slo-scaler-a", "2"))
    await passing(14.0)
    waited = renamed.elector.leads()
    await passing(3.0)
    assert (led_on, waited, renamed.elector.leads()) == (True, False, True)
    await renamed.die()


@pytest.mark.looptime
async def test_a_lease_deleted_by_hand_stays_with_its_holder():
    lease = Lease()
    holder = Process(Line(lease))
    await passing(1.0)
    other = Process(Line(lease), Member("scaler", "slo-scaler-b", "2"))
    await passing(7.0)
    lease.stored = None
    seen = set()
    for _ in range(300):
        seen.add((holder.elector.leads(), other.elector.leads()))
        await passing(0.1)
    assert seen == {(True, False)}
    await holder.die()
    await other.die()


@pytest.mark.looptime
async def test_a_lease_that_says_nothing_is_taken():
    lease = Lease({"metadata": {"name": LEASE, "resourceVersion": "1"}}, version=1)
    process = Process(Line(lease))
    await passing(0.1)
    assert (process.elector.leads(), lease.read()["spec"]["leaseTransitions"]) == (True, 1)
    await process.die()


@pytest.mark.looptime
async def test_a_stranger_that_took_the_lease_for_ever_has_it_for_a_minute():
    spec = {"holderIdentity": "stranger", "leaseDurationSeconds": 2**31 - 1}
    process = Process(Line(Lease({"metadata": {"name": LEASE, "resourceVersion": "1"}, "spec": spec}, version=1)))
    await passing(59.0)
    waited = process.elector.leads()
    await passing(4.0)
    assert (waited, process.elector.leads()) == (False, True)
    await process.die()


@pytest.mark.looptime
async def test_what_a_lease_says_is_what_client_go_writes():
    lease = Lease()
    process = Process(Line(lease), wall=lambda: 1796140800.25)
    await passing(1.0)
    held = dict(lease.read()["spec"])
    await process.leave()
    assert (held, lease.read()["spec"]) == (
        {
            "holderIdentity": "slo-scaler-a_1",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-12-01T16:00:00.250000Z",
            "renewTime": "2026-12-01T16:00:00.250000Z",
            "leaseTransitions": 0,
        },
        {**held, "holderIdentity": "", "leaseDurationSeconds": 1},
    )


@pytest.mark.looptime
async def test_without_the_permission_nobody_leads_and_the_reason_is_told():
    process = Process(Line(Lease(), refusal=Forbidden("may not get leases")))
    await passing(30.0)
    assert (process.elector.leads(), process.elector.why, process.elector.changed.is_set()) == (
        False,
        "may not get leases",
        True,
    )
    process.line.refusal = None
    await passing(3.0)
    assert (process.elector.leads(), process.elector.why) == (True, "")
    await process.die()
