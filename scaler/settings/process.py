"""Process settings from the environment, and what the system grants the process."""

from __future__ import annotations

import os
import re
import resource
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv6Address

from scaler.errors import ConfigError

ENVIRONMENT_PREFIX = "SLO_SCALER_"
BOTH_FAMILIES, ONLY_IPV4 = "::", "0.0.0.0"  # noqa: S104 - a scaler is reached from other pods
UNLIMITED_FILES = 1_048_576
_NAME = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


@cache
def everywhere() -> str:
    """The host that stands for all addresses of this machine: of both families, where the system has both."""
    with suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as door:
        door.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        door.bind((BOTH_FAMILIES, 0))
        return BOTH_FAMILIES
    return ONLY_IPV4


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the process listens. ``host`` is a name or an address without brackets. Port 0 lets the system choose."""

    host: str = field(default_factory=everywhere)
    keda: int = 6000
    gate: int = 8080
    ops: int = 8081
    authz: int = 6001


def read_ports(environment: Mapping[str, str] | None = None) -> Ports:
    """The listening addresses from ``SLO_SCALER_HOST`` and ``SLO_SCALER_{KEDA,GATE,OPS,AUTHZ}_PORT``. Raises ConfigError."""
    given = os.environ if environment is None else environment
    numbers: dict[str, int] = {}
    for name in ("keda", "gate", "ops", "authz"):
        key = f"{ENVIRONMENT_PREFIX}{name.upper()}_PORT"
        if (text := given.get(key)) is None:
            continue
        if not (text.isascii() and text.isdecimal()) or int(text) > 65535:  # noqa: PLR2004 - the largest port
            raise ConfigError(f"{key}: a port is a number from 0 to 65535")
        numbers[name] = int(text)
    host = given.get(f"{ENVIRONMENT_PREFIX}HOST")
    return Ports(everywhere() if host is None else _host(host), **numbers)


def _host(text: str) -> str:
    """The host without brackets."""
    bracketed = text.startswith("[") and text.endswith("]")
    host = text[1:-1] if bracketed else text
    if ":" in host:
        with suppress(ValueError):
            IPv6Address(host)
            return host
    elif _NAME.fullmatch(host) and not bracketed:
        return host
    raise ConfigError(
        f"{ENVIRONMENT_PREFIX}HOST: an address (0.0.0.0, ::, ::1) or a host name; unset it for all addresses"
    )


def open_files() -> int:
    """How many file descriptors the process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED_FILES if soft == resource.RLIM_INFINITY else soft


def raise_open_files() -> None:
    """Take as many file descriptors as the process may ask for: the usual soft limit is there for programs that use select()."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # more than the kernel grants
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
