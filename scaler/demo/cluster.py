"""The parent's side of the fleet: the child process, and the ``Replicas`` port over its control endpoint."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp

from scaler.control.ports import Clock, Snapshot, Target
from scaler.core.hpa import ScaleStatus
from scaler.core.model import GpuPhase, GpuUse, ReplicaSet, Starting, WorkloadKey
from scaler.demo import scenario as numbers
from scaler.demo.fleet import FleetPlan, Stage
from scaler.errors import ScalerError

REFRESH_S = 0.3
PATIENCE_S = 15.0
PHASES = {
    Stage.STARTING: GpuPhase.STARTING,
    Stage.READY: GpuPhase.SERVING,
    Stage.TERMINATING: GpuPhase.DRAINING,
}
"""A GPU is held from the first to the last."""
CALL_TIMEOUT = aiohttp.ClientTimeout(total=2.0)


class DemoFailed(ScalerError):
    """The demo could not be set up; the message says what was missing."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A ready replica, for the gateway. ``address`` is host:port."""

    name: str
    address: str


@asynccontextmanager
async def fleet_process(plan: FleetPlan) -> AsyncIterator[str]:
    """The fleet in a process of its own; yields the address of its control endpoint."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "scaler.demo.fleet",
        *_arguments(plan),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip - one argument list
    if process.stdin is None or process.stdout is None:
        raise AssertionError("both were asked for as pipes")
    try:
        yield await _address(process.stdout)
    finally:
        process.stdin.close()  # its word to end
        try:
            async with asyncio.timeout(PATIENCE_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _address(printed: asyncio.StreamReader) -> str:
    try:
        async with asyncio.timeout(PATIENCE_S):
            line = await printed.readline()
    except TimeoutError:
        raise DemoFailed(f"the emulated fleet did not start within {PATIENCE_S:g} s") from None
    if not line:
        raise DemoFailed("the emulated fleet ended at once; what it printed above says why")
    return line.decode().strip()


def _arguments(plan: FleetPlan) -> tuple[str, ...]:
    given = {
        "initial": plan.initial,
        "max": plan.max_replicas,
        "start-seconds": plan.start_s,
        "start-sigma": plan.start_sigma,
        "seed": plan.seed,
    }
    return tuple(f"--{name}={value}" for name, value in given.items())


class FleetReplicas:
    """The ``Replicas`` port of one workload. ``run`` keeps it fresh; ``snapshot`` answers from memory."""

    def __init__(self, key: WorkloadKey, control: str, session: aiohttp.ClientSession, clock: Clock) -> None:
        """``control`` is the address of the fleet's control endpoint. Nothing is known yet."""
        self._key = key
        self._control = control
        self._session = session
        self._clock = clock
        self._replicas: ReplicaSet | None = None
        self._endpoints: tuple[Endpoint, ...] = ()
        self.cpu_s = 0.0
        """CPU seconds that the fleet's process has used."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The ready replicas and where they answer."""
        return self._endpoints

    def why(self, key: WorkloadKey) -> str:  # noqa: ARG002 - the port's signature
        """Why there is no snapshot."""
        return "the fleet has not answered yet"

    def snapshot(self, key: WorkloadKey) -> Snapshot | None:
        """The replicas as last seen; None for another workload, and before the first look."""
        if key != self._key or self._replicas is None:
            return None
        targets = tuple(Target(e.name, e.address, "http") for e in self._endpoints)
        return Snapshot(self._replicas, targets)

    def scale_status(self) -> ScaleStatus | None:
        """What the HPA sees: replicas that drain do not exist for it."""
        found = self._replicas
        if found is None:
            return None
        return ScaleStatus(found.current, len(found.ready) + len(found.starting), len(found.ready))

    async def refresh(self) -> None:
        """Look once. Raises aiohttp.ClientError or TimeoutError; what was known before then stands, and ages."""
        async with self._session.get(f"{self._control}/replicas", timeout=CALL_TIMEOUT) as answer:
            self._take(await answer.json())

    async def scale(self, wanted: int) -> None:
        """Ask for that many replicas, and know at once what came of it. Unheard, it is left: the next sync asks again."""
        with suppress(aiohttp.ClientError, TimeoutError):
            body = {"replicas": wanted}
            async with self._session.put(f"{self._control}/scale", json=body, timeout=CALL_TIMEOUT) as answer:
                self._take(await answer.json())

    async def run(self) -> None:
        """Look for ever."""
        while True:
            with suppress(aiohttp.ClientError, TimeoutError):
                await self.refresh()
            await asyncio.sleep(REFRESH_S)

    def _take(self, told: dict[str, object]) -> None:
        now = self._clock()
        listed = told["replicas"]
        if not isinstance(listed, list):
            raise TypeError("replicas: a list")
        ready = tuple(Endpoint(m["name"], m["address"]) for m in listed if m["stage"] == Stage.READY)
        starting = tuple(Starting(m["name"], now - m["age_s"]) for m in listed if m["stage"] == Stage.STARTING)
        self._endpoints, self.cpu_s = ready, _number(told["cpu_s"])
        self._replicas = ReplicaSet(
            ready=tuple(endpoint.name for endpoint in ready),
            starting=starting,
            current=_whole(told["wanted"]),
            observed_at=now,
            max_replicas=_whole(told["max_replicas"]),
            gpus=Counter(GpuUse(numbers.GPU, PHASES[m["stage"]]) for m in listed),
        )


def _number(value: object) -> float:
    if not isinstance(value, float):
        raise TypeError("a number was expected")
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError("a whole number was expected")
    return value
