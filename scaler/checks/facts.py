"""What is known of one workload before it is launched, or of one that runs. None: nobody told, which is never as good as it should be.

Who gathers these (``cli.check``) reads files, a cluster, a running scaler, and a drill's answers; the checks see no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scaler.core.counted import ClassCounted
    from scaler.core.decision import Finding as LiveFinding
    from scaler.core.model import Missing, Signal, WorkloadKey
    from scaler.core.step import WorkloadSpec

DEFAULT_MIN, DEFAULT_MAX = 0, 100
"""What KEDA takes where a ScaledObject does not write them."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """One trigger as written. ``metric_type`` is empty where it is not. ``authenticated``: it names a TriggerAuthentication.

    ``unquoted`` are keys of its metadata whose values are no strings.
    """

    kind: str
    metadata: Mapping[str, str]
    metric_type: str = ""
    cached: bool = False
    authenticated: bool = False
    unquoted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of the HPA's behavior as written. ``window_s`` and ``tolerance`` are None where they are not."""

    window_s: float | None = None
    tolerance: float | None = None
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class Fallback:
    """What KEDA does when the scaler refuses to answer."""

    replicas: int
    behavior: str = "static"


@dataclass(frozen=True, slots=True)
class ScaledObject:
    """A ScaledObject as written, with KEDA's defaults in seconds. ``ours`` is the first trigger that asks this scaler.

    ``behavior`` is None where it is not written, else its two directions: up and down. ``held`` are annotations that keep KEDA from acting.
    """

    target: str
    ours: Trigger
    others: tuple[Trigger, ...] = ()
    min_replicas: int | None = None
    max_replicas: int | None = None
    idle_replicas: int | None = None
    polling_s: float = 30.0
    cooldown_s: float = 300.0
    initial_cooldown_s: float = 0.0
    fallback: Fallback | None = None
    behavior: tuple[Direction, Direction] | None = None
    held: tuple[str, ...] = ()

    @property
    def lowest(self) -> int:
        """The fewest replicas that KEDA goes down to."""
        if self.idle_replicas is not None:
            return self.idle_replicas
        return DEFAULT_MIN if self.min_replicas is None else self.min_replicas

    @property
    def highest(self) -> int:
        """The most replicas that the HPA goes up to."""
        return DEFAULT_MAX if self.max_replicas is None else self.max_replicas

    @property
    def directions(self) -> tuple[Direction, Direction]:
        """Up and down, with nothing written where there is no behavior."""
        return self.behavior or (Direction(), Direction())


@dataclass(frozen=True, slots=True)
class Probe:
    """``kind`` is http, tcp, grpc or exec; ``patience_s`` how long it may fail before it counts, in seconds from the container's start."""

    kind: str
    path: str = ""
    patience_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Serving:
    """What is scaled, and the pods that it makes.

    ``whole`` is whether this is all that the pods get: of a KServe object it is what a person added. ``counted``: its manifest writes a
    replica count; None where the manifest is not seen. ``surge`` is what a rolling update adds ("25%", "1"), None where there is none.
    ``cap`` is the most requests that the engine runs at once, ``queue_limit`` the most that it holds, running ones included, each None
    where its arguments do not tell. ``mute``: they turn its metrics off.
    """

    name: str
    whole: bool
    counted: bool | None = None
    readiness: Probe | None = None
    liveness: Probe | None = None
    startup: Probe | None = None
    grace_s: float | None = 30.0
    surge: str | None = None
    cap: int | None = None
    queue_limit: int | None = None
    mute: bool = False
    engine_version: str = ""


@dataclass(frozen=True, slots=True)
class Disruption:
    """A PodDisruptionBudget that selects the pods. ``blocks``: it lets no pod go, ever."""

    name: str
    blocks: bool


@dataclass(frozen=True, slots=True)
class Versions:
    """Major and minor, None where nobody tells."""

    kubernetes: tuple[int, int] | None = None
    keda: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class LiveClass:
    """A request class as the running scaler sees it now."""

    name: str
    gate: str
    state: str
    budget_s: float | None
    admit_ratio: float


@dataclass(frozen=True, slots=True)
class Live:
    """What a running scaler explains. Counts are replicas; ``load`` is what the traffic asks for, before any bound.

    ``spec`` is what a person decided, None from a scaler that does not tell it. ``signals`` are those of the estimate by name. ``samples``
    starts were measured, with ``ready_p90_s`` and its origin. ``asked`` is what the gate in the path counted.
    """

    age_s: float
    blind: bool
    read: int
    missing: tuple[Missing, ...]
    absent: tuple[str, ...]
    signals: Mapping[str, Signal]
    ready_p90_s: float
    samples: int
    origin: str
    load: float
    desired: int
    max_replicas: int
    classes: tuple[LiveClass, ...]
    findings: tuple[LiveFinding, ...]
    spec: WorkloadSpec | None = None
    asked: tuple[ClassCounted, ...] = ()


@dataclass(frozen=True, slots=True)
class Drill:
    """What a bounded burst at an endpoint saw.

    ``statuses`` are counts by HTTP status; ``waits_s`` the Retry-After of refusals, None where one has none that is a whole number. P99s
    are of the admitted, in seconds to the first token: before the first refusal, and from then on. ``returned`` refused requests came
    back when they were told to, ``welcomed`` of them were admitted.
    """

    sent: int
    admitted: int
    broken: int
    statuses: Mapping[int, int]
    waits_s: tuple[int | None, ...]
    calm_p99_s: float | None = None
    refusing_p99_s: float | None = None
    returned: int = 0
    welcomed: int = 0

    @property
    def refused(self) -> int:
        """How many were told to come back later."""
        return sum(count for status, count in self.statuses.items() if status in REFUSALS)


REFUSALS = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of one workload. ``faults`` are why its trigger means nothing, where it does not.

    ``server_tls`` is whether the scaler's port for KEDA has TLS; ``rivals`` are other autoscalers of the same target, ``hpa_troubles``
    what keeps KEDA's HPA from acting.
    """

    key: WorkloadKey
    scaled: ScaledObject | None = None
    spec: WorkloadSpec | None = None
    faults: tuple[str, ...] = ()
    server_tls: bool | None = None
    serving: Serving | None = None
    disruptions: tuple[Disruption, ...] | None = None
    rivals: tuple[str, ...] | None = None
    hpa_troubles: tuple[str, ...] | None = None
    versions: Versions = field(default_factory=Versions)
    live: Live | None = None
    drill: Drill | None = None
