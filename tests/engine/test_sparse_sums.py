"""Second moments of sparse rows are off by one rounding, whatever the numbers are."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from scipy import sparse

from karat.engine.rows import Rows
from karat.engine.sparse_sums import sparse_squares

UNIT = 2.0**-53  # a rounding


def error(table, dense, weights=None):
    """The largest error of a second moment, in roundings of the product of both sizes."""
    columns = table.shape[1] + dense.shape[1]
    gram = sparse_squares(
        Rows([table, dense], weights), np.zeros(columns), np.eye(columns + 1), np.arange(0), None
    )
    values = np.column_stack([np.ones(len(dense)), table.toarray(), dense])
    if weights is not None:
        values = values * np.sqrt(weights)[:, None]
    worst = 0.0
    for i in range(columns + 1):
        for j in range(i, columns + 1):
            pairs, counts = np.unique(values[:, [i, j]], axis=0, return_counts=True)
            exact = sum(
                (int(k) * Fraction(a) * Fraction(b))
                for (a, b), k in zip(pairs.tolist(), counts.tolist(), strict=True)
            )
            off = abs(float(Fraction(float(gram[i, j])) - exact))
            worst = max(worst, off / sqrt(gram[i, i] * gram[j, j]) / UNIT)
    return worst


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["cauchy", "lognormal", "uniform", "indicators"])
@pytest.mark.parametrize("weighted", [False, True])
def test_of_random_numbers(kind, weighted):
    rng = np.random.default_rng(5)
    table = sparse.csr_array((rng.random((4_000, 3)) < 0.4) * 1.0)
    count = len(table.data)
    table.data = {
        "cauchy": lambda: rng.standard_cauchy(count),
        "lognormal": lambda: rng.lognormal(0, 3, count),
        "uniform": lambda: rng.random(count) + 0.1,
        "indicators": lambda: np.ones(count),
    }[kind]()
    dense = np.column_stack([rng.standard_cauchy(4_000), rng.standard_normal(4_000)])
    assert error(table, dense, rng.random(4_000) if weighted else None) < 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("spike", [1.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("value", [1.0, 0.7])
def test_of_equal_numbers_beside_a_large_one(spike, value):
    """Equal terms are rounded alike, so that errors of a sum in a row would add up."""
    count = 2**18
    table = sparse.csr_array(np.full((count, 1), value))
    dense = np.full((count, 1), 0.1)
    dense[0] = spike
    assert error(table, dense) < 2
