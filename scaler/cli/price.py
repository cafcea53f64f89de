"""``slo-scaler plan`` and ``replay``: what a GPU-hour of the simulated replica costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler.core.cost import price_of

if TYPE_CHECKING:
    from scaler.core.step import WorkloadSpec
    from scaler.settings import Configuration


def price_of_gpu_hour(
    wished: float | None, configured: Configuration | None, spec: WorkloadSpec, preset: str
) -> float | None:
    """The option's, else the configuration's for the GPU that the profile names, else for that of the simulated replica."""
    if wished is not None or configured is None:
        return wished
    gpu = spec.profile.match.gpu or preset.rpartition("-")[2].lstrip("0123456789").removeprefix("x")
    return price_of(configured.prices, gpu)
