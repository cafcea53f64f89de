"""Reads fields of raw Kubernetes JSON, where each may be absent or null. What is not of the expected type counts as absent."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from scaler.cluster.api import Json

LARGEST = 2**63 - 1
"""Of the whole numbers that the API has."""


def mapping(item: Json, *path: str) -> Json:
    """The object at a path, empty when there is none."""
    found = _at(item, path)
    return found if isinstance(found, dict) else {}


def objects(item: Json, *path: str) -> tuple[Json, ...]:
    """The objects of the list at a path."""
    return tuple(one for one in _listed(item, path) if isinstance(one, dict))


def texts(item: Json, *path: str) -> tuple[str, ...]:
    """The strings of the list at a path."""
    return tuple(one for one in _listed(item, path) if isinstance(one, str))


def text(item: Json, *path: str) -> str:
    """The string at a path, empty when there is none."""
    found = _at(item, path)
    return found if isinstance(found, str) else ""


def strings(item: Json, *path: str) -> dict[str, str]:
    """The object at a path whose values are strings: labels, annotations, trigger metadata."""
    return {key: value for key, value in mapping(item, *path).items() if isinstance(value, str)}


def count(item: Json, *path: str) -> int | None:
    """The whole number at a path; none that the API could not have."""
    found = _at(item, path)
    counted = isinstance(found, int) and not isinstance(found, bool) and -LARGEST <= found <= LARGEST
    return found if counted else None


_SUFFIXES = {
    "": 1.0,
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}
_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)(m|k|[MGT]i?|Ki)?", re.ASCII)


def quantity(item: Json, *path: str) -> float | None:
    """The Kubernetes quantity at a path: ``3``, ``2334m`` or ``4Gi``."""
    found = _QUANTITY.fullmatch(text(item, *path))
    return None if found is None else float(found[1]) * _SUFFIXES[found[2] or ""]


def instant(item: Json, *path: str) -> float | None:
    """The RFC 3339 time at a path, in seconds of the wall clock. Kubernetes writes whole seconds."""
    try:
        return datetime.fromisoformat(text(item, *path)).timestamp()
    except ValueError:
        return None


def _listed(item: Json, path: tuple[str, ...]) -> list[Any]:
    found = _at(item, path)
    return found if isinstance(found, list) else []


def _at(item: Json, path: tuple[str, ...]) -> Any:
    found: Any = item
    for name in path:
        if not isinstance(found, dict):
            return None
        found = found.get(name)
    return found
