"""What scaling to zero would save on a history, and whom it would keep waiting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scaler.sim.bound import Load
from scaler.sim.fluid import Pool

DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class Zero:
    """Scale-to-zero after so many idle seconds.

    ``times``: how often the last replica would have gone; ``met``: requests that would have found none ready, of ``offered``.
    ``gpu_hours``: what would have been saved, which is what a minimum of 1 costs. ``days``: how long the history is.
    """

    idle_s: float
    ready_s: float
    budget_s: float
    times: int
    met: int
    offered: int
    gpu_hours: float
    days: float

    @property
    def contradicts(self) -> bool:
        """Whether a request that finds no replica cannot be in time: a slow start takes longer than a request may wait."""
        return self.ready_s > self.budget_s


def zero(offered: Load, of: Pool, idle_s: float) -> Zero:
    """From the gaps between requests; a start brings its replica after ``ready_s``, and meanwhile all wait."""
    gaps = list(_gaps(offered, idle_s))
    starts = round(of.ready_s / offered.bin_s) or 1
    met = sum(sum(offered.counts[end : end + starts]) for _, end in gaps)
    saved_s = sum((end - begins) * offered.bin_s - idle_s for begins, end in gaps)
    return Zero(
        idle_s=idle_s,
        ready_s=of.ready_s,
        budget_s=of.budget_s,
        times=len(gaps),
        met=met,
        offered=offered.total,
        gpu_hours=saved_s * of.gpus / 3600,
        days=offered.seconds / DAY_S,
    )


def _gaps(offered: Load, idle_s: float) -> Iterator[tuple[int, int]]:
    """Where nothing came for longer than that, from the stretch in which it began to that in which it ended."""
    begins = 0
    for index, count in enumerate((*offered.counts, 1)):
        if count:
            if (index - begins) * offered.bin_s > idle_s:
                yield begins, index
            begins = index + 1
