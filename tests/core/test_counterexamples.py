"""Each place where the paper is wrong, with the smallest data that shows it: the paper's way fails,
ours does not.
"""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement
from math import comb, factorial, prod

import numpy as np
import pytest
from oracles import solve_ridge

import karat
from karat import problems
from karat.engine.weights import reduce_points
from karat.problems import LpRegression, Ridge, TensorContraction
from paper.literal import claimed_bound, sign_matrix


def test_step_is_the_smallest_ratio():
    """E2: with the largest ratio a weight becomes negative."""
    points, alpha, beta = (
        np.array([0.0, 1.0, 2.0]),
        np.array([0.2, 0.5, 0.3]),
        np.array([1.0, -2.0, 1.0]),
    )
    largest = alpha - max(alpha[beta > 0] / beta[beta > 0]) * beta
    assert largest.min() < 0
    found = reduce_points(np.column_stack([points, np.ones(3)]), alpha)
    assert any(np.allclose(found, right, atol=1e-15) for right in ([0, 0.9, 0.1], [0.45, 0, 0.55]))


def multinomials(p: int, variables: int) -> list[int]:
    sets = combinations_with_replacement(range(variables), p)
    return [
        factorial(p) // prod(factorial(t.count(v)) for v in set(t)) for t in sets if len(set(t)) > 1
    ]


@pytest.mark.parametrize("p", [6, 10, 12, 14, 18, 20])
def test_parity_fails_unless_p_is_a_power_of_two(p):
    """E8: an odd number of orderings cannot be split into as many +1 as -1."""
    assert any(c % 2 for c in multinomials(p, 2))


@pytest.mark.parametrize("p", [2, 4, 8, 16])
def test_parity_holds_for_powers_of_two(p):
    assert not any(c % 2 for c in multinomials(p, 2))


@pytest.mark.parametrize("absorb", [None, "diagonal", "box"])
@pytest.mark.parametrize("p", [6, 10, 12, 14])
def test_powers_without_a_sign_tensor(p, absorb):
    """The regularised loss is kept for every even p, however the regulariser is used."""
    rng = np.random.default_rng(p)
    X = rng.uniform(-1, 1, (300, 1))
    y = 0.5 * X[:, 0] + 0.3 * rng.uniform(-1, 1, 300)
    alpha = 5.0
    core = karat.coreset(X, y, LpRegression(p, alpha, fit_intercept=False, absorb=absorb))
    assert len(core) <= p + 2
    for w in [0.0, 0.5, -0.5, 1.0, 2.0, *rng.standard_normal(50)]:
        full = np.sum((X[:, 0] * w - y) ** p) + alpha * w**p
        assert core.loss(np.array([w])) == pytest.approx(full, rel=1e-10)


def difference_family(d: int) -> np.ndarray:
    """Rows e_a - e_b of R^(d+1), the last coordinate being the label."""
    eye = np.eye(d + 1)
    return np.array([eye[a] - eye[b] for a, b in combinations(range(d + 1), 2)])


@pytest.mark.parametrize(("d", "bound"), [(2, 1.115), (4, 1.379), (8, 2.343)])
def test_difference_family_refutes_the_size_theorem(d, bound):
    """E14: every kind of row must be present, while the theorem promises about one."""
    copies = 1e4
    lam = copies**0.75
    D = difference_family(d)
    assert claimed_bound(D, lam, copies) == pytest.approx(bound, abs=2e-3)
    X, y = np.repeat(D[:, :-1], 3, axis=0), np.repeat(D[:, -1], 3)
    core = karat.coreset(
        X,
        y,
        Ridge(lam, fit_intercept=False, absorb="box"),
        sample_weight=np.full(len(y), copies / 3),
    )
    assert len(core) == comb(d + 1, 2)
    kept = np.column_stack(core.arrays())
    assert len(np.unique(kept, axis=0)) == comb(d + 1, 2)
    coef = problems.Ridge(lam, fit_intercept=False, absorb="box").solve(core).coef
    expected, _ = solve_ridge(D[:, :-1], D[:, -1], np.full(len(D), copies), lam, False)
    assert np.abs(coef - expected).max() <= 1e-10 * np.abs(expected).max()


