"""Sums over rows against rational arithmetic: what is derived must hold, for terms that rounding
treats badly.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from karat.engine.polynomial import Polynomials
from karat.engine.rows import Rows, pass_over
from karat.engine.second_moments import SecondMoments
from karat.engine.small_kernels import FunctionKernel
from karat.engine.sums import (
    BLOCK,
    LARGE,
    SHORT,
    TOGETHER,
    RunningSum,
    add_upper_squares,
    exact_sum,
    exact_sum_rounding,
    sum_of_products,
    sum_rounding,
    summed_product,
)

U = Fraction(1, 2**53)


def hostile(rng: np.random.Generator, count: int) -> np.ndarray:
    """Values whose sums round in one direction, cancel, or have any size."""
    kind = rng.integers(5)
    if kind == 0:
        return np.full(count, rng.choice([0.1, 1 / 3, 0.7]))
    if kind == 1:
        return 1.0 + rng.integers(0, 2, count) * 2.0**-52  # odd last bits
    if kind == 2:
        return 10.0 ** rng.uniform(-12, 12, count) * rng.choice([-1, 1], count)
    if kind == 3:
        return np.where(np.arange(count) % 2, 1e16, -1e16) + rng.standard_normal(count)
    return rng.standard_normal(count)


def exact(values, weights) -> tuple[Fraction, Fraction]:
    terms = [Fraction(float(w)) * v for v, w in zip(values, weights, strict=True)]
    return sum(terms, Fraction(0)), sum(map(abs, terms), Fraction(0))


@pytest.mark.parametrize("seed", range(40))
def test_an_exact_sum_is_rounded_once(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 700))
    values, weights = hostile(rng, count), rng.uniform(0.5, 2, count)
    total, size = exact([Fraction(float(v)) for v in values], weights)
    rounded = exact_sum(values[:, None], weights)
    assert abs(Fraction(float(rounded[0])) - total) <= Fraction(exact_sum_rounding(1)) * size


@pytest.mark.parametrize("seed", range(30))
def test_the_sums_of_a_pass_are_within_their_bound(seed):
    rng = np.random.default_rng([1, seed])
    count, degree = int(10.0 ** rng.uniform(0, 3.8)), int(rng.integers(1, 6))
    X = np.column_stack([hostile(rng, count), hostile(rng, count)])
    weights = rng.uniform(0.5, 2, count) if seed % 2 else None
    kernel = Polynomials(2, degree, affine=True).prepare(
        np.column_stack([np.ones(count), X]), weights
    )
    fitted = kernel.fitted_moments(pass_over(Rows([X], weights), kernel), float(count), last=True)
    moved = [
        [Fraction(float(a)) - Fraction(float(s)) for a in column]
        for column, s in zip(X.T, kernel.shift, strict=True)
    ]
    scaled = [
        [Fraction(1)] * count,
        *(
            [a * Fraction(float(k)) for a in c]
            for c, k in zip(moved, kernel.scale[1:], strict=True)
        ),
    ]
    bound = Fraction(sum_rounding(count, kernel.roundings))
    for t in rng.choice(kernel.width, min(kernel.width, 4), replace=False):
        values = [Fraction(1)] * count
        for variable in kernel.sets[t]:
            values = [a * b for a, b in zip(values, scaled[variable], strict=True)]
        total, size = exact(values, np.ones(count) if weights is None else weights)
        root = Fraction(float(kernel.root[t]))
        assert abs(Fraction(float(fitted.target[t])) - root * total) <= bound * root * size


@pytest.mark.parametrize("seed", range(10))
def test_sums_of_a_users_features_are_within_their_bound(seed):
    rng = np.random.default_rng([2, seed])
    count = int(10.0 ** rng.uniform(0, 4.3))
    X = np.column_stack([hostile(rng, count), hostile(rng, count)])
    kernel = FunctionKernel(lambda A: A, 2, 0, True).prepare(
        np.column_stack([np.ones(count), X]), None
    )
    target, _ = pass_over(Rows([X]), kernel)
    for t in range(2):
        total, size = exact([Fraction(float(v)) for v in X[:, t]], np.ones(count))
        assert (
            abs(Fraction(float(target[t])) - total)
            <= Fraction(sum_rounding(count, kernel.roundings)) * size
        )


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 63, 64, 65, 127, 1000])
def test_a_product_in_pieces_is_the_product(count):
    rng = np.random.default_rng(count)
    left, right = (
        rng.integers(-9, 9, (count, 3)).astype(float),
        rng.integers(-9, 9, (count, 2)).astype(float),
    )
    assert np.array_equal(summed_product(left, right, SHORT), left.T @ right)


@pytest.mark.parametrize("blocks", [1, 3, TOGETHER, TOGETHER + 1, 3 * TOGETHER + 2])
def test_a_running_sum_of_squares_uses_memory_again_and_no_number(blocks):
    rng, sums = np.random.default_rng(blocks), RunningSum()
    rows = rng.integers(-9, 9, (blocks * BLOCK, 20))  # sums of products are exact
    for start in range(0, len(rows), BLOCK):
        add_upper_squares(sums, rows[start : start + BLOCK].astype(float), None)
    (total,) = sums.total
    assert np.array_equal(np.triu(total), np.triu(rows.T @ rows))
    assert len(sums.spare) <= 2


@pytest.mark.parametrize("weighted", [False, True])
def test_a_pass_over_many_columns_sums_the_squares_of_all_rows(weighted):
    rng, columns = np.random.default_rng(1), int(np.sqrt(LARGE)) + 8
    values = rng.integers(-9, 9, (BLOCK * (TOGETHER + 1) + 7, columns))
    weights = 4 ** rng.integers(0, 3, len(values)) if weighted else np.ones(len(values), dtype=int)
    rows = Rows([values.astype(float)], weights.astype(float) if weighted else None)
    kernel = SecondMoments.of(rows)
    (total,) = pass_over(rows, kernel)
    block = np.column_stack([np.ones(len(values), dtype=int), values])
    assert np.array_equal(np.triu(total), np.triu(block.T @ (weights[:, None] * block)))


@pytest.mark.parametrize("seed", range(20))
def test_products_may_be_beyond_all_doubles(seed):
    rng = np.random.default_rng(seed)
    factors = [10.0 ** rng.uniform(-200, 200, 9) * rng.standard_normal(9) for _ in range(4)]
    last = -sum(np.frexp(f)[1] for f in factors) // 2  # so that all of them together are about 1
    factors += [np.ldexp(rng.standard_normal(9), last), np.ldexp(1.0, last)]
    exactly = [np.prod([Fraction(float(v)) for v in term]) for term in zip(*factors, strict=True)]
    error = abs(Fraction(sum_of_products(*factors)) - sum(exactly))
    assert error <= 16 * U * sum(map(abs, exactly))
    assert sum_of_products(0.0, factors[0]) == 0.0
