"""Rows by their labels: sorted once, like ``np.unique`` and a comparison per label."""

from __future__ import annotations

import datetime
import sys

import numpy as np
import pytest

from karat.data.labels import (
    check_groups,
    comparable,
    encode,
    encode_sorted,
    group_rows,
    sorted_codes,
)
from karat.errors import InputError

RNG = np.random.default_rng(0)
LABELS = {
    "folds": RNG.integers(0, 5, 300),
    "negative": RNG.integers(-40, 40, 300),
    "far apart": RNG.integers(-(2**62), 2**62, 40)[RNG.integers(0, 40, 300)],
    "unsigned": np.array([0, 2**64 - 1, 2**63], dtype=np.uint64)[RNG.integers(0, 3, 300)],
    "more than 16 bits": RNG.permutation(np.arange(90_000)),
    "small type": RNG.integers(-128, 128, 300).astype(np.int8),
    "text": np.array(["b", "a", "ä", "", "zz"])[RNG.integers(0, 5, 300)],
    "bytes": np.array([b"b", b"a"])[RNG.integers(0, 2, 300)],
    "objects": np.array(["b", "a", "cc"], dtype=object)[RNG.integers(0, 3, 300)],
    "dates": np.array(["2026-01-02", "2025-01-01"], dtype="datetime64[D]")[RNG.integers(0, 2, 300)],
    "date objects": np.array([datetime.date(2026, 1, 2), datetime.date(2025, 1, 1)], dtype=object)[
        RNG.integers(0, 2, 300)
    ],
    "floats": RNG.integers(0, 9, 300) / 7,
    "flags": RNG.integers(0, 2, 300) > 0,
    "one": np.full(20, 7),
    "single row": np.array(["x"]),
    "sorted": np.sort(RNG.integers(0, 30, 300)),
    "runs": np.repeat([3, 1, 2, 1, 3], 20),
}


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("some_zero", [False, True])
def test_groups_are_those_of_a_comparison_per_label(name, some_zero):
    labels = LABELS[name]
    weights = None
    if some_zero and len(labels) == 300:
        weights = np.where(RNG.random(len(labels)) < 0.2, 0.0, 2.0)
        weights[np.unique(labels, return_index=True)[1]] = 1.0
    found = group_rows(labels, weights)
    distinct = np.unique(labels)
    assert list(found.labels) == list(distinct)
    assert [type(label) for label in found.labels] == [type(label) for label in distinct]
    assert found.starts[-1] == (len(labels) if weights is None else np.count_nonzero(weights))
    for place, label in list(enumerate(distinct))[:50]:
        inside = labels == label if weights is None else (labels == label) & (weights > 0)
        assert np.array_equal(found.rows(label), np.flatnonzero(inside))
        assert found.starts[place + 1] - found.starts[place] == inside.sum()
    if name in ("sorted", "one", "single row") and weights is None:
        assert found.order is None


def test_a_label_that_is_not_there_has_no_rows():
    assert not len(group_rows(np.array([1, 2, 2])).rows(3))


class Odd:
    """A label with an order and without a hash."""

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other):
        return False


def test_labels_without_a_hash_are_refused():
    labels = np.array([Odd(), Odd(), Odd()], dtype=object)
    with pytest.raises(InputError, match="no hash"):
        check_groups(labels, 3)


MIXED = {
    "text": np.array(["b", "a", "b", "ä", ""]),
    "objects": np.array(["b", "a", "b", None, np.nan, None, float("nan"), 1], dtype=object),
    "text objects": np.array(["b", "a\0", "a", "b"], dtype=object),
    "zeros": np.array([0.0, -0.0, np.nan, 2.0, np.nan]),
    "dates": np.array(["2026-01-02", "NaT", "2025-01-01", "NaT"], dtype="datetime64[D]"),
    "nanoseconds": np.array(["2026-01-02", "2025-01-01", "2026-01-02"], dtype="datetime64[ns]"),
    "years": np.array(["2026", "2025", "2026"], dtype="datetime64[Y]"),
    "half": np.array([2.0, 1.0, 2.0], dtype=np.float16),
    "flags": np.array([True, False, True]),
    "bytes": np.array([b"b", b"a", b"b"]),
    "large": np.array([2**63, -1, 2**63], dtype=object),
    "none": np.array([], dtype=float),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("arrow", [True, False])
def test_codes_with_and_without_arrow(name, arrow, monkeypatch):
    if not arrow:
        monkeypatch.delitem(sys.modules, "pyarrow", raising=False)
    values = MIXED[name]
    keys = [comparable(value) for value in values.tolist()]
    expected = list(dict.fromkeys(keys))
    distinct, codes = encode(values)
    assert [comparable(value) for value in distinct.tolist()] == expected
    assert codes.tolist() == [expected.index(key) for key in keys]
    assert distinct.dtype == values.dtype
    if name not in {"objects", "large"}:
        labels, places = encode_sorted(values)
        assert (
            np.array_equal(labels, np.unique(values), equal_nan=values.dtype.kind == "f")
            or name == "dates"
        )
        assert [comparable(value) for value in labels[places].tolist()] == keys


def test_groups_without_weight_and_without_order_are_refused():
    with pytest.raises(InputError, match=r"^Group 2 has no row of positive weight"):
        group_rows(np.array([1, 2, 2, 3]), np.array([1.0, 0.0, 0.0, 1.0]))
    with pytest.raises(InputError, match="cannot be ordered"):
        group_rows(np.array([1, "a", 2], dtype=object))


@pytest.mark.parametrize("count", [1, 2, 65536, 65537, 2**33])
def test_codes_are_sorted_as_a_stable_sort_does(count):
    codes = RNG.integers(0, count, 5000)
    assert np.array_equal(sorted_codes(codes, count), np.argsort(codes, kind="stable"))
