"""Where the demo listens when it is to stay up, and what it tells a person to type."""

import shlex
import socket
from collections.abc import Iterator

import pytest

from scaler.demo.addresses import COLUMNS, Addresses, commands, usual_ports
from scaler.errors import ConfigError
from scaler.settings import Ports

AT = Addresses("127.0.0.1:6000", "127.0.0.1:8080", "127.0.0.1:8081")


def environment(keda: int, gate: int, ops: int, authz: int = 0) -> dict[str, str]:
    numbers = {"KEDA": keda, "GATE": gate, "OPS": ops, "AUTHZ": authz}
    return {f"SLO_SCALER_{name}_PORT": str(number) for name, number in numbers.items()}


@pytest.fixture
def free() -> list[int]:
    """Four ports that nobody listens on."""
    doors = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
    numbers = [door.getsockname()[1] for door in doors]
    for door in doors:
        door.close()
    return numbers


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield door.getsockname()[1]


def test_the_ports_of_serve_are_taken_on_loopback_whatever_host_is_named(free) -> None:
    given = environment(*free) | {"SLO_SCALER_HOST": "0.0.0.0"}
    assert usual_ports(given) == (Ports("127.0.0.1", *free), ())


def test_a_free_port_stands_in_for_one_that_is_taken_and_that_is_said(free, taken) -> None:
    keda, _, ops, _ = free
    ports, notices = usual_ports(environment(keda, taken, ops))
    assert ports == Ports("127.0.0.1", keda, 0, ops, 0)
    (notice,) = notices
    assert notice.startswith(f"port {taken} for gateways cannot be had (")
    assert notice.endswith("; a free one is used instead")


def test_one_port_named_twice_is_had_once(free) -> None:
    ports, notices = usual_ports(environment(free[0], free[1], free[0]))
    assert ports == Ports("127.0.0.1", free[0], free[1], 0, 0)
    assert len(notices) == 1


def test_what_is_no_port_is_a_fault_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match="SLO_SCALER_OPS_PORT"):
        usual_ports({"SLO_SCALER_OPS_PORT": "many"})


def test_the_commands_can_be_pasted_as_they_are_printed() -> None:
    told = commands(AT, "slo-scaler")
    assert "  http://127.0.0.1:8081/\n" in told
    pasted = [shlex.split(command) for command in told.replace("\\\n", "").splitlines()[3:]]
    assert pasted == [
        ["slo-scaler", "explain", "demo/llm", "--keda", "127.0.0.1:6000", "--ops", "http://127.0.0.1:8081"],
        ["curl", "-s", AT.state],
        ["curl", "-s", "-o", "/dev/null", "-w", r"%{http_code}\n", AT.backpressure],
    ]


@pytest.mark.parametrize("program", ["slo-scaler", ".venv/bin/slo-scaler"])
def test_no_command_is_wider_than_a_terminal(program) -> None:
    far = Addresses("127.0.0.1:60000", "127.0.0.1:60001", "127.0.0.1:60002")
    assert all(len(line) <= COLUMNS for at in (AT, far) for line in commands(at, program).splitlines())
