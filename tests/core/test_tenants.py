"""Who is refused first: max-min shares of what is admitted."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.tenants import Tenants

asked = st.lists(st.integers(1, 200), min_size=1, max_size=30)


def tenants(counts, now: float = 100.0, most: int = 1000) -> Tenants:
    known = Tenants()
    for index, count in enumerate(counts):
        for _ in range(count):
            known = known.ask(f"t{index}", now, most)
    return known.ask("t0", now + 1.0, most)  # ranks all of them


def ratios(known: Tenants, count: int, ratio: float) -> list[float]:
    return [known.ratio(f"t{index}", ratio) for index in range(count)]


def test_a_tenant_below_its_share_is_not_cut_and_those_above_get_as_much_as_each_other():
    known = tenants([9, 10, 80, 100])  # one more of the first ranks them
    assert ratios(known, 4, 0.5) == pytest.approx([1.0, 1.0, 40 / 80, 40 / 100])


def test_the_only_tenant_has_the_share_of_its_class():
    assert ratios(tenants([49]), 1, 0.3) == pytest.approx([0.3])


def test_a_tenant_that_is_not_counted_has_the_share_of_its_class():
    known = tenants([5, 5, 5], most=2)
    assert (len(known.counts), known.ratio("t2", 0.3)) == (2, 0.3)


@given(asked, st.floats(0.0, 1.0))
def test_together_they_are_admitted_as_much_as_without_tenants(counts, ratio):
    known = tenants(counts)
    counts[0] += 1
    got = sum(share * count for share, count in zip(ratios(known, len(counts), ratio), counts, strict=True))
    assert got == pytest.approx(ratio * sum(counts))


@given(asked, st.floats(0.0, 1.0))
def test_who_asks_for_more_is_never_admitted_a_larger_share(counts, ratio):
    known = tenants(counts)
    counts[0] += 1
    ranked = [share for _, share in sorted(zip(counts, ratios(known, len(counts), ratio), strict=True))]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(ranked))


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(0.0, 20.0)), max_size=200))
def test_never_more_tenants_are_kept_than_may_be_and_none_longer_than_a_minute(asks):
    known, now, last = Tenants(), 0.0, {}
    for tenant, later in asks:
        now += later
        known = known.ask(f"t{tenant}", now, 20)
        last[f"t{tenant}"] = now
        assert len(known.counts) <= 20
        assert all(now - last[name] <= 60.0 for name in known.counts)
        assert known.total == sum(map(sum, known.counts.values()))
