"""How samples become a reading: the rules, one by one, on small pages."""

import pytest

from scaler.core.model import Absent, Histogram, Reading
from scaler.engines import ENGINES
from scaler.engines.row import Sample, Samples, select

IDLE, UNKNOWN = Absent.IDLE, Absent.UNKNOWN
NAN, INF = float("nan"), float("inf")
VLLM, SGLANG = ENGINES["vllm"], ENGINES["sglang"]


def lines(*found: tuple[dict[str, str], float]) -> list[Sample]:
    return [Sample(labels, value) for labels, value in found]


def vllm(samples: dict[str, list[Sample]]) -> Reading:
    return select(VLLM, {f"vllm:{name}": found for name, found in samples.items()}, "pod-0", 1.0)


def ladder(name: str, steps: dict[str, float], total: float, **labels: str) -> dict[str, list[Sample]]:
    return {
        f"{name}_bucket": lines(*(({**labels, "le": le}, value) for le, value in steps.items())),
        f"{name}_sum": lines((labels, total)),
    }


def joined(*pages: Samples) -> dict[str, list[Sample]]:
    return {name: [s for page in pages for s in page.get(name, ())] for page in pages for name in page}


@pytest.mark.fault("engine reports what is no number")
@pytest.mark.parametrize("value", [NAN, INF, -INF, -1.0], ids=["nan", "inf", "minus-inf", "negative"])
def test_a_gauge_that_cannot_be_a_value_is_unknown_even_beside_a_good_rank(value):
    reading = vllm({"num_requests_running": lines(({"engine": "0"}, 3.0), ({"engine": "1"}, value))})

    assert (reading.running, "running" in reading.absent) == (UNKNOWN, True)


@pytest.mark.fault("engine reports what is no number")
@pytest.mark.parametrize("value", [NAN, INF, -1.0], ids=["nan", "inf", "negative"])
def test_a_counter_that_cannot_be_a_value_is_none(value):
    assert vllm({"generation_tokens_total": lines(({}, value))}).generation_tokens_total is None


@pytest.mark.fault("engine reports what is no number")
def test_ranks_whose_sum_is_no_number_are_unknown():
    reading = vllm({"num_requests_running": lines(({"engine": "0"}, 1.7e308), ({"engine": "1"}, 1.7e308))})

    assert reading.running is UNKNOWN


def test_a_cache_usage_in_percent_is_unknown():
    assert vllm({"kv_cache_usage_perc": lines(({}, 43.0))}).kv_usage_ratio is UNKNOWN


def test_missing_gauges_of_an_engine_that_did_nothing_yet_are_idle():
    reading = vllm({"generation_tokens_total": lines(({"engine": "0"}, 0.0))})

    assert reading == Reading("pod-0", 1.0, IDLE, IDLE, IDLE, generation_tokens_total=0.0, absent=("ttft",))


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param({"generation_tokens_total": lines(({}, 64.0))}, id="tokens-were-produced"),
        pytest.param({"time_to_first_token_seconds_count": lines(({}, 1.0))}, id="a-first-token-was-seen"),
        pytest.param({"generation_tokens_total": lines(({}, NAN))}, id="the-proof-is-garbled"),
        pytest.param({"engine_sleep_state": lines(({"sleep_state": "awake"}, 1.0))}, id="no-proof"),
        pytest.param(
            {"generation_tokens_total": lines(({}, 0.0)), "kv_cache_usage_perc": lines(({}, 0.0))},
            id="another-gauge-is-set",
        ),
    ],
)
def test_missing_gauges_are_unknown_once_the_engine_must_have_set_them(evidence):
    reading = vllm(evidence)

    assert (reading.running, reading.waiting, reading.absent) == (UNKNOWN, UNKNOWN, ("running", "waiting", "ttft"))


def test_waiting_is_the_total_whatever_the_requests_wait_for():
    by_reason = lines(({"reason": "capacity"}, 5.0), ({"reason": "deferred"}, 1.0))
    reading = vllm({"num_requests_waiting": lines(({}, 6.0)), "num_requests_waiting_by_reason": by_reason})

    assert reading.waiting == 6.0


