"""Candidates by importance, moments of many groups at once, and early rejection of candidates."""

import numpy as np
import pytest

from karat.engine.kernel import fit_moments
from karat.engine.points import candidate_points, probabilities
from karat.engine.rows import Rows
from karat.engine.weights import group_bounds
from karat.problems import LeastSquares, Moments


@pytest.mark.parametrize("size", [1, 7, 90, 99])
def test_probabilities_sum_to_the_size(size):
    scores = np.random.default_rng(size).pareto(0.5, 100) + 1e-3
    chances = probabilities(scores, size)
    assert chances.max() <= 1.0
    assert np.isclose(chances.sum(), size)
    below = chances < 1.0
    assert np.allclose(chances[below] / scores[below], (chances[below] / scores[below])[:1])


def test_probabilities_of_bad_scores():
    assert probabilities(np.array([1.0, np.inf]), 1) is None
    assert probabilities(np.array([1.0, 0.0]), 1) is None


@pytest.mark.parametrize(("count", "groups"), [(10, 3), (3, 10), (12, 4), (1000, 654), (5, 5)])
def test_group_bounds_cover_all_rows(count, groups):
    bounds = group_bounds(count, groups)
    sizes = np.diff(bounds)
    assert bounds[0] == 0
    assert bounds[-1] == count
    assert len(sizes) == min(groups, count)
    assert sizes.max() - sizes.min() <= 1
    assert (np.diff(sizes) <= 0).all()


@pytest.mark.parametrize(
    "problem", [LeastSquares(), LeastSquares(fit_intercept=False), Moments(2), Moments(4)]
)
@pytest.mark.parametrize("size", [1, 3, 60])
def test_moments_of_groups(problem, size):
    rng = np.random.default_rng(size)
    rows = Rows([rng.standard_normal((20 * size, 4)) + 2.0])
    kernel = fit_moments(rows, problem.kernel(3, 1), np.arange(len(rows)))[0].kernel
    block, weights = rows.take(np.arange(len(rows)), kernel.shift), rng.random(len(rows))
    together = kernel.group_moments(block, weights, 20)
    for i in range(20):
        part = slice(i * size, (i + 1) * size)
        alone = weights[part] @ kernel.features(block[part])
        assert np.allclose(together[i], alone, rtol=1e-12, atol=1e-12)


def rare_pairs(n=20_000, seed=0):
    """Two categories with rare levels, one-hot, and three numbers."""
    rng = np.random.default_rng(seed)
    first = rng.choice(6, n, p=[0.02, 0.08, 0.1, 0.2, 0.3, 0.3])
    second = rng.choice(5, n, p=[0.02, 0.08, 0.2, 0.3, 0.4])
    X = np.hstack([np.eye(6)[first], np.eye(5)[second], rng.standard_normal((n, 3))])
    return X, X @ rng.standard_normal(X.shape[1]) + rng.standard_normal(n)


def test_candidates_that_miss_the_target_are_rejected_early():
    X, y = rare_pairs()
    rows = Rows([X, y[:, None]])
    fitted = fit_moments(rows, LeastSquares().kernel(X.shape[1], 1), np.arange(len(rows)))[0]
    common = np.flatnonzero(X[:, 0] + X[:, 6] == 0)[:600]
    unseen = candidate_points(rows, fitted, common, np.ones(len(common)))
    assert unseen.resolve(may_miss=True).missed == np.inf
    assert 1e-3 < unseen.resolve().missed < np.inf
    everything = candidate_points(rows, fitted, np.arange(len(rows)), np.ones(len(rows)))
    assert everything.resolve(may_miss=True).missed < 1e-9


def test_pivots_and_singular_values_agree_on_the_span():
    X, y = rare_pairs()
    rows = Rows([X, y[:, None]])
    fitted = fit_moments(rows, LeastSquares().kernel(X.shape[1], 1), np.arange(len(rows)))[0]
    points = candidate_points(rows, fitted, np.arange(len(rows)), np.ones(len(rows)))
    norm = np.linalg.norm(points.points, axis=0)
    pivots, svd = points._by_pivots(norm), points._by_svd(norm)
    assert pivots.rank == svd.rank
    for resolved in (pivots, svd):
        assert np.allclose(resolved.points.T @ resolved.points, np.eye(resolved.rank), atol=1e-9)
    assert np.isclose(np.linalg.norm(pivots.target), np.linalg.norm(svd.target))
