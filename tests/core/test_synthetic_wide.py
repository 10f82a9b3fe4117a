"""Synthetic rows of wide tables: the claim, judged exactly, whichever way their second moments were
summed.
"""

from __future__ import annotations

import numpy as np
import pytest

import karat
from karat.problems import Moments
from tests.torture.wide import Table, judged


def tall(columns, seed=0):
    """Many rows for each column."""
    return np.random.default_rng(seed).standard_normal((64 * (columns + 2), columns))


def check(table, weights=None, way="memory"):
    verdict, said = judged(Table(table, weights, way, "wide"))
    assert verdict == "exact", said


def with_target(noise):
    X = tall(70)
    return np.column_stack(
        [X, X.sum(axis=1) + noise * np.random.default_rng(1).standard_normal(len(X))]
    )


@pytest.mark.parametrize("noise", [1.0, 1e-3, 1e-6, 1e-9])
def test_a_target_that_others_explain(noise):
    check(with_target(noise))


def test_a_target_that_others_explain_takes_one_pass():
    assert (
        karat.coreset(with_target(1.0), problem=Moments(2), rows="synthetic").certificate.passes
        == 1
    )


def test_what_a_sample_has_missed():
    """Two columns differ, and one has large values, in rows that hardly any sample has."""
    table = with_target(1.0)
    table[:, 3] = table[:, 4]
    table[7, 3] += 1.0
    table[11, 5] += 1e6
    check(table)


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_weights(shift):
    table = with_target(1.0) + shift
    check(table, np.random.default_rng(2).integers(1, 9, len(table)).astype(float))


def test_many_columns_with_copies_of_some():
    """The second pass sums the products with what copies differ by, and no others."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((900, 257))
    check(np.column_stack([X, X[:, :9] + 1e-7 * rng.standard_normal((900, 9))]))


@pytest.mark.parametrize("columns", [90, 260])
def test_levels_that_do_not_occur(columns):
    """All levels of several factors, some of which are zero in every row."""
    rng = np.random.default_rng(4)
    counts = np.full(10, columns // 10)
    codes = [rng.integers(0, count - 1, 3 * columns) for count in counts]
    check(np.hstack([np.eye(count)[code] for code, count in zip(codes, counts, strict=True)]))


@pytest.mark.parametrize("columns", [70, 150, 260])
def test_many_correlated_columns(columns):
    """One factor explains most of every column: none is left out, and none is replaced alone."""
    rng = np.random.default_rng(6)
    table = rng.standard_normal((4 * columns, columns)) + 3 * rng.standard_normal((4 * columns, 1))
    table += np.arange(columns)
    check(table)
    core = karat.coreset(table, problem=Moments(2), rows="synthetic")
    assert core.certificate.passes <= 3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("columns", [80, 250])
def test_a_target_beside_many_columns_that_explain_it(columns, seed):
    """The target is replaced by its rest, not one of the columns by what the target explains."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6000, columns))
    y = X @ rng.standard_normal(columns) + rng.standard_normal(6000)
    core = karat.coreset(X, y, rows="synthetic")
    assert core.certificate.ok
    assert core.certificate.passes == 1


@pytest.mark.parametrize("columns", [20, 260])
def test_sparse_columns_that_are_constant(columns):
    rng = np.random.default_rng(5)
    table = np.where(
        rng.random((3 * columns, columns)) < 0.1, rng.standard_normal((3 * columns, columns)), 0.0
    )
    table[:, 3], table[:, 7] = 5.1, -1e6
    check(table, way="sparse")


@pytest.mark.parametrize("seed", range(6))
def test_few_sparse_columns_in_other_units(seed):
    """What is summed over what is not zero is proven as it would be for dense columns, and verified
    so.
    """
    rng = np.random.default_rng(seed)
    table = np.where(
        rng.random((2000, 5)) < 0.1, rng.standard_normal((2000, 5)), 0.0
    ) * 10.0 ** rng.integers(-6, 7, 5)
    table[:, 4] = table[:, 3] * (1 + 1e-5 * rng.standard_normal(2000))
    check(table, way="sparse")
