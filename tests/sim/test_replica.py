"""The replica model against small cases computed by hand."""

import pytest

from scaler.core.model import Reading
from scaler.sim import (
    PRESETS,
    PROMPT_EDGES_TOKENS,
    QUEUE_EDGES_S,
    TPOT_EDGES_S,
    TTFT_EDGES_S,
    Accumulator,
    Coefficients,
    Counters,
    EngineLimits,
    Finished,
    FirstToken,
    Preempted,
    Replica,
    Request,
)

# Powers of two: sums are exact.
COST = Coefficients(a_s=0.5, b_s=0.25, c_s=0.125, d_s=0.0625, overhead_s=1.0)
AMPLE = EngineLimits(max_num_seqs=8, token_budget=64, kv_tokens=1000)


def submitted(requests: list[Request], limits: EngineLimits = AMPLE) -> Replica:
    replica = Replica(COST, limits)
    for request in requests:
        replica.submit(request, request.arrived_at)
    return replica


def test_one_request_takes_overhead_then_prefill_then_a_step_a_token() -> None:
    replica = submitted([Request("a", 0.0, prompt_tokens=4, output_tokens=3)])
    first = 1.0 + (0.5 + 0.25 + 4 * 0.125)
    last = first + (0.5 + 0.25 + 5 * 0.0625) + (0.5 + 0.25 + 6 * 0.0625)
    assert replica.advance(100.0) == (
        FirstToken("a", first, first),
        Finished("a", last, first, (last - first) / 2, 0.0, last),
    )


def test_two_requests_share_their_steps() -> None:
    replica = submitted([Request("a", 0.0, 4, 3), Request("b", 0.0, 4, 2)])
    assert replica.advance(100.0) == (
        FirstToken("a", 3.0, 3.0),  # 1 + 0.5 + 2 x 0.25 + 8 x 0.125
        FirstToken("b", 3.0, 3.0),
        Finished("b", 4.625, 3.0, 1.625, 0.0, 4.625),  # 0.5 + 2 x 0.25 + 10 x 0.0625
        Finished("a", 5.75, 3.0, 1.375, 0.0, 5.75),  # 0.5 + 0.25 + 6 x 0.0625
    )


def test_the_token_budget_cuts_a_prompt_and_decoding_comes_first() -> None:
    replica = submitted([Request("a", 0.0, 4, 3), Request("b", 0.0, 10, 1)], EngineLimits(4, 4, 1000))
    assert replica.advance(100.0) == (
        FirstToken("a", 2.25, 2.25),  # the whole budget
        Finished("a", 5.6875, 2.25, 1.71875, 0.0, 5.6875),  # two steps of one token beside 3 of the other prompt
        FirstToken("b", 6.9375, 6.9375),  # the 4 that are left
        Finished("b", 6.9375, 6.9375, None, 1.25, 6.9375),
    )


def test_beyond_max_num_seqs_requests_are_served_in_order_of_arrival() -> None:
    replica = submitted([Request(i, 0.0, 4, 1) for i in range(3)], EngineLimits(1, 64, 1000))
    finished = [event for event in replica.advance(100.0) if isinstance(event, Finished)]
    assert [(event.id, event.at, event.queue_wait_s) for event in finished] == [
        (0, 2.25, 0.0),
        (1, 3.5, 1.25),
        (2, 4.75, 2.5),
    ]


def test_a_full_kv_cache_preempts_the_last_admitted_who_computes_all_again() -> None:
    replica = submitted([Request("a", 0.0, 4, 6), Request("b", 0.0, 4, 6)], EngineLimits(4, 64, 12))
    assert replica.advance(100.0) == (
        FirstToken("a", 3.0, 3.0),
        FirstToken("b", 3.0, 3.0),
        Preempted("b", 6.375),  # after two steps at 10 and 12 tokens; the next would need 14
        Finished("a", 10.125, 3.0, 1.425, 0.0, 10.125),
        Finished("b", 14.3125, 3.0, 2.2625, 0.0, 14.3125),  # 4 prompt and 3 output tokens prefilled, then two steps
    )
    assert replica.counters == Counters(
        submitted=2, cancelled=0, finished=2, first_tokens=2, preemptions=1, prompt_tokens=8, generation_tokens=12
    )


def test_an_abort_frees_the_slot_after_the_step_under_way() -> None:
    replica = submitted([Request("a", 0.0, 4, 100), Request("b", 0.0, 4, 1)], EngineLimits(1, 64, 1000))
    assert replica.cancel("a", 5.0)
    assert (replica.running, replica.waiting, replica.kv_tokens) == (0, 1, 0)
    assert replica.advance(100.0)[-1].at == 5.625 + 1.25  # the step from 4.4375 takes 1.1875; then the other prompt


def test_an_abort_before_the_first_step_leaves_nothing_but_its_count() -> None:
    replica = submitted([Request("a", 0.0, 4, 2)])
    assert replica.cancel("a", 0.5)
    assert replica.advance(100.0) == ()
    assert (replica.counters.submitted, replica.counters.cancelled, replica.next_event_at()) == (1, 1, None)


def test_an_abort_of_an_unknown_request_says_so() -> None:
    assert not submitted([]).cancel("a", 5.0)


