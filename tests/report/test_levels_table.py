"""The table of levels in a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from scaler.report.levels_table import levels_table
from tests.calibration.made import calibrated, run


def shown(width):
    out = io.StringIO()
    found = calibrated(run(1, 0.1, 0.01), run(8, 0.9, 0.03), run(16, 3.4, 0.05))
    Console(file=out, width=width).print(levels_table(found, width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_wide_terminal_shows_every_number():
    assert shown(120) == [
        "in flight  requests  requests/s  P95 time to first token ≤ 2 s  P95 time per output token ≤ 0.1 s",
        "        1       400           1          │    0.1 (≤ 0.12)      █       │    0.01 (≤ 0.012)        passes",
        "        8       400        5.28  ████    │    0.9 (≤ 1.08)      ██░     │    0.03 (≤ 0.036)        passes ◂ safe",
        "       16       400        9.19  ████████│██▸ 3.4 (≤ 4.08)      ████░   │    0.05 (≤ 0.06)         fails",
    ]


def test_a_usual_terminal_shows_the_same_picture_on_one_line_a_level():
    lines = shown(80)
    assert lines[-3:] == [
        "        1           1          │    0.1      █       │    0.01     passes",
        "        8        5.28  ████    │    0.9      ██░     │    0.03     passes ◂ safe",
        "       16        9.19  ████████│██▸ 3.4      ████░   │    0.05     fails",
    ]
    assert max(map(len, lines)) <= 80
