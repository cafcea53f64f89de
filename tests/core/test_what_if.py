"""What would be published if one thing were different."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.explain import recompute
from scaler.core.what_if import WhatIf, again, what_ifs, with_headroom
from tests.support.golden import GOLDEN, UNTOUCHED

SAFE = 100.0
SEEN = replace(UNTOUCHED, recommended=8, window_max=8, window_min=8, published=8)


def test_each_thing_that_can_be_turned_has_its_number():
    assert what_ifs(GOLDEN, SEEN, SAFE) == (
        WhatIf("headroom 0.1 instead of 0.2", 7, 7),
        WhatIf("headroom 0.3 instead of 0.2", 9, 9),
        WhatIf("without backlog", 5, 5),
        WhatIf("the next replica ready in half the time", 7, 7),
        WhatIf("one ready replica more now", 6, 6),
    )


def test_nothing_different_gives_the_published_number():
    assert again(GOLDEN, SEEN, "as it was").desired == recompute(GOLDEN, SEEN)


def test_what_the_window_holds_of_before_stays_and_the_load_alone_is_told_beside_it():
    assert again(GOLDEN, replace(SEEN, window_max=12, published=12), "", queue=0.0, arrival_per_s=16.0) == WhatIf(
        "", 12, 5
    )


def test_other_bounds_bind_both():
    assert again(GOLDEN, SEEN, "", max_replicas=6) == WhatIf("", 6, 6)


def test_while_blind_nothing_would_change_anything():
    assert what_ifs(GOLDEN, replace(SEEN, blind=True), SAFE) == ()


@pytest.mark.parametrize(("headroom", "target"), [(0.0, 100.0), (0.2, 80.0), (0.5, 50.0)])
def test_the_target_follows_the_headroom(headroom, target):
    assert with_headroom(80.0, SAFE, headroom) == pytest.approx(target)


@given(st.floats(0.0, 0.9), st.floats(0.0, 0.9))
def test_more_headroom_never_asks_for_fewer(one, other):
    less, more = sorted((one, other))
    at = [again(GOLDEN, SEEN, "", target=with_headroom(80.0, SAFE, h)).desired for h in (less, more)]
    assert at[0] <= at[1]