def test_a_request_is_entering_then_waiting_then_running() -> None:
    replica = submitted([Request("a", 0.0, 4, 1), Request("b", 0.0, 4, 1)], EngineLimits(1, 64, 1000))
    seen = []
    for now in (0.5, 1.5, 3.0, 4.0):
        replica.advance(now)
        seen.append((replica.entering, replica.waiting, replica.running))
    assert seen == [(2, 0, 0), (0, 1, 1), (0, 0, 1), (0, 0, 0)]


def test_progress_can_be_streamed_between_events() -> None:
    replica = submitted([Request("a", 0.0, 4, 4)])
    seen = []
    for now in (2.0, 2.25, 3.0, 3.3125, 4.4375):
        replica.advance(now)
        seen.append(replica.generated("a"))
    assert seen == [0, 1, 1, 2, 3]


def test_a_finished_request_is_no_longer_here() -> None:
    replica = submitted([Request("a", 0.0, 4, 1)])
    replica.advance(100.0)
    with pytest.raises(KeyError):
        replica.generated("a")


def test_a_reading_is_what_a_scrape_of_a_real_engine_says() -> None:
    replica = submitted(
        [Request("a", 0.0, 4, 1), Request("b", 0.0, 4, 9), Request("c", 0.0, 4, 9)], EngineLimits(2, 64, 100)
    )
    ttft, prompt, queue = Accumulator(TTFT_EDGES_S), Accumulator(PROMPT_EDGES_TOKENS), Accumulator(QUEUE_EDGES_S)
    ttft.observe(3.0)
    ttft.observe(3.0)
    prompt.observe(4.0)
    queue.observe(0.0)
    output = Accumulator(PROMPT_EDGES_TOKENS)
    output.observe(1.0)
    assert replica.reading("pod-1", 3.5) == Reading(
        replica="pod-1",
        observed_at=3.5,
        running=2.0,
        waiting=0.0,
        prompt_tokens_total=8.0,
        kv_usage_ratio=0.09,  # 5 tokens decoding, 4 in prefill
        generation_tokens_total=2.0,
        preemptions_total=0.0,
        rejections_total=0.0,
        ttft=ttft.read(),
        tpot=Accumulator(TPOT_EDGES_S).read(),
        queue_time=queue.read(),
        prompt_tokens=prompt.read(),
        output_tokens=output.read(),
    )


def test_the_queue_histogram_is_silent_until_somebody_finishes() -> None:
    replica = submitted([Request(i, 0.0, 4, 50) for i in range(9)], EngineLimits(1, 64, 1000))
    reading = replica.reading("pod-1", 10.0)
    assert (reading.waiting, reading.queue_time) == (8.0, Accumulator(QUEUE_EDGES_S).read())


def test_a_histogram_is_cumulative_and_its_edges_are_inclusive() -> None:
    accumulator = Accumulator((1.0, 2.0))
    for value in (1.0, 1.5, 3.0):
        accumulator.observe(value)
    assert (accumulator.read().counts, accumulator.read().sum) == ((1.0, 2.0, 3.0), 5.5)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(Request("a", 0.0, 4, 1), id="an id that is still live"),
        pytest.param(Request("b", 0.0, 0, 1), id="no prompt"),
        pytest.param(Request("b", 0.0, 4, 0), id="no output"),
        pytest.param(Request("b", 0.0, 900, 101), id="more than the KV cache holds"),
    ],
)
def test_refuses_a_request_that_it_could_never_serve_and_changes_nothing(request_: Request) -> None:
    replica = submitted([Request("a", 0.0, 4, 1)])
    with pytest.raises(ValueError, match=r"already here|at most"):
        replica.submit(request_, 0.0)
    assert replica.counters.submitted == 1


def test_refuses_a_time_that_went_back() -> None:
    replica = submitted([])
    replica.advance(2.0)
    with pytest.raises(ValueError, match="time went back"):
        replica.advance(1.0)


def test_refuses_a_step_without_duration() -> None:
    with pytest.raises(ValueError, match="above zero"):
        Coefficients(0.0, 0.0, 0.0, 0.0)


def test_refuses_a_token_budget_below_the_number_of_sequences() -> None:
    with pytest.raises(ValueError, match="token_budget"):
        EngineLimits(8, 4, 100)


@pytest.mark.parametrize(
    ("name", "tpot_ms"),
    [("llama-3.1-8b-h100", 12.8), ("llama-3.1-70b-4xh100", 22.8), ("llama-3.1-8b-l40s", 53.3)],
)
def test_a_preset_decodes_128_sequences_of_1000_tokens_as_fast_as_its_table_says(name: str, tpot_ms: float) -> None:
    cost = PRESETS[name].coefficients
    assert 1000 * (cost.a_s + 128 * cost.b_s + 128_000 * cost.d_s) == pytest.approx(tpot_ms, rel=0.12)


def test_who_leaves_as_a_step_ends_is_not_in_the_next_one() -> None:
    cost = Coefficients(2.0**-6, 0.0, 0.0, 0.0, overhead_s=0.0)
    replica = Replica(cost, EngineLimits(max_num_seqs=1, token_budget=1, kv_tokens=70))
    replica.submit(Request(0, 0.0, 1, 3), 0.0)
    replica.submit(Request(1, 0.0, 1, 1), 0.0)
    replica.cancel(0, 2.0 * cost.a_s)
    finished = [event for event in replica.advance(1.0) if isinstance(event, Finished)]
    assert [(event.id, event.at) for event in finished] == [(1, 3.0 * cost.a_s)]
