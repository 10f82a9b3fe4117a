"""Synthetic rows of groups: each group by itself, whether it is made in a stack or alone."""

from __future__ import annotations

import numpy as np
import pytest
from made_rows import check
from sklearn.linear_model import LinearRegression

import karat
from karat.problems import Moments


def made(*args, **kwargs):
    return karat.coreset(*args, rows="synthetic", **kwargs)


def table(rng, n, d=3):
    X = rng.standard_normal((n, d)) @ (np.eye(d) + 0.3 * rng.standard_normal((d, d))) + rng.uniform(
        -2, 2, d
    )
    return X, X @ rng.standard_normal(d) + rng.standard_normal(n)


def test_many_small_groups():
    rng = np.random.default_rng(0)
    X, y = table(rng, 4000)
    labels = rng.integers(0, 200, 4000)
    core = made(X, y, groups=labels)
    assert len(core) == 200 * 5
    for label in (0, 77, 199):
        mine, own = labels == label, core.groups == label
        few = LinearRegression().fit(core.X[own], core.y[own], sample_weight=core.weights[own])
        full = LinearRegression().fit(X[mine], y[mine])
        np.testing.assert_allclose(few.coef_, full.coef_, rtol=1e-10)
    some = np.isin(labels, [3, 4, 5])
    one = made(X[some], y[some], groups=labels[some])
    check(one, X[some], y[some], groups=labels[some])
    # whatever other groups there are
    np.testing.assert_array_equal(one.X, core.X[np.isin(core.groups, [3, 4, 5])])
    assert core.verify(X, y, groups=labels).ok


def test_groups_of_all_sizes():
    rng = np.random.default_rng(1)
    sizes = [1, 2, 3, 4, 5, 6, 9, 17, 40, 300, 2500]
    labels = np.repeat([f"g{i}" for i in range(len(sizes))], sizes)
    X, y = table(rng, len(labels))
    u = rng.uniform(0.5, 2.0, len(labels))
    order = rng.permutation(len(labels))
    core = made(X[order], y[order], groups=labels[order], sample_weight=u[order])
    check(core, X, y, u, labels)
    assert core.verify(X[order], y[order], groups=labels[order], sample_weight=u[order]).ok
    assert "2 groups have one or two rows" in str(core.certificate)


@pytest.mark.parametrize("size", [40, 400])
def test_odd_groups_among_others(size):
    """A constant column, a wild row, an offset, a copy of a column: each in one group only."""
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(6), size)
    X, y = table(rng, len(labels))
    X[labels == 1, 0] = 7.3
    X[labels == 2, 1] = 0.0
    X[np.flatnonzero(labels == 3)[5]] *= 1e11
    X[labels == 4] += 1e7
    X[labels == 5, 2] = X[labels == 5, 0]
    core = made(X, y, groups=labels)
    check(core, X, y, groups=labels)
    assert core.certificate.verbatim == 1
    assert core.groups[core.verbatim].tolist() == [3]
    own = {label: int((core.groups == label).sum()) for label in range(6)}
    assert own == {0: 5, 1: 4, 2: 4, 3: 6, 4: 10, 5: 4}
    assert core.verify(X, y, groups=labels).ok


def test_columns_that_underflow_in_one_group():
    rng = np.random.default_rng(3)
    labels = np.repeat([0, 1], 60)
    X, y = table(rng, 120)
    X[labels == 1, 0] *= 1e-300
    core = made(X, y, groups=labels)
    check(core, X, y, groups=labels)


def test_wide_groups():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((900, 70))
    labels = np.arange(900) % 3
    core = made(X, problem=Moments(2), groups=labels)
    assert len(core) == 3 * 71
    for label in range(3):
        mine, own = X[labels == label], core.groups == label
        full = np.cov(mine.T, bias=True)
        few = np.cov(core.X[own].T, aweights=core.weights[own], bias=True)
        np.testing.assert_allclose(few, full, atol=1e-13)
