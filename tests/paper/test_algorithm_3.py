"""The paper's Algorithm 3, taken literally, for p = 4 and 8; there are no signs for p = 6."""

from math import comb

import numpy as np
import pytest

from paper.literal import sign_coreset, sign_matrix, sign_tensor, unfolded


def contracted(M, z):
    for _ in range(M.ndim):
        M = M @ z
    return float(M)


@pytest.mark.parametrize(("d", "p"), [(1, 4), (2, 4), (3, 4), (1, 8)])
def test_the_signs_leave_the_pure_powers(d, p):
    z = np.append(np.random.default_rng(0).standard_normal(d), -1.0)
    M = sign_tensor(d, p)
    assert set(np.unique(M)) == {-1.0, 0.0, 1.0}
    assert contracted(M, z) == pytest.approx(np.sum(z[:d] ** p), rel=1e-12)


def test_for_two_they_are_as_those_of_algorithm_2():
    np.testing.assert_array_equal(sign_tensor(3, 2), sign_matrix(3))


@pytest.mark.parametrize("p", [6, 10, 12])
def test_there_are_none_for_other_powers(p):
    with pytest.raises(ValueError, match=rf"odd number: there are no signs for p = {p}"):
        sign_tensor(1, p)


@pytest.mark.parametrize(("d", "p", "n"), [(1, 4, 60), (2, 4, 12), (1, 8, 6)])
@pytest.mark.parametrize("lam", [1.0, 100.0])
def test_the_coreset_has_the_loss_of_all_rows(d, p, n, lam):
    """Of the data and of the regulariser together; but it is far larger than the rank of the data,
    and the rows of a tuple of signs weigh as many as it has orderings.
    """
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    core, signs = sign_coreset(X, y, lam, p), sign_tensor(d, p)
    for _ in range(20):
        z = np.append(rng.standard_normal(d), -1.0)
        data = core.weights @ (np.column_stack([X, y])[core.rows] @ z) ** p
        full = np.sum((X @ z[:d] - y) ** p) + lam * np.sum(z[:d] ** p)
        size = np.abs(z).sum() ** p * (len(y) + lam)  # the signs cancel
        assert data + lam * contracted(core.signs * signs, z) == pytest.approx(
            full, abs=1e-11 * size
        )
    kept = len(core.rows) + int((core.signs > 0).sum())
    assert kept <= (d + 1) ** p + 1
    assert kept > 2 * comb(d + p, p)  # the rank of the data
    pair = (0,) * (p - 1) + (d,)  # p orderings
    weights = [core.signs[tuple(np.roll(pair, shift))] for shift in range(p)]
    assert sum(weights) == pytest.approx(p, rel=1e-6)


@pytest.mark.parametrize(("d", "p"), [(1, 2), (2, 2), (1, 4), (2, 4)])
def test_ranks_with_the_signs(d, p):
    """E11: (d+1)^p; that of T alone is one less, for d = 1 and p = 2 no more than binom(d+p, p)."""
    rng = np.random.default_rng(0)
    D, T = rng.standard_normal((200, d + 1)), np.diag(sign_tensor(d, p).ravel())
    assert np.linalg.matrix_rank(np.vstack([unfolded(D, p), T])) == (d + 1) ** p
    assert np.linalg.matrix_rank(T) == (d + 1) ** p - 1
    assert np.linalg.matrix_rank(unfolded(D, p)) == comb(d + p, p)
    assert ((d + 1) ** p - 1 > comb(d + p, p)) == ((d, p) != (1, 2))


@pytest.mark.parametrize("lam", [3.0, 10.0])
def test_the_count_for_the_d_rows_is_exceeded_too(lam):
    """E14: the paper states its sum of leverage scores, plus one, also as the number of data rows
    that are selected with the d rows of the regulariser.
    """
    from paper.literal import fast_caratheodory

    rng = np.random.default_rng(0)
    n, d = 60, 2
    X = rng.standard_normal((n, d))
    rows = np.column_stack([X, X.sum(axis=1) + rng.standard_normal(n)])
    rows = np.vstack([rows, np.sqrt(lam) * np.eye(d, d + 1)])
    products = unfolded(rows)
    U, s, _ = np.linalg.svd(products, full_matrices=False)
    count = np.square(U[:n, s > 1e-10 * s[0]]).sum() + 1
    unique = products[:, np.ravel(np.triu(np.ones((3, 3)))) > 0]
    kept, weights = fast_caratheodory(unique, np.ones(len(rows)))
    np.testing.assert_allclose(weights @ unique[kept], unique.sum(axis=0), atol=1e-9)
    assert (kept < n).sum() == 7 > count
