"""The emulated fleet: replicas come and go as they are asked for."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest
from aiohttp import web

from scaler.control.ports import Snapshot
from scaler.core.model import GpuPhase, GpuUse, WorkloadKey
from scaler.demo.cluster import FleetReplicas, fleet_process
from scaler.demo.fleet import Fleet, FleetPlan, Member, Stage, control_app, victims
from scaler.demo.scenario import GPU, MODEL

KEY = WorkloadKey("demo", "llm")
PATIENCE_S = 10.0


@dataclass
class Running:
    fleet: Fleet
    replicas: FleetReplicas
    client: aiohttp.ClientSession
    control: str

    @property
    def seen(self) -> Snapshot:
        found = self.replicas.snapshot(KEY)
        assert found is not None
        return found

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not true():
                await self.replicas.refresh()


@asynccontextmanager
async def running(initial: int, start_s: float = 0.05, linger_s: float = 0.05) -> AsyncIterator[Running]:
    clock = asyncio.get_running_loop().time
    plan = FleetPlan(initial, 4, start_s, 0.0, seed=1, linger_s=linger_s)
    fleet = Fleet(plan, clock)
    fleet.scale(initial, warm=True)
    runner = web.AppRunner(control_app(fleet, plan, clock), shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        control = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession() as client:
            yield Running(fleet, FleetReplicas(KEY, control, client, clock), client, control)
    finally:
        await fleet.stop()
        await runner.cleanup()


def member(name: str, stage: Stage, created_at: float) -> Member:
    return Member(name, stage, created_at)


def test_those_that_do_not_serve_yet_go_before_those_that_do_and_the_youngest_before_the_oldest() -> None:
    members = (
        member("old", Stage.READY, 1.0),
        member("young", Stage.READY, 2.0),
        member("starting", Stage.STARTING, 0.5),
        member("leaving", Stage.TERMINATING, 3.0),
    )
    assert [m.name for m in victims(members, 1)] == ["starting", "young"]
    assert victims(members, 3) == ()


async def test_a_replica_starts_before_it_is_ready_and_answers_only_then() -> None:
    async with running(1) as up:
        await up.until(lambda: len(up.replicas.endpoints) == 1)
        await up.replicas.scale(2)
        asked = up.seen
        await up.until(lambda: len(up.replicas.endpoints) == 2)
        ready = up.seen
        async with up.client.get(f"http://{ready.targets[1].address}/health") as response:
            assert response.status == 200
    assert asked.replicas.ready == ("llm-0",)
    assert [starting.replica for starting in asked.replicas.starting] == ["llm-1"]
    assert asked.replicas.starting[0].since <= asked.replicas.observed_at
    assert (asked.replicas.current, asked.replicas.max_replicas) == (2, 4)
    assert ready.replicas.ready == ("llm-0", "llm-1")
    assert ready.replicas.starting == ()


async def test_the_fleet_never_grows_beyond_its_bound() -> None:
    async with running(1) as up:
        await up.replicas.scale(99)
        found = up.replicas.scale_status()
    assert found is not None
    assert (found.spec, found.status) == (4, 4)


async def test_a_replica_that_is_no_longer_asked_for_vanishes_at_once_and_drains() -> None:
    async with running(2) as up:
        await up.until(lambda: len(up.replicas.endpoints) == 2)
        last = up.replicas.endpoints[-1]
        body = {"model": MODEL, "prompt": "x", "max_tokens": 30, "stream": True}
        async with up.client.post(f"http://{last.address}/v1/completions", json=body) as stream:
            await stream.content.readline()
            await up.replicas.scale(1)
            gone = up.seen
            rest = await stream.content.read()
        await up.until(lambda: len(up.fleet.members) == 1)
    assert gone.replicas.ready == ("llm-0",)
    assert [target.replica for target in gone.targets] == ["llm-0"]
    assert rest.endswith(b"data: [DONE]\n\n")


async def test_a_start_that_is_no_longer_wanted_ends() -> None:
    async with running(1, start_s=1000.0) as up:
        await up.replicas.scale(3)
        await up.replicas.scale(1)
        await up.until(lambda: len(up.fleet.members) == 1)
        assert [m.name for m in up.fleet.members] == ["llm-0"]


async def test_only_its_own_workload_is_known_and_only_once_it_was_seen() -> None:
    async with running(1) as up:
        assert up.replicas.snapshot(KEY) is None
        assert up.replicas.scale_status() is None
        await up.replicas.refresh()
        assert up.replicas.snapshot(WorkloadKey("demo", "other")) is None


async def test_every_replica_holds_a_gpu_from_its_start_to_its_end() -> None:
    async with running(2, start_s=60.0, linger_s=60.0) as up:
        await up.replicas.scale(1)
        await up.replicas.scale(3)
        await up.replicas.refresh()
        assert up.seen.replicas.gpus == {
            GpuUse(GPU, GpuPhase.SERVING): 1,
            GpuUse(GPU, GpuPhase.DRAINING): 1,
            GpuUse(GPU, GpuPhase.STARTING): 2,
        }


async def test_a_scale_that_is_no_number_is_refused() -> None:
    async with running(1) as up, up.client.put(f"{up.control}/scale", data=b"many") as response:
        assert response.status == 400
        assert up.fleet.wanted == 1


async def test_the_fleets_process_serves_and_ends_with_its_input() -> None:
    async with aiohttp.ClientSession() as client:
        async with fleet_process(FleetPlan(1, 2, 0.1, 0.0, seed=1)) as control:
            answer = await client.get(f"{control}/replicas")
            assert (await answer.json())["wanted"] == 1
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.get(f"{control}/replicas")


async def test_the_fleets_process_ends_when_its_parent_is_killed() -> None:
    middle = (
        "import subprocess, sys, time;"
        "child = subprocess.Popen([sys.executable, '-m', 'scaler.demo.fleet', '--initial=0', '--max=1',"
        " '--start-seconds=1', '--start-sigma=0', '--seed=1'], stdin=subprocess.PIPE);"
        "child.wait()"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", middle, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        await parent.stdout.readline()
        parent.kill()
        await parent.wait()
        assert await parent.stdout.read() == b"", "the fleet holds the other end of this pipe as long as it lives"
