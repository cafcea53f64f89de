"""Which namespaces may be read with which token: a map from the SHA-256 of the token, kept in a file of its own.

    9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08: [prod, staging]
    60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752: ["*"]

A fault tells an entry by its number and repeats nothing of it: whoever forgets to make the hash has written the token itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scaler.errors import ConfigError
from scaler.settings.access import REACH
from scaler.settings.followed import Followed
from scaler.settings.key_map import bounded, hashed, loaded

_REACH = re.compile(REACH, re.ASCII)
NO_NAMESPACES = ': give a list of namespaces, [prod, staging], or ["*"] for every one'


@dataclass(slots=True)
class WatchedTokens:
    """``tokens`` are those of the newest good version; None without a file."""

    tokens: Mapping[str, frozenset[str]] | None = None
    _file: Followed[Mapping[str, frozenset[str]]] = field(default_factory=Followed, repr=False)

    @property
    def faults(self) -> tuple[str, ...]:
        """Those of the newest version, empty while it is the one in use."""
        return tuple(f"access.token_file: {fault}" for fault in self._file.faults)

    def changed(self, path: Path | None) -> bool:
        """Whether there are new ``tokens``. A file that was never good lets nobody in."""
        if path is None:
            had, self.tokens, self._file = self.tokens is not None, None, Followed()
            return had
        fresh = self._file.changed(path, lambda text: parse_tokens(path, text))
        if fresh is not None:
            self.tokens = fresh
        return fresh is not None


def parse_tokens(path: Path, text: str) -> Mapping[str, frozenset[str]]:
    """The namespaces by the hash of the token. Raises ConfigError with the first faults; ``path`` is for their text."""
    tokens: dict[str, frozenset[str]] = {}
    faults: list[str] = []
    for number, (name, entry) in enumerate(loaded(path, text, "[namespace, ...]").items(), start=1):
        try:
            tokens[hashed(name)] = _namespaces(entry)
        except ConfigError as error:
            faults += [f"{path}: entry {number}{fault}" for fault in error.faults]
    if faults:
        raise ConfigError(*bounded(path, faults))
    return tokens


def _namespaces(entry: object) -> frozenset[str]:
    if not isinstance(entry, list) or not entry:
        raise ConfigError(NO_NAMESPACES)
    if not all(isinstance(name, str) and _REACH.fullmatch(name) for name in entry):
        raise ConfigError(NO_NAMESPACES)
    return frozenset(entry)
