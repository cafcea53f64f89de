"""Whose a bearer token is, and which class its requests have: a map from the SHA-256 of the token, kept in a file of its own.

    9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08: {tenant: acme, class: agent}

A fault tells an entry by its number and repeats nothing of it: whoever forgets to make the hash has written the token itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from scaler.backpressure.asked import Owner
from scaler.errors import ConfigError
from scaler.settings.file import VALUE_ERRORS, NoDuplicates, StandsTwice, in_line
from scaler.settings.followed import Followed

LARGEST = 1 << 20
"""Characters: as much as a Secret or a ConfigMap holds, some ten thousand keys."""
MOST_FAULTS = 10
HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
NO_HASH = 'its name is not the SHA-256 of a key, 64 digits of 0-9 and a-f: printf %s "$KEY" | sha256sum'
Word = Annotated[str, Field(min_length=1)]


class OwnerEntry(BaseModel):
    """What the file says of one key."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    tenant: Word | None = None
    request_class: Word | None = Field(default=None, alias="class")


@dataclass(slots=True)
class WatchedKeyMap:
    """``owners`` are those of the newest good version, none without a file."""

    owners: Mapping[str, Owner] = field(default_factory=dict)
    _file: Followed[Mapping[str, Owner]] = field(default_factory=Followed, repr=False)

    @property
    def faults(self) -> tuple[str, ...]:
        """Those of the newest version, empty while it is the one in use."""
        return tuple(f"tenants.key_map_file: {fault}" for fault in self._file.faults)

    def changed(self, path: Path | None, classes: Collection[str]) -> bool:
        """Whether there are new ``owners``. ``classes`` are the names that an entry may give."""
        if path is None:
            had, self.owners, self._file = bool(self.owners), {}, Followed()
            return had
        fresh = self._file.changed(path, lambda text: parse_key_map(path, text, classes), frozenset(classes))
        if fresh is None:
            return False
        self.owners = fresh
        return True


def parse_key_map(path: Path, text: str, classes: Collection[str]) -> Mapping[str, Owner]:
    """The owners by the hash of their key. Raises ConfigError with the first faults; ``path`` is for their text."""
    owners: dict[str, Owner] = {}
    faults: list[str] = []
    for number, (name, entry) in enumerate(loaded(path, text, "{tenant: ..., class: ...}").items(), start=1):
        try:
            owners[hashed(name)] = _owner(entry, classes)
        except ConfigError as error:
            faults += [f"{path}: entry {number}{fault}" for fault in error.faults]
    if faults:
        raise ConfigError(*bounded(path, faults))
    return owners


def bounded(path: Path, faults: list[str]) -> list[str]:
    """The first of many faults, and how many more there are."""
    more = len(faults) - MOST_FAULTS
    return faults if more <= 0 else [*faults[:MOST_FAULTS], f"{path}: and {more} faults more"]


def loaded(path: Path, text: str, entry: str) -> Mapping[object, object]:
    """The mapping in a file; ``entry`` is how one of its values looks. Raises ConfigError."""
    if len(text) > LARGEST:
        raise ConfigError(f"{path}: is longer than {LARGEST} characters; leave out keys that are not in use")
    try:
        loaded = yaml.load(text, Loader=NoDuplicates)  # noqa: S506 - a safe loader, that also refuses duplicate keys
    except StandsTwice as error:
        raise ConfigError(f"{path}: an entry{in_line(error)} stands twice; keep one") from None
    except VALUE_ERRORS:
        raise ConfigError(f"{path}: a value that YAML takes for a date or a number is none; put it in quotes") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path}: is neither YAML nor JSON{in_line(error)}") from None
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path}: a mapping is needed here, of the SHA-256 of each key to {entry}")
    return loaded


def hashed(name: object) -> str:
    """The name of an entry, if it is a SHA-256 in hex. Raises ConfigError, to follow the entry's number."""
    if not isinstance(name, str) or not HASH.fullmatch(name):
        raise ConfigError(f": {NO_HASH}")
    return name


def _owner(entry: object, classes: Collection[str]) -> Owner:
    """The owner that an entry describes. Raises ConfigError, each fault to follow the entry's number."""
    try:
        said = OwnerEntry.model_validate(entry)
    except ValidationError as error:
        raise ConfigError(*(_fault(one) for one in error.errors(include_input=False))) from None
    if said.tenant is None and said.request_class is None:
        raise ConfigError(": give tenant, class or both")
    if said.request_class is not None and said.request_class not in classes:
        raise ConfigError(f".class: no such class; there are {', '.join(sorted(classes))}")
    return Owner(said.tenant, said.request_class)


def _fault(fault: ErrorDetails) -> str:
    if fault["type"] == "extra_forbidden":
        return ": unknown key; known are class, tenant"
    if fault["type"] == "model_type":
        return ": a mapping is needed here, {tenant: ..., class: ...}"
    return f".{fault['loc'][0]}: {fault['msg']}"
