"""What reading one page costs: our parser beside prometheus_client's on the same page, and ``select``.

Rounds alternate between the two, so that a busy machine slows both; the figure to trust is the ratio.

Run as ``python bench/parse.py``; importable for ``run()``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from scaler.engines import ENGINES  # noqa: E402
from scaler.engines.row import select  # noqa: E402
from scaler.sources.exposition import Wanted, parse  # noqa: E402

PAGES = {
    "one engine": "0.32.0-03-overload-40-streams.prom",
    "two engines": "0.32.0-13b-dp2-overload.prom",
    "eight engines": "generated/vllm-0.32.0-dp8.prom",
}
ROUNDS = 15


def timed(work: Callable[[], object]) -> float:
    """The milliseconds one call takes."""
    start = perf_counter()
    work()
    return (perf_counter() - start) * 1000


def measure(page: bytes) -> tuple[float, float, float]:
    """Medians in milliseconds of interleaved rounds: prometheus_client's parse, ours, ``select``."""
    engine = ENGINES["vllm"]
    wanted = Wanted.of(engine)
    text, samples = page.decode(), parse(page, wanted)
    rounds = [
        (
            timed(lambda: list(text_string_to_metric_families(text))),
            timed(lambda: parse(page, wanted)),
            timed(lambda: select(engine, samples, "pod-0", 0.0)),
        )
        for _ in range(ROUNDS)
    ]
    theirs, ours, selecting = (median(column) for column in zip(*rounds, strict=True))
    return theirs, ours, selecting


def run() -> list[str]:
    """One line a page: its size, the two parse times, their ratio, and the time of ``select``."""
    lines = []
    for title, name in PAGES.items():
        page = (ROOT / "tests" / "data" / "metrics" / name).read_bytes()
        theirs, ours, selecting = measure(page)
        lines.append(
            f"{title} ({len(page) / 1000:.0f} KB): prometheus_client {theirs:.2f} ms, ours {ours:.2f} ms "
            f"({theirs / ours:.0f} times faster), select {selecting:.2f} ms"
        )
    return lines


if __name__ == "__main__":
    print("\n".join(run()))
