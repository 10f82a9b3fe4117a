"""Weighted least squares: the solution of scaled and shifted columns, and which column depends on
which others.
"""

import numpy as np
import pytest

from karat.engine.least_squares import DependentColumnError, solve


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [np.ones(50), rng.standard_normal((50, 3)) * [1e-6, 1.0, 1e6] + [0.0, 1e5, 0.0]]
    )
    return X, X @ [1.0, 2e5, -1.0, 3e-6] + rng.standard_normal(50), rng.uniform(0.5, 2.0, 50)


@pytest.mark.parametrize("intercept", [True, False])
def test_solution_and_covariance(rows, intercept):
    X, y, weights = rows
    X = X if intercept else X[:, 1:] - [0.0, 1e5, 0.0]
    solution = solve(X, y, weights, intercept)
    fitted = solution.means(X) if intercept else X @ solution.params
    gradient = X.T @ (weights * (y - fitted))
    np.testing.assert_allclose(gradient, 0, atol=1e-9 * np.abs(X).max())
    identity = solution.root.T @ (X.T * weights) @ X @ solution.root
    np.testing.assert_allclose(identity, np.eye(X.shape[1]), atol=1e-5)
    assert solution.rss == pytest.approx(weights @ (y - X @ solution.params) ** 2, rel=1e-6)


@pytest.mark.parametrize(
    ("column", "others"), [(np.zeros(50), ()), (np.full(50, 7.0), (0,)), (None, (1, 2))]
)
def test_a_dependent_column_is_named(rows, column, others):
    X, y, weights = rows
    X = X[:, :3] / [1.0, 1e-6, 1.0] - [0.0, 0.0, 1e5]
    column = X[:, 1] - 2 * X[:, 2] if column is None else column
    with pytest.raises(DependentColumnError) as error:
        solve(np.column_stack([X, column]), y, weights, True)
    named = {error.value.column, *error.value.others}
    assert named == {3, *others}
