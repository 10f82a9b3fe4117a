"""The paper's Algorithm 2, taken literally, does what the audit of the paper says: it exceeds its
bound and solves wrongly.
"""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from paper.literal import (
    claimed_bound,
    fast_caratheodory,
    sign_coreset,
    sign_matrix,
    solve_as_written,
    solve_corrected,
    unfolded,
)


@pytest.fixture(scope="module", params=[3.0, 100.0, 1000.0])
def case(request):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 4)) @ (np.eye(4) + 0.4 * rng.standard_normal((4, 4)))
    y = X @ np.array([1.0, -0.5, 0.3, 0.8]) + rng.standard_normal(1000)
    return X, y, request.param, sign_coreset(X, y, request.param)


def test_the_claimed_bound_is_exceeded(case):
    X, y, lam, core = case
    assert len(core.rows) > claimed_bound(np.column_stack([X, y]), lam)


def test_solved_as_written_it_is_wrong_and_corrected_it_is_right(case):
    X, y, lam, core = case
    expected = Ridge(alpha=lam, fit_intercept=False, solver="svd").fit(X, y).coef_
    assert (
        np.abs(solve_as_written(core, X, y, lam) - expected).max() > 1e-3 * np.abs(expected).max()
    )
    assert (
        np.abs(solve_corrected(core, X, y, lam) - expected).max() <= 1e-9 * np.abs(expected).max()
    )


def test_wrong_before_a_row_is_removed(case):
    X, y, lam, _ = case
    everything = type(case[3])(np.arange(len(y)), np.ones(len(y)), np.ones((5, 5)))
    expected = Ridge(alpha=lam, fit_intercept=False, solver="svd").fit(X, y).coef_
    assert (
        np.abs(solve_as_written(everything, X, y, lam) - expected).max()
        > 1e-3 * np.abs(expected).max()
    )
    np.testing.assert_allclose(solve_corrected(everything, X, y, lam), expected, rtol=1e-10)


def test_cross_moments_may_be_off_by_lambda_and_no_more(case):
    """The sign rows of a pair weigh 2 together, whatever the data: the kept rows may miss up to
    lambda of a cross moment.
    """
    X, y, lam, core = case
    D = np.column_stack([X, y])
    missed = D.T @ D - (D[core.rows].T * core.weights) @ D[core.rows]
    pairs = core.signs + core.signs.T
    off = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(pairs[off], 2.0, atol=1e-8)
    assert np.abs(missed[off]).max() <= lam * (1 + 1e-9)
    assert abs(missed[4, 4]) <= 1e-8 * (y @ y)


def test_the_signs_cancel_off_the_diagonal():
    M = sign_matrix(3)
    z = np.array([0.3, -1.2, 2.0, -1.0])
    assert z @ M @ z == pytest.approx(np.sum(z[:3] ** 2), rel=1e-14)


def test_too_few_clusters_would_never_end():
    with pytest.raises(ValueError, match="never ends"):
        fast_caratheodory(
            np.random.default_rng(0).standard_normal((50, 3)), np.ones(50), clusters=4
        )


def test_fast_caratheodory_keeps_the_moments():
    points = np.random.default_rng(0).standard_normal((500, 6))
    kept, weights = fast_caratheodory(points, np.ones(500))
    assert len(kept) <= 7
    assert weights.min() > 0
    np.testing.assert_allclose(weights @ points[kept], points.sum(axis=0), atol=1e-9)
    assert weights.sum() == pytest.approx(500, rel=1e-12)


def test_unfolded_rows_give_the_squared_loss():
    rng = np.random.default_rng(1)
    D, z = rng.standard_normal((20, 3)), rng.standard_normal(3)
    np.testing.assert_allclose(unfolded(D) @ np.outer(z, z).ravel(), (D @ z) ** 2, rtol=1e-12)
