"""Sums that are made where rows live, against sums of whole numbers, within the bounds of the
engine.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from device_libraries import LIBRARIES, maker

from karat.engine import device
from karat.engine.device import DevicePart
from karat.engine.rows import Rows
from karat.engine.sums import squares_rounding


@pytest.fixture(params=LIBRARIES)
def make(request, monkeypatch):
    return maker(request.param, monkeypatch)


def exact_products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``left' right`` of doubles as fractions."""
    unit = 2.0**80
    assert all((table * unit == np.rint(table * unit)).all() for table in (left, right))
    whole = [np.frompyfunc(int, 1, 1)(table * unit) for table in (left, right)]
    return np.frompyfunc(lambda v: Fraction(v, 2**160), 1, 1)(whole[0].T @ whole[1])


def worst_error(found: np.ndarray, table: np.ndarray, some: int) -> float:
    """The largest error of the first rows of a Gram matrix, per roots of its diagonal."""
    exact = exact_products(table[:, :some], table)
    size = np.sqrt(np.square(table).sum(axis=0))
    errors = [
        abs(float(Fraction(found[i, j]) - exact[i, j])) / (size[i] * size[j])
        for i in range(some)
        for j in range(table.shape[1])
    ]
    return max(errors)


# rounding of equal products does not cancel: they are the worst of a sum
@pytest.mark.parametrize(
    ("rows", "columns", "block"), [(20_011, 3, 2**25), (20_011, 3, 2**13), (31, 4, 2**25)]
)
@pytest.mark.parametrize("kind", ["equal", "normal", "two sizes"])
def test_sums_of_few_columns_are_within_the_bound(make, monkeypatch, rows, columns, block, kind):
    monkeypatch.setattr(device, "NUMBERS", block)
    table = tables(kind, rows, columns)
    found = device.squares(Rows([DevicePart(make(table))]), np.zeros(columns), affine=False)
    assert worst_error(found, table, 2) <= squares_rounding(rows, columns, 1)


@pytest.mark.parametrize(("rows", "block"), [(4500, 2**17), (100, 2**25)])
@pytest.mark.parametrize("kind", ["equal", "normal", "two sizes"])
def test_sums_of_many_columns_are_within_the_sharper_bound(make, monkeypatch, rows, block, kind):
    monkeypatch.setattr(device, "NUMBERS", block)
    table = tables(kind, rows, 70)
    found = device.squares(Rows([DevicePart(make(table))]), np.zeros(70), affine=False)
    assert worst_error(found, table, 2) <= squares_rounding(rows, 70, 1, exact=True)


def tables(kind: str, rows: int, columns: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    if kind == "equal":
        return np.full((rows, columns), 0.1) + np.arange(columns)
    table = np.round(rng.standard_normal((rows, columns)) * 2.0**50) / 2.0**50
    if kind == "two sizes":
        table[:: max(1, rows // 7)] *= 2.0**20
    return table


def test_grid_has_room_for_sums_of_products():
    assert (2**device.BITS + device.PIECE**0.5 / 2) ** 2 <= 2**53
    assert 2 * device.PIECE**1.5 * 2.0**-device.BITS <= 1 / 362


def test_powers_of_two_below():
    rng = np.random.default_rng(5)
    exponents = np.arange(-1000, 960)
    values = np.ldexp(1 + rng.random(len(exponents)), exponents)
    values = np.concatenate([values, np.ldexp(1.0, exponents), np.ldexp(2 - 2.0**-52, exponents)])
    expected = np.ldexp(1.0, np.frexp(values)[1] - 1)
    np.testing.assert_array_equal(device.power_below(np, values), expected)


def test_weights_subsets_shift_and_maps(make):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((5000, 4)) + 3, rng.standard_normal((5000, 1))
    weights, index = rng.random(5000), rng.permutation(5000)[:3000]
    rows = Rows([DevicePart(make(X)), DevicePart(make(y))], weights, index)
    shift, map_ = rng.standard_normal(5), rng.standard_normal((6, 6))
    table = np.column_stack([np.ones(5000), np.column_stack([X, y]) - shift])[index]
    whole = table @ map_
    expected = whole.T @ (whole * weights[index, None])
    np.testing.assert_allclose(device.squares(rows, shift, True, (map_,)), expected, rtol=1e-11)
    partly = table.copy()
    partly[:, [2, 4]] = whole[:, [2, 4]]
    expected = partly.T @ (partly * weights[index, None])
    found = device.squares(rows, shift, True, (map_,), np.array([2, 4]))
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_single_precision_is_widened_before_it_is_summed(make):
    X = np.random.default_rng(2).standard_normal((4000, 3)).astype(np.float32)
    found = device.squares(Rows([DevicePart(make(X))]), np.zeros(3), affine=False)
    assert worst_error(found, X.astype(float), 3) <= squares_rounding(4000, 3, 1)


def test_largest_values_and_rows_beyond_a_limit(make, monkeypatch):
    monkeypatch.setattr(device, "NUMBERS", 1)  # many blocks
    X = np.random.default_rng(3).standard_normal((7000, 3))
    X[[5, 6999]] *= 1e4
    rows, middle = Rows([DevicePart(make(X))]), np.array([0.5, 0.0, -1.0])
    np.testing.assert_array_equal(device.column_sizes(rows, middle), np.abs(X - middle).max(axis=0))
    found = device.rows_beyond(rows, middle, np.array([100.0, np.inf, 100.0]))
    assert found.tolist() == [5, 6999]


def test_blocks_are_read_by_slices_positions_and_flags(make):
    X = np.random.default_rng(4).standard_normal((50, 3))
    part = DevicePart(make(X))
    np.testing.assert_array_equal(part[3:9], X[3:9])
    np.testing.assert_array_equal(part[np.array([7, 7, 0])], X[[7, 7, 0]])
    np.testing.assert_array_equal(part[np.arange(50)[::-1]], X[::-1])
    np.testing.assert_array_equal(part[X[:, 0] > 0], X[X[:, 0] > 0])
    np.testing.assert_array_equal(part.run(slice(10, 20))[:], X[10:20])
    np.testing.assert_array_equal(np.asarray(part), X)
