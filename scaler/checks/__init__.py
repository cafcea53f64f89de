"""The launch checklist: facts about a workload in, findings with evidence and remedy out. Pure."""

from scaler.checks.facts import (
    Direction,
    Disruption,
    Drill,
    Facts,
    Fallback,
    Live,
    LiveClass,
    Probe,
    ScaledObject,
    Serving,
    Trigger,
    Versions,
)
from scaler.checks.registry import CHECKS, examine, table
from scaler.checks.verdicts import Basis, Check, Finding, Verdict

__all__ = [
    "CHECKS",
    "Basis",
    "Check",
    "Direction",
    "Disruption",
    "Drill",
    "Facts",
    "Fallback",
    "Finding",
    "Live",
    "LiveClass",
    "Probe",
    "ScaledObject",
    "Serving",
    "Trigger",
    "Verdict",
    "Versions",
    "examine",
    "table",
]
