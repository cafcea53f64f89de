"""Where the demo listens, and what a person can ask there."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from scaler.app import Bound
from scaler.demo.scenario import KEY
from scaler.settings import Ports, read_ports

HOST = "127.0.0.1"
FREE_PORTS = Ports(HOST, 0, 0, 0, 0)
COLUMNS = 80


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a running demo answers, each as host:port: KEDA over gRPC, gateways and operators over HTTP."""

    keda: str
    gate: str
    ops: str

    @property
    def page(self) -> str:
        """The status page."""
        return f"http://{self.ops}/"

    @property
    def state(self) -> str:
        """What gateways read."""
        return f"http://{self.gate}/v1/state/{KEY}"

    @property
    def backpressure(self) -> str:
        """What a client that only wants yes or no reads."""
        return f"http://{self.gate}/v1/backpressure/{KEY}"


def addresses(bound: Bound) -> Addresses:
    """Where a scaler on loopback answers."""
    return Addresses(*(f"{HOST}:{port}" for port in (bound.keda_port, bound.gate_port, bound.ops_port)))


def _doors(ports: Ports) -> tuple[tuple[str, int], ...]:
    """In the order of the ports."""
    return ("KEDA", ports.keda), ("gateways", ports.gate), ("operators", ports.ops), ("ext_authz", ports.authz)


def usual_ports(environment: Mapping[str, str] | None = None) -> tuple[Ports, tuple[str, ...]]:
    """The ports that ``serve`` would take, on loopback, and a notice for each that is taken: a free one then stands in for it.

    Raises ConfigError when the environment names no port.
    """
    asked, notices, found = read_ports(environment), [], []
    with ExitStack() as held:  # all at once, so that one number given twice is seen
        for name, port in _doors(asked):
            why = _fault(held, port)
            if why:
                notices.append(f"port {port} for {name} cannot be had ({why}); a free one is used instead")
            found.append(0 if why else port)
    return Ports(HOST, *found), tuple(notices)


def _fault(held: ExitStack, port: int) -> str:
    """Why nobody can listen there now; nothing when one can."""
    door = held.enter_context(socket.socket())
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do: ports of a demo just ended are free
    try:
        door.bind((HOST, port))
        door.listen()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def commands(at: Addresses, program: str) -> str:
    """What to type against a demo that stays up, ready to paste; ``program`` is how this one was called."""
    return "\n".join(
        (
            "Still running; Ctrl-C ends it. The page:",
            f"  {at.page}",
            "To paste into another terminal:",
            _command(f"{program} explain {KEY}", f"--keda {at.keda} --ops http://{at.ops}"),
            _command("curl -s", at.state),
            _command("curl -s -o /dev/null -w '%{http_code}\\n'", at.backpressure),
        )
    )


def _command(start: str, rest: str) -> str:
    """On one line where it fits, else on two that a shell takes for one."""
    line = f"  {start} {rest}"
    return line if len(line) <= COLUMNS else f"  {start} \\\n    {rest}"
