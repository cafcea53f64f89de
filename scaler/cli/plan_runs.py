"""``slo-scaler plan``: the runs, over the cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console

from scaler.cli.over_cores import over_cores
from scaler.sim.contest import Contest, Gating
from scaler.sim.edges import Edges, kept_ratio
from scaler.sim.fluid import Choice
from scaler.sim.plan import play
from scaler.sim.worth import Worth


@dataclass(frozen=True, slots=True)
class Ground:
    """What is played: the stretch of the history, None where it is too large, and the trial of the edges."""

    stretch: Contest | None
    gating: Gating
    trial: Contest


class Runs:
    """Each call begins a run somewhere and returns at once."""

    def __init__(self, executor: Executor) -> None:
        """On an executor whose processes know the ground."""
        self._executor = executor

    def play(self, choice: Choice, initial: int, seed: int) -> Future[Worth]:
        """The stretch."""
        return self._executor.submit(_play, choice, initial, seed)

    def overload(self, edges: Edges, seed: int) -> Future[float]:
        """The trial."""
        return self._executor.submit(_overload, edges, seed)


@contextmanager
def runs(ground: Ground, jobs: int | None) -> Iterator[Runs]:
    """So many at once, None: one a core."""
    with over_cores(_settle, ground, jobs) as executor:
        yield Runs(executor)


@contextmanager
def telling() -> Iterator[Callable[[str], None]]:
    """Say what is being done, where somebody watches."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as status:
        yield status.update


_ground: list[Ground] = []
"""What a process plays; each is told once, since traffic is large."""


def _settle(ground: Ground) -> None:
    _ground[:] = [ground]


def _play(choice: Choice, initial: int, seed: int) -> Worth:
    ground = _ground[0]
    if ground.stretch is None:
        raise ValueError("no stretch to play")
    return play(ground.stretch, ground.gating, choice, initial, seed)


def _overload(edges: Edges, seed: int) -> float:
    return kept_ratio(_ground[0].trial, edges, seed)
