"""What a run takes place in, and what a law can see and do there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Protocol

from scaler.core.decision import Decision
from scaler.core.model import Reading
from scaler.core.step import WorkloadSpec
from scaler.sim.agenda import Agenda
from scaler.sim.cluster import Fleet, Platform

if TYPE_CHECKING:
    from scaler.sim.gateways import Gateway
    from scaler.sim.traffic import Arrival


@dataclass(frozen=True, slots=True)
class Source:
    """How the engines are read. A look takes ``look_s`` seconds, and its pages are as old when it ends.

    With ``scrape_s`` the pages are the last ones of a Prometheus that reads each replica so often, each at a phase of its own.
    """

    look_s: float = 0.05
    scrape_s: float | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run takes place in; all dice are by the seed.

    ``spec`` says what was promised and within which bounds the fleet may be scaled, whatever the law. ``source`` and ``resize_s`` are for
    our law where none is named: the platform follows what is desired every ``resize_s`` seconds, None: never.
    """

    spec: WorkloadSpec
    platform: Platform
    source: Source = Source()
    resize_s: float | None = None
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """What a law asked for when the fleet was to follow it, None when it did not know, and how many replicas there were then to be."""

    at: float
    value: float | None
    replicas: int


@dataclass(frozen=True, slots=True)
class Stage:
    """What a law may use. ``arrivals`` are all that will come, which only the clairvoyant may look at.

    ``decisions`` and ``asked`` are what it leaves behind.
    """

    setting: Setting
    agenda: Agenda
    fleet: Fleet
    gateway: Gateway
    arrivals: Sequence[Arrival] = ()
    decisions: list[Decision] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def dice(self, whose: str) -> Random:
        """Dice that nobody else throws."""
        return Random(f"{whose} {self.setting.seed}")


class Asking(Protocol):
    """A law at work."""

    def value(self, now: float) -> float | None:
        """How much it asks for; None while it does not know. In replicas, or in the unit of the target that it goes with."""
        ...

    def active(self, now: float) -> bool:
        """Whether there must be a replica at all."""
        ...

    def nudge(self, now: float) -> None:
        """The gateway would have it look early."""
        ...


class Follows(Protocol):
    """How what is asked for becomes replicas."""

    def start(self, stage: Stage, asking: Asking) -> None:
        """Follow it from 0 on."""
        ...


class Law(Protocol):
    """The parameters of one law, frozen. ``follows`` is None where the fleet stays as it is."""

    @property
    def follows(self) -> Follows | None: ...

    def start(self, stage: Stage) -> Asking:
        """Go to work at 0."""
        ...

    def __hash__(self) -> int: ...


class Pages:
    """The pages of the engines as one reader of them has them. Mutable, one owner."""

    def __init__(self, stage: Stage, scrape_s: float | None, dice: Random) -> None:
        """``scrape_s`` as in ``Source``."""
        self._fleet = stage.fleet
        self._agenda = stage.agenda
        self._scrape_s = scrape_s
        self._dice = dice
        self._pages: dict[str, Reading] = {}

    def read(self, names: Sequence[str], now: float) -> tuple[Reading, ...]:
        """Those of these replicas that there are, in the same order."""
        if self._scrape_s is None:
            return tuple([page for name in names if (page := self._fleet.page(name, now))])
        for name in names:
            if name not in self._pages:
                self._scrape(name, now)
                first = now + self._dice.uniform(0.0, self._scrape_s)
                self._agenda.every(self._scrape_s, first, partial(self._scrape, name))
        return tuple([self._pages[name] for name in names if name in self._pages])

    def _scrape(self, name: str, now: float) -> None:
        if page := self._fleet.page(name, now):
            self._pages[name] = page
