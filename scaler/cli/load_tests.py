"""A load tester's files: found by name, folder or pattern, read, and judged."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scaler.errors import ConfigError

if TYPE_CHECKING:
    from scaler.calibration import Calibration, Objectives, Results, Setup

SUFFIXES = (".json", ".csv", ".gz")
"""What is looked at in a folder; a file that is named is always looked at."""


@dataclass(frozen=True, slots=True)
class Judging:
    """How results are judged, whichever they are. ``given`` is what the command line adds to their setup."""

    objectives: Objectives
    given: Setup
    shared_prefix: bool

    def of(self, named: Iterable[str]) -> tuple[Calibration, list[str]]:
        """The answer of files, folders and patterns, and what was passed over in folders. Raises ConfigError with all their faults."""
        from scaler.calibration import assemble, calibrate

        read, passed_over = _read(_files(named))
        sweep = assemble(read, self.given, shared_prefix=self.shared_prefix)
        return calibrate(sweep, self.objectives, shared_prefix=self.shared_prefix), passed_over


def _files(named: Iterable[str]) -> list[tuple[Path, bool]]:
    """The files, each once, and whether it was named itself. Raises ConfigError where there is none."""
    found: dict[Path, tuple[Path, bool]] = {}
    for result in named:
        matching = [result] if Path(result).exists() else glob.glob(result, recursive=True)  # noqa: PTH207 - patterns may be absolute
        if not matching:
            raise ConfigError(
                f"{result}: no such file or folder; name the load tester's result files, or the folder that holds them"
            )
        for path in map(Path, sorted(matching)):
            for file in _inside(path) if path.is_dir() else [path]:
                found.setdefault(file.resolve(), (file, file == path))
    return list(found.values())


def _inside(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.suffix in SUFFIXES and file.is_file())


def _read(files: list[tuple[Path, bool]]) -> tuple[list[Results], list[str]]:
    """What the files hold, and what was passed over in folders. Raises ConfigError with the faults of all files."""
    from scaler.calibration import NoResult, read

    found: list[Results] = []
    passed_over: list[str] = []
    faults: list[str] = []
    for path, named in files:
        try:
            found.append(read(str(path), path.read_bytes()))
        except OSError as error:
            faults.append(f"{path}: {error.strerror or 'unreadable'}; name files that may be read")
        except NoResult as error:
            (faults if named else passed_over).extend(error.faults)
        except ConfigError as error:
            faults += error.faults
    if not found and not faults:
        faults = passed_over or ["no .json or .csv file there; name the load tester's result files"]
    if faults:
        raise ConfigError(*faults)
    return found, passed_over
