"""The configuration on disk: its file, and the key map and tokens that it names. Each is followed by itself, whatever the others are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from scaler.core.step import DEFAULT_TICK_S
from scaler.errors import ConfigError
from scaler.settings.file import Configuration, parse_configuration
from scaler.settings.followed import Followed
from scaler.settings.key_map import WatchedKeyMap
from scaler.settings.token_file import WatchedTokens


def read_configuration(path: Path | None, tick_s: float = DEFAULT_TICK_S) -> Configuration:
    """The configuration file, or an empty configuration without one. Raises ConfigError with every fault."""
    return parse_configuration("", tick_s) if path is None else WatchedFile(path, tick_s).first()


@dataclass(slots=True)
class WatchedFile:
    """The file at ``path``, its key map and its tokens."""

    path: Path
    tick_s: float = DEFAULT_TICK_S
    _configuration: Configuration | None = field(default=None, repr=False)
    _file: Followed[Configuration] = field(default_factory=Followed, repr=False)
    _key_map: WatchedKeyMap = field(default_factory=WatchedKeyMap, repr=False)
    _tokens: WatchedTokens = field(default_factory=WatchedTokens, repr=False)

    @property
    def faults(self) -> tuple[str, ...]:
        """Those of the newest versions, empty while these are in use."""
        return (*self._file.faults, *self._key_map.faults, *self._tokens.faults)

    def current_faults(self) -> tuple[str, ...]:
        """The faults of the newest versions."""
        return self.faults

    def first(self) -> Configuration:
        """The configuration to start with. Raises ConfigError with every fault: a process does not start on a bad file."""
        fresh = self.changed()
        if fresh is None or self.faults:
            raise ConfigError(*self.faults)
        return fresh

    def changed(self) -> Configuration | None:
        """The new configuration when something has changed and is good; otherwise None, and ``faults`` may be new."""
        fresh = self._file.changed(self.path, lambda text: parse_configuration(text, self.tick_s))
        now = self._configuration if fresh is None else fresh
        if now is None:
            return None
        self._configuration = now
        others = (self._key_map.changed(now.key_map, now.catalog.classes), self._tokens.changed(now.access.token_file))
        if fresh is None and not any(others):
            return None
        tokens = self._tokens.tokens if now.access.token_file is None else self._tokens.tokens or {}
        readers = replace(now.access.readers, tokens=tokens)
        trust = replace(now.trust, owners=self._key_map.owners)
        return replace(now, trust=trust, access=replace(now.access, readers=readers))
