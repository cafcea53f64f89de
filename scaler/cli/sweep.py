"""Drives a load tester through the levels of a sweep, one process a level, each result into one folder."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from scaler.calibration.advice import NextTest
from scaler.calibration.formats import read
from scaler.calibration.plan import LOWEST, next_level
from scaler.calibration.runs import Load, LoadKind
from scaler.calibration.testers import Tester, Traffic, command, public, reserved
from scaler.calibration.testers.command import Turn
from scaler.cli.endpoint import look_at
from scaler.cli.load_tests import Judging
from scaler.errors import ConfigError, ScalerError

if TYPE_CHECKING:
    from scaler.calibration import Calibration
    from scaler.cli.sweep_screen import Screen

STEM, WORKING, COMMAND = "concurrency-", ".running", "command.txt"
LAST_LINES = 12
PATIENCE_S = 10.0
SEEDS = 2**31
"""Load testers take 32 bits. Each run draws its own, so that no prompt is in the prefix cache of an earlier one."""
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class TesterFailed(ScalerError):
    """A load tester left no result; the message has its last lines."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What to test, with what, how it is judged, and where the results go. ``fewest`` as in ``calibration.plan``."""

    tester: Tester
    traffic: Traffic
    judging: Judging
    folder: Path
    fewest: int | None = None

    def results(self) -> list[str]:
        """The files of the levels that were tested."""
        return sorted(map(str, self.folder.glob(f"{STEM}*.json")))

    def judged(self) -> Calibration | None:
        """The answer so far, None before there is a result."""
        results = self.results()
        return self.judging.of(results)[0] if results else None


def drive(sweep: Sweep, screen: Screen) -> None:
    """Test level after level until the sweep is over. What is in the folder already counts, so that an interrupted sweep goes on.

    Raises ConfigError for a folder or an option that does not fit, TesterFailed, and KeyboardInterrupt when told to end. The folder is
    good for another try after each.
    """
    _claim(sweep)
    with _alone(sweep.folder):
        _drive(sweep, screen)


def _drive(sweep: Sweep, screen: Screen) -> None:
    objectives, found = sweep.judging.objectives, sweep.judged()
    if found is not None:
        screen.kept(found)
    if next_level(found, objectives, sweep.fewest) is not None:
        look_at(sweep.traffic)
    with _terminated_as_interrupted():
        while (step := next_level(found, objectives, sweep.fewest)) is not None:
            with screen.testing(step, found):
                _test(sweep, step)
            found = sweep.judged()
            screen.tested(found, step)


def _claim(sweep: Sweep) -> None:
    """The folder belongs to one kind of test: runs with other options are no levels of the same sweep."""
    example = Turn(NextTest(Load(LoadKind.CONCURRENCY, LOWEST), 0), 0, ".")
    if (taken := reserved(sweep.tester, sweep.traffic, example)) is not None:
        raise ConfigError(f"--tool-args: {taken} is the sweep's own; leave it out")
    elsewhere = replace(sweep.traffic, url="URL")
    line = f"{shlex.join(public(command(sweep.tester, elsewhere, example)))}\n"
    record = sweep.folder / COMMAND
    try:
        sweep.folder.mkdir(parents=True, exist_ok=True)
        before = record.read_text(encoding="utf-8") if sweep.results() and record.exists() else line
        if before == line:
            record.write_text(line, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--results: {sweep.folder}: {error.strerror or 'unusable'}") from None
    if before != line:
        raise ConfigError(
            f"--results: {sweep.folder} holds another test, so give another folder; there it was: {before.strip()}"
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """The folder is one sweep's for as long as its process lives. On a file system without locks nobody is kept out."""
    held = os.open(folder, os.O_RDONLY)
    try:
        if _locked_elsewhere(held):
            raise ConfigError(
                f"--results: {folder}: another sweep runs there; wait for its end, or give another folder"
            )
        shutil.rmtree(folder / WORKING, ignore_errors=True)  # of a sweep that was killed
        yield
    finally:
        os.close(held)


def _locked_elsewhere(held: int) -> bool:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _test(sweep: Sweep, step: NextTest) -> None:
    """Test one level, and keep its result whole or not at all."""
    name = _free_name(sweep.folder, step)
    working, log = sweep.folder / WORKING, sweep.folder / f"{name}.log"
    turn = Turn(step, secrets.randbelow(SEEDS), str(working))
    shutil.rmtree(working, ignore_errors=True)
    working.mkdir()
    try:
        code = _run(command(sweep.tester, sweep.traffic, turn), log)
        result = working / sweep.tester.result
        if not result.is_file():
            raise TesterFailed(_failure(sweep.tester, step, code, log))
        _look_through(sweep.tester, step, result)
        result.replace(sweep.folder / f"{name}.json")
    finally:
        shutil.rmtree(working, ignore_errors=True)


def _look_through(tester: Tester, step: NextTest, result: Path) -> None:
    """A result that cannot be read must not be kept: it would end every later try. TesterFailed says what is wrong with it."""
    try:
        read(result.name, result.read_bytes())
    except ConfigError as error:
        raise TesterFailed(f"{tester.program} left a result at {step.load} that cannot be used: {error}") from None


def _free_name(folder: Path, step: NextTest) -> str:
    stem = f"{STEM}{step.load.value:g}"
    names = (stem, *(f"{stem}-again-{number}" for number in range(1, 100)))
    return next(name for name in names if not (folder / f"{name}.json").exists())


def _run(words: tuple[str, ...], log: Path) -> int:
    """The exit code of a command, whose words go to the log. It has a process group of its own, and ends with us whatever happens."""
    with (
        log.open("wb") as out,
        subprocess.Popen(  # noqa: S603 - the person's own load tester, and no shell
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        ) as child,
    ):
        try:
            return child.wait()
        finally:
            _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a command and all that it started: politely, and then for sure."""
    try:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait(PATIENCE_S)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """A pod that is deleted is told to end by SIGTERM, and must not leave the load tester behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _failure(tester: Tester, step: NextTest, code: int, log: Path) -> str:
    written = _COLOURS.sub("", log.read_text(encoding="utf-8", errors="replace"))
    last = [line.rstrip() for line in written.splitlines() if line.strip()][-LAST_LINES:]
    said = "\n".join(f"  {line}" for line in last) or "  (it said nothing)"
    return f"{tester.program} left no result at {step.load} (exit code {code}); its last lines, the rest is in {log}:\n{said}"
