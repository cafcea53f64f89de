"""``slo-scaler plan``: the runs, over the cores."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console

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
    """Processes, or this one alone; what has not begun is given up when the person does."""
    at_once = jobs or len(os.sched_getaffinity(0))
    if at_once == 1:
        _settle(ground)
        yield Runs(_AtOnce())
        return
    spawning = multiprocessing.get_context("spawn")  # a fork would copy the thread that draws the progress
    executor = ProcessPoolExecutor(at_once, spawning, _settle, (ground,))
    try:
        yield Runs(executor)
    finally:
        executor.shutdown(cancel_futures=True)


@contextmanager
def telling() -> Iterator[Callable[[str], None]]:
    """Say what is being done, where somebody watches."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as status:
        yield status.update


class _AtOnce(Executor):
    """Does all in this process, as it is asked for."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*arguments, **named))
        return done


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
