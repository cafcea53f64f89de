"""Consecutive engine steps of one batch, whose times have a closed form."""

from __future__ import annotations

from math import sqrt

from scaler.sim.batch import Chunks


class Span:
    """``steps`` engine steps from ``start``: the first takes ``first_s`` seconds, each later one ``growth_s`` more.

    ``early``: it ends before what it was planned for, so nobody is done at its end.

    ``chunks`` are the prompts prefilled in it, with the tokens of each; a span with prefill has one step. Mutable,
    owned by a replica: an arrival or an abort may end it earlier. Boundaries are computed from the start each time, so
    that asking in between rounds nothing differently.
    """

    __slots__ = ("chunks", "early", "end", "first_s", "growth_s", "start", "steps")

    def __init__(self, start: float, first_s: float, growth_s: float, chunks: Chunks = ()) -> None:
        """A span of one step."""
        self.start = start
        self.first_s = first_s
        self.growth_s = growth_s
        self.chunks = chunks
        self.early = False
        self.steps = 1
        self.end = start + first_s

    def boundary(self, steps: int) -> float:
        """When that many steps are done, in seconds of the owner's clock."""
        return self.start + (steps * self.first_s + self.growth_s * (steps * (steps - 1) // 2))

    def extend(self, steps: int) -> None:
        """Make it that many steps long."""
        self.steps = steps
        self.end = self.boundary(steps)

    def steps_by(self, at: float) -> int:
        """How many steps are done at ``at``, which is after the start and before the end."""
        if self.steps == 1:
            return 0
        span_s = at - self.start
        slope = self.first_s - self.growth_s / 2.0
        root = int(2.0 * span_s / (slope + sqrt(slope * slope + 2.0 * self.growth_s * span_s)))
        steps = min(root, self.steps - 1)
        while steps > 0 and self.boundary(steps) > at:  # the root is rounded; the boundaries decide
            steps -= 1
        while steps < self.steps - 1 and self.boundary(steps + 1) <= at:
            steps += 1
        return steps

    def stop_at(self, at: float) -> None:
        """End with the first step done at ``at``, which is after the start, or later, if that is before the planned end."""
        if self.steps == 1 or at >= self.end:
            return
        steps = self.steps_by(at)
        if self.boundary(steps) < at:
            steps += 1
        if steps < self.steps:
            self.early = True
            self.extend(steps)

    def cut(self, at: float) -> int:
        """Forget the steps done at ``at`` and all but the one under way; how many were done."""
        done = self.steps_by(at)
        end = self.boundary(done + 1)
        self.start = self.boundary(done)
        self.first_s = end - self.start
        self.early |= done + 1 < self.steps
        self.steps, self.end = 1, end
        return done
