"""Frozen values as what JSON can carry, and back without losing a bit.

JSON has no word for infinity, and ``Infinity`` breaks strict parsers. So a float that is not finite becomes the string ``"inf"``,
``"-inf"`` or ``"nan"``; a signal without a value becomes ``"idle"`` or ``"unknown"``; null is None only. Finite floats keep every bit,
because Python writes the shortest text that reads back as the same number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from dataclasses import Field


class _Value(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Flat = TypeVar("Flat", bound=_Value)


def plain(value: object) -> Json:
    """The value for ``json.dumps(..., allow_nan=False)``: a dataclass becomes an object, a tuple an array, an enum its value.

    Raises TypeError for anything else.
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    raise TypeError(f"no plain form of a {type(value).__name__}")


def restore(kind: type[Flat], written: Mapping[str, Json]) -> Flat:
    """A dataclass whose fields are numbers or None (``LawInputs``, ``ShapeInputs``) from its plain form.

    A field with a default may be absent: it is younger than what was written. Raises KeyError when another is not there and TypeError
    when one is no number.
    """
    named = [field.name for field in fields(kind) if field.name in written or field.default is MISSING]
    return kind(**{name: _number(name, written[name]) for name in named})


def _number(name: str, written: Json) -> float | None:
    if written is None or isinstance(written, bool | int | float):
        return written
    if written in {"inf", "-inf", "nan"}:
        return float(str(written))
    raise TypeError(f"{name} is no number")
