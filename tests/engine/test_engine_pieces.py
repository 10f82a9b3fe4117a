"""The engine's parts on their own: elimination, null vectors, Newton's method, the tree, polish,
monomials.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from karat.engine import linalg
from karat.engine.exhaustive import reduce_by_tree, reduce_sequentially
from karat.engine.kernel import Monomials, fit_moments
from karat.engine.points import candidate_points
from karat.engine.powers import Powers
from karat.engine.rows import Rows
from karat.engine.weights import eliminate, group_bounds, match_moments, polish, reduce_points

integer_points = hnp.arrays(
    np.int64, st.tuples(st.integers(1, 60), st.integers(1, 7)), elements=st.integers(-3, 3)
)  # many ties, zero rows, repeated and dependent rows


def check_reduced(points, weights, reduced, most):
    size = weights @ np.abs(points)
    assert (reduced >= 0).all()
    assert (reduced[weights == 0] == 0).all()
    assert np.count_nonzero(reduced) <= most
    assert (np.abs(reduced @ points - weights @ points) <= 1e-11 * np.maximum(size, 1)).all()


@settings(max_examples=300, deadline=None, derandomize=True)
@given(points=integer_points, seed=st.integers(0, 5))
def test_reduce_points_on_degenerate_integers(points, seed):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 4, len(points)).astype(float)
    points = points.astype(float)
    reduced = reduce_points(points, weights)
    check_reduced(points, weights, reduced, points.shape[1])


@pytest.mark.parametrize(
    ("count", "width"),
    [(3, 2), (50, 5), (400, 5), (1000, 40), (97, 96), (3000, 7), (130, 60), (61, 20)],
)
@pytest.mark.parametrize("kind", ["gauss", "positive", "low_rank", "copies"])
def test_reduce_points_sizes(kind, count, width):
    rng = np.random.default_rng(count)
    points = rng.standard_normal((count, width))
    if kind == "positive":
        points = np.abs(points) ** 3
    elif kind == "low_rank":
        points = points[:, : (width + 1) // 2] @ rng.standard_normal(((width + 1) // 2, width))
    elif kind == "copies":
        points = points[rng.integers(0, max(1, count // 10), count)]
    weights = rng.random(count)
    original = points.copy()
    reduced = reduce_points(points, weights)
    assert np.array_equal(points, original), "the points of the caller were overwritten"
    assert (reduced >= 0).all()
    assert np.count_nonzero(reduced) <= width
    assert (
        np.abs(reduced @ points - weights @ points).max() <= 1e-9 * (weights @ np.abs(points)).max()
    )


def test_reduce_points_keeps_what_is_small_enough():
    points = np.random.default_rng(0).standard_normal((4, 9))
    assert np.array_equal(reduce_points(points, np.arange(1.0, 5.0)), np.arange(1.0, 5.0))


def test_reduce_points_without_any_weight():
    assert not reduce_points(np.ones((5, 2)), np.zeros(5)).any()


@pytest.mark.parametrize("rank", [1, 3, 5])
@pytest.mark.parametrize("count", [6, 11, 40])
def test_null_table_holds_for_any_rank(rank, count):
    rng = np.random.default_rng(rank)
    points = rng.standard_normal((count, rank)) @ rng.standard_normal((rank, 5))
    order, table = linalg.null_table(np.array(points, order="C"))
    assert sorted(order) == list(range(count))
    assert (
        np.abs(table @ points[order[:5]] - points[order[5:]]).max() <= 1e-10 * np.abs(points).max()
    )
    assert np.abs(table).max() <= 1e3, "partial pivoting keeps the table small"


def test_eliminate_single_null_vector():
    factors = eliminate(np.asfortranarray([[0.0, 0.2], [0.5, 0.5], [0.6, 0.3]]))
    assert (factors >= 0).all()
    assert np.count_nonzero(factors) == 2
    assert np.allclose(factors @ [[0.0, 0.2], [0.5, 0.5], [0.6, 0.3]], [1.1, 1.0], atol=1e-15)


@given(count=st.integers(1, 500), groups=st.integers(1, 600))
def test_group_bounds_cover_every_row_once(count, groups):
    bounds = group_bounds(count, groups)
    assert bounds[0] == 0
    assert bounds[-1] == count
    assert (np.diff(bounds) > 0).all()
    assert len(bounds) - 1 == min(count, groups)
    assert np.diff(bounds).max() - np.diff(bounds).min() <= 1


def fitted_rows(X, degree=2, weights=None):
    rows = Rows([X], weights)
    kernel = Powers(X.shape[1], degree, affine=True)
    return rows, fit_moments(rows, kernel, np.arange(min(len(rows), 16384)))[0]


def test_newton_notices_that_no_weights_exist():
    """Candidates on one side only cannot have the mean of all."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 2))
    rows, fitted = fitted_rows(X, 1)
    right = np.flatnonzero(X[:, 0] > 0.5)[:40]
    assert (
        match_moments(candidate_points(rows, fitted, right, np.ones(len(right))).resolve()) is None
    )
    both = np.arange(40)
    assert match_moments(candidate_points(rows, fitted, both, np.ones(40)).resolve()) is not None