def test_waiting_is_summed_over_its_reasons_where_only_those_are_told():
    by_reason = lines(({"reason": "capacity"}, 5.0), ({"reason": "deferred"}, 1.0), ({"reason": "deferred"}, 1.0))

    assert vllm({"num_requests_waiting_by_reason": by_reason}).waiting == 6.0


def test_rejections_are_summed_over_their_reasons():
    rejections = lines(({"reason": "max_num_queued_reqs"}, 20.0), ({"reason": "max_num_queued_tokens"}, 3.0))

    assert vllm({"admission_rejections_total": rejections}).rejections_total == 23.0


@pytest.mark.parametrize(
    ("states", "awake"),
    [
        pytest.param([("0", "awake", 1.0)], True, id="awake"),
        pytest.param([("0", "awake", 0.0), ("0", "weights_offloaded", 1.0)], False, id="asleep"),
        pytest.param([("0", "awake", 0.0), ("1", "awake", 0.0)], False, id="all-ranks-asleep"),
        pytest.param([("0", "awake", 0.0), ("1", "awake", 1.0)], True, id="one-rank-awake"),
        pytest.param([("0", "awake", NAN)], True, id="garbled"),
        pytest.param([], True, id="release-without-sleep"),
    ],
)
def test_an_engine_sleeps_only_if_every_rank_says_so(states, awake):
    states_of = lines(*(({"engine": rank, "sleep_state": state}, value) for rank, state, value in states))

    assert vllm({"engine_sleep_state": states_of}).awake is awake


def test_a_histogram_is_read_from_its_edges_whatever_their_order_and_spelling():
    page = ladder("time_to_first_token_seconds", {"+Inf": 9.0, "10": 8.0, "2.5": 5.0, "1e-1": 2.0}, 12.5)

    assert vllm(page).ttft == Histogram((0.1, 2.5, 10.0), (2.0, 5.0, 8.0, 9.0), 12.5)


def test_edges_that_are_equal_as_numbers_are_one_edge():
    page = joined(
        ladder("time_to_first_token_seconds", {"1": 2.0, "+Inf": 4.0}, 3.0, engine="0"),
        ladder("time_to_first_token_seconds", {"1.0": 3.0, "+Inf": 5.0}, 4.0, engine="1"),
    )

    assert vllm(page).ttft == Histogram((1.0,), (5.0, 9.0), 7.0)


def test_ranks_with_different_edges_merge_on_the_common_ones():
    page = joined(
        ladder("time_to_first_token_seconds", {"0.5": 1.0, "1": 2.0, "+Inf": 4.0}, 3.0, engine="0"),
        ladder("time_to_first_token_seconds", {"1": 3.0, "2": 4.0, "+Inf": 5.0}, 4.0, engine="1"),
    )

    assert vllm(page).ttft == Histogram((1.0,), (5.0, 9.0), 7.0)


def test_ranks_without_a_common_edge_still_count():
    page = joined(
        ladder("time_to_first_token_seconds", {"0.5": 1.0, "+Inf": 4.0}, 3.0, engine="0"),
        ladder("time_to_first_token_seconds", {"1": 3.0, "+Inf": 5.0}, 4.0, engine="1"),
    )

    assert vllm(page).ttft == Histogram((), (9.0,), 7.0)


