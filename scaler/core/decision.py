"""What comes out of the law: one ``Decision``, which every surface shows, and the values it is made of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from scaler.core.model import Absent

if TYPE_CHECKING:
    from scaler.core.model import (
        GateMode,
        Missing,
        Objective,
        Phase,
        Pressure,
        Reading,
        ReplicaSet,
        ShedStatus,
        Signal,
        WorkloadKey,
    )
    from scaler.core.ready_latency import ReadyLatency
    from scaler.core.shown import Basis


class Reason(StrEnum):
    """What binds the published number. Exactly one does."""

    FLOW = "flow"
    GROWTH = "growth"
    BACKLOG = "backlog"
    ONGOING = "ongoing"
    COMPLETION = "completion"
    RUNNING_FLOOR = "running_floor"
    MISSING_FLOOR = "missing_floor"
    MIN_REPLICAS = "min_replicas"
    MAX_REPLICAS = "max_replicas"
    NOT_IDLE = "not_idle"
    START = "start"
    UPSCALE_DELAY = "upscale_delay"
    DOWNSCALE_WINDOW = "downscale_window"
    RED_HOLD = "red_hold"
    BLIND_HOLD = "blind_hold"
    FLOOR = "floor"


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one replica can safely do now.

    ``target`` = safe concurrency less headroom. ``safe_rate_per_s`` (mu) and ``residence_s`` (W) are None until they are known; they are
    after derating (``derate_ratio``, from live latency) and drift of the token mix (``drift_ratio``). ``origin`` names where they are from.
    ``confidence`` is that in the safe concurrency, as far as anybody said; ``basis`` is what it rests on where it is learnt.
    """

    safe_concurrency: float
    target: float
    safe_rate_per_s: float | None
    residence_s: float | None
    derate_ratio: float = 1.0
    drift_ratio: float = 1.0
    origin: str = "profile"
    confidence: str = ""
    basis: Basis | None = None