def test_ridge_solve_needs_the_label_term():
    """E12: the paper's solve is wrong before a single row is removed."""
    rng = np.random.default_rng(0)
    X, alpha = rng.standard_normal((30, 2)), 3.0
    y = X @ np.array([0.5, -0.5]) + rng.standard_normal(30)
    right, _ = solve_ridge(X, y, np.ones(30), alpha, False)
    M = sign_matrix(2)
    paper = np.linalg.solve(X.T @ X + alpha * M[:2, :2], X.T @ y)
    assert np.abs(paper - right).max() > 1e-2 * np.abs(right).max()
    problem = Ridge(alpha, fit_intercept=False, absorb="box")
    core = karat.coreset(X, y, problem)
    assert len(core) < 6
    Xc, yc = core.arrays()
    G, b = core.correction
    weighted = Xc.T * core.weights
    unlabelled = np.linalg.solve(weighted @ Xc + G + alpha * np.eye(2), weighted @ yc)
    assert np.abs(unlabelled - right).max() > 1e-3 * np.abs(right).max()
    assert np.abs(problem.solve(core).coef - right).max() <= 1e-12 * np.abs(right).max()
    assert (
        np.abs(
            np.linalg.solve(weighted @ Xc + G + alpha * np.eye(2), weighted @ yc + b) - right
        ).max()
        <= 1e-12
    )


def test_stop_at_the_rank_not_at_the_dimension():
    """E4: the unfolded kernel of d = 4 has 25 features of rank 15; the ambient rule stops at 26
    rows, the right one at 16.
    """
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((500, 4)), rng.standard_normal(500)

    def unfolded(X, y):
        D = np.column_stack([X, y])
        return np.einsum("ia,ib->iab", D, D).reshape(len(D), 25)

    for method in ("auto", "onepass", "tree", "caratheodory"):
        core = karat.coreset(X, y, problems.Kernel(unfolded), method=method)
        assert len(core) == 16
        conic = karat.coreset(X, y, problems.Kernel(unfolded, total_weight=False), method=method)
        assert len(conic) == 15
        assert (
            len(karat.coreset(X, y, problems.LeastSquares(fit_intercept=False), method=method))
            == 16
        )


def test_kernelization_holds_per_row():
    """E6: features with equal sums are not enough: {1, 3} with features {2, 2} would keep the loss
    2q instead of 4q.
    """
    X = np.array([[1.0], [3.0]])
    wrong = karat.coreset(
        X, problem=problems.Kernel(lambda X: np.full((len(X), 1), 2.0), total_weight=False)
    )
    assert float(wrong.weights @ wrong.X[:, 0]) != 4.0
    right = karat.coreset(X, problem=TensorContraction(1, total_weight=False))
    assert right.loss(np.array([1.0])) == pytest.approx(4.0, rel=1e-14)
    assert len(right) == 1


@pytest.mark.parametrize("method", ["tree", "caratheodory"])
def test_recursion_ends_when_nothing_can_be_removed(method):
    """E5: rows that are all needed (independent features) come back, all of them."""
    X = np.eye(40)
    core = karat.coreset(
        np.repeat(X, 2, axis=0), problem=TensorContraction(1, total_weight=False), method=method
    )
    assert len(core) == 40
    assert np.allclose(core.weights, 2.0, rtol=1e-12)


def test_rank_formulas():
    """E10 and E19: binom(d+p, p) for l_p regression, binom(d+p-1, p) for contractions."""
    assert LpRegression(4, fit_intercept=False, total_weight=False).width(2) == 15
    assert TensorContraction(2, total_weight=False).width(2) == 3
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 2)), rng.standard_normal(400)
    assert len(karat.coreset(X, y, LpRegression(4, fit_intercept=False, total_weight=False))) == 15
    assert len(karat.coreset(X, problem=TensorContraction(2, total_weight=False))) == 3
