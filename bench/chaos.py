"""Faults at random against the demo's fleet, two pods of the scaler, KEDA and a gateway; what must hold is checked at every moment."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path

from tests.support.chaos import play
from tests.support.chaos_checks import figures, violations


def main(arguments: list[str]) -> int:
    """One run; 1 when something did not hold."""
    parser = ArgumentParser(prog="python -m bench.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--folder", type=Path, help="where the scaler's logs stay")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        log = asyncio.run(play(given.seed, given.minutes, folder))
    broken = violations(log)
    print("\n".join([f"seed {given.seed}", *figures(log), *(f"BROKEN {one}" for one in broken)]))
    if broken:
        print(
            "\n".join(
                f"{span.begin:.1f} to {span.end:.1f} s: {span.name} {', '.join(sorted(span.of))}" for span in log.spans
            )
        )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
