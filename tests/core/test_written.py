import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.written import number


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12.0), ("-0.5", -0.5), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("1E-3", 0.001), ("+Inf", math.inf), ("-inf", -math.inf)],
)  # fmt: skip
def test_a_number_is_read_as_prometheus_writes_it(text, value):
    assert number(text) == value


@pytest.mark.parametrize(
    "text", ["1_000", "\uff11\uff12", "\u0663", " 5", "5 ", "5\x0b", "5\n", "", ".", "e5", "0x10", "1e", "--1", "1,5", "1e999999", "1" * 65]
)  # fmt: skip
def test_what_python_alone_takes_for_a_number_is_none(text):
    assert number(text) is None


def test_no_number_at_all_has_a_spelling():
    assert math.isnan(number("NaN") or 0.0)


@given(st.text(max_size=80))
def test_whatever_is_written_is_a_number_in_ascii_or_none(text):
    assert number(text) is None or text.isascii()
    assert number(text) is None or "_" not in text
