"""StreamIsActive, as KEDA holds it open for triggers of type external-push, and the end of a server under it.

The table of facts is in test_keda. Intervals are given by the test: either short, or so long that only an event can be
what was received.
"""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.api.keda import Pace
from scaler.api.keda_client import AioKedaClient, ScaledObject
from scaler.control.board import Board
from scaler.core.decision import Pending
from scaler.core.model import Missing
from scaler.pb import externalscaler_pb2 as pb
from scaler.pb import externalscaler_pb2_grpc as pb_grpc
from tests.support.builders import KEY, blind, decision, idle, observation, reading, spec
from tests.support.keda_edge import edge

LLAMA = ScaledObject(KEY, {"safeConcurrency": "100"})
LOOK = ScaledObject(KEY)
ACTIVE = decision(spec(), observation(0.0, reading()))
WITHOUT_REPLICAS = decision(spec(), observation(0.0))
SHORT_S, LONG_S = 0.02, 3600.0
ONLY_EVENTS = Pace(LONG_S, LONG_S)


async def collect(stream) -> list[bool]:
    return [active async for active in stream]


def opened(keda, channel: grpc.aio.Channel | None = None):
    """A stream whose end can be looked at."""
    ref = pb.ScaledObjectRef(namespace=KEY.namespace, name=KEY.name, scalerMetadata=LLAMA.metadata)
    return pb_grpc.ExternalScalerStub(channel or keda.channel).StreamIsActive(ref)


# --- What it says ---


async def test_says_true_at_once_when_active() -> None:
    async with edge(pace=ONLY_EVENTS) as keda:
        keda.board.publish(ACTIVE)
        async with aclosing(keda.client.stream_is_active(LLAMA)) as stream:
            assert await anext(stream) is True


@pytest.mark.parametrize(
    ("published", "pace"),
    [
        pytest.param(ACTIVE, Pace(SHORT_S, LONG_S), id="with replicas, at the usual pace"),
        pytest.param(WITHOUT_REPLICAS, Pace(LONG_S, SHORT_S), id="without replicas, at the pace for that"),
    ],
)
async def test_says_true_again_and_again_while_active(published, pace) -> None:
    async with edge(pace=pace) as keda:
        keda.board.publish(published)
        async with aclosing(keda.client.stream_is_active(LLAMA)) as stream:
            assert [await anext(stream) for _ in range(5)] == [True] * 5


def test_the_pace_is_what_keda_can_bear() -> None:
    assert Pace() == Pace(repeat_s=10.0, without_replicas_s=3.0)


@pytest.mark.parametrize(
    "before", [pytest.param(idle(), id="idle"), pytest.param(Pending(KEY, "no list of replicas yet"), id="pending")]
)
async def test_says_true_as_soon_as_it_becomes_so(before) -> None:
    async with edge(pace=ONLY_EVENTS) as keda:
        keda.board.publish(before)
        async with aclosing(keda.client.stream_is_active(LLAMA)) as stream:
            first = asyncio.ensure_future(anext(stream))
            await until_open(keda)
            assert not first.done()
            keda.board.publish(ACTIVE)
            assert await first is True


class ChangesUnderTheReader(Board):
    """Becomes active right after somebody has read that it is not."""

    def latest(self, key):
        read = super().latest(key)
        self.publish(ACTIVE)
        return read


async def test_a_change_between_reading_and_waiting_is_not_missed() -> None:
    board = ChangesUnderTheReader()
    board.publish(idle())
    async with edge(pace=ONLY_EVENTS, board=board) as keda, aclosing(keda.client.stream_is_active(LLAMA)) as stream:
        assert await anext(stream) is True


class FailsToWatch(Board):
    def activity(self, key):
        raise RuntimeError("secret-value")


async def test_a_bug_while_waiting_ends_the_stream_as_internal() -> None:
    async with edge(pace=ONLY_EVENTS, board=FailsToWatch()) as keda:
        call = opened(keda)
        assert (await call.code(), await call.details()) == (
            grpc.StatusCode.INTERNAL,
            "internal error of the scaler, described in its log",
        )
        assert [method for method, _ in keda.rpcs.failures] == ["StreamIsActive"]


