"""What goes into the law: the vocabulary of observations, as frozen values.

Units are in the names: ``_s`` seconds, ``_per_s`` a second, ``_ratio`` 0..1, ``_total`` cumulative, ``_at`` an instant of the
monotonic clock that the caller passes around.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import NamedTuple

from scaler.core.counted import ClassCounted
from scaler.core.platform import Platform


class Absent(Enum):
    """Why a signal has no value. The two must never be confused: idle counts as zero, unknown never does."""

    IDLE = "idle"
    """The engine reports, and says that there was nothing to measure."""
    UNKNOWN = "unknown"
    """Nobody told us."""


Signal = float | Absent
"""A value, idle or unknown."""


def known(signal: Signal) -> float | None:
    """The value of a signal: idle is 0.0, unknown is None."""
    if signal is Absent.IDLE:
        return 0.0
    return None if isinstance(signal, Absent) else signal


class Pressure(StrEnum):
    """How near a workload is to breaking its objective. UNKNOWN: the last decision is too old to say."""

    GREEN = "GREEN"
    YELLOW = "YELLOW"
    RED = "RED"
    UNKNOWN = "UNKNOWN"


class Objective(StrEnum):
    """What a request class is promised: a first token in time, or the whole job by a deadline."""

    LATENCY = "latency"
    COMPLETION = "completion"


class GateMode(StrEnum):
    """Whether the pressure is acted upon: ``observe`` computes and publishes everything and refuses nothing."""

    OFF = "off"
    OBSERVE = "observe"
    ENFORCE = "enforce"


class ShedStatus(StrEnum):
    """The HTTP status of a refusal: 429 says contended, 503 no capacity; ``auto`` says which of the two it is."""

    AUTO = "auto"
    CONTENDED = "429"
    NO_CAPACITY = "503"


@dataclass(frozen=True, slots=True, order=True)
class WorkloadKey:
    """Namespace and name of the ScaledObject (or of the configuration entry) that a workload is."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class RequestClass:
    """A class of requests with one promise. Lower ``order`` is served first.

    ``ttft_s`` is the time-to-first-token budget in seconds, required unless the objective is completion. ``floor_ratio`` is the share
    of its attempts that is admitted even under overload.
    """

    name: str
    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    objective: Objective = Objective.LATENCY
    deadline_s: float | None = None
    order: int = 0
    floor_ratio: float = 0.0
    max_retries: int | None = None
    gate: GateMode | None = None


