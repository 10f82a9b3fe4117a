"""Regularisers that carry a part of the data: sizes fall with alpha, slack stays in the box, the
loss is the full data's.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement
from math import comb

import numpy as np
import pytest
from factory import correlated
from oracles import monomials, solve_power, solve_ridge
from scipy.optimize import linprog

import karat
from karat.problems import LpRegression, Ridge


@cache
def sample(d: int, n: int = 1000, offset: float = 0.0):
    rng = np.random.default_rng(d)
    X = correlated(rng, n, d)
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    return X + offset, y


@cache
def absorbed(d: int, p: int, alpha: float, absorb: str, intercept: bool = False):
    X, y = sample(d)
    if p == 2:
        problem = Ridge(alpha, fit_intercept=intercept, absorb=absorb)
    else:
        problem = LpRegression(p, alpha, fit_intercept=intercept, absorb=absorb)
    return problem, karat.coreset(X, y, problem)


def moments(X, y, weights, p):
    return weights @ monomials(np.column_stack([X, y]), p)


@pytest.mark.parametrize("d", [4, 8])
def test_diagonal_sizes(d):
    """Total rows never above K; data rows reach K - d, and no lower however large alpha is."""
    K = comb(d + 2, 2)
    sizes = [len(absorbed(d, 2, alpha, "diagonal")[1]) for alpha in (1e-3, 1.0, 100.0, 1e3, 1e5)]
    assert all(K - d <= size <= K for size in sizes)
    assert sizes[-2:] == [K - d, K - d]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("d", [4, 8])
def test_box_sizes_fall_to_one(d):
    """No more rows than a vertex of the linear programme over all rows has."""
    alphas = (1e-3, 1.0, 100.0, 1e3, 1e5)
    sizes = [len(absorbed(d, 2, alpha, "box")[1]) for alpha in alphas]
    D = np.column_stack(sample(d))
    vertices = [int((programme(D, alpha).x > 1e-9).sum()) for alpha in alphas]
    assert all(size <= vertex for size, vertex in zip(sizes, vertices, strict=True))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[2] < comb(d + 2, 2) - d
    assert sizes[-1] == 1


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 50.0, 300.0, 1e4])
@pytest.mark.parametrize("absorb", ["diagonal", "box"])
@pytest.mark.parametrize(("d", "p"), [(4, 2), (2, 4), (2, 6)])
def test_slack_stays_in_the_box(d, p, absorb, alpha):
    X, y = sample(d)
    _, core = absorbed(d, p, alpha, absorb)
    full, kept = moments(X, y, np.ones(len(y)), p), moments(*core.arrays(), core.weights, p)
    size = len(y) * np.sqrt((monomials(np.column_stack([X, y]), p) ** 2).mean(axis=0))
    assert (core.weights > 0).all()
    for t, S, Sc, unit in zip(
        combinations_with_replacement(range(d + 1), p), full, kept, size, strict=True
    ):
        rounding = 2e-9 * unit  # what linear programming solvers call feasible
        if set(t) == {d}:
            assert abs(S - Sc) <= 1e-11 * unit, "the label's power must be exact"
        elif len(set(t)) == 1:
            assert Sc <= S + alpha + rounding, "a regulariser weight would be negative"
        elif absorb == "diagonal":
            assert abs(S - Sc) <= 1e-11 * unit, "cross moments must be exact"
        else:
            assert abs(S - Sc) <= alpha + rounding


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("absorb", [None, "diagonal", "box"])
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0, 1e5])
@pytest.mark.parametrize(("d", "p"), [(4, 2), (2, 4), (2, 6)])
def test_loss_and_minimiser_are_those_of_the_full_data(d, p, alpha, absorb, intercept):
    X, y = sample(d)
    problem, core = absorbed(d, p, alpha, absorb, intercept)
    rng = np.random.default_rng(0)
    if p == 2:
        best = solve_ridge(X, y, np.ones(len(y)), alpha, intercept)
    else:
        best = solve_power(X, y, np.ones(len(y)), p, alpha, intercept)
    for size in [0.0, 1e-3, 1.0, 30.0]:
        for _ in range(20):
            w = best[0] + size * rng.standard_normal(d)
            b = best[1] + size * rng.standard_normal() if intercept else 0.0
            full = ((X @ w + b - y) ** p).sum() + alpha * (np.abs(w) ** p).sum()
            query = (w, b) if intercept else w
            assert core.loss(query) == pytest.approx(full, rel=1e-11 if p == 2 else 1e-10)
    solution = problem.solve(core)
    tolerance = 1e-10 if p == 2 else 1e-9
    assert np.abs(solution.coef - best[0]).max() <= tolerance * np.abs(best[0]).max()
    assert abs(solution.intercept - best[1]) <= tolerance * (1 + np.abs(best[0]).max())


def programme(D, alpha, rows=None):
    """The box linear programme on all rows, or on some, straight from its definition (degree 2, no
    intercept).
    """
    d = D.shape[1] - 1
    sets = list(combinations_with_replacement(range(d + 1), 2))
    pure = np.array([t[0] == t[1] and t[0] < d for t in sets])
    free = np.array([t != (d, d) for t in sets])
    cross = free & ~pure
    F = monomials(D, 2)
    size = np.linalg.norm(F, axis=0)
    A, S = (F / size).T, F.sum(axis=0)
    A = A if rows is None else A[:, rows]
    high, low = (S + alpha) / size, (S - alpha) / size
    result = linprog(
        np.ones(A.shape[1]),
        A_ub=np.vstack([A[free], -A[cross]]),
        b_ub=np.concatenate([high[free], -low[cross]]),
        A_eq=A[~free],
        b_eq=(S / size)[~free],
        method="highs-ds",
    )
    assert result.status == 0
    return result


@pytest.mark.parametrize("alpha", [1.0, 20.0, 100.0, 300.0])
@pytest.mark.parametrize("d", [3, 5])
def test_column_generation_is_optimal_over_all_rows(d, alpha):
    """The candidates that pricing leaves hold an optimum of the programme over all 1000 rows."""
    from karat.engine.reduce import build
    from karat.engine.rows import Rows
    from karat.problems.absorb.absorb import Kinds, scaled_kernel, scaled_moments
    from karat.problems.absorb.programme import PRICE, Budget, price_all
    from karat.problems.absorb.regularised import Regularised

    X, y = sample(d)
    D = np.column_stack([X, y])
    rows = Rows([X, y[:, None]])
    exact = build(rows, Ridge(alpha, fit_intercept=False, absorb="box").kernel(d, 1), "auto", 0)
    loss = Regularised(rows, exact.fitted, 2, False, alpha)
    kernel = scaled_kernel(loss, False)
    bounds = Kinds(kernel, d + 1).bounds(scaled_moments(loss, kernel), alpha, True)
    candidates, weights, reduced, _ = price_all(
        rows, kernel, np.arange(0, 1000, 10), *bounds, Budget()
    )
    assert reduced >= -PRICE
    assert len(candidates) < 1000
    assert weights.sum() == pytest.approx(programme(D, alpha).fun, rel=1e-6)
    assert programme(D, alpha, candidates).fun == pytest.approx(programme(D, alpha).fun, rel=1e-6)


def test_the_method_does_not_claim_the_fewest_rows():
    """What the programme minimises is the sum of weights."""
    _, core = absorbed(4, 2, 100.0, "box")
    assert core.certificate.method == "onepass, then box"


def test_correction_is_the_difference_of_moments():
    X, y = sample(4)
    _, core = absorbed(4, 2, 100.0, "box")
    Xc, yc = core.arrays()
    G, b = core.correction
    weighted = Xc.T * core.weights
    assert np.abs(G - (X.T @ X - weighted @ Xc)).max() <= 1e-11 * np.abs(X.T @ X).max()
    assert np.abs(b - (X.T @ y - weighted @ yc)).max() <= 1e-11 * np.abs(X.T @ X).max()
    assert np.array_equal(G, G.T)


def test_no_correction_without_absorb():
    assert absorbed(4, 2, 100.0, None)[1].correction is None


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("absorb", ["diagonal", "box"])
@pytest.mark.parametrize(("d", "p"), [(4, 2), (2, 4)])
@pytest.mark.parametrize("alpha", [1.0, 100.0])
def test_merge_adds_corrections(d, p, absorb, intercept, alpha):
    X, y = sample(d)
    problem, _ = absorbed(d, p, alpha, absorb, intercept)
    cuts = [(0, 300), (300, 650), (650, 1000)]
    parts = [karat.coreset(X[a:b], y[a:b], problem) for a, b in cuts]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    assert merged.n_rows == 1000
    assert np.array_equal(merged.X, X[merged.indices])
    assert merged.certificate.ok
    assert merged.verify(X, y).ok
    assert (merged.weights > 0).all()
    rng = np.random.default_rng(0)
    for size in (0.1, 1.0, 10.0):
        for _ in range(20):
            w, b = size * rng.standard_normal(d), size * rng.standard_normal() * intercept
            full = ((X @ w + b - y) ** p).sum() + alpha * (np.abs(w) ** p).sum()
            assert merged.loss((w, b)) == pytest.approx(full, rel=1e-10)
    if p == 2:
        G, b = merged.correction
        Xc, yc = merged.arrays()
        weighted = Xc.T * merged.weights
        assert np.abs(G - (X.T @ X - weighted @ Xc)).max() <= 1e-11 * np.abs(X.T @ X).max()
        assert np.abs(b - (X.T @ y - weighted @ yc)).max() <= 1e-11 * np.abs(X.T @ X).max()


@pytest.mark.parametrize("absorb", ["diagonal", "box"])
def test_verify_refutes_a_changed_absorbed_coreset(absorb):
    from dataclasses import replace

    X, y = sample(4)
    _, core = absorbed(4, 2, 10.0, absorb)
    assert core.verify(X, y).ok
    assert core.verify(X, y).loss_error <= 1e-11
    weights = core.weights.copy()
    weights[0] *= 1 + 1e-6
    assert not replace(core, weights=weights).verify(X, y).ok
    assert not core.verify(X, y + 1e-6).ok
    other = X.copy()
    other[3, 2] += 1e-3
    assert not core.verify(other, y).ok


def test_without_absorb_one_coreset_serves_every_alpha():
    X, y = sample(4)
    core = absorbed(4, 2, 100.0, None)[1]
    for alpha in (0.0, 1e-3, 7.0, 1e5):
        coef = Ridge(alpha, fit_intercept=False).solve(core).coef
        best = solve_ridge(X, y, np.ones(len(y)), alpha, False)[0]
        assert np.abs(coef - best).max() <= 1e-10 * np.abs(best).max()


@pytest.mark.parametrize("absorb", ["diagonal", "box"])
def test_total_weight_with_absorb(absorb):
    """Asked for, the total is kept too, at one row more."""
    X, y = sample(4)
    core = karat.coreset(X, y, Ridge(1e5, fit_intercept=False, absorb=absorb, total_weight=True))
    assert core.weights.sum() == pytest.approx(1000, rel=1e-12)
    assert len(core) == {"diagonal": 12, "box": 2}[absorb]
    with_intercept = karat.coreset(X, y, Ridge(1e5, absorb=absorb))
    assert with_intercept.weights.sum() == pytest.approx(1000, rel=1e-11)


@pytest.mark.parametrize("absorb", ["diagonal", "box"])
def test_the_certificate_says_what_an_absorbed_coreset_does_not_keep(absorb):
    core = absorbed(4, 2, 100.0, absorb)[1]
    text = str(core.certificate)
    assert "other values of alpha" in text
    assert "total weight" in text
    assert core.weights.sum() < 0.9 * 1000


@pytest.mark.parametrize("offset", [10.0, 1e3])
@pytest.mark.parametrize("absorb", ["diagonal", "box"])
def test_absorb_with_offset_and_intercept(absorb, offset):
    X, y = sample(3, offset=offset)
    problem = Ridge(50.0, absorb=absorb)
    core = karat.coreset(X, y + offset, problem)
    best = solve_ridge(X, y + offset, np.ones(len(y)), 50.0, True)
    solution = problem.solve(core)
    assert np.abs(solution.coef - best[0]).max() <= 1e-10 * np.abs(best[0]).max()
    assert abs(solution.intercept - best[1]) <= 1e-10 * abs(best[1])


@pytest.mark.parametrize("absorb", ["diagonal", "box"])
def test_absorb_with_weights_and_degenerate_columns(absorb):
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.standard_normal(400), np.ones(400), np.zeros(400), rng.integers(0, 2, 400)]
    )
    X = np.column_stack([X, X[:, 0]])
    y = X[:, 0] + rng.standard_normal(400)
    u = np.where(rng.random(400) < 0.5, 0.0, rng.random(400))
    for intercept in (True, False):
        problem = Ridge(5.0, fit_intercept=intercept, absorb=absorb)
        core = karat.coreset(X, y, problem, sample_weight=u)
        assert (u[core.indices] > 0).all()
        best = solve_ridge(X, y, u, 5.0, intercept)
        assert np.abs(problem.solve(core).coef - best[0]).max() <= 1e-10
        assert core.certificate.ok