async def test_says_true_when_a_workload_gets_its_first_decision_ever() -> None:
    async with edge(pace=Pace(LONG_S, SHORT_S)) as keda, aclosing(keda.client.stream_is_active(LLAMA)) as stream:
        first = asyncio.ensure_future(anext(stream))
        await until_open(keda)
        keda.board.publish(ACTIVE)
        assert await first is True


async def test_says_nothing_while_the_decision_is_too_old() -> None:
    async with edge(pace=Pace(0.0, 0.0)) as keda:
        keda.board.publish(blind(spec(), observation(0.0, reading()), missing=(Missing("llama-0", "timeout"),)))
        keda.clock.now = 60.1
        async with aclosing(keda.client.stream_is_active(LLAMA)) as stream:
            first = asyncio.ensure_future(anext(stream))
            await until_open(keda)
            for _ in range(20):  # meanwhile the stream has had its turn more than once
                await keda.client.metric_spec(LLAMA)
            assert not first.done()
            keda.clock.now = 60.0
            assert await first is True


async def test_an_open_stream_keeps_its_workload_from_being_forgotten() -> None:
    async with edge(pace=Pace(SHORT_S, SHORT_S)) as keda:
        keda.board.publish(ACTIVE)
        async with aclosing(keda.client.stream_is_active(LLAMA)) as stream:
            await anext(stream)
            keda.clock.now = 10 * 3600.0
            keda.board.publish(replace(ACTIVE, observed_at=keda.clock.now))
            await anext(stream)
            await anext(stream)
            keda.supervisor.forget_unasked()
            assert KEY in keda.supervisor


OUTCOMES = st.sampled_from([ACTIVE, idle(), WITHOUT_REPLICAS, Pending(KEY, "starting")])


def test_a_stream_never_carries_false() -> None:
    with asyncio.Runner() as runner:
        context = edge(pace=Pace(SHORT_S / 20, SHORT_S / 20))
        keda = runner.run(context.__aenter__())

        @settings(max_examples=50)
        @given(st.lists(st.tuples(OUTCOMES, st.booleans(), st.floats(-100, 100)), max_size=8))
        def check(published) -> None:
            assert runner.run(said_over(keda, published)) == {True}

        check()
        runner.run(context.__aexit__(None, None, None))


async def said_over(keda, published) -> set[bool]:
    """Everything that a stream says while these are published one after another; it ends with one that is active."""
    said = set()
    async with aclosing(keda.client.stream_is_active(LLAMA)) as stream:
        for outcome, is_blind, observed_at in published:
            known = not isinstance(outcome, Pending)
            keda.board.publish(replace(outcome, blind=is_blind, observed_at=observed_at) if known else outcome)
            await keda.client.metric_spec(LLAMA)  # by then the stream has had its turn
        keda.board.publish(replace(ACTIVE, sequence=1))
        for _ in range(3):
            said.add(await anext(stream))
    return said


async def until_open(keda, count: int = 1) -> None:
    """A call on the same connection is answered after those that were made before it have begun."""
    while keda.servicer.open_streams < count:
        await keda.client.metric_spec(LLAMA)


# --- Many, abandoned, unread ---


@pytest.mark.fault("reconnect storm")
async def test_two_hundred_open_streams_do_not_starve_unary_calls() -> None:
    async with edge(pace=ONLY_EVENTS) as keda:
        keda.board.publish(ACTIVE)
        calls = [opened(keda) for _ in range(200)]
        assert all([(await call.read()).result for call in calls])
        assert keda.servicer.open_streams == 200
        assert all(await asyncio.gather(*(keda.client.is_active(LLAMA) for _ in range(200))))
        await keda.server.stop()
        assert {await call.code() for call in calls} == {grpc.StatusCode.OK}