@dataclass(frozen=True, slots=True)
class QueueWait:
    """Seconds that a request arriving now will wait, by three independent signs; ``s`` is the largest. None: that sign says nothing."""

    s: float
    by_drain_s: float | None = None
    by_ttft_s: float | None = None
    by_stall_s: float | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is believed of a workload at one instant. Counts are requests; ``ready`` counts awake replicas that pass readiness.

    ``latency`` is that of a replica asked for now, ``replica_ready_s`` its P90; ``start_phases`` the median of each phase of recent starts,
    and from ready to the first token. ``duration_p99_s`` and the median lengths ``_tokens`` are of requests that ended of late.
    """

    at: float
    observed_at: float
    ready: int
    starting: int
    stuck: int
    missing: int
    current: int
    max_replicas: int | None
    running: float
    waiting: float
    running_smoothed: float
    queue: float
    queue_grows: bool
    throughput_per_s: float | None
    arrival_per_s: float
    offered_per_s: float
    refused_per_s: float
    drain_per_s: float
    growth_ratio: float
    queue_wait: QueueWait
    ttft_s: Signal
    ttft_p99_s: Signal
    tpot_s: Signal
    tpot_before_s: Signal
    ttft_samples: float
    tpot_samples: float
    queue_time_s: Signal
    kv_usage_ratio: Signal
    preempting: bool
    eta_s: float
    eta_median_s: float
    replica_ready_s: float
    latency: ReadyLatency
    start_phases: tuple[Phase, ...]
    capacity: Capacity
    duration_p99_s: Signal = Absent.UNKNOWN
    prompt_p50_tokens: Signal = Absent.UNKNOWN
    output_p50_tokens: Signal = Absent.UNKNOWN

    @property
    def ongoing(self) -> float:
        """Requests in the engines: running and waiting."""
        return self.running + self.waiting

    @property
    def unsure(self) -> bool:
        """Whether the load had to be told from what runs, though a rate would tell it better."""
        return self.throughput_per_s is None and self.capacity.residence_s is not None

    @property
    def saturation_ratio(self) -> float:
        """Ongoing requests over what the ready replicas hold safely; infinite when there is load and no replica."""
        room = self.ready * self.capacity.safe_concurrency
        if room > 0:
            return self.ongoing / room
        return math.inf if self.ongoing > 0 else 0.0


@dataclass(frozen=True, slots=True)
class LawInputs:
    """Every number that the replica law uses. ``recommend`` of the same inputs gives the same answer, bit for bit.

    ``residence_s`` and ``safe_rate_per_s`` None: not known yet, load is then judged by ongoing requests. ``deadline_s`` is set when the
    workload promises completion only.
    """

    offered_per_s: float
    arrival_per_s: float
    drain_per_s: float
    queue: float
    ongoing: float
    running: float
    eta_s: float
    growth_ratio: float
    residence_s: float | None
    safe_rate_per_s: float | None
    target: float
    drain_deadline_s: float
    deadline_s: float | None
    missing: int
    current: int
    warm_replicas: int
    min_replicas: int
    max_replicas: int


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of the law by the names of its formula, in replicas unless the name says otherwise."""

    flow: float
    flow_with_growth: float
    backlog_at_ready_requests: float
    backlog: float
    load: float
    running_floor: float
    missing_floor: float


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What the load asks for now, within bounds and before stabilization. ``runner_up`` is the next term in line and its replicas."""

    replicas: int
    reason: Reason
    runner_up: Reason
    runner_up_replicas: float
    inputs: LawInputs
    terms: Terms


@dataclass(frozen=True, slots=True)
class ShapeInputs:
    """Every number that stabilization uses. ``published`` None: nothing was published before. ``floor``: what a person has set, else 0."""

    recommended: int
    published: int | None
    current: int
    min_replicas: int
    max_replicas: int
    start_floor: int
    window_max: int
    window_min: int
    idle: bool
    red: bool
    pressed: bool
    blind: bool
    floor: int = 0


@dataclass(frozen=True, slots=True)
class Shaped:
    """The stabilized number. ``reason`` is None when the recommendation went through untouched."""

    replicas: int
    reason: Reason | None
    inputs: ShapeInputs


@dataclass(frozen=True, slots=True)
class ClassDecision:
    """The verdict for one request class. ``admit_per_s`` None: no limit. ``rule`` is the row of the pressure table that applied, if any.

    Retry-After is ``retry_after_s`` plus jitter up to ``retry_spread_s``; both 0 when all are admitted.
    ``red_projected`` and ``red_budget`` are what the two RED rules say, whichever is chosen.
    """

    name: str
    objective: Objective
    gate: GateMode
    state: Pressure
    rule: str | None
    since: float
    budget_s: float | None
    remaining_budget_s: float | None
    admit_ratio: float
    admit_per_s: float | None
    retry_after_s: float
    retry_spread_s: float
    red_projected: bool
    red_budget: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should know: a stable code, one sentence, and the number of warm replicas that would cure it, if any."""

    code: str
    text: str
    warm_replicas: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """One tick's answer to both questions: how many replicas, and what share of each class to admit.

    ``observed_at`` is when the newest reading behind it was taken; readers judge its age themselves (``core.admission.as_of``), so that a
    dead loop cannot keep an old answer alive. ``valid_s`` bounds the pressure, ``hold_s`` the replica count.
    """

    key: WorkloadKey
    sequence: int
    decided_at: float
    observed_at: float
    valid_s: float
    hold_s: float
    desired: int
    active: bool
    blind: bool
    state: Pressure
    reason: Reason
    runner_up: Reason
    estimate: Estimate
    recommendation: Recommendation
    shaped: Shaped
    classes: tuple[ClassDecision, ...]
    reaction_s: float
    surge_ratio: float
    gate: GateMode
    shed: ShedStatus
    findings: tuple[Finding, ...] = ()
    readings: tuple[Reading, ...] = ()
    missing: tuple[Missing, ...] = ()
    replicas: ReplicaSet | None = None
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class Pending:
    """There is no decision yet, and why, in one short phrase."""

    key: WorkloadKey
    why: str
