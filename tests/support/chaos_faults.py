"""What fails in a chaos run, and how often."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from random import Random
from types import MappingProxyType

import grpc.aio

from scaler.api.keda_client import AioKedaClient, RpcFailed, ScaledObject
from scaler.demo.scenario import KEY
from tests.support.chaos_fleet import LIES
from tests.support.chaos_world import World
from tests.support.scaler_pods import pause


async def pages_lie(world: World) -> None:
    lie, names = world.rng.choice([*LIES, "hang", "cut"]), world.some()
    async with world.fault(f"page: {lie}", names):
        doors = [world.cluster.doors[name] for name in names if name in world.cluster.doors]
        for door in doors:
            door.lie = lie
        await pause(world.lasts_s())
        for door in doors:
            door.lie = ""


async def engines_freeze(world: World) -> None:
    names = world.some()
    async with world.fault("engines freeze", names):
        clocks = [world.cluster.fleet.clocks[name] for name in names if name in world.cluster.fleet.clocks]
        for clock in clocks:
            clock.stop()
        await pause(world.lasts_s())
        for clock in clocks:
            clock.go()


async def engine_restarts(world: World) -> None:
    name = world.rng.choice(sorted(world.cluster.fleet.engines) or [""])
    async with world.fault("engine restarts", frozenset({name})):
        if name:
            world.cluster.fleet.restart(name)
        await pause(3.0)


async def engine_dies(world: World) -> None:
    name = world.rng.choice(sorted(world.cluster.fleet.engines) or [""])
    async with world.fault("engine dies", frozenset({name})):
        if name:
            world.cluster.fleet.kill(name)
        await pause(1.0)


async def api_server_fails(world: World) -> None:
    way = world.rng.choice(("is away", "hangs", "is overloaded", "cuts connections", "forgets versions"))
    async with world.fault(f"API server {way}"):
        match way:
            case "is away":
                await world.api.away()
                await pause(world.lasts_s())
                await world.api.back()
            case "hangs":
                world.api.hang()
                await pause(world.lasts_s())
                world.api.recover()
            case "is overloaded":
                world.api.refuse(429, retry_after="1")
                await pause(world.lasts_s())
                world.api.recover()
            case "cuts connections":
                world.api.reset()
            case "forgets versions":
                world.api.compact()
                world.api.reset()


async def config_map_conflicts(world: World) -> None:
    path = "/api/v1/namespaces/keda/configmaps/slo-scaler-state-0"
    async with world.fault("ConfigMap conflict"):
        for number in range(int(20 * world.lasts_s())):
            if (found := world.api.get(path)) is not None:
                found["metadata"]["annotations"] = {"touched": str(number)}
                world.api.put(path, found)
            await pause(0.05)


async def scaler_stalls(world: World) -> None:
    async with world.alone:
        name = world.leader()
        async with world.fault("scaler stalls"):
            process = world.pods.running[name].process
            process.send_signal(signal.SIGSTOP)
            await pause(world.rng.choice((0.5, 2.0, 6.0)))
            process.send_signal(signal.SIGCONT)


async def scaler_is_killed(world: World) -> None:
    async with world.alone:
        names = sorted(world.pods.running) if world.rng.random() < 0.3 else [world.leader()]
        async with world.fault("scaler is killed"):
            for name in names:
                await world.pods.kill(name)
            await pause(world.rng.choice((0.2, 3.0)))
            await asyncio.gather(*(_started(world, name) for name in names))


async def _started(world: World, name: str) -> None:
    try:
        await world.pods.start(name)
    except TimeoutError:
        lines = world.pods.running[name].lines[-3:]
        world.log.complaints.append(f"at {world.since():.0f} s {name} was not ready in time; it had said {lines}")


async def scaler_is_replaced(world: World) -> None:
    async with world.alone:
        old = world.leader()
        async with world.fault("scaler is replaced"):
            await _started(world, next(world.names))
            await world.pods.stop(old)


async def scaler_is_cut_off(world: World) -> None:
    name = world.leader()
    async with world.fault("scaler is cut off"):
        world.api.cut.add(name)
        await pause(world.lasts_s())
        world.api.cut.discard(name)


async def callers_storm(world: World) -> None:
    async with world.fault("callers storm"):
        for _ in range(4):
            async with AsyncExitStack() as stack:
                for _ in range(10):
                    options = [("grpc.use_local_subchannel_pool", 1)]
                    channel = await stack.enter_async_context(
                        grpc.aio.insecure_channel(world.keda.address, options=options)
                    )
                    stream = AioKedaClient(channel).stream_is_active(ScaledObject(KEY))
                    stack.push_async_callback(stream.aclose)
                    with suppress(RpcFailed, StopAsyncIteration, TimeoutError):
                        async with asyncio.timeout(1.0):
                            await anext(stream)


FAULTS: Mapping[Callable[[World], Awaitable[None]], int] = MappingProxyType(
    {
        pages_lie: 6, engines_freeze: 2, engine_restarts: 2, engine_dies: 2, api_server_fails: 3, config_map_conflicts: 1,
        scaler_stalls: 2, scaler_is_killed: 1, scaler_is_replaced: 1, scaler_is_cut_off: 1, callers_storm: 1,
    }
)  # fmt: skip
"""How often each is drawn, of all that are."""


async def chaos(world: World, until_s: float, seed: int) -> None:
    """Faults, of which two may overlap. Each of the two series is the same for a seed, however long each takes."""

    async def one_after_the_other(world: World) -> None:
        await pause(world.rng.uniform(2.0, 8.0))
        while world.since() < until_s:
            (fault,) = world.rng.choices([*FAULTS], [*FAULTS.values()])
            await fault(world)
            await pause(world.rng.uniform(2.0, 8.0))

    async with asyncio.TaskGroup() as group:
        for number in range(2):
            group.create_task(one_after_the_other(replace(world, rng=Random(f"{seed} {number}"))))
