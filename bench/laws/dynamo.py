"""NVIDIA Dynamo's load-based planner."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean

from scaler.core.model import known
from scaler.sim.actuators import Direct
from scaler.sim.stage import Follows, Pages, Stage

GRACE_INTERVALS = 3
"""After one was added none is removed for so long (``NEW_DECODE_WORKER_GRACE_PERIOD``), and a queue is projected by as many intervals."""


@dataclass(frozen=True, slots=True)
class LoadPlanner:
    """One replica more or less at each adjustment, by the means of KV cache usage and of the queue a replica since the last.

    Source: dynamo.planner.defaults.LoadPlannerDefaults (KV 0.9 and 0.5, queue 5.0 and 0.2, pulled every 10 s, adjusted every 180 s) and
    planner_core: no adjustment when the workers have changed meanwhile; a queue counts only if its trend does not end it. It plans for
    prefill and decode workers apart; here one replica does both, so either asks for more, and only both let one go. ``every_s`` is what
    to tune.
    """

    kv_up: float = 0.9
    kv_down: float = 0.5
    queue_up: float = 5.0
    queue_down: float = 0.2
    pull_s: float = 10.0
    every_s: float = 180.0

    @property
    def follows(self) -> Follows:
        """Its connector scales the replicas."""
        return Direct(self.every_s, phase_s=self.every_s)

    def start(self, stage: Stage) -> Planner:
        """Pull from the beginning."""
        return Planner(self, stage)


@dataclass(slots=True)
class _Interval:
    """What was pulled since the last adjustment, with as many replicas as there were at first."""

    ready: int
    kv: list[float] = field(default_factory=list)
    queue: list[float] = field(default_factory=list)


class Planner:
    """Mutable, one owner."""

    def __init__(self, law: LoadPlanner, stage: Stage) -> None:
        """Nothing has been pulled."""
        self._law = law
        self._fleet = stage.fleet
        self._pages = Pages(stage, None, stage.dice("planner"))
        self._interval = _Interval(stage.fleet.ready(0.0))
        self._grace = 0
        stage.agenda.every(law.pull_s, law.pull_s / 2, self._pull)

    def value(self, now: float) -> float | None:
        """The count of replicas."""
        past, ready = self._interval, self._fleet.ready(now)
        self._interval = _Interval(ready)
        change = self._change(past) if past.kv and past.ready == ready else 0
        self._grace = GRACE_INTERVALS if change > 0 else max(0, self._grace - 1)
        return float(self._fleet.existing + change)

    def active(self, now: float) -> bool:  # noqa: ARG002 - nobody asks: it scales itself
        """It has bounds of its own."""
        return True

    def nudge(self, now: float) -> None:
        """It does not listen."""

    def _change(self, past: _Interval) -> int:
        law, kv, queue = self._law, fmean(past.kv), fmean(past.queue)
        coming = past.queue[-1] + GRACE_INTERVALS * (past.queue[-1] - past.queue[0])
        if kv > law.kv_up or min(queue, coming) > law.queue_up:
            return 1
        return -1 if kv < law.kv_down and queue < law.queue_down and not self._grace else 0

    def _pull(self, now: float) -> None:
        pages = self._pages.read(self._fleet.replica_set(now).ready, now)
        if pages:
            self._interval.kv.append(fmean(known(page.kv_usage_ratio) or 0.0 for page in pages))
            self._interval.queue.append(fmean(known(page.waiting) or 0.0 for page in pages))
