"""Other edges of GREEN and RED: they must be better by more than chance, and are judged by the true objective."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.sim.edges import DEFAULT, Compared, Edges, Trials, compared, kept_ratio, trial
from scaler.sim.traffic import Lengths
from tests.support.contests import BEARS
from tests.support.replays import BUSY

EARLY = Edges(0.5)


def test_edges_are_shares_of_the_budget():
    assert (EARLY.green, EARLY.set_point, EARLY.red) == (0.2, 0.3, 0.5)


@pytest.mark.parametrize(
    ("early", "usual", "best"),
    [
        pytest.param((0.90, 0.91, 0.92), (0.80, 0.81, 0.82), EARLY, id="better each time"),
        pytest.param((0.95, 0.70, 0.90), (0.80, 0.81, 0.82), DEFAULT, id="better by chance"),
        pytest.param((0.803, 0.813, 0.823), (0.80, 0.81, 0.82), DEFAULT, id="better by too little"),
        pytest.param((0.9,), (0.8,), DEFAULT, id="one seed proves nothing"),
    ],
)
def test_the_defaults_stand_unless_others_are_better_by_more_than_noise(early, usual, best):
    assert Compared({EARLY: early, DEFAULT: usual}).best == best


def test_who_was_better_once_must_be_so_again():
    better, alike = (Compared({EARLY: (high, high), DEFAULT: (0.8, 0.8)}) for high in (0.9, 0.8))
    assert [Trials(better).best, Trials(better, alike).best, Trials(better, better).best] == [DEFAULT, DEFAULT, EARLY]


def test_runs_are_compared_seed_by_seed():
    assert compared([(EARLY, 0.9), (EARLY, 0.8), (DEFAULT, 0.7), (DEFAULT, 0.6)]).gain(EARLY)[0] == pytest.approx(0.2)


def test_the_law_is_told_another_budget_and_judged_by_the_true_one():
    contest = trial(BUSY, BEARS, Lengths(1155, 100))
    spec, platform = contest.setting.spec, contest.setting.platform
    assert (spec.scaling.max_replicas, platform.replicas, platform.max_replicas) == (2, 2, 2)
    brief = replace(contest, traffic=contest.traffic.clipped(20.0, 50.0))
    never = replace(BUSY.spec.classes[0], ttft_s=1e-9)
    hopeless = replace(brief, setting=replace(brief.setting, spec=replace(spec, classes=(never,))))
    assert kept_ratio(brief, DEFAULT, 1) > 0.5
    assert kept_ratio(hopeless, DEFAULT, 1) == 0.0
