"""What stands between the published number and the replicas: KEDA and its HPA, as they say of themselves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one metric of the HPA asks for, in replicas; None: it does not tell. ``ours`` is whether the metric is this scaler's."""

    metric: str
    replicas: int | None
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Hpa:
    """KEDA's HPA: the count that it wants, that it saw, and what each metric asks for.

    ``able`` and ``limited`` are the reasons of its conditions AbleToScale and, where that is so, ScalingLimited; ``inactive`` is why it
    does not act on any metric, empty when it does. ``up_s`` and ``down_s`` are its own windows in seconds.
    """

    name: str
    desired: int
    current: int
    proposals: tuple[Proposal, ...] = ()
    up_s: float = 0.0
    down_s: float = 300.0
    able: str = ""
    limited: str = ""
    inactive: str = ""


@dataclass(frozen=True, slots=True)
class Platform:
    """``asked`` is the count in the target's scale, ``pods`` how many are alive. ``hpa`` None: there is none, or it is not known yet.

    ``paused`` are annotations that keep KEDA from acting at all, ``kept`` those that forbid one direction (``paused-scale-in``,
    ``paused-scale-out``). ``fallback``: KEDA acts on its ``fallback`` and not on us.
    """

    target: str
    asked: int
    pods: int
    hpa: Hpa | None = None
    hpas_known: bool = True
    paused: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    fallback: bool = False
