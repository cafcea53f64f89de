"""What an alerting rule is made of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Whether somebody must come now, or in working hours."""

    CRITICAL = "critical"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Alert:
    """One condition that a person should act upon. ``holds`` is for how long it must be true first; texts are Prometheus templates."""

    name: str
    severity: Severity
    expr: str
    holds: str
    summary: str
    description: str


@dataclass(frozen=True, slots=True)
class Record:
    """An expression that Prometheus evaluates once, under a name."""

    name: str
    expr: str
