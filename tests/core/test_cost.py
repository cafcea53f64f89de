"""What GPUs did and what that cost."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.cost import LATELY_S, MOST_PRODUCTS, Bill, Ledger, Spent, bill, follow, price_of, told
from scaler.core.model import GpuPhase, GpuUse, Observation, Reading, ReplicaSet, Starting
from tests.support.law import near

H100, L40S = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L40S"
STARTING, SERVING, DRAINING = (GpuUse(H100, phase) for phase in GpuPhase)


def look(at: float, gpus: dict[GpuUse, int] | None = None, *readings: Reading, known: bool = True) -> Observation:
    names = tuple(reading.replica for reading in readings)
    replicas = ReplicaSet(names, (), len(names), at, gpus=gpus or {}) if known else None
    return Observation(at, replicas, readings)


def read(prompt: float | None, generated: float | None, replica: str = "a") -> Reading:
    return Reading(replica, 0.0, prompt_tokens_total=prompt, generation_tokens_total=generated)


def spent(*looks: Observation) -> Spent:
    ledger = Ledger()
    for one in looks:
        ledger = follow(ledger, one)
    return ledger.spent


def test_gpus_that_are_held_count_for_as_long_as_they_are():
    found = spent(look(0.0, {STARTING: 4}), look(2.0, {STARTING: 4, SERVING: 8}), look(5.0, {SERVING: 12, DRAINING: 1}))
    assert found == Spent({STARTING: 8.0, SERVING: 16.0 + 36.0, DRAINING: 3.0})


def test_a_product_that_appears_has_all_its_phases_at_zero():
    assert spent(look(0.0, {SERVING: 8})) == Spent({STARTING: 0.0, SERVING: 0.0, DRAINING: 0.0})


def test_nobody_who_tells_of_gpus_is_no_gpu_second():
    assert spent(look(0.0), look(9.0)) == Spent()


def test_while_nobody_can_list_the_replicas_they_go_on():
    found = spent(look(0.0, {SERVING: 2}), look(10.0, known=False), look(60.0, {SERVING: 2}))
    assert found.gpu_s[SERVING] == 120.0


def test_a_list_that_is_no_newer_is_not_charged_again():
    assert spent(look(0.0, {SERVING: 2}), look(5.0, {SERVING: 2}), look(5.0, {SERVING: 2})).gpu_s[SERVING] == 10.0


@pytest.mark.parametrize(
    ("pages", "prompt", "generated"),
    [
        pytest.param([read(100, 10), read(130, 30), read(150, 35)], 50.0, 25.0, id="what they add"),
        pytest.param([read(100, 10)], 0.0, 0.0, id="what was there before counts for nobody"),
        pytest.param([read(100, 10), read(5, 3), read(9, 4)], 4.0, 1.0, id="a restart begins anew"),
        pytest.param([read(100, None), read(110, None)], 10.0, None, id="an engine that does not say"),
        pytest.param([read(100, 10), read(None, 20), read(160, 30)], 60.0, 20.0, id="a page without it loses nothing"),
    ],
)
def test_tokens_are_what_the_engines_add(pages, prompt, generated):
    found = spent(*(look(float(at), None, page) for at, page in enumerate(pages)))
    assert (found.prompt_tokens, found.generation_tokens) == (prompt, generated)


def test_a_replica_that_is_silent_for_a_while_has_gone_on_counting():
    silent = Observation(1.0, ReplicaSet(("a",), (), 1, 1.0))
    assert spent(look(0.0, None, read(10, 10)), silent, look(2.0, None, read(30, 20))).prompt_tokens == 20.0


def test_a_replica_that_left_and_comes_back_begins_anew():
    starting = Observation(1.0, ReplicaSet((), (Starting("b", 0.0),), 1, 1.0))
    assert spent(look(0.0, None, read(10, 10)), starting, look(2.0, None, read(30, 20))).prompt_tokens == 0.0


def test_more_kinds_of_gpu_than_are_told_apart_are_one():
    held = {GpuUse(f"gpu-{n}", GpuPhase.SERVING): 1 for n in range(MOST_PRODUCTS + 3)}
    found = spent(look(0.0, held), look(1.0, held))
    assert {use.gpu: s for use, s in found.gpu_s.items() if s} == {"gpu-0": 1, "gpu-1": 1, "gpu-2": 1, "other": 3}


LOOKS = st.lists(
    st.tuples(
        st.floats(0.001, 1000.0),
        st.dictionaries(st.builds(GpuUse, st.sampled_from("abcdefg"), st.sampled_from(GpuPhase)), st.integers(1, 64)),
        st.floats(0.0, 1e9),
    ),
    max_size=30,
)


@given(LOOKS)
def test_totals_never_fall_and_labels_never_grow_without_end(looks):
    ledger, now = Ledger(), 0.0
    for passed, held, tokens in looks:
        now += passed
        after = follow(ledger, look(now, held, read(tokens, tokens)))
        grown = after.spent.since(ledger.spent)
        assert all(
            each >= 0 for each in (*grown.gpu_s.values(), grown.prompt_tokens or 0.0, grown.generation_tokens or 0.0)
        )
        ledger = after
    assert len(ledger.spent.gpu_s) <= (MOST_PRODUCTS + 1) * len(GpuPhase)
    assert len(ledger.marks) <= 62


PRICES = {"H100": 2.5, "H100 MIG 1g.10gb": 0.4, "L40S": 1.0, "nvidia": 9.0}


@pytest.mark.parametrize(
    ("gpu", "price"),
    [
        pytest.param(H100, 9.0, id="of equals the dearest"),
        pytest.param("H100", 2.5, id="the name itself"),
        pytest.param("nvidia-l4", 9.0, id="L4 is no L40S"),
        pytest.param("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", 0.4, id="a slice that is named"),
        pytest.param("NVIDIA-H100-80GB-HBM3-MIG-3g.40gb", None, id="a slice is no whole"),
        pytest.param("NVIDIA-L40S-SHARED", None, id="shared is no whole"),
        pytest.param("AMD-Instinct-MI300X", None, id="not on the list"),
        pytest.param("", None, id="not known"),
    ],
)
def test_the_price_with_the_most_words_of_the_name_is_its_price(gpu, price):
    assert price_of(PRICES, gpu) == price


USED = Spent({STARTING: 3600.0, SERVING: 32400.0, DRAINING: 0.0}, 60e6, 12e6)


def test_a_bill_is_gpu_hours_times_price_over_tokens():
    assert bill(USED, {"H100": 2.0}) == Bill(
        gpu_s=36000.0,
        starting_ratio=0.1,
        tokens=72e6,
        tokens_per_gpu_s=2000.0,
        cost=20.0,
        cost_per_million_tokens=near(20 / 72),
        cost_per_million_generated=near(20 / 12),
    )


def test_each_product_has_its_own_price():
    mixed = replace(USED, gpu_s={SERVING: 3600.0, GpuUse(L40S, GpuPhase.SERVING): 7200.0})
    assert bill(mixed, {"H100": 2.0, "L40S": 0.5}).cost == 3.0


def test_a_product_without_a_price_makes_the_cost_unknown_and_is_named():
    mixed = replace(USED, gpu_s={SERVING: 3600.0, GpuUse(L40S, GpuPhase.SERVING): 7200.0})
    found = bill(mixed, {"H100": 2.0})
    assert (found.cost, found.cost_per_million_tokens, found.unpriced) == (None, None, (L40S,))


@pytest.mark.parametrize("tokens", [None, 0.0])
def test_without_tokens_there_is_no_cost_of_a_token(tokens):
    found = bill(replace(USED, prompt_tokens=tokens, generation_tokens=tokens), {"H100": 2.0})
    assert (found.cost, found.cost_per_million_tokens, found.cost_per_million_generated) == (20.0, None, None)


@pytest.mark.parametrize(
    ("prices", "money"),
    [
        ({}, ""),
        ({"H100": 2.0}, ", cost 20, 0.278 per million tokens (1.67 per million generated)"),
        ({"L40S": 1.0}, f", no price for {H100}"),
    ],
)
def test_a_bill_is_told_in_one_line(prices, money):
    line = "10 GPU-hours in 60 min (10% of it starting), 2,000 tokens per GPU-second"
    assert told(replace(bill(USED, prices), lasted_s=3600.0)) == line + money


def test_lately_is_the_last_hour():
    ledger = Ledger()
    for minute in range(120):
        ledger = follow(ledger, look(60.0 * minute, {SERVING: 1 if minute < 60 else 2}))
    found = ledger.lately(119 * 60.0, {})
    assert found is not None
    assert (found.lasted_s, found.gpu_s) == (LATELY_S, 2 * LATELY_S)


def test_who_has_no_gpus_has_no_bill():
    assert follow(Ledger(), look(0.0)).lately(1.0, {}) is None
