"""The safe concurrency: the highest level that passes with every lower one, and what is said when there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scaler.calibration import Objectives, Outcome, Setup
from scaler.calibration.advice import NextTest, next_test, notes
from scaler.calibration.choose import Confidence
from scaler.calibration.judge import Verdict
from scaler.calibration.report import body
from scaler.calibration.runs import Defect, Latency, Lengths, Load, LoadKind
from scaler.errors import ConfigError
from tests.calibration.made import calibrated, latency, run


def summary(found):
    return (
        found.outcome,
        found.safe_concurrency,
        None if found.binding is None else found.binding.name,
        next_test(found),
    )


def at(concurrency, requests):
    return NextTest(Load(LoadKind.CONCURRENCY, concurrency), requests)


def test_the_highest_level_that_passes_below_the_first_that_fails():
    found = calibrated(run(1, 0.1), run(2, 0.2), run(4, 0.4), run(8, 2.4), run(16, 4.0))
    assert summary(found) == (Outcome.SAFE, 4.0, "ttft", at(6.0, 240))


def test_a_level_that_passes_above_one_that_fails_is_not_safe():
    assert calibrated(run(1), run(2, 0.6, 0.12), run(4, 0.7, 0.03)).safe_concurrency == 1.0


def test_the_objective_that_breaks_first_is_named():
    assert summary(calibrated(run(4), run(8, 0.6, 0.12)))[2] == "tpot"


def test_nothing_is_interpolated_over_a_cliff():
    """The real engine with four places: 0.276 s at concurrency 4, 1.92 s at 8. A line between them calls 5.2 safe at 0.5 s."""
    found = calibrated(run(4, 0.276), run(8, 1.925), objectives=Objectives(0.5))
    assert summary(found) == (Outcome.SAFE, 4.0, "ttft", at(6.0, 240))


def test_a_fine_enough_step_asks_for_no_further_test():
    assert next_test(calibrated(run(1), run(8), run(10, 2.4))) is None


def test_when_nothing_fails_the_answer_is_at_least():
    found = calibrated(run(1), run(8), run(16))
    assert (*summary(found), found.confidence) == (Outcome.AT_LEAST, 16.0, None, at(32.0, 640), Confidence.LOW)


def test_when_the_lowest_level_fails_it_is_infeasible():
    assert summary(calibrated(run(1, 2.4), run(2, 3.0))) == (Outcome.INFEASIBLE, None, "ttft", None)


def test_when_the_lowest_level_tested_is_high_a_lower_one_is_asked_for():
    assert summary(calibrated(run(16, 2.4), run(32, 3.0))) == (Outcome.INFEASIBLE, None, "ttft", at(4.0, 240))


def test_when_no_level_has_enough_requests_that_is_the_answer():
    found = calibrated(run(1, requests=20), run(2, requests=40), run(4, requests=80, ttft=latency(0.5, 50)))
    assert summary(found) == (Outcome.NOT_ENOUGH, None, None, at(1.0, 240))


def test_when_only_the_bound_is_above_the_objective_more_requests_are_asked_for():
    assert summary(calibrated(run(1, 1.9), run(2, 2.4))) == (Outcome.NOT_ENOUGH, None, "ttft", at(1.0, 1600))


def test_the_lowest_levels_are_often_short_and_do_not_stop_the_higher_ones():
    found = calibrated(run(1, 0.1, requests=20), run(2, 0.2, requests=40), run(8, 0.5), run(16, 2.4))
    assert summary(found) == (Outcome.SAFE, 8.0, "ttft", at(11.0, 240))


def test_a_short_level_that_is_beyond_the_objective_does_stop_the_higher_ones():
    found = calibrated(run(1, 0.1), run(2, 0.2, 0.11, requests=40), run(8, 0.5))
    assert summary(found) == (Outcome.SAFE, 1.0, "tpot", at(2.0, 240))


def test_when_every_level_was_badly_measured_none_is_judged():
    odd = (Defect("odd"),)
    assert summary(calibrated(run(1, defects=odd), run(2, requests=40))) == (Outcome.UNUSABLE, None, None, None)


def test_a_warm_cache_makes_the_whole_sweep_useless():
    found = calibrated(run(1, 0.5), run(2, 0.1), run(4, 2.4))
    assert summary(found) == (Outcome.UNUSABLE, None, None, None)


def test_a_cache_that_production_has_as_well_does_not():
    assert calibrated(run(1, 0.5), run(2, 0.1), run(4, 2.4), shared_prefix=True).safe_concurrency == 2.0


def test_every_file_that_lacks_a_latency_is_named():
    with pytest.raises(ConfigError) as caught:
        calibrated(run(1, tpot=Latency(0)), run(2), run(4, tpot=Latency(0)))
    assert [fault.split(":")[0] for fault in caught.value.faults] == ["c1.json", "c4.json"]


@pytest.mark.parametrize(
    ("changes", "binding"),
    [({"failed": 40}, "errors"), ({"preemptions": 1.0}, "preemptions")],
)
def test_an_engine_in_trouble_binds_before_its_latencies(changes, binding):
    assert summary(calibrated(run(4), run(8, 0.6, **changes))) == (Outcome.SAFE, 4.0, binding, at(6.0, 240))


def test_a_level_above_the_engines_cap_is_refused_and_the_cap_is_tested_next():
    found = calibrated(run(4), run(16, 0.6), setup=Setup("", max_num_seqs=8))
    assert summary(found) == (Outcome.SAFE, 4.0, "engine_cap", at(8.0, 240))


def test_no_level_above_a_known_cap_is_asked_for():
    assert next_test(calibrated(run(4), run(8), setup=Setup("", max_num_seqs=12))) == at(12.0, 240)


def test_a_cap_just_above_the_highest_level_ends_the_search():
    found = calibrated(run(4), run(8), setup=Setup("", max_num_seqs=8))
    assert (*summary(found), found.confidence) == (Outcome.SAFE, 8.0, "engine_cap", None, Confidence.HIGH)


@given(st.integers(1_000, 1_000_000))
def test_the_safe_concurrency_is_never_above_what_the_kv_cache_holds(kv_tokens):
    found = calibrated(*(run(level, 0.1) for level in (1, 2, 4, 8, 16, 32, 64)), setup=Setup("", kv_tokens=kv_tokens))
    assert (found.safe_concurrency or 0.0) <= 0.9 * kv_tokens / (1200 + 300)


def rated(requests_per_s, ttft_s, served=None):
    served = served or requests_per_s
    return run(
        1,
        load=Load(LoadKind.RATE, requests_per_s),
        rate_per_s=served,
        e2e_mean_s=1.25,
        requests=100 * round(requests_per_s),
        ttft=latency(ttft_s, 100 * round(requests_per_s)),
        file=f"r{requests_per_s:g}.json",
    )


def test_rates_give_the_requests_in_flight_rounded_down_and_ask_for_a_rate():
    found = calibrated(rated(5.0, 0.1), rated(10.1, 0.2), rated(20.0, 4.0, served=12.0))
    assert summary(found) == (Outcome.SAFE, 12.6, "saturation", NextTest(Load(LoadKind.RATE, 14.2), 1710))
    assert [judged.level.concurrency for judged in found.levels][:2] == pytest.approx([6.25, 12.625])


@pytest.mark.parametrize(
    ("runs", "confidence"),
    [
        ((run(4), run(8, 2.4)), Confidence.HIGH),
        ((run(4), run(9, 2.4)), Confidence.MEDIUM),  # a step of more than two
        ((run(4), run(8, 1.9)), Confidence.MEDIUM),  # 8 is not shown to fail
        ((run(4, e2e_mean_s=None), run(8, 2.4)), Confidence.MEDIUM),  # nobody checked that four were in flight
        ((run(4, failed=None), run(8, 2.4)), Confidence.MEDIUM),
        ((run(4), run(8)), Confidence.LOW),
    ],
)
def test_confidence_says_how_near_the_limit_may_be(runs, confidence):
    assert calibrated(*runs).confidence is confidence


def test_the_unloaded_time_to_the_first_token_is_the_median_with_one_request_at_a_time():
    assert calibrated(run(1, 0.1, requests=20), run(8)).unloaded_ttft_s == pytest.approx(0.07)
    assert calibrated(run(2, 0.1), run(8)).unloaded_ttft_s is None
    assert calibrated(run(1, 0.1, defects=(Defect("odd"),)), run(8)).unloaded_ttft_s is None


@pytest.mark.parametrize(
    ("runs", "note"),
    [
        (
            (run(1, 0.3), run(2, 0.2), run(4, 0.5)),
            "the time to the first token does not rise with the load at concurrency 1, concurrency 2: noise, which more requests reduce",
        ),
        (
            (run(4, rate_per_s=4.0, e2e_mean_s=1.0), run(8, rate_per_s=4.2, e2e_mean_s=1.9)),
            "from concurrency 4 to concurrency 8 throughput grows by 5% a doubling: what is added mostly waits",
        ),
        (
            (run(4, 0.2, 0.036), run(8, 0.4, 0.026)),
            (
                "TPOT falls from 0.0252 s at concurrency 4 to 0.0182 s at concurrency 8: the engine may be above its own cap, "
                "where it queues; name the cap with --max-num-seqs"
            ),
        ),
        (
            (run(4, prompts=Lengths(1000.0)),),
            (
                "mix.in_p50 is the mean length, as the files have no median: right where all are alike, else correct it; "
                "--save-detailed tells it"
            ),
        ),
    ],
)
def test_what_looks_odd_is_noted(runs, note):
    assert list(notes(calibrated(*runs))) == [note]


@pytest.mark.parametrize(
    ("lengths", "note"),
    [
        (Lengths(1000.0, p50=900.0), "the KV cache was checked with mean lengths, as the files have no P95 of them"),
        (Lengths(), "the KV cache was not checked, as the files have no lengths"),
    ],
)
def test_how_far_the_kv_cache_was_checked_is_noted(lengths, note):
    found = calibrated(
        run(1, prompts=lengths, outputs=lengths),
        run(2, prompts=lengths, outputs=lengths),
        setup=Setup("", kv_tokens=10_000_000),
    )
    assert list(notes(found)) == [note]


# Always and never ----------------------------------------------------------------------------------------------------------

LEVELS = (1, 2, 4, 8, 16, 32)
P95S = st.floats(0.01, 4.0)


@st.composite
def sweeps(draw):
    """Sweeps of every kind: short levels, defects and troubles among them."""
    chosen = draw(st.lists(st.sampled_from(LEVELS), min_size=1, max_size=6, unique=True))
    return [
        run(
            level,
            draw(P95S),
            draw(P95S) / 20,
            requests=draw(st.sampled_from([20, 100, 700])),
            failed=draw(st.sampled_from([0, 0, 0, 50])),
            defects=draw(st.sampled_from([(), (), (), (Defect("odd"),)])),
        )
        for level in chosen
    ]


@given(sweeps(), st.integers(0, 5), st.floats(1.0, 10.0), st.sampled_from(["ttft", "tpot"]))
def test_more_latency_at_a_level_never_raises_the_safe_concurrency(runs, index, factor, name):
    before = calibrated(*runs)
    slower = runs[index % len(runs)]
    worse = replace(slower, **{name: latency(getattr(slower, name).at(0.95) * factor, slower.completed)})
    after = calibrated(*(worse if one is slower else one for one in runs))
    assume(before.sweep.warm is None)  # a slower level may no longer look as if its prompts had been in the cache
    assert (after.safe_concurrency or 0.0) <= (before.safe_concurrency or 0.0)


@given(sweeps(), st.randoms(use_true_random=False))
def test_the_order_of_the_files_changes_nothing_of_the_answer(runs, random):
    shuffled = random.sample(runs, len(runs))
    assert body(calibrated(*shuffled)) == body(calibrated(*runs))


@given(sweeps())
def test_the_safe_level_was_tested_and_passes_and_nothing_below_it_is_beyond_an_objective(runs):
    found = calibrated(*runs)
    if found.safe is None:
        assert found.outcome in {Outcome.INFEASIBLE, Outcome.NOT_ENOUGH, Outcome.UNUSABLE}
        return
    below = found.levels[: found.levels.index(found.safe)]
    assert found.safe.verdict is Verdict.PASSES
    assert all(check.passes for check in found.safe.checks)
    assert not any(judged.stops or any(check.exceeds for check in judged.checks) for judged in below)


@given(sweeps(), st.floats(0.2, 1.0))
def test_a_stricter_objective_never_raises_the_safe_concurrency(runs, ratio):
    loose, strict = (calibrated(*runs, objectives=Objectives(2.0 * share, 0.1 * share)) for share in (1.0, ratio))
    assert (strict.safe_concurrency or 0.0) <= (loose.safe_concurrency or 0.0)


@given(sweeps())
def test_what_is_asked_for_next_was_not_tested_well_enough(runs):
    found = calibrated(*runs)
    step = next_test(found)
    if step is not None:
        same = [judged for judged in found.levels if judged.level.load == step.load]
        assert all(judged.verdict in {Verdict.NOT_SHOWN, Verdict.UNUSABLE} for judged in same)
