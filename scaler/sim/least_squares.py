"""Small problems of least squares without a library: a few parameters, all above zero, and a model that can only be run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

STEP = 0.02
"""Of a logarithm: how far a parameter is moved to see what it does. Smaller ones drown in a model that counts whole steps."""
ROUNDS = 30
DAMPING, EASE, TIGHTEN, MOST_DAMPING = 1e-2, 0.3, 4.0, 1e6
ENOUGH = 1e-4
"""A round that lessens the squares by a smaller share is the last."""

Vector = Sequence[float]
Residuals = Callable[[Sequence[float]], list[float]]


@dataclass(frozen=True, slots=True)
class Solution:
    """``values`` with the root mean square of the residuals, and how each parameter goes with each other (-1..1) in its uncertainty.

    ``errors``: the standard error of each as a share of it, infinite where the data say nothing of it.
    """

    values: tuple[float, ...]
    rms: float
    errors: tuple[float, ...]
    correlations: tuple[tuple[float, ...], ...]


def solved(matrix: Sequence[Vector], right: Vector) -> list[float] | None:
    """``x`` with ``matrix x = right`` by elimination with pivots; None where it has no single answer."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    count = len(rows)
    for index in range(count):
        pivot = max(range(index, count), key=lambda at: abs(rows[at][index]))
        rows[index], rows[pivot] = rows[pivot], rows[index]
        if abs(rows[index][index]) < 1e-12:  # noqa: PLR2004 - the matrix is scaled to about 1
            return None
        for below in range(index + 1, count):
            times = rows[below][index] / rows[index][index]
            rows[below] = [value - times * above for value, above in zip(rows[below], rows[index], strict=True)]
    found = [0.0] * count
    for index in reversed(range(count)):
        rest = math.fsum(rows[index][at] * found[at] for at in range(index + 1, count))
        found[index] = (rows[index][count] - rest) / rows[index][index]
    return found


def fitted(residuals: Residuals, start: Vector) -> Solution:
    """The parameters of the least squares near ``start``, by Levenberg and Marquardt on their logarithms. All are above zero."""
    values, left = list(start), residuals(start)
    damping = DAMPING
    slopes = _slopes(residuals, values, left)
    for _ in range(ROUNDS):
        moved = _step(slopes, left, damping)
        tried = [value * math.exp(max(-1.0, min(1.0, by))) for value, by in zip(values, moved, strict=True)]
        then = residuals(tried)
        before, after = _squares(left), _squares(then)
        if after >= before:
            damping *= TIGHTEN
            if damping > MOST_DAMPING:
                break
            continue
        values, left, damping = tried, then, damping * EASE
        if before - after < ENOUGH * before:
            break
        slopes = _slopes(residuals, values, left)
    return _solution(values, left, slopes)


def _squares(left: Vector) -> float:
    return math.fsum(value * value for value in left)


def _slopes(residuals: Residuals, values: Vector, left: Vector) -> list[list[float]]:
    """How each residual changes with the logarithm of each parameter; one row a parameter."""
    rows = []
    for index in range(len(values)):
        moved = [value * math.exp(STEP) if at == index else value for at, value in enumerate(values)]
        rows.append([(then - now) / STEP for then, now in zip(residuals(moved), left, strict=True)])
    return rows


def _normal(slopes: Sequence[Vector]) -> list[list[float]]:
    return [[math.fsum(a * b for a, b in zip(one, other, strict=True)) for other in slopes] for one in slopes]


def _step(slopes: Sequence[Vector], left: Vector, damping: float) -> list[float]:
    """Scaled to a diagonal of 1, so that no parameter is small."""
    normal = _normal(slopes)
    size = [math.sqrt(normal[at][at]) or 1.0 for at in range(len(normal))]
    scaled = [
        [value / size[row] / size[at] + (damping if row == at else 0.0) for at, value in enumerate(each)]
        for row, each in enumerate(normal)
    ]
    pull = [-math.fsum(a * b for a, b in zip(each, left, strict=True)) / size[at] for at, each in enumerate(slopes)]
    found = solved(scaled, pull) or [0.0] * len(pull)
    return [value / size[at] for at, value in enumerate(found)]


def _solution(values: Vector, left: Vector, slopes: Sequence[Vector]) -> Solution:
    count, squares = len(values), _squares(left)
    normal = _normal(slopes)
    size = [math.sqrt(normal[at][at]) or 1.0 for at in range(count)]
    scaled = [[value / size[row] / size[at] for at, value in enumerate(each)] for row, each in enumerate(normal)]
    columns = [solved(scaled, [float(row == at) for row in range(count)]) for at in range(count)]
    variance = squares / max(1, len(left) - count)
    if any(column is None for column in columns):
        nothing = tuple(tuple(float(row == at) for at in range(count)) for row in range(count))
        return Solution(tuple(values), math.sqrt(squares / len(left)), (math.inf,) * count, nothing)
    inverse = [column for column in columns if column is not None]
    spread = [math.sqrt(max(0.0, inverse[at][at])) for at in range(count)]
    return Solution(
        tuple(values),
        math.sqrt(squares / len(left)),
        tuple(spread[at] * math.sqrt(variance) / size[at] for at in range(count)),
        tuple(
            tuple(inverse[row][at] / (spread[row] * spread[at] or 1.0) for at in range(count)) for row in range(count)
        ),
    )
