"""A file that is read again when it has changed. A bad version is refused whole, and what the last good one said stands."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from scaler.errors import ConfigError

T = TypeVar("T")


@dataclass(slots=True)
class Followed(Generic[T]):
    """``faults`` are those of the newest version of the file, empty while it is the one in use."""

    faults: tuple[str, ...] = ()
    _seen: object = field(default=None, repr=False)

    def changed(self, path: Path, parse: Callable[[str], T], beside: object = None) -> T | None:
        """What ``parse`` makes of the file, when its content has changed and is good; otherwise None, and ``faults`` may be new.

        It compares content, not times: a ConfigMap volume is swapped by symbolic links, and an editor may write a file twice. ``beside``
        is what else the meaning of the content depends on. ``parse`` raises ConfigError with every fault.
        """
        try:
            text = read_text(path)
        except ConfigError as error:
            self.faults, self._seen = error.faults, None
            return None
        if (seen := (path, beside, hashlib.sha256(text.encode()).digest())) == self._seen:
            return None
        self._seen = seen
        try:
            fresh = parse(text)
        except ConfigError as error:
            self.faults = error.faults
            return None
        except Exception as error:  # noqa: BLE001 - a file that we cannot cope with is a bad one, and no reason to stop following
            self.faults = (f"{path}: cannot be understood ({type(error).__name__}); see what has changed in it",)
            return None
        self.faults = ()
        return fresh


def read_text(path: Path) -> str:
    """The text of a file. Raises ConfigError, also for a pipe or a device: it may never end, and can be read only once."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ConfigError(f"{path}: is no file that can be read again and again")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
    except ValueError:
        raise ConfigError(f"{str(path)!r}: is no path") from None
