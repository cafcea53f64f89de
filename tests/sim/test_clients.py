"""What client libraries were seen to do when they are refused, by value.

Each was run against a server on loopback that refuses everything, with the waits between its attempts taken down.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.retry import Retry, spread_out
from scaler.sim.clients import ANTHROPIC, OLD, OPENAI, SDKS, Refusal, Sdk, refusal, retry_s

FAR_DATE_S = 4_294_967.0
Waits = list[tuple[float, float]]
OWN_PACE: Waits = [(0.375, 0.5), (0.75, 1.0)]
"""Seen as 0.4 and 0.85 s: half a second, then one, each less up to a quarter."""
GIVES_UP: Waits = []


def waits(sdk: Sdk, refused: Refusal) -> Waits:
    """The shortest and the longest wait before each further attempt, until it gives up."""
    found: Waits = []
    while (longest := retry_s(sdk, refused, len(found), 0.0)) is not None:
        shortest = retry_s(sdk, refused, len(found), 1.0)
        assert shortest is not None
        found.append((shortest, longest))
    return found


def exactly(seconds: float) -> Waits:
    return [(seconds, seconds)] * 2


SEEN = [
    pytest.param(Refusal(429), OWN_PACE, OWN_PACE, OWN_PACE, id="no-header"),
    pytest.param(Refusal(503), OWN_PACE, OWN_PACE, OWN_PACE, id="503-without-a-header"),
    pytest.param(Refusal(429, 0.0), OWN_PACE, OWN_PACE, OWN_PACE, id="0-is-as-if-absent"),
    *(
        pytest.param(Refusal(429, after), exactly(after), exactly(after), exactly(after), id=f"{after:g}-is-kept")
        for after in (7.0, 7.5, 59.0, 60.0)
    ),
    pytest.param(Refusal(429, 61.0), OWN_PACE, exactly(61.0), exactly(61.0), id="61-is-too-long-for-the-old-ones"),
    pytest.param(Refusal(429, 120.0), OWN_PACE, exactly(120.0), exactly(120.0), id="120"),
    pytest.param(Refusal(429, 121.0), OWN_PACE, GIVES_UP, exactly(121.0), id="121-ends-it-for-one"),
    pytest.param(Refusal(429, 3600.0), OWN_PACE, GIVES_UP, exactly(3600.0), id="an-hour"),
    pytest.param(Refusal(429, FAR_DATE_S), OWN_PACE, GIVES_UP, exactly(FAR_DATE_S), id="a-date-far-away"),
    pytest.param(Refusal(429, 7.0, 2500.0), exactly(2.5), exactly(2.5), exactly(2.5), id="milliseconds-come-first"),
    pytest.param(Refusal(429, 7.0, should_retry=False), GIVES_UP, GIVES_UP, GIVES_UP, id="they-do-as-they-are-told"),
    pytest.param(Refusal(503, should_retry=False), GIVES_UP, GIVES_UP, GIVES_UP, id="with-a-503-too"),
    pytest.param(Refusal(403, 7.0), GIVES_UP, GIVES_UP, GIVES_UP, id="403-is-final"),
    pytest.param(Refusal(403, should_retry=True), OWN_PACE, OWN_PACE, OWN_PACE, id="unless-they-are-told"),
]


@pytest.mark.parametrize(("refused", "old", "openai", "anthropic"), SEEN)
def test_a_refused_client_comes_back_as_its_library_was_seen_to(refused, old, openai, anthropic):
    assert [waits(sdk, refused) for sdk in (OLD, OPENAI, ANTHROPIC)] == [old, openai, anthropic]


@given(
    st.floats(0.0, 1e9) | st.just(math.inf),
    st.floats(0.0, 1e6),
    st.floats(0.0, 1.0),
    st.booleans(),
    st.sampled_from(SDKS),
)
def test_what_we_tell_is_kept_to_the_millisecond_by_every_library_or_ends_it(after_s, spread_s, draw, patient, sdk):
    """Never longer than they like, so nobody comes back at once instead."""
    told = spread_out(after_s, spread_s, draw, patient=patient)
    waited = retry_s(sdk, refusal(429, told), 0, draw)
    assert waited == (None if told.futile else told.ms / 1000)


def test_what_is_seen_of_our_refusals_are_the_headers_that_we_send():
    assert (refusal(429, Retry(3, 2500, futile=False)), refusal(503, Retry(60, 60_000, futile=True))) == (
        Refusal(429, 3.0, 2500.0, None),
        Refusal(503, 60.0, 60_000.0, False),
    )
