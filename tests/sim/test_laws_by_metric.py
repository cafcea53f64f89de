"""Laws that scale by a query: what they ask for, and what they end up with, each in a setting of its own."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.hpa import Tolerance
from scaler.core.model import Absent, Reading, ReplicaSet
from scaler.errors import ConfigError
from scaler.sim.actuators import Direct, Keda
from scaler.sim.laws import LAWS, parameters, tuned
from scaler.sim.laws.by_metric import gpu_percent, running, waiting
from scaler.sim.laws.kserve import Running
from scaler.sim.laws.ours import Ours
from scaler.sim.laws.slo_aware import SloAware
from scaler.sim.laws.static import Static
from tests.support.replays import BUSY, replayed

FLEET = ReplicaSet(("a", "b"), (), 2, 0.0)
PAGES = (Reading("a", 0.0, running=3.0, waiting=2.0), Reading("b", 0.0, running=Absent.IDLE, waiting=5.0))


@pytest.mark.parametrize(("metric", "value"), [(running, 3.0), (waiting, 7.0), (gpu_percent, 100.0)])
def test_a_query_sums_over_the_replicas_and_has_no_result_of_none(metric, value):
    assert (metric(PAGES, FLEET), metric((), FLEET)) == (value, None)


def test_the_documented_parameters_are_these():
    assert {name: dict(parameters(law)) for name, law in LAWS.items()} == {
        "ours": {"target": 1.0, "sync_s": 15.0, "poll_s": 30.0, "cooldown_s": 300.0},
        "static": {"replicas": None},
        "clairvoyant": {
            "window_s": 30.0, "rate_per_s": None, "lead_s": None, "step_s": 5.0,
        },
        "kserve-running": {"target": 2.0, "sync_s": 15.0, "poll_s": 30.0, "cooldown_s": 300.0, "scrape_s": 15.0},
        "production-stack-waiting": {"target": 5.0, "sync_s": 15.0, "poll_s": 15.0, "cooldown_s": 360.0, "scrape_s": 15.0},
        "gke-waiting": {"target": 10.0, "sync_s": 15.0, "poll_s": 30.0, "cooldown_s": 300.0, "scrape_s": 15.0},
        "hpa-gpu": {"target": 80.0, "sync_s": 15.0, "poll_s": 30.0, "cooldown_s": 300.0, "scrape_s": 15.0},
        "ray-serve": {
            "target_ongoing": 2.0, "look_back_s": 30.0, "upscale_delay_s": 30.0, "downscale_delay_s": 600.0, "every_s": 1.0,
        },
        "llm-d-slo-aware": {
            "target": 1.0, "sync_s": 15.0, "poll_s": 30.0, "cooldown_s": 300.0, "up_ratio": 0.55, "down_ratio": 0.4,
            "most_ratio": 2.0, "window_s": 45.0, "scrape_s": 15.0,
        },
    }  # fmt: skip


@pytest.mark.parametrize("name", LAWS)
def test_every_number_that_is_listed_can_be_tuned(name):
    law = LAWS[name]
    for key, value in parameters(law).items():
        changed = 2.0 * (value or 1.0)
        assert parameters(tuned(law, {key: changed}))[key] == changed


def test_numbers_can_be_tuned_by_name_and_wrong_names_are_told_the_right_ones():
    assert tuned(LAWS["kserve-running"], {"target": 100.0, "scrape_s": 5.0}) == Running(
        5.0, Keda(target=100.0, behavior=None, tolerance=Tolerance())
    )
    assert tuned(LAWS["static"], {"replicas": 8.0}) == Static(8)
    with pytest.raises(ConfigError, match="threshold: no such parameter of this law; it has replicas"):
        tuned(LAWS["static"], {"threshold": 1.0})


def test_two_running_requests_a_replica_is_the_maximum():
    assert replayed(LAWS["kserve-running"]).most == 12


def test_what_runs_swells_in_saturation_so_a_safe_target_still_asks_for_far_more_than_is_needed():
    assert replayed(tuned(LAWS["kserve-running"], {"target": 70.0})).most > 2 * replayed(LAWS["clairvoyant"]).most


def test_gpu_utilisation_is_the_maximum_because_a_gpu_that_does_anything_is_busy():
    assert replayed(LAWS["hpa-gpu"]).most == 12


def test_a_queue_asks_for_the_maximum_where_a_few_replicas_would_do():
    assert (replayed(LAWS["production-stack-waiting"]).most, replayed(LAWS["ours"]).most) == (12, 4)


def test_a_limit_in_each_replica_keeps_the_queue_short_and_the_fleet_small():
    """What is refused is invisible to a law that counts what is inside."""
    law = tuned(LAWS["kserve-running"], {"target": 100.0})
    limited = replayed(law, replace(BUSY, platform=replace(BUSY.platform, limit=100)))
    assert limited.most <= 2
    assert limited.refused_ratio > 0.1


def test_ours_is_the_same_whoever_owns_the_fleet_but_for_the_beat():
    assert abs(replayed(Ours(follows=Direct(15.0))).most - replayed(LAWS["ours"]).most) <= 1


@pytest.mark.parametrize(
    ("slowness", "existing", "ready", "asked"),
    [
        (0.5, 6, 6, 6),  # between the edges
        (1.1, 6, 6, 12),
        (1.1, 6, 3, 6),  # what starts is credited
        (0.2, 6, 6, 3),
        (0.0, 6, 6, 0),
        (2.0, 0, 0, 0),
    ],
)
def test_slo_aware_scales_by_how_slow_it_is(slowness, existing, ready, asked):
    assert SloAware().replicas(slowness, existing, ready) == asked


@given(st.floats(0.0, 2.0), st.integers(0, 100), st.integers(0, 100))
@settings(deadline=None)
def test_slo_aware_never_asks_for_less_than_nothing_or_four_times_as_many(slowness, existing, ready):
    assert 0 <= SloAware().replicas(slowness, existing, min(ready, existing)) <= 4 * existing


def test_slo_aware_holds_a_fleet_that_is_fast_enough_and_grows_one_that_is_not():
    run = replayed(LAWS["llm-d-slo-aware"])
    assert 2 <= run.most <= 12
    assert run.in_time_ratio > 0.5
