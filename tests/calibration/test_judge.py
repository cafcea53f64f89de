"""What one level proves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.calibration import Objectives, Setup
from scaler.calibration.judge import Verdict, enough_requests, judge
from scaler.calibration.levels import Level
from scaler.calibration.runs import Defect, Latency, Lengths, Load, LoadKind
from scaler.errors import ConfigError
from tests.calibration.made import OBJECTIVES, latency, run

NOTHING = Setup("")


def judged(made, objectives=OBJECTIVES, setup=NOTHING, **options):
    return judge(Level((made,)), objectives, setup, **options)


@pytest.mark.parametrize(
    ("ttft_s", "tpot_s", "verdict"),
    [
        (0.5, 0.03, Verdict.PASSES),
        (1.66, 0.083, Verdict.PASSES),  # P99, which bounds P95 here, is a fifth above it
        (1.7, 0.03, Verdict.NOT_SHOWN),
        (0.5, 0.09, Verdict.NOT_SHOWN),
        (2.1, 0.03, Verdict.FAILS),
        (0.5, 0.11, Verdict.FAILS),
    ],
)
def test_a_level_passes_by_its_bounds_and_fails_by_what_was_measured(ttft_s, tpot_s, verdict):
    assert judged(run(8, ttft_s, tpot_s)).verdict is verdict


def test_without_an_objective_for_it_tpot_is_not_asked_for():
    found = judged(run(8, tpot=Latency(0)), Objectives(2.0))
    assert ([check.name for check in found.checks], found.verdict) == (["ttft"], Verdict.PASSES)


def test_an_objective_at_the_99th_percentile_needs_more_requests():
    assert judged(run(8, requests=298), Objectives(2.0, percentile=99.0)).defects == (
        Defect(
            "298 requests bound no P99, 299 are the least; the first 8 of 298 requests find an empty engine and can decide P99 alone. "
            "Repeat it with vllm bench serve --max-concurrency 8 --num-prompts 1200, or add --save-detailed, which lets the first be left "
            "out",
            short=True,
        ),
    )


@pytest.mark.parametrize(
    ("changes", "trouble"),
    [
        ({"failed": 5}, "5 of 405 requests failed"),
        ({"preemptions": 3.0}, "3 preemptions: the KV cache was full"),
        (
            {"load": Load(LoadKind.RATE, 6.0)},
            "served 5.278 of 6 requests/s: the engine fell behind",
        ),
    ],
)
def test_an_engine_in_trouble_fails_whatever_the_latencies_are(changes, trouble):
    found = judged(run(8, **changes))
    assert ([one.text for one in found.troubles], found.verdict) == ([trouble], Verdict.FAILS)


def test_a_few_failures_in_a_hundred_thousand_are_no_trouble():
    assert judged(run(8, failed=4)).verdict is Verdict.PASSES


def test_a_level_above_a_named_cap_fails():
    found = judged(run(8), setup=Setup("", max_num_seqs=4))
    assert [trouble.text for trouble in found.troubles] == [
        "the engine runs 4 requests (max_num_seqs), the rest waits in its queue"
    ]
    assert judged(run(8), setup=Setup("", max_num_seqs=8)).verdict is Verdict.PASSES


def test_a_level_whose_kv_may_not_fit_fails():
    found = judged(run(8), setup=Setup("", kv_tokens=13_000))  # 0.9 × 13000 ÷ (1200 + 300) = 7.8
    assert [(trouble.name, trouble.most) for trouble in found.troubles] == [("kv_cache", pytest.approx(7.8))]
    assert judged(run(8), setup=Setup("", kv_tokens=13_400)).verdict is Verdict.PASSES


def test_the_kv_cache_is_checked_with_means_where_there_is_no_p95():
    made = run(8, prompts=Lengths(1000.0), outputs=Lengths(200.0))
    assert [trouble.most for trouble in judged(made, setup=Setup("", kv_tokens=10_000)).troubles] == [
        pytest.approx(7.5)
    ]


@pytest.mark.parametrize(
    ("changes", "defect"),
    [
        (
            {"requests": 58},
            (
                "58 requests bound no P95, 59 are the least; the first 8 of 58 requests find an empty engine and can decide P95 alone. "
                "Repeat it "
                "with vllm bench serve --max-concurrency 8 --num-prompts 240, or add --save-detailed, which lets the first be left out"
            ),
        ),
        (
            {"requests": 159},
            (
                "the first 8 of 159 requests find an empty engine and can decide P95 alone. "
                "Repeat it with vllm bench serve --max-concurrency 8 "
                "--num-prompts 240, or add --save-detailed, which lets the first be left out"
            ),
        ),
        (
            {"cut_off": 22, "from_empty": False},
            (
                "22 of 422 requests were cut off at the end, the longest of all. Repeat it with vllm bench serve --max-concurrency 8 "
                "--num-prompts 240"
            ),
        ),
        (
            {"ttft": Latency(400, 0.1, ((0.5, 0.1), (0.95, 0.2)))},
            "the highest percentile in the file does not bound the P95 of 400 requests; add --save-detailed",
        ),
        (
            {"e2e_mean_s": 1.2},
            "6.33 requests were in flight (requests/s × mean latency), not 8: the load tester did not keep up",
        ),
        (
            {"e2e_mean_s": 1.2, "requests": 200},
            (
                "6.33 requests were in flight (requests/s × mean latency), not 8. Repeat it with vllm bench serve --max-concurrency 8 "
                "--num-prompts 240, or add --save-detailed, which lets the first be left out"
            ),
        ),
        (
            {"e2e_mean_s": 2.0},
            "10.6 requests were in flight (requests/s × mean latency), not 8: did several tests run at once?",
        ),
        (
            {"cached_ratio": 0.3},
            (
                "the prefix cache was warm: 30% of the prompt tokens were in it. Repeat it with another --seed for each run, or an emptied "
                "prefix cache; if production's prompts are found in the cache as well, say --shared-prefix"
            ),
        ),
        (
            {"ttft": Latency(400, 0.1, ((0.0, -0.1), (0.95, 0.2), (1.0, 0.3)))},
            "a time to the first token is negative: the load tester's clock is at fault",
        ),
        ({"completed": 0, "ttft": Latency(0), "tpot": Latency(0)}, "no request succeeded"),
        ({"defects": (Defect("odd"),)}, "odd"),
        (
            {"load": Load(LoadKind.RATE, 4.0), "rate_per_s": 4.0, "e2e_mean_s": None},
            "how many requests were in flight is not known without the mean latency of whole requests (e2e_mean_s in a CSV)",
        ),
        (
            {"load": Load(LoadKind.RATE, 0.05), "rate_per_s": 0.05, "e2e_mean_s": 1.0},
            "0.05 requests in flight are no safe concurrency; it is from 0.1 to 1e+06",
        ),
    ],
)
def test_a_level_that_was_badly_measured_proves_nothing(changes, defect):
    found = judged(run(8, **changes))
    assert ([one.text for one in found.defects], found.verdict, found.stops) == ([defect], Verdict.UNUSABLE, False)


def test_a_badly_measured_level_that_is_beyond_an_objective_stops_all_the_same():
    found = judged(run(8, ttft_s=2.1, requests=50))
    assert (found.verdict, found.stops) == (Verdict.UNUSABLE, True)


def test_a_defect_of_tpot_matters_only_where_tpot_does():
    made = run(8, defects=(Defect("miscounted", about="tpot"),))
    assert (judged(made).verdict, judged(made, Objectives(2.0)).verdict) == (Verdict.UNUSABLE, Verdict.PASSES)


def test_the_first_requests_matter_only_when_they_are_measured():
    assert judged(run(8, requests=100, from_empty=False)).verdict is Verdict.PASSES


def test_a_cache_that_production_has_as_well_is_no_defect():
    assert judged(run(8, cached_ratio=0.9), shared_prefix=True).verdict is Verdict.PASSES


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"tpot": Latency(0)},
            (
                "c8.json: p95_tpot_ms: missing, and no higher percentile is there; vllm bench serve writes it with "
                "--percentile-metrics ttft,tpot,itl,e2el"
            ),
        ),
        (
            {"ttft": Latency(400, 0.1, ((0.5, 0.1), (0.9, 0.2)))},
            (
                "c8.json: p95_ttft_ms: missing, and no higher percentile is there; vllm bench serve writes it with "
                "--metric-percentiles 50,90,95,96,97,98,99"
            ),
        ),
    ],
)
def test_a_latency_that_is_not_there_is_asked_for_by_field_and_option(changes, fault):
    with pytest.raises(ConfigError) as caught:
        judged(run(8, **changes))
    assert str(caught.value) == fault


def test_a_p99_stands_in_for_a_p95_that_is_missing():
    only_p99 = Latency(400, 0.1, ((0.5, 0.1), (0.99, 0.4)))
    assert [(check.estimate_s, check.bound_s) for check in judged(run(8, ttft=only_p99), Objectives(2.0)).checks] == [
        (0.4, 0.4)
    ]


def test_two_short_runs_of_one_load_can_be_enough_together():
    short = run(2, requests=45, ttft=latency(0.5, 45), tpot=latency(0.03, 45))
    alone, both = (
        judge(Level((short,)), OBJECTIVES, NOTHING),
        judge(Level((short, replace(short, file="b"))), OBJECTIVES, NOTHING),
    )
    assert (alone.verdict, both.verdict) == (Verdict.UNUSABLE, Verdict.PASSES)


@pytest.mark.parametrize(
    ("load", "share", "requests"),
    [
        (Load(LoadKind.CONCURRENCY, 1.0), 0.95, 240),
        (Load(LoadKind.CONCURRENCY, 64.0), 0.95, 1280),
        (Load(LoadKind.CONCURRENCY, 1.0), 0.99, 1200),
        (Load(LoadKind.RATE, 10.0), 0.95, 1200),
    ],
)
def test_enough_requests_make_the_start_too_small_to_decide_the_percentile(load, share, requests):
    assert enough_requests(load, share) == requests
