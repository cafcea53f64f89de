"""Which loops run: introduced by KEDA or by the operator, edited, contested, forgotten."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from scaler.control.supervisor import ALTERNATION_S, FORGET_AFTER_S, FORGET_RELEASED_AFTER_S, Supervisor
from scaler.core.decision import Decision
from scaler.core.model import WorkloadKey
from scaler.errors import ConfigError
from tests.support.builders import KEY, spec
from tests.support.parts import parts, passing, steady

pytestmark = pytest.mark.looptime

A, B = spec(headroom_ratio=0.1), spec(headroom_ratio=0.2)
SLOW = spec(tick_s=600.0)


@asynccontextmanager
async def supervising(shared=None):
    supervisor = Supervisor(shared or parts())
    try:
        yield supervisor
    finally:
        await supervisor.stop()


async def test_asking_for_the_same_workload_twice_runs_one_loop():
    shared = parts()
    async with supervising(shared) as supervisor:
        for _ in range(5):
            supervisor.ensure(A)
        await passing(20.0)
    assert len(shared.inputs.asked_at) in {9, 10}


async def test_an_edit_is_taken():
    async with supervising() as supervisor:
        supervisor.ensure(A)
        supervisor.ensure(B)
        assert supervisor.spec(KEY) == B


async def test_two_specs_that_take_turns_are_refused_with_the_reason():
    async with supervising() as supervisor:
        supervisor.ensure(A)
        supervisor.ensure(B)
        with pytest.raises(ConfigError, match="several triggers"):
            supervisor.ensure(A)
        with pytest.raises(ConfigError, match="several triggers"):
            supervisor.ensure(B)
        assert supervisor.spec(KEY) == B


async def test_three_specs_that_take_turns_are_refused_too():
    third = spec(headroom_ratio=0.3)
    async with supervising() as supervisor:
        for one in (A, B, third):
            supervisor.ensure(one)
        for one in (A, B, third):
            with pytest.raises(ConfigError, match="several triggers"):
                supervisor.ensure(one)
        assert supervisor.spec(KEY) == third


async def test_edits_that_only_go_forward_are_all_taken():
    async with supervising() as supervisor:
        for percent in range(10, 60):
            supervisor.ensure(spec(headroom_ratio=percent / 100))
        assert supervisor.spec(KEY) == spec(headroom_ratio=0.59)


async def test_a_contest_ends_when_only_one_spec_has_been_asked_for_during_a_minute():
    async with supervising() as supervisor:
        supervisor.ensure(A)
        supervisor.ensure(B)
        with pytest.raises(ConfigError):
            supervisor.ensure(A)
        await passing(ALTERNATION_S + 1)
        supervisor.ensure(A)
        assert supervisor.spec(KEY) == A


async def test_an_edit_back_after_more_than_a_minute_is_a_plain_edit():
    async with supervising() as supervisor:
        supervisor.ensure(A)
        supervisor.ensure(B)
        await passing(ALTERNATION_S + 1)
        supervisor.ensure(A)
        assert supervisor.spec(KEY) == A


async def test_what_the_operator_pinned_cannot_be_edited_by_a_caller():
    async with supervising() as supervisor:
        supervisor.ensure(A, pinned=True)
        supervisor.ensure(B)
        assert supervisor.spec(KEY) == A


async def test_a_workload_nobody_asks_for_is_forgotten_and_a_pinned_one_is_not():
    shared = parts()
    other = WorkloadKey("prod", "other")
    async with supervising(shared) as supervisor:
        supervisor.ensure(SLOW)
        supervisor.ensure(spec(other, tick_s=600.0), pinned=True)
        await passing(FORGET_AFTER_S + 60)
        supervisor.forget_unasked()
        known = [one.key for one in supervisor.specs()]
    assert (known, shared.telemetry.gone, shared.board.latest(KEY)) == ([other], [KEY], None)


@pytest.mark.parametrize(("asks", "kept"), [(True, [KEY]), (False, [])])
async def test_a_workload_that_leaves_the_configuration_stays_only_if_keda_speaks_for_it(asks, kept):
    async with supervising() as supervisor:
        supervisor.ensure(SLOW, pinned=True)
        supervisor.release(KEY)
        await passing(FORGET_RELEASED_AFTER_S - 60)
        if asks:
            supervisor.touch(KEY)
        await passing(120)
        supervisor.forget_unasked()
        assert [one.key for one in supervisor.specs()] == kept


async def test_a_workload_somebody_asks_for_is_kept():
    async with supervising() as supervisor:
        supervisor.ensure(SLOW)
        await passing(FORGET_AFTER_S - 60)
        supervisor.touch(KEY)
        await passing(120)
        supervisor.forget_unasked()
        assert KEY in supervisor


@pytest.mark.fault("bug in a tick")
async def test_an_exception_in_one_workload_leaves_the_others_untouched():
    broken, well = WorkloadKey("prod", "broken"), WorkloadKey("prod", "well")
    shared = parts(steady)
    good = shared.replicas

    class Replicas:
        def why(self, key):
            return ""

        def snapshot(self, key):
            if key == broken:
                raise RuntimeError("a bug")
            return good.snapshot(key)

    mixed = type(shared)(shared.inputs, Replicas(), shared.board, shared.telemetry, shared.clock)
    async with supervising(mixed) as supervisor:
        supervisor.ensure(spec(broken))
        supervisor.ensure(spec(well))
        await passing(600.0)
    ticks = [outcome for outcome in shared.telemetry.ticks if isinstance(outcome, Decision)]
    assert {outcome.key for outcome in ticks} == {well}
    assert len(ticks) in {299, 300}


async def test_a_workload_that_the_operator_no_longer_names_runs_on_and_can_be_edited():
    async with supervising() as supervisor:
        supervisor.ensure(A, pinned=True)
        supervisor.release(KEY)
        supervisor.ensure(B)
        assert supervisor.spec(KEY) == B


async def test_names_that_stand_for_something_else_and_back_are_no_two_triggers():
    async with supervising() as supervisor:
        supervisor.ensure(A)
        supervisor.reconfigured()
        supervisor.ensure(B)
        supervisor.reconfigured()
        supervisor.ensure(A)
        assert supervisor.spec(KEY) == A
