"""Our own law: a workload's loop in virtual time, which looks at the fleet, decides by ``core.step``, and tells the gateway."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from scaler.core.decision import Decision
from scaler.core.model import GateMode, Observation, Reading, ReplicaSet
from scaler.core.step import State, step
from scaler.sim.actuators import Keda
from scaler.sim.stage import Follows, Pages, Source, Stage

if TYPE_CHECKING:
    from scaler.core.counted import Counted

NUDGE_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Ours:
    """``core.step`` with the workload's own spec, which says its beat, and whether the gate is enforced.

    ``source`` None: the setting's. The fleet follows as it does with our manifests: KEDA and the HPA, no second window, no tolerance.
    """

    source: Source | None = None
    follows: Follows | None = Keda(pushes=True)

    def start(self, stage: Stage) -> Loop:
        """Look at 0, and then at every beat."""
        return Loop(stage, self.source or stage.setting.source)


class Loop:
    """Mutable, one owner."""

    def __init__(self, stage: Stage, source: Source) -> None:
        """It looks at 0, and then at every beat."""
        self._stage = stage
        self._spec = stage.setting.spec
        self._source = source
        self._gateway = stage.gateway
        self._agenda = stage.agenda
        dice = stage.dice("loop")
        self._pages = Pages(stage, source.scrape_s, dice)
        self._state = State()
        self._refused = 0.0
        self._looked_at = -math.inf
        self._due = 0.0
        self._planned = 0
        self._plan(0.0)
        if (polls_s := self._gateway.polls_s) is not None:
            self._agenda.every(polls_s, dice.uniform(0.0, polls_s), self._polled)

    def value(self, now: float) -> float | None:  # noqa: ARG002 - a decision stands until the next
        """The published count of replicas, as a trigger with target 1 has it."""
        return float(self._decision.desired) if self._decision else None

    def active(self, now: float) -> bool:  # noqa: ARG002 - likewise
        """Not before it has decided, or a fleet would be sent to zero from ignorance."""
        return self._decision is None or self._decision.active

    def nudge(self, now: float) -> None:
        """Look before the beat, but not within a second of the last look."""
        soon = max(now, self._looked_at + NUDGE_EVERY_S)
        if soon < self._due:
            self._plan(soon)

    @property
    def _decision(self) -> Decision | None:
        return self._stage.decisions[-1] if self._stage.decisions else None

    def _plan(self, when: float) -> None:
        """The next look; another one that was planned does not take place."""
        self._planned += 1
        self._agenda.at(when, partial(self._look, self._planned))

    def _look(self, number: int, now: float) -> None:
        if number != self._planned:
            return
        self._looked_at = now
        replicas = self._stage.fleet.replica_set(now)
        pages = self._pages.read(replicas.ready, now)
        self._agenda.at(now + self._source.look_s, partial(self._decide, replicas, pages))
        if self._due <= now:
            self._due += self._spec.tick_s
        self._plan(self._due)

    def _decide(self, replicas: ReplicaSet, pages: tuple[Reading, ...], now: float) -> None:
        seen = self._upstream(Observation(now, replicas, pages), self._gateway.drain(now))
        self._state, outcome = step(self._spec, self._state, seen)
        if isinstance(outcome, Decision):
            self._stage.decisions.append(outcome)
            if self._gateway.polls_s is None:
                self._gateway.hear(outcome, self._spec)

    def _upstream(self, seen: Observation, counted: Counted) -> Observation:
        """What is refused and what waits before it reaches an engine, as the loop of a process tells it."""
        if counted.classes:
            self._refused += sum(one.refused_first for one in counted.classes)
            return replace(seen, refused_total=self._refused, queued=float(counted.wanted), asked=counted.classes)
        refused = self._gateway.refused_total()
        return replace(seen, refused_total=refused, applied_ratio=self._applied_ratio() if refused is None else None)

    def _polled(self, now: float) -> None:  # noqa: ARG002 - the agenda's
        if self._decision:
            self._gateway.hear(self._decision, self._spec)

    def _applied_ratio(self) -> float | None:
        """The share that gateways admit which poll, None where none does."""
        if self._gateway.polls_s is None or self._decision is None:
            return None
        ratios = [one.admit_ratio if one.gate is GateMode.ENFORCE else 1.0 for one in self._decision.classes]
        return sum(ratios) / len(ratios)
