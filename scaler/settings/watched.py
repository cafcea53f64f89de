"""The configuration file on disk, read again when it has changed. A bad file is refused whole and the last good one stands."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from scaler.core.step import DEFAULT_TICK_S
from scaler.errors import ConfigError
from scaler.settings.file import Configuration, parse_configuration


def read_configuration(path: Path | None, tick_s: float = DEFAULT_TICK_S) -> Configuration:
    """The configuration file, or an empty configuration without one. Raises ConfigError with every fault."""
    return parse_configuration("" if path is None else _text(path), tick_s)


@dataclass(slots=True)
class WatchedFile:
    """``faults`` are those of the newest version of the file, empty while it is the one in use."""

    path: Path
    tick_s: float = DEFAULT_TICK_S
    faults: tuple[str, ...] = ()
    _digest: bytes = field(default=b"", repr=False)

    def first(self) -> Configuration:
        """The configuration to start with. Raises ConfigError with every fault: a process does not start on a bad file."""
        text = _text(self.path)
        self._digest = _digest(text)
        return parse_configuration(text, self.tick_s)

    def current_faults(self) -> tuple[str, ...]:
        """The faults of the newest version of the file."""
        return self.faults

    def changed(self) -> Configuration | None:
        """The new configuration when the file's content has changed and is good; otherwise None, and ``faults`` may be new.

        It compares content, not times: a ConfigMap volume is swapped by symbolic links, and an editor may write a file twice.
        """
        try:
            text = _text(self.path)
        except ConfigError as error:
            self.faults, self._digest = error.faults, b""
            return None
        if (digest := _digest(text)) == self._digest:
            return None
        self._digest = digest
        try:
            fresh = parse_configuration(text, self.tick_s)
        except ConfigError as error:
            self.faults = error.faults
            return None
        self.faults = ()
        return fresh


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
