"""What a trace file holds, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.sim.traffic import Draws, Lengths, Traffic


@dataclass(frozen=True, slots=True)
class Assumed:
    """What a file may not say: the class of its requests, how long they are, and of which workload a log is to be read."""

    request_class: str = "default"
    lengths: Draws = Lengths()
    workload: str | None = None


NOTHING_SAID = Assumed()


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a decision log says of one instant, in seconds from its first line. ``ready`` and ``starting`` replicas; None: not told."""

    at: float
    desired: int
    ready: int | None
    starting: int | None
    blind: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """One file. ``notes`` say in a sentence each what was left out or assumed; ``recorded`` is what a decision log adds to its load."""

    file: str
    kind: str
    traffic: Traffic
    notes: tuple[str, ...] = ()
    recorded: tuple[Recorded, ...] = ()
