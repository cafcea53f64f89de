"""Runs of the simulation over the cores."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, TypeVar

T = TypeVar("T")

RARELY = (100_000, 20, 100)
"""A run makes few cycles and millions of objects that live to its end: looking through them as often as Python does costs a sixth of it."""


@contextmanager
def over_cores(settle: Callable[[T], None], ground: T, jobs: int | None) -> Iterator[Executor]:
    """So many processes, None: one a core; one alone is this process itself. What has not begun is given up when the person does.

    Each is told once, by ``settle``, what it plays: that is too large to be sent with every run.
    """
    at_once = jobs or len(os.sched_getaffinity(0))
    if at_once == 1:
        thresholds = gc.get_threshold()
        _begin(settle, ground)
        try:
            yield _AtOnce()
        finally:
            gc.set_threshold(*thresholds)
            gc.unfreeze()
        return
    executor = ProcessPoolExecutor(at_once, _Spawning(), _work, (settle, ground))
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)


class _Deaf(SpawnProcess):
    """Begins without hearing Ctrl-C, which the terminal sends to all: what it would say of that, nobody wants to read."""

    def start(self) -> None:
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)


class _Spawning(SpawnContext):
    """A fork would copy the threads that draw the progress."""

    Process = _Deaf


def _work(settle: Callable[[T], None], ground: T) -> None:
    """Begin in a process of its own, which Ctrl-C from now on ends at once and silently."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _begin(settle, ground)


def _begin(settle: Callable[[T], None], ground: T) -> None:
    settle(ground)
    gc.collect()
    gc.freeze()  # what is played is no garbage, however often it is looked at
    gc.set_threshold(*RARELY)


class _AtOnce(Executor):
    """Does all in this process, as it is asked for."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*arguments, **named))
        return done