@pytest.mark.fault("reconnect storm")
async def test_connections_that_come_and_go_leave_nothing_behind() -> None:
    async with edge(pace=Pace(SHORT_S, SHORT_S)) as keda:
        keda.board.publish(ACTIVE)
        await keda.client.metric_spec(LLAMA)
        before = asyncio.all_tasks()
        for _ in range(100):
            async with keda.dial() as channel:
                call = opened(keda, channel)
                assert (await call.read()).result
        await keda.rpcs.until_ended("StreamIsActive", 100)
        async with asyncio.timeout(5):  # the server itself always has one task that waits for the next call
            while len(tasks := asyncio.all_tasks()) > len(before):
                await asyncio.wait(tasks - before, return_when=asyncio.FIRST_COMPLETED)
        assert keda.servicer.open_streams == 0


async def test_an_abandoned_stream_is_ended_and_counted_as_cancelled() -> None:
    async with edge(pace=ONLY_EVENTS) as keda:
        keda.board.publish(ACTIVE)
        call = opened(keda)
        await call.read()
        call.cancel()
        await keda.rpcs.until_ended("StreamIsActive", 1)
        assert keda.rpcs.ended[-1] == ("StreamIsActive", grpc.StatusCode.CANCELLED)
        assert (keda.servicer.open_streams, keda.rpcs.failures) == (0, [])


async def test_an_unread_stream_does_not_keep_others_waiting() -> None:
    async with edge(pace=Pace(0.0, 0.0), grace_s=0.2) as keda:
        keda.board.publish(ACTIVE)
        async with keda.dial() as channel:
            opened(keda, channel)
            await until_open(keda)
            assert all([await keda.client.is_active(LLAMA) for _ in range(500)])
            await keda.server.stop()


# --- The end ---


async def test_stopping_ends_every_stream_with_ok() -> None:
    async with edge(pace=ONLY_EVENTS) as keda:
        keda.board.publish(ACTIVE)
        active, silent = (
            opened(keda),
            pb_grpc.ExternalScalerStub(keda.channel).StreamIsActive(
                pb.ScaledObjectRef(namespace="prod", name="cold", scalerMetadata=LLAMA.metadata)
            ),
        )
        await active.read()
        await until_open(keda, 2)
        await keda.server.stop()
        assert [await active.code(), await silent.code()] == [grpc.StatusCode.OK] * 2
        assert keda.rpcs.ended[-2:] == [("StreamIsActive", grpc.StatusCode.OK)] * 2


async def test_the_client_sees_a_clean_end_as_the_end_of_the_iteration() -> None:
    async with edge(pace=ONLY_EVENTS) as keda:
        keda.board.publish(ACTIVE)
        said = asyncio.ensure_future(collect(keda.client.stream_is_active(LLAMA)))
        await until_open(keda)
        await keda.server.stop()
        assert await said == [True]


async def test_callers_are_sent_elsewhere_before_the_streams_end() -> None:
    async with edge(pace=ONLY_EVENTS, grace_s=0.2) as keda:
        keda.board.publish(ACTIVE)
        health: Any = health_pb2_grpc.HealthStub(keda.channel)
        stream, watch = opened(keda), health.Watch(health_pb2.HealthCheckRequest(service="readiness"))
        await stream.read()
        assert (await watch.read()).status is health_pb2.HealthCheckResponse.SERVING
        await keda.server.stop()
        assert (await watch.read()).status is health_pb2.HealthCheckResponse.NOT_SERVING
        assert await stream.code() is grpc.StatusCode.OK


@pytest.mark.fault("SIGTERM under load")
async def test_a_stream_opened_while_stopping_ends_with_ok_and_without_a_word() -> None:
    async with edge(pace=ONLY_EVENTS) as keda:
        keda.board.publish(ACTIVE)
        keda.servicer._parts.shutdown.set()
        call = opened(keda)
        assert (await collect(call), await call.code()) == ([], grpc.StatusCode.OK)


async def test_whoever_no_longer_leads_sends_its_callers_away_and_listens_on() -> None:
    async with edge(pace=ONLY_EVENTS) as keda:
        keda.board.publish(ACTIVE)
        stream = opened(keda)
        await stream.read()
        await keda.server.renew()
        assert await stream.code() is grpc.StatusCode.OK
        async with keda.dial() as again:
            assert (await AioKedaClient(again).metric_spec(LLAMA)).target == 1.0
