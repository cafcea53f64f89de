"""A Service with a cluster IP, as a node has it: a port that leads each new connection to one of the pods that the selector finds.

A connection that is open keeps its pod until one of its ends closes it, whatever becomes of labels and readiness meanwhile. A pod that is
being deleted is chosen only while no other is ready. Where nothing can be chosen, the connection is refused.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random

from tests.support.kubernetes_api import KubernetesApi
from tests.support.kubernetes_objects import Json, Place

LOOK_EVERY_S = 0.02


@dataclass(frozen=True)
class Backend:
    """Where a pod answers."""

    pod: str
    host: str
    port: int


@dataclass(eq=False)
class Service:
    """``port_name`` is the name of a container's port. ``lag_s``: how much later than the API server a node knows who serves.

    ``open``: connections by pod. ``refused``: those that no pod took, by the pod that was chosen, "" where none could be.
    """

    api: KubernetesApi
    selector: str
    port_name: str
    lag_s: float = 0.0
    namespace: str = "keda"
    rng: Random = field(default_factory=lambda: Random(1))
    address: str = ""
    open: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    backends: tuple[Backend, ...] = ()
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def led_to(self) -> set[str]:
        """The pods that connections are open to."""
        return {pod for pod, count in self.open.items() if count}

    def serving(self) -> tuple[Backend, ...]:
        """Whom the API server would have chosen from now."""
        pods = self.api.page(
            Place.of(f"/api/v1/namespaces/{self.namespace}/pods", self.api.resources), {"labelSelector": self.selector}
        )["items"]
        ready = [pod for pod in pods if _is_ready(pod)]
        staying = [pod for pod in ready if not pod["metadata"].get("deletionTimestamp")]
        return tuple(_backend(pod, self.port_name) for pod in staying or ready)

    async def follow(self) -> None:
        """Learn of each change, ``lag_s`` after it."""
        loop, told = asyncio.get_running_loop(), self.backends
        while True:
            if (found := self.serving()) != told:
                told = found
                loop.call_later(self.lag_s, self._learn, found)
            await _at_most(LOOK_EVERY_S)

    def _learn(self, found: tuple[Backend, ...]) -> None:
        self.backends = found

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._lead(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        backend = self.rng.choice(self.backends) if self.backends else None
        try:
            if backend is None:
                raise ConnectionRefusedError
            up_reader, up_writer = await asyncio.open_connection(backend.host, backend.port)
        except OSError:
            self.refused["" if backend is None else backend.pod] += 1
            writer.transport.abort()
            return
        self.open[backend.pod] += 1
        try:
            await asyncio.gather(_pass_on(reader, up_writer), _pass_on(up_reader, writer))
        finally:
            self.open[backend.pod] -= 1
            for end in (writer, up_writer):
                end.transport.abort()

    async def shut(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def forwarding(service: Service) -> AsyncIterator[Service]:
    """The Service on a loopback port, its address in ``address``."""
    server = await asyncio.start_server(service.accept, "127.0.0.1", 0)
    service.address = "{}:{}".format(*server.sockets[0].getsockname())
    following = asyncio.create_task(service.follow())
    try:
        yield service
    finally:
        following.cancel()
        server.close()
        await service.shut()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """All that one end says, and then that it says no more; a reset is passed on, too."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _backend(pod: Json, port_name: str) -> Backend:
    ports = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
    return Backend(pod["metadata"]["name"], pod["status"]["podIP"], ports[port_name])


async def _at_most(seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()
