"""What a loop takes from a store and what it gives to one, in virtual time with in-memory ports."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from scaler.control.loop import ControlLoop
from scaler.control.ports import Scrape
from scaler.core import memory
from scaler.core.decision import Decision, Pending
from scaler.core.memory import Recalled
from scaler.core.model import Pressure
from scaler.core.pressure import Colour
from scaler.core.stabilize import Stabilizer
from scaler.core.step import State
from scaler.core.windows import Series
from tests.support.builders import KEY, decision, observation, reading, spec
from tests.support.parts import SeldomStore, parts, passing, silent, steady

pytestmark = pytest.mark.looptime

HOUR_S = 3600.0


def clock() -> float:
    return asyncio.get_running_loop().time()


def wall() -> float:
    return 1.7e9 + clock()


def stored(desired: int, *, state: Pressure = Pressure.GREEN, ago_s: float = 4.0) -> str:
    """What another process that had decided so would have stored so long ago."""
    told = decision(spec(), observation(0.0, reading()))
    before = State(
        spec=spec(),
        stabilizer=Stabilizer(published=desired, busy_at=0.0),
        colours=(("chat", Colour(state)),),
        decision=told,
    )
    return memory.remember(before, 0.0, wall() - ago_s)


def kept(text: str | None = None) -> SeldomStore:
    return SeldomStore(clock, texts={} if text is None else {KEY: text})


def remembering(store: SeldomStore, script=steady, **rest):
    return parts(script, store=store, wall=wall, **rest)


def published(shared) -> Decision:
    latest = shared.board.latest(KEY)
    assert isinstance(latest, Decision), latest
    return latest


def lone(now, targets) -> Scrape:
    """Only the first replica answers."""
    found = steady(now, targets[:1])
    return replace(found, missing=silent(now, targets[1:]).missing)


async def test_a_loop_goes_on_from_the_number_and_the_state_that_are_stored():
    shared = remembering(kept(stored(7, state=Pressure.RED)))
    await ControlLoop(spec(), shared).tick()
    latest = published(shared)
    assert (latest.desired, latest.state) == (7, Pressure.RED)


async def test_a_store_that_is_filled_after_the_start_counts_until_the_first_decision():
    store = kept()
    shared = remembering(store, lone, names=("a", "b"))
    loop = ControlLoop(spec(), shared)
    await loop.tick()
    first = shared.board.latest(KEY)
    store.texts[KEY] = stored(7)
    for _ in range(6):
        await passing(2.0)
        await loop.tick()
    assert (type(first), published(shared).desired) == (Pending, 7)


async def test_a_store_that_is_filled_after_the_first_decision_changes_nothing():
    store = kept()
    shared = remembering(store)
    loop = ControlLoop(spec(), shared)
    await loop.tick()
    store.texts[KEY] = stored(7)
    await passing(2.0)
    await loop.tick()
    assert published(shared).desired == 1


async def test_while_nobody_lists_replicas_what_is_stored_does_not_fade():
    shared = remembering(kept(stored(7)), names=None)
    loop = ControlLoop(spec(), shared)
    for _ in range(400):
        await loop.tick()
        await passing(2.0)
    shared.replicas.names = ("a",)
    await loop.tick()
    await passing(20.0)
    await loop.tick()
    assert published(shared).desired == 7


async def test_each_decision_is_stored_when_it_is_due_and_at_once_when_its_number_or_a_state_changed():
    busy = {"running": 10.0}

    def script(now, targets):
        return Scrape(tuple(reading(target.replica, now, busy["running"]) for target in targets), ())

    store = kept()
    shared = remembering(store, script)
    loop = ControlLoop(spec(), shared)
    for running in (10.0, 10.0, 250.0, 250.0):
        busy["running"] = running
        await loop.tick()
        await passing(2.0)
    again = memory.recall(store.texts[KEY], spec(), clock(), wall()).state
    assert (store.changes, store.put_at[KEY]) == ([True, False, True, False], 4.0)
    assert again.stabilizer.published == published(shared).desired == 3


async def test_nothing_is_stored_before_there_is_a_decision():
    store = kept()
    await ControlLoop(spec(), remembering(store, names=None)).tick()
    assert (store.texts, store.changes) == ({}, [])


@pytest.mark.fault("stored state is damaged")
async def test_what_makes_no_sense_is_told_once_and_the_loop_starts_anew():
    shared = remembering(kept("{}"), lone, names=("a", "b"))
    loop = ControlLoop(spec(), shared)
    for _ in range(8):
        await loop.tick()
        await passing(2.0)
    assert (shared.telemetry.notes, published(shared).desired) == (["what is stored is no text of ours"], 2)


@pytest.mark.fault("two scalers at once")
@pytest.mark.parametrize(
    ("theirs", "desired"),
    [pytest.param(9, 9, id="theirs is more"), pytest.param(1, 2, id="ours is more")],
)
async def test_a_process_that_comes_to_speak_does_not_lower_what_was_told_for_a_whole_window(theirs, desired):
    store = kept()
    shared = remembering(store, names=("a", "b"))
    loop = ControlLoop(spec(), shared)
    await loop.tick()
    store.texts[KEY] = stored(theirs)
    loop.adopt()
    seen = set()
    for _ in range(100):
        await passing(2.0)
        await loop.tick()
        seen.add(published(shared).desired)
    assert seen == {desired}


async def test_a_process_that_comes_to_speak_before_it_has_decided_begins_with_what_was_told():
    shared = remembering(kept(stored(9)))
    loop = ControlLoop(spec(), shared)
    loop.adopt()
    await loop.tick()
    assert published(shared).desired == 9


async def test_a_process_that_comes_to_speak_where_nothing_or_nothing_of_today_is_stored_goes_on():
    store = kept()
    loop = ControlLoop(spec(), remembering(store))
    await loop.tick()
    before = loop._state
    store.forget(KEY)
    loop.adopt()
    store.texts[KEY] = stored(9, ago_s=25 * HOUR_S)
    loop.adopt()
    assert loop._state is before


async def test_after_a_crash_the_state_and_the_number_go_on_from_what_was_stored():
    failing = {"now": False}

    def script(now, targets):
        if failing["now"]:
            raise RuntimeError("a bug")
        return steady(now, targets)

    shared = remembering(kept(stored(7, state=Pressure.RED)), script)
    loop = ControlLoop(spec(), shared)
    task = asyncio.create_task(loop.run())
    await passing(3.0)
    failing["now"] = True
    await passing(2.0)
    failing["now"] = False
    await passing(2.0)
    latest = published(shared)
    task.cancel()
    assert (len(shared.telemetry.crashes), latest.blind, latest.desired, latest.state) == (1, False, 7, Pressure.RED)


class Poisoned:
    """A memory whose whole state the law cannot digest."""

    def remember(self, state, now, wall) -> str:
        return memory.remember(state, now, wall)

    def recall(self, text, spec, now, wall) -> Recalled:
        whole = memory.recall(text, spec, now, wall).state
        return Recalled(replace(whole, history=replace(whole.history, running=Series(30.0, (0.0, 1.0), ()))))


@pytest.mark.fault("stored state is damaged")
async def test_a_stored_state_that_makes_the_first_tick_raise_is_given_up_for_its_short_form():
    shared = remembering(kept(stored(7)), memory=Poisoned())
    task = asyncio.create_task(ControlLoop(spec(), shared).run())
    await passing(6.0)
    task.cancel()
    assert (len(shared.telemetry.crashes), published(shared).desired) == (1, 7)
