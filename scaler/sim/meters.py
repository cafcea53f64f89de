"""The histograms that a simulated engine keeps, with the edges that vLLM exposes (seen in its 0.32.0 pages)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate

from scaler.core.model import Histogram
from scaler.sim.values import Request

# Edges in seconds. The lowest edge of the queue histogram is 0.3 s: real engines are as blind below it, so we are too.
# fmt: off
TTFT_EDGES_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    640.0, 2560.0,
)
TPOT_EDGES_S = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)
QUEUE_EDGES_S = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)
# fmt: on
PROMPT_EDGES_TOKENS = tuple(float(step * 10**power) for power in range(5) for step in (1, 2, 5))
"""vLLM's 1-2-5 series ends at the model's length, which a simulated replica does not have: here at 50,000."""


class Accumulator:
    """A histogram under construction: one mutable owner, read as frozen ``Histogram`` values.

    ``observe`` counts one value, in the unit of the edges; it only notes it, as most engines are read far less often than they observe.
    """

    __slots__ = ("_counts", "_edges", "_fresh", "_read", "_sum", "observe")

    def __init__(self, edges: tuple[float, ...]) -> None:
        """``edges`` are the finite upper bounds, ascending, each inclusive as Prometheus' ``le`` is."""
        self._edges = edges
        self._counts = [0.0] * (len(edges) + 1)
        self._sum = 0.0
        self._fresh: list[float] = []
        self._read = Histogram(edges, tuple(self._counts), 0.0)
        self.observe: Callable[[float], None] = self._fresh.append

    def read(self) -> Histogram:
        """The cumulative histogram so far."""
        edges, counts, fresh = self._edges, self._counts, self._fresh
        if fresh:
            for value in fresh:
                counts[bisect_left(edges, value)] += 1.0
                self._sum += value
            fresh.clear()
            self._read = Histogram(edges, tuple(accumulate(counts)), self._sum)
        return self._read


class Meters:
    """The five histograms of one engine. As in vLLM, TTFT is fed at first tokens, the others at the finish."""

    __slots__ = ("output_tokens", "prompt_tokens", "queue_time", "tpot", "ttft")

    def __init__(self) -> None:
        """All empty, as after a start."""
        self.ttft = Accumulator(TTFT_EDGES_S)
        self.tpot = Accumulator(TPOT_EDGES_S)
        self.queue_time = Accumulator(QUEUE_EDGES_S)
        self.prompt_tokens, self.output_tokens = Accumulator(PROMPT_EDGES_TOKENS), Accumulator(PROMPT_EDGES_TOKENS)

    def finished(self, request: Request, queue_wait_s: float, tpot_s: float | None) -> None:
        """Observe a finished request."""
        self.queue_time.observe(queue_wait_s)
        self.prompt_tokens.observe(request.prompt_tokens)
        self.output_tokens.observe(request.output_tokens)
        if tpot_s is not None:
            self.tpot.observe(tpot_s)
