"""Numbers for people say what the number is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.core.wording import PAGE, SUPERSCRIPTS, TERMINAL, grouped_digits, number, typeset

BACK = {value: chr(key) for key, value in SUPERSCRIPTS.items()}


def read(text: str) -> float:
    """The number that a reader sees."""
    text = text.replace("\u202f", "").replace("\u2212", "-")
    if " × 10" in text:
        digits, _, power = text.partition(" × 10")
        return float(digits) * 10.0 ** int("".join(BACK[ord(letter)] for letter in power))
    return float(text)


@given(
    st.floats(min_value=-1e300, max_value=1e300).filter(lambda x: x == 0 or abs(x) > 1e-300),
    st.integers(2, 12),
)
def test_to_the_digits_asked_for(value, digits):
    assert read(number(value, digits)) == pytest.approx(
        value, rel=0.51 * 10 ** (1 - digits) + 1e-12, abs=0
    )


@given(st.integers(-(10**15), 10**15))
def test_counts_are_exact(value):
    assert int(read(grouped_digits(value))) == value


def test_as_one_writes_them():
    assert grouped_digits(1_000_000) == "1\u202f000\u202f000"
    assert PAGE.error(3.0e-15) == "3 × 10⁻¹⁵"
    assert number(-0.25) == "\u22120.25"
    assert number(1234567.0, 10) == "1\u202f234\u202f567"
    for digits in (3, 6, 8):  # how a number is written does not depend on the digits asked for
        assert number(2_181_234.0, digits) == "2\u202f181\u202f234"
        assert "×" not in number(2_181_234.5, digits)
        assert "×" in number(21_812_345.5, digits)
    assert number(2e8, 4, longest=6) == "2 × 10⁸"
    assert number(999.9999, 3) == "1\u202f000"
    assert number(0.0) == "0"
    assert number(np.nan) == "–"
    assert number(-np.inf) == "\u2212∞"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2e-5, "0.02 ms"),
        (0.1804, "180 ms"),
        (3.2, "3.2 s"),
        (150, "2 min 30 s"),
        (7500, "2 h 5 min"),
    ],
)
def test_times_in_their_unit(seconds, text):
    assert PAGE.duration(seconds) == TERMINAL.duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1,234,567 rows", "1\u202f234\u202f567 rows"),
        ("off by 1.5e-13, at most 2e-10.", "off by 1.5 × 10⁻¹³, at most 2 × 10⁻¹⁰."),
        ("row 123,456 (a,123.csv row 7)", "row 123\u202f456 (a,123.csv row 7)"),
        ("x1,234 and 12,34 and 1,2345", "x1,234 and 12,34 and 1,2345"),
        ("a 7e3b and v1.5e-3", "a 7e3b and v1.5e-3"),
    ],
)
def test_numbers_in_a_text(text, shown):
    assert typeset(text) == shown
