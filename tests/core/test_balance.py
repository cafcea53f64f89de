"""Whether the load is spread."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.balance import imbalanced
from scaler.core.decision import Capacity
from scaler.core.model import Absent, Reading

SAFE = Capacity(safe_concurrency=100.0, target=80.0, safe_rate_per_s=8.0, residence_s=12.5)


def readings(*held: float) -> tuple[Reading, ...]:
    return tuple(Reading(f"llama-{i}", 0.0, running=one, waiting=0.0) for i, one in enumerate(held))


def test_the_fullest_is_named_with_the_mean():
    [found] = imbalanced(readings(10, 190, 10, 10), SAFE)
    assert (found.code, found.text.partition(":")[0]) == (
        "imbalanced",
        "llama-1 holds 190 requests and the mean of 4 replicas is 55",
    )


@pytest.mark.parametrize(
    "held",
    [
        pytest.param((190,), id="one alone"),
        pytest.param((), id="none"),
        pytest.param((100, 110, 90), id="spread"),
        pytest.param((0, 0, 0, 4), id="hardly any load"),
        pytest.param((79, 0, 0), id="nobody waits at the fullest"),
        pytest.param((99, 51, 51), id="less than twice"),
    ],
)
def test_what_is_spread_or_harmless_is_no_finding(held):
    assert list(imbalanced(readings(*held), SAFE)) == []


def test_a_replica_that_sleeps_or_does_not_tell_is_not_taken_for_a_full_one():
    asleep = Reading("llama-9", 0.0, running=900.0, waiting=0.0, awake=False)
    mute = Reading("llama-8", 0.0, running=Absent.UNKNOWN, waiting=Absent.UNKNOWN)
    assert list(imbalanced((*readings(50, 50), asleep, mute), SAFE)) == []


@given(st.lists(st.floats(0, 1000), min_size=2, max_size=9), st.randoms(use_true_random=False))
def test_the_order_of_the_replicas_never_matters(held, rng):
    mixed = list(readings(*held))
    rng.shuffle(mixed)
    assert len(list(imbalanced(tuple(mixed), SAFE))) == len(list(imbalanced(readings(*held), SAFE)))
