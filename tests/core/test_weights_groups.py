"""Weights mean what they say, and groups are independent problems."""

from __future__ import annotations

import numpy as np
import pytest
from cases import METHODS
from factory import data
from oracles import PowerJudge, square_error, whiten

import karat
from karat.problems import LeastSquares, LpRegression, Moments


@pytest.mark.parametrize("method", METHODS)
def test_integer_weights_are_copies(method):
    """A row of weight 3 is three rows."""
    rng = np.random.default_rng(0)
    X, y, u = rng.standard_normal((300, 3)), rng.standard_normal(300), rng.integers(0, 4, 300)
    core = karat.coreset(X, y, sample_weight=u, method=method)
    copies = np.column_stack([np.repeat(X, u, axis=0), np.repeat(y, u)])
    white = whiten(copies, np.ones(len(copies)), True)
    kept = np.column_stack([core.X, core.y])
    assert square_error(white, kept, core.weights) <= 1e-12
    assert core.weights.sum() == pytest.approx(u.sum(), rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("factor", [1e-200, 1e-12, 7.0, 1e12, 1e200])
def test_scaling_all_weights_scales_the_result(factor, method):
    made = data("gaussian")
    core = karat.coreset(made.X, made.y, sample_weight=np.full(900, factor), method=method)
    table = np.column_stack([made.X, made.y])
    white = whiten(table, np.ones(900), True)
    assert len(core) <= 15
    assert square_error(white, table[core.indices], core.weights / factor) <= 1e-12


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("zeros", [0.01, 0.7, 0.99])
@pytest.mark.parametrize(
    "problem", [LeastSquares(), LpRegression(4, fit_intercept=False), Moments(3)]
)
def test_zero_weights(problem, zeros, method):
    """From 100 zeros in 10,000 on, PyRecombine returns NaN."""
    rng = np.random.default_rng(0)
    n = 4000
    X, y = rng.standard_normal((n, 2)), rng.standard_normal(n)
    u = np.where(rng.random(n) < zeros, 0.0, rng.random(n))
    y = y if problem.needs_target else None
    core = karat.coreset(X, y, problem, sample_weight=u, method=method)
    assert np.isfinite(core.weights).all()
    assert (u[core.indices] > 0).all()
    assert core.weights.sum() == pytest.approx(u.sum(), rel=1e-12)
    table = X if y is None else np.column_stack([X, y])
    degree = getattr(problem, "p", None) or getattr(problem, "degree", 2)
    white = whiten(table, u, problem != LpRegression(4, fit_intercept=False))
    judge = PowerJudge(white, table, u, degree, count=600)
    assert judge.error(table[core.indices], core.weights) <= 1e-10


@pytest.mark.parametrize("method", METHODS)
def test_one_row_of_positive_weight(method):
    made = data("gaussian")
    u = np.zeros(900)
    u[321] = 2.5
    core = karat.coreset(made.X, made.y, sample_weight=u, method=method)
    assert core.indices.tolist() == [321]
    assert core.weights.tolist() == pytest.approx([2.5], rel=1e-14)


@pytest.mark.parametrize("remainder", range(0, 7))
@pytest.mark.parametrize("method", METHODS)
def test_no_row_is_dropped_or_counted_twice(method, remainder):
    """Where n is not divisible by the number of chunks others drop or double the rest."""
    n = 994 + remainder
    rng = np.random.default_rng(remainder)
    X = rng.standard_normal((n, 2))
    X[-7:] += 50
    core = karat.coreset(X, problem=Moments(2), method=method)
    table = np.column_stack([np.ones(n), X])
    kept = table[core.indices]
    assert (
        np.abs((kept.T * core.weights) @ kept - table.T @ table).max()
        <= 1e-12 * np.abs(table.T @ table).max()
    )


@pytest.mark.parametrize("method", METHODS)
def test_forty_one_columns_of_rank_twenty_one(method):
    """Others return 42 rows here."""
    from karat.problems import Kernel

    rng = np.random.default_rng(0)
    features = rng.standard_normal((4000, 20)) @ rng.standard_normal((20, 40))
    core = karat.coreset(features, problem=Kernel(lambda X: X), method=method)
    assert len(core) == 21
    kept = features[core.indices]
    assert (
        np.abs(core.weights @ kept - features.sum(axis=0)).max()
        <= 1e-12 * np.abs(features).sum(axis=0).max()
    )
    assert core.weights.sum() == pytest.approx(4000, rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["numbers", "text", "bool", "floats", "dates"])
def test_every_group_is_exact(kind, method):
    rng = np.random.default_rng(1)
    n = 1500
    X, y = rng.standard_normal((n, 3)), rng.standard_normal(n)
    codes = rng.choice(4, n, p=[0.6, 0.3, 0.095, 0.005])
    labels = {
        "numbers": codes * 10 - 5,
        "text": np.array(["a", "bb", "", "d d"])[codes],
        "bool": codes > 1,
        "floats": codes / 3,
        "dates": np.datetime64("2020-01-01") + codes.astype("timedelta64[D]"),
    }[kind]
    core = karat.coreset(X, y, groups=labels, method=method)
    assert np.array_equal(core.groups, labels[core.indices])
    assert (np.diff(core.indices) > 0).all()
    table = np.column_stack([X, y])
    for label in np.unique(labels):
        here, kept = labels == label, core.groups == label
        white = whiten(table[here], np.ones(here.sum()), True)
        assert square_error(white, table[core.indices[kept]], core.weights[kept]) <= 1e-12
        assert kept.sum() <= min(15, here.sum())
        assert core.weights[kept].sum() == pytest.approx(here.sum(), rel=1e-12)
    assert core.verify(X, y, groups=labels).ok


def test_groups_with_weights():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((1000, 2)), rng.standard_normal(1000)
    groups, u = np.arange(1000) % 5, np.where(rng.random(1000) < 0.5, 0, rng.random(1000))
    core = karat.coreset(X, y, groups=groups, sample_weight=u)
    for label in range(5):
        kept = core.groups == label
        assert core.weights[kept].sum() == pytest.approx(u[groups == label].sum(), rel=1e-12)
    assert core.verify(X, y, groups=groups, sample_weight=u).ok


def test_a_group_of_one_row():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((200, 2)), rng.standard_normal(200)
    groups = np.zeros(200, dtype=int)
    groups[77] = 1
    core = karat.coreset(X, y, groups=groups)
    assert core.indices[core.groups == 1].tolist() == [77]
    assert core.weights[core.groups == 1].tolist() == [1.0]


def test_one_group_is_no_group():
    made = data("gaussian")
    plain = karat.coreset(made.X, made.y)
    grouped = karat.coreset(made.X, made.y, groups=np.zeros(900, dtype=int))
    assert np.array_equal(plain.indices, grouped.indices)
    assert np.allclose(plain.weights, grouped.weights, rtol=1e-12)


def test_leave_one_fold_out_from_groups():
    """The use of groups: fits on all folds but one, from the coreset alone, are those of the full
    data.
    """
    from oracles import solve_ridge

    rng = np.random.default_rng(4)
    X = rng.standard_normal((2000, 4))
    y = X @ [1, 2, 3, 4] + rng.standard_normal(2000)
    folds = rng.integers(0, 5, 2000)
    core = karat.coreset(X, y, groups=folds)
    for fold in range(5):
        full, small = folds != fold, core.groups != fold
        expected = solve_ridge(X[full], y[full], np.ones(full.sum()), 3.0, True)
        found = solve_ridge(core.X[small], core.y[small], core.weights[small], 3.0, True)
        assert np.allclose(found[0], expected[0], rtol=1e-11)
        held = ((y[~full] - X[~full] @ expected[0] - expected[1]) ** 2).sum()
        score = (
            core.weights[~small]
            @ (core.y[~small] - core.X[~small] @ expected[0] - expected[1]) ** 2
        )
        assert score == pytest.approx(held, rel=1e-11)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("rows", [303, 9000])
@pytest.mark.parametrize("rare", [False, True])
def test_a_column_whose_squares_underflow_in_one_group(fit_intercept, rows, rare):
    rng = np.random.default_rng(rows)
    tiny = rng.integers(1, 9, rows) * 1e-300 * (1 if not rare else rng.random(rows) < 0.01)
    X = np.vstack([np.column_stack([tiny, np.zeros(rows)]), rng.standard_normal((rows, 2))])
    y = rng.standard_normal(2 * rows) + 3
    groups = np.repeat(["small", "large"], rows)
    core = karat.coreset(
        X, y, karat.problems.LeastSquares(fit_intercept=fit_intercept), groups=groups
    )
    own = core.groups == "small"
    kept = core.indices[own]
    scaled = np.where(groups == "small", X[:, 0] * 1e300, 0.0)
    for other in (scaled, y):
        product = scaled * other
        assert core.weights[own] @ product[kept] == pytest.approx(product[:rows].sum(), rel=1e-9)
    assert core.verify(X, y, groups=groups).ok
