"""Grouped logistic regression: the logistic loss of all rows at every query, from at most N + rank
rows.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import karat
from karat.engine.small_kernels import row_keys
from karat.problems import GroupedLogistic


def sample(n=5_000, d=2, levels=4, seed=0, rare=0):
    """Rows on a grid, with labels that depend on them; ``rare`` further points have one row
    each.
    """
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.integers(0, levels, (n, d)) - 1.0, 10.0 + rng.standard_normal((rare, d))])
    y = (rng.random(n + rare) < 1 / (1 + np.exp(-(X @ rng.standard_normal(d)) / 3))).astype(float)
    return X, y


def full_loss(X, y, u, w, b):
    return u @ np.logaddexp(0.0, -(2 * y - 1) * (X @ w + b))


def needed(X, y, intercept):
    """N, and the rank of the points that have both labels: the dimension of the span of the
    losses.
    """
    points, code = np.unique(X, axis=0, return_inverse=True)
    code = code.ravel()  # NumPy 2.0 gives it the shape of X
    ones, count = np.bincount(code, y), np.bincount(code)
    both = points[(ones > 0) & (ones < count)]
    inputs = np.column_stack([both, np.ones(len(both))]) if intercept else both
    return len(points) + (np.linalg.matrix_rank(inputs) if len(inputs) else 0)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("d", "levels", "rare"), [(1, 3, 0), (2, 4, 0), (3, 3, 5), (2, 2, 40)])
@pytest.mark.parametrize("weighted", [True, False])
def test_loss_at_every_query(d, levels, rare, intercept, weighted):
    X, y = sample(d=d, levels=levels, seed=d, rare=rare)
    rng = np.random.default_rng(1)
    u = rng.uniform(0.1, 5.0, len(y)) if weighted else np.ones(len(y))
    core = karat.coreset(
        X, y, GroupedLogistic.of(X, fit_intercept=intercept), sample_weight=u if weighted else None
    )
    assert core.certificate.ok
    assert len(core) <= needed(X, y, intercept)
    assert core.weights.sum() == pytest.approx(u.sum(), rel=1e-13)
    for size in (0.0, 0.1, 1.0, 10.0, 300.0):
        w, b = size * rng.standard_normal(d), size * rng.standard_normal() * intercept
        query = (w, b) if intercept else w
        assert core.loss(query) == pytest.approx(full_loss(X, y, u, w, b), rel=1e-12)


def test_no_fewer_rows_than_the_span_of_the_losses():
    X, y = sample(d=2, levels=4)
    assert len(karat.coreset(X, y, GroupedLogistic.of(X))) == needed(X, y, True) == 16 + 3


@pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0])
def test_logistic_regression_of_all_rows(penalty):
    X, y = sample(d=3, levels=4, seed=5)
    core = karat.coreset(X, y, GroupedLogistic.of(X))
    few = core.fit(LogisticRegression(C=penalty, tol=1e-12, max_iter=500))
    full = LogisticRegression(C=penalty, tol=1e-12, max_iter=500).fit(X, y)
    assert np.abs(few.coef_ - full.coef_).max() <= 1e-7
    assert np.abs(few.predict_proba(X) - full.predict_proba(X)).max() <= 1e-7


def test_only_what_is_exact_is_fitted():
    X, y = sample()
    core = karat.coreset(X, y, GroupedLogistic.of(X, fit_intercept=False))
    with pytest.raises(karat.NotExactError, match="intercept"):
        core.fit(LogisticRegression())
    for wrong in (LogisticRegression(solver="saga"), LogisticRegression(class_weight="balanced")):
        with pytest.raises(karat.NotExactError):
            karat.coreset(X, y, GroupedLogistic.of(X)).fit(wrong)
    with pytest.raises(karat.NotExactError, match="GroupedLogistic"):
        karat.coreset(X, y).fit(LogisticRegression())


def test_parts_merge_streams_and_files(tmp_path):
    X, y = sample(d=2, levels=5, rare=7)
    problem = GroupedLogistic.of(X)
    merged = karat.coreset(X[:2000], y[:2000], problem).merge(
        karat.coreset(X[2000:], y[2000:], problem)
    )
    sketch = karat.Sketch(problem)
    for start in range(0, len(X), 700):
        sketch.update(X[start : start + 700], y[start : start + 700])
    whole = karat.coreset(X, y, problem)
    whole.save(tmp_path / "core.npz")
    loaded = karat.load(tmp_path / "core.npz")
    assert loaded.problem == problem
    query = np.array([0.7, -0.4, 0.2])
    right = full_loss(X, y, np.ones(len(y)), query[:2], query[2])
    for core in (merged, sketch.coreset(), loaded):
        assert core.certificate.ok
        assert core.loss(query) == pytest.approx(right, rel=1e-12)
        assert len(core) <= needed(X, y, True)
    assert loaded.verify(X, y).ok
    flipped = y.copy()
    flipped[7] = 1 - flipped[7]
    assert not loaded.verify(X, flipped).ok


def test_errors_say_what_to_do():
    X, y = sample()
    problem = GroupedLogistic.of(X)
    with pytest.raises(
        karat.InputError, match=r"not one of the 16 points .* GroupedLogistic.of\(X\)"
    ):
        karat.coreset(X + 0.5, y, problem)
    with pytest.raises(karat.InputError, match="must be 0 or 1, but it holds 2"):
        karat.coreset(X, 2 * y, problem)
    with pytest.raises(karat.InputError, match="X has 1 column"):
        karat.coreset(X[:, :1], y, problem)
    with pytest.raises(karat.InputError, match="one target"):
        karat.coreset(X, np.column_stack([y, y]), problem)
    with pytest.raises(karat.InputError, match="NaN"):
        karat.coreset(np.where(X == 2, np.nan, X), y, problem)
    with pytest.raises(karat.InputError, match="NaN"):
        karat.coreset(X, np.where(y == 1, np.nan, y), problem)
    for points in ([1.0, 2.0], [["a"]], [[np.nan]], []):
        with pytest.raises(karat.InputError, match="table of finite numbers"):
            GroupedLogistic(points)
    with pytest.raises(karat.InputError, match="total weight"):
        GroupedLogistic(X, total_weight=False)


def test_points_are_a_set():
    assert GroupedLogistic([[1.0], [0.0], [-0.0], [1.0]]) == GroupedLogistic([[0.0], [1.0]])
    assert "2 points" in GroupedLogistic([[0.0], [1.0]]).describe()
    grid = np.stack(np.meshgrid(*[np.arange(12.0) - 5] * 4), axis=-1).reshape(-1, 4)
    assert len(np.unique(row_keys(grid))) == len(grid)