@dataclass(frozen=True, slots=True)
class Histogram:
    """A cumulative histogram as scraped.

    ``edges`` are the finite upper bounds, ascending; ``counts`` has one more entry than ``edges`` (the last is all observations) and
    never falls from left to right.
    """

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float

    @property
    def count(self) -> float:
        """All observations so far."""
        return self.counts[-1]

    def on(self, edges: tuple[float, ...]) -> Histogram:
        """The same observations on a subset of its own edges."""
        if edges == self.edges:
            return self
        keep = tuple(self.counts[self.edges.index(edge)] for edge in edges)
        return Histogram(edges, (*keep, self.count), self.sum)

    def plus(self, other: Histogram) -> Histogram:
        """The sum of two histograms, on the edges that both have."""
        edges = self.edges if self.edges == other.edges else tuple(edge for edge in self.edges if edge in other.edges)
        left, right = self.on(edges), other.on(edges)
        return Histogram(
            edges, tuple(a + b for a, b in zip(left.counts, right.counts, strict=True)), self.sum + other.sum
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """One replica's page at one time, in our words. Counters are raw and cumulative; None means that the page lacks them.

    ``ttft.count`` is the number of first tokens so far: the only completion signal that leads. ``absent`` names required signals that
    the page should have had.
    """

    replica: str
    observed_at: float
    running: Signal = Absent.UNKNOWN
    waiting: Signal = Absent.UNKNOWN
    kv_usage_ratio: Signal = Absent.UNKNOWN
    awake: bool = True
    prompt_tokens_total: float | None = None
    generation_tokens_total: float | None = None
    preemptions_total: float | None = None
    rejections_total: float | None = None
    ttft: Histogram | None = None
    tpot: Histogram | None = None
    queue_time: Histogram | None = None
    duration: Histogram | None = None
    prompt_tokens: Histogram | None = None
    output_tokens: Histogram | None = None
    absent: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether load can be computed from it: both gauges are a value or idle."""
        return self.running is not Absent.UNKNOWN and self.waiting is not Absent.UNKNOWN


@dataclass(frozen=True, slots=True)
class Missing:
    """A ready replica that gave no reading this time, and why, in one short phrase."""

    replica: str
    why: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something about a workload that its platform says: a stable code, and one sentence that says what to do."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Starting:
    """A replica that exists and is not ready. ``since`` is when it was created, or asked for where that is all that is known.

    ``stuck`` is the platform's own reason, if any. ``node_class`` tells kinds of nodes apart (the GPU product), empty while unknown.
    """

    replica: str
    since: float
    stuck: str = ""
    node_class: str = ""


@dataclass(frozen=True, slots=True)
class Phase:
    """One stretch of a start, in seconds: ``scheduled``, ``image_and_init``, ``container``, ``ready``."""

    name: str
    took_s: float


@dataclass(frozen=True, slots=True)
class Started:
    """A start that the platform has seen to its end: created, and ready for the first time."""

    replica: str
    created_at: float
    ready_at: float
    node_class: str = ""
    phases: tuple[Phase, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """What a replica runs on (the class of its node: the GPU product) and which version of the engine it is; empty while unknown."""

    node_class: str = ""
    engine_version: str = ""

    def __str__(self) -> str:
        """As a person would say it."""
        return f"{self.node_class or 'unknown GPU'}, engine {self.engine_version or 'unknown'}"


class GpuPhase(StrEnum):
    """What a replica does with its GPUs: it is not ready yet, or not any more; it serves; or it ends what it has begun."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"


class GpuUse(NamedTuple):
    """GPUs of one product in one phase. ``gpu`` is empty where the product is not known."""

    gpu: str
    phase: GpuPhase


@dataclass(frozen=True, slots=True)
class Floor:
    """A count that nothing falls below until ``until_at``: a person broke the glass. ``until`` is that time of day in words."""

    replicas: int
    until_at: float
    until: str


@dataclass(frozen=True, slots=True)
class ReplicaSet:
    """Which replicas exist. ``current`` is the count now asked of the platform; ``max_replicas`` its upper bound, when it says so.

    ``started`` are starts that ended lately, each listed for some minutes, so that no tick misses one. ``notes`` are what the platform
    says that a person should know: that scaling is paused, or what may not be read. ``engine_cap`` is the most requests that an engine runs
    at once, the smallest of the replicas', where their arguments tell it. ``kinds`` are those of ready replicas, by name; ``newest`` is
    that of the newest replica which has a node, or asks for one kind. ``held``: nobody adds replicas now, whatever is asked. ``floor``
    is what a person has set, over or not. ``platform`` is what acts on the number, where that can be seen. ``gpus`` counts those that
    replicas hold, also the ones that terminate; empty where nobody tells.
    """

    ready: tuple[str, ...]
    starting: tuple[Starting, ...]
    current: int
    observed_at: float
    max_replicas: int | None = None
    started: tuple[Started, ...] = ()
    notes: tuple[Note, ...] = ()
    engine_cap: int | None = None
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    newest: Kind | None = None
    held: bool = False
    floor: Floor | None = None
    platform: Platform | None = None
    gpus: Mapping[GpuUse, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observation:
    """All that one tick saw of one workload. ``replicas`` is None when nobody could say which replicas exist; ``unlisted`` says why.

    ``refused_total`` counts first attempts that were refused upstream of the engines, cumulative; ``queued`` is how many requests are
    held there now, say by a gateway while there is no replica. None: nobody counts them. ``applied_ratio`` is the share that gateways
    admit which poll our fraction and throw dice of their own; None: none does. ``asked`` is what our own gate in the path counted since
    the last tick, its refusals being part of ``refused_total``.
    """

    at: float
    replicas: ReplicaSet | None
    readings: tuple[Reading, ...] = ()
    missing: tuple[Missing, ...] = ()
    refused_total: float | None = None
    queued: float | None = None
    applied_ratio: float | None = None
    unlisted: str = ""
    asked: tuple[ClassCounted, ...] = ()