def test_newton_meets_the_moments_of_all_rows():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((5000, 3))
    rows, fitted = fitted_rows(X, 2)
    chosen = np.arange(0, 5000, 60)
    candidates = candidate_points(
        rows, fitted, chosen, np.full(len(chosen), 5000 / len(chosen))
    ).resolve()
    factors = match_moments(candidates)
    assert factors is not None
    assert (factors >= 0).all()
    table = np.column_stack([np.ones(5000), X])
    weights = (candidates.root**2 * factors)[:, None]
    assert (
        np.abs((weights * table[chosen]).T @ table[chosen] - table.T @ table).max() <= 1e-10 * 5000
    )


@pytest.mark.parametrize("reducer", [reduce_by_tree, reduce_sequentially])
@pytest.mark.parametrize("count", [1, 5, 6, 7, 13, 14, 15, 23, 100, 1001])
def test_tree_and_sequence_end_at_few_rows(reducer, count):
    """Around every size at which a level of groups begins or ends."""
    X = np.random.default_rng(count).standard_normal((count, 2))
    weights = np.linspace(0.1, 3.0, count)
    rows, fitted = fitted_rows(X, 2, weights)
    positions, kept = reducer(rows, fitted)
    assert len(np.unique(positions)) == len(positions) == len(kept)
    assert len(positions) <= 2 * fitted.kernel.width + 2
    table = np.column_stack([np.ones(count), X])
    full, core = (
        (weights[:, None] * table).T @ table,
        (kept[:, None] * table[positions]).T @ table[positions],
    )
    assert np.abs(full - core).max() <= 1e-10 * np.abs(full).max()


def test_polish_restores_digits_and_keeps_signs():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((6, 6))
    weights = rng.random(6) + 0.5
    target = weights @ points
    assert np.allclose(
        polish(points, weights * (1 + 1e-6 * rng.standard_normal(6)), target), weights, rtol=1e-12
    )
    # A target that only negative weights would match_moments is not followed.
    stay = polish(np.eye(2), np.array([1.0, 1.0]), np.array([1.0, -5.0]))
    assert (stay > 0).all()


@pytest.mark.parametrize(("variables", "degree"), [(1, 1), (3, 2), (2, 5), (4, 3), (3, 6)])
def test_monomials_are_isometric(variables, degree):
    """<phi(a), phi(b)> = (a.b)^p with the square roots of the multinomial coefficients."""
    rng = np.random.default_rng(degree)
    a, b = rng.standard_normal((2, variables))
    table = Monomials(variables, degree)
    values = table.values(np.column_stack([a, b])) * np.sqrt(table.multinomials)[:, None]
    assert values[:, 0] @ values[:, 1] == pytest.approx((a @ b) ** degree, rel=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
def test_products_in_either_memory_order(order):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((7, 5)), rng.standard_normal((5, 4))
    assert np.allclose(
        linalg.product(np.array(a, order=order), np.array(b, order=order)), a @ b, atol=1e-14
    )
    assert np.allclose(
        np.triu(linalg.upper_gram(np.array(a, order=order))), np.triu(a @ a.T), atol=1e-14
    )


def test_few_rows_of_columns_do_not_copy_all():
    """NumPy's ``take`` copies the whole of an array that does not lie row by row."""
    X = np.asfortranarray(np.random.default_rng(0).standard_normal((200_000, 10)))
    for rows in (
        Rows([X]),
        Rows([X[:, ::2]]),
        Rows([X[::2]]),
        Rows([X.astype(np.float32, order="F")]),
    ):
        tracemalloc.start()
        block = rows.take(np.array([5, 7, 90_000]), np.zeros(rows.columns))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert np.array_equal(block[:, 1:], rows.parts[0][[5, 7, 90_000]])
        assert peak < 1e5
