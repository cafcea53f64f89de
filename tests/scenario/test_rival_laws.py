"""The laws of others that ``python -m bench decisions`` compares ours with, as their documents have them."""

from dataclasses import fields, replace
from typing import Any, cast

import pytest

from bench.laws import RIVALS
from bench.laws.aibrix import Apa
from bench.laws.knative import Kpa
from bench.laws.token_aware import calibrated
from bench.laws.wva import Saturation
from scaler.sim import PRESETS
from scaler.sim.laws import parameters, tuned
from scaler.sim.starts import NEVER
from tests.support.replays import BUSY, replayed

NEW = ("aibrix-apa", "dynamo-load", "knative-kpa", "llm-d-token-aware", "wva-saturation")


@pytest.mark.parametrize(
    ("usage", "current", "wanted"),
    [(0.5, 4, 4), (0.54, 4, 4), (0.6, 4, 5), (2.0, 4, 8), (0.41, 4, 4), (0.39, 4, 4), (0.3, 4, 3), (0.0, 8, 4)],
)
def test_apa_multiplies_what_exists_outside_of_its_tolerances_by_at_most_two(usage, current, wanted):
    assert Apa().replicas(usage, current) == wanted


@pytest.mark.parametrize(
    ("usages", "change"),
    [
        ([(0.5, 0), (0.5, 0)], 0),
        ([(0.2, 0), (0.2, 0), (0.2, 0)], -1),
        ([(0.2, 0)], 0),  # the last but one that is not saturated stays
        ([(0.75, 0), (0.75, 0)], 1),
        ([(0.2, 3), (0.2, 3)], 1),
        ([(0.9, 0), (0.2, 0)], 0),  # what is saturated does not count
        ([(0.9, 9)], 1),
    ],
)
def test_wva_goes_up_by_one_below_its_spare_and_down_by_one_if_that_keeps_it(usages, change):
    assert Saturation().change(usages) == change


def test_a_whole_chunk_tells_the_throughput_of_the_prefill():
    assert calibrated(PRESETS["llama-3.1-70b-4xh100"]) == pytest.approx(8192 / (0.0151 + 8192 * 56.2e-6), rel=0.05)


@pytest.mark.parametrize("name", NEW)
def test_a_rival_has_documented_numbers_that_can_be_tuned(name):
    law, numbers = RIVALS[name], parameters(RIVALS[name])
    own = [field.name for field in fields(cast("Any", law)) if field.name in numbers]
    assert len(own) >= 3
    assert all(tuned(law, {key: 2 * (numbers[key] or 1)}) != law for key in own)


@pytest.mark.parametrize("name", NEW)
def test_a_rival_begins_calm_and_keeps_to_the_bounds(name):
    run = replayed(RIVALS[name]).run
    assert {one.replicas for one in run.asked if one.at < 30.0} <= {1}
    assert {second.existing for second in run.seconds} <= set(range(1, 13))


def test_kpa_panics_at_a_burst_and_does_not_shrink_before_its_stable_window_has_passed():
    asked = replayed(Kpa(target=30.0)).run.asked
    highest = max(one.replicas for one in asked)
    risen_at = next(one.at for one in asked if one.replicas == highest)
    assert highest > 2
    assert all(one.replicas == highest for one in asked if risen_at <= one.at <= risen_at + 60.0)


def test_wva_and_dynamo_wait_for_a_replica_that_never_comes():
    place = replace(BUSY, platform=replace(BUSY.platform, starts=NEVER))
    laws = (RIVALS["wva-saturation"], tuned(RIVALS["dynamo-load"], {"every_s": 30.0, "kv_up": 0.1}))
    wva, dynamo = (replayed(law, place).most for law in laws)
    assert wva == 2
    assert dynamo > 2  # it only looks whether the workers have changed
