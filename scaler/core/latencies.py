"""What the engines measured lately: the quantiles of a history, each read once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaler.core.model import Absent, known
from scaler.core.windows import Quantile, quantile_value, read_quantile

if TYPE_CHECKING:
    from scaler.core.history import History

LATENCY_WINDOW_S = 30.0
MEDIAN, P99 = 0.5, 0.99


@dataclass(frozen=True, slots=True)
class Latencies:
    """Quantiles of the last window, and of time per output token also of the window before.

    Of requests that ended in both: ``duration_p99`` is how long they took from arrival to the last token, ``prompt`` and ``output`` are
    their median lengths in tokens.
    """

    ttft: Quantile | Absent
    ttft_p99: Quantile | Absent
    tpot: Quantile | Absent
    tpot_before: Quantile | Absent
    queue_time: Quantile | Absent
    duration_p99: Quantile | Absent
    prompt: Quantile | Absent
    output: Quantile | Absent

    def beyond_s(self, unloaded_ttft_s: float | None) -> float | None:
        """By how many seconds first tokens come later than from an unloaded replica, None when that is unknown."""
        ttft = known(quantile_value(self.ttft))
        return None if ttft is None else max(0.0, ttft - (unloaded_ttft_s or 0.0))


def latencies(history: History, quantile: float, now: float, beat_s: float = 0.0) -> Latencies:
    """The latencies of a history at its newest observation; a window is never shorter than the beat of the observations."""
    window_s = max(LATENCY_WINDOW_S, beat_s)
    recent, before = now - window_s, now - 2 * window_s
    first_tokens, edges = history.ttft.between(recent, now), history.ttft.edges
    return Latencies(
        ttft=first_tokens if isinstance(first_tokens, Absent) else read_quantile(edges, first_tokens, quantile),
        ttft_p99=first_tokens if isinstance(first_tokens, Absent) else read_quantile(edges, first_tokens, P99),
        tpot=history.tpot.quantile(quantile, recent, now),
        tpot_before=history.tpot.quantile(quantile, before, recent),
        queue_time=history.queue_time.quantile(quantile, recent, now),
        duration_p99=history.duration.quantile(P99, now - 2 * LATENCY_WINDOW_S, now),
        prompt=history.prompt_tokens.quantile(MEDIAN, now - 2 * LATENCY_WINDOW_S, now),
        output=history.output_tokens.quantile(MEDIAN, now - 2 * LATENCY_WINDOW_S, now),
    )


def samples(quantile: Quantile | Absent) -> float:
    """How many observations a quantile rests on."""
    return quantile.samples if isinstance(quantile, Quantile) else 0.0
