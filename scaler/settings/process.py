"""Process settings from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from scaler.errors import ConfigError

ENVIRONMENT_PREFIX = "SLO_SCALER_"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - a scaler is reached from other pods


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the process listens. Port 0 lets the system choose."""

    host: str = EVERYWHERE
    keda: int = 6000
    gate: int = 8080
    ops: int = 8081


def read_ports(environment: Mapping[str, str] | None = None) -> Ports:
    """The listening addresses from ``SLO_SCALER_HOST`` and ``SLO_SCALER_{KEDA,GATE,OPS}_PORT``. Raises ConfigError."""
    given = os.environ if environment is None else environment
    numbers: dict[str, int] = {}
    for name in ("keda", "gate", "ops"):
        key = f"{ENVIRONMENT_PREFIX}{name.upper()}_PORT"
        if (text := given.get(key)) is None:
            continue
        if not text.isdecimal() or int(text) > 65535:  # noqa: PLR2004 - the largest port
            raise ConfigError(f"{key}: a port is a number from 0 to 65535")
        numbers[name] = int(text)
    host = given.get(f"{ENVIRONMENT_PREFIX}HOST", EVERYWHERE)
    return Ports(host=host, **numbers)
