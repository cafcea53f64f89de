"""What a person sees while a sweep runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from scaler.calibration.advice import NextTest
from scaler.calibration.runs import Load, LoadKind
from scaler.cli.sweep_screen import Screen
from tests.calibration.made import calibrated, run

STEP = NextTest(Load(LoadKind.CONCURRENCY, 8.0), 240)
FOUR = run(4, 0.5, 0.03, rate_per_s=2.0, e2e_mean_s=2.0)
SLOW = run(4, 0.5, 0.03, rate_per_s=0.04, e2e_mean_s=100.0)


def shown(found, *, terminal):
    out = io.StringIO()
    screen = Screen(Console(file=out, force_terminal=terminal, width=100, color_system=None))
    with screen.testing(STEP, found):
        pass
    return out.getvalue()


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "concurrency 8: 240 requests 0:00:00"),
        (calibrated(FOUR), "concurrency 8: 240 requests, about 1 min of load 0:00:00"),
        (calibrated(SLOW), "concurrency 8: 240 requests, about 50 min of load 0:00:00"),
    ],
)
def test_a_terminal_shows_the_level_and_about_how_long_it_takes(found, said):
    assert said in shown(found, terminal=True)


def test_without_a_terminal_nothing_moves():
    assert shown(calibrated(FOUR), terminal=False) == ""


def test_a_tested_level_is_a_line():
    out = io.StringIO()
    Screen(Console(file=out)).tested(calibrated(run(4), run(8, 2.4)), STEP)
    assert out.getvalue() == "concurrency 8: TTFT 2.4 (≤ 2.88) s, TPOT 0.03 (≤ 0.036) s, 5.28 requests/s; fails\n"