@pytest.mark.fault("engine reports what is no number")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(ladder("time_to_first_token_seconds", {"1": 5.0, "2": 4.0, "+Inf": 6.0}, 1.0), id="it-falls"),
        pytest.param(ladder("time_to_first_token_seconds", {"1": 5.0, "2": 6.0}, 1.0), id="no-inf"),
        pytest.param(ladder("time_to_first_token_seconds", {"one": 5.0, "+Inf": 6.0}, 1.0), id="edge-is-a-word"),
        pytest.param(ladder("time_to_first_token_seconds", {"NaN": 5.0, "+Inf": 6.0}, 1.0), id="edge-is-nan"),
        pytest.param(ladder("time_to_first_token_seconds", {"-Inf": 0.0, "+Inf": 6.0}, 1.0), id="edge-is-minus-inf"),
        pytest.param(ladder("time_to_first_token_seconds", {"1": NAN, "+Inf": 6.0}, 1.0), id="count-is-nan"),
        pytest.param(ladder("time_to_first_token_seconds", {"1": -1.0, "+Inf": 6.0}, 1.0), id="count-is-negative"),
        pytest.param(ladder("time_to_first_token_seconds", {"1": 5.0, "+Inf": 6.0}, -1.0), id="sum-is-negative"),
        pytest.param({"time_to_first_token_seconds_bucket": lines(({"le": "+Inf"}, 6.0))}, id="no-sum"),
        pytest.param({"time_to_first_token_seconds_bucket": lines(({}, 6.0))}, id="no-edge"),
        pytest.param(
            joined(
                ladder("time_to_first_token_seconds", {"1": 1.0, "+Inf": 1.7e308}, 1.0, engine="0"),
                ladder("time_to_first_token_seconds", {"1": 1.0, "+Inf": 1.7e308}, 1.0, engine="1"),
            ),
            id="ranks-overflow",
        ),
        pytest.param(
            joined(
                ladder("time_to_first_token_seconds", {"1": 1.0, "+Inf": 2.0}, 1.0, engine="0"),
                {"time_to_first_token_seconds_bucket": lines(({"engine": "1", "le": "+Inf"}, 6.0))},
            ),
            id="a-rank-without-sum",
        ),
    ],
)
def test_a_malformed_histogram_is_none_and_is_named(page):
    reading = vllm(page)

    assert (reading.ttft, "ttft" in reading.absent) == (None, True)


def test_a_garbled_new_name_is_not_replaced_by_the_old_one():
    reading = vllm({"kv_cache_usage_perc": lines(({}, NAN)), "gpu_cache_usage_perc": lines(({}, 0.4))})

    assert reading.kv_usage_ratio is UNKNOWN


@pytest.mark.parametrize(
    "name",
    ["request_time_per_output_token_seconds", "inter_token_latency_seconds", "time_per_output_token_seconds"],
)
def test_the_time_per_output_token_is_read_under_the_name_of_each_release(name):
    assert vllm(ladder(name, {"0.1": 1.0, "+Inf": 2.0}, 0.3)).tpot == Histogram((0.1,), (1.0, 2.0), 0.3)


def test_sglang_series_of_one_priority_do_not_add_to_the_total():
    running = lines(({"priority": ""}, 7.0), ({"priority": "1"}, 9.0), ({"priority": "2"}, 3.0))

    assert select(SGLANG, {"sglang:num_running_reqs": running}, "pod-0", 1.0).running == 7.0


def test_sglang_with_only_series_of_single_priorities_is_unknown():
    running = lines(({"priority": "1"}, 4.0))

    assert select(SGLANG, {"sglang:num_running_reqs": running}, "pod-0", 1.0).running is UNKNOWN


def test_sglang_tensor_ranks_are_copies_and_data_ranks_add_up():
    running = lines(
        ({"tp_rank": "0", "dp_rank": "0"}, 4.0),
        ({"tp_rank": "1", "dp_rank": "0"}, 4.0),
        ({"tp_rank": "0", "dp_rank": "1"}, 5.0),
    )

    assert select(SGLANG, {"sglang:num_running_reqs": running}, "pod-0", 1.0).running == 9.0


def test_sglang_first_tokens_are_counted_with_and_without_streaming():
    page = joined(
        ladder("sglang:time_to_first_token_seconds", {"1": 2.0, "+Inf": 4.0}, 3.0, is_streaming="true"),
        ladder("sglang:time_to_first_token_seconds", {"1": 3.0, "+Inf": 5.0}, 4.0, is_streaming="false"),
    )

    assert select(SGLANG, page, "pod-0", 1.0).ttft == Histogram((1.0,), (5.0, 9.0), 7.0)


def test_sglang_without_gauges_is_unknown_even_when_unused():
    page = {"sglang:generation_tokens_total": lines(({}, 0.0))}

    assert select(SGLANG, page, "pod-0", 1.0).running is UNKNOWN


def test_sglang_has_no_state_of_sleep():
    assert select(SGLANG, {}, "pod-0", 1.0).awake is True
