"""Coresets of many groups: built, merged, stored and verified like one coreset per group."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import karat
from karat import problems

GROUPS = 60


@pytest.fixture(scope="module")
def table():
    """Rows of 60 groups of 1 to 300 rows, shuffled, some with a constant column or one of zeros and
    ones.
    """
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(GROUPS), rng.integers(1, 300, GROUPS))
    X = rng.standard_normal((len(labels), 3)) + 5.0
    X[labels % 7 == 0, 1] = 0.1
    X[labels % 5 == 0, 2] = rng.integers(0, 2, (labels % 5 == 0).sum())
    order = rng.permutation(len(labels))
    y = X @ [1.0, -2.0, 0.5] + rng.standard_normal(len(X))
    return X[order], y[order], labels[order]


def normal_matrix(X, y, weights):
    D = np.column_stack([np.ones(len(X)), X, y])
    return (D * weights[:, None]).T @ D


def require_exact(core, X, y, labels, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    assert core.certificate.ok
    assert set(core.groups) == set(labels)
    for label in np.unique(labels):
        mine, kept = labels == label, core.groups == label
        full = normal_matrix(X[mine], y[mine], weights[mine])
        own = normal_matrix(X[core.indices[kept]], y[core.indices[kept]], core.weights[kept])
        assert np.allclose(own, full, rtol=1e-11, atol=1e-11 * np.abs(full).max())
        assert kept.sum() <= 15


def test_every_group_is_exact(table):
    X, y, labels = table
    core = karat.coreset(X, y, groups=labels)
    require_exact(core, X, y, labels)
    weights = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    weights[np.unique(labels, return_index=True)[1]] = 1.0
    require_exact(karat.coreset(X, y, sample_weight=weights, groups=labels), X, y, labels, weights)
    named = np.array([f"store {label:02d}" for label in labels])
    require_exact(karat.coreset(X, y, groups=named), X, y, named)


@pytest.mark.parametrize(
    "problem",
    [problems.Ridge(alpha=2.0), problems.Moments(2), problems.Mean(), problems.LpRegression(4)],
)
def test_other_problems_are_exact_too(table, problem):
    X, y, labels = table
    some = labels < 6
    X, y, labels = X[some], y[some] if problem.needs_target else None, labels[some]
    core = karat.coreset(X, y, problem, groups=labels)
    assert core.certificate.ok
    assert core.verify(X, y, groups=labels).ok


def test_sparse_rows_single_precision_and_large_whole_numbers(table):
    X, y, labels = table
    few = labels < 12
    X, y, labels = np.round(X[few]).clip(4, 6) - 5, y[few], labels[few]
    require_exact(karat.coreset(sparse.csr_array(X), y, groups=labels), X, y, labels)
    single = X.astype(np.float32)
    require_exact(karat.coreset(single, y, groups=labels), single, y, labels)
    stamps = (10**18 + np.arange(len(X)) * 1001).astype(np.int64)[:, None]
    core = karat.coreset(stamps, y, groups=labels)
    assert core.certificate.ok
    for label in np.unique(labels):
        mine, kept = labels == label, core.groups == label
        moved = [(stamps[rows, 0] - 10**18).astype(float) for rows in (mine, core.indices[kept])]
        assert np.isclose(core.weights[kept] @ moved[1] ** 2, (moved[0] ** 2).sum(), rtol=1e-10)


def test_merged_stored_and_verified(table, tmp_path):
    X, y, labels = table
    half = len(X) // 2
    first, second = (
        karat.coreset(X[part], y[part], groups=labels[part])
        for part in (slice(0, half), slice(half, None))
    )
    merged = first.merge(second)
    require_exact(merged, X, y, labels)
    merged.save(tmp_path / "core.npz")
    again = karat.load(tmp_path / "core.npz")
    assert again.verify(X, y, groups=labels).ok


def test_verification_sees_a_change_in_one_group(table):
    X, y, labels = table
    core = karat.coreset(X, y, groups=labels)
    certificate = core.verify(X, y, groups=labels)
    assert certificate.ok
    assert certificate.loss_error <= 2 * core.certificate.loss_error
    weights = core.weights.copy()
    weights[100] *= 1 + 1e-6
    assert not replace(core, weights=weights).verify(X, y, groups=labels).proven
    # A column that is constant in all rows of a group, but not in its kept rows.
    changed = core.X.copy()
    changed[np.flatnonzero(core.groups == 7)[0], 1] += 1e-3
    assert not replace(core, X=changed).verify(X, y, groups=labels).proven
    other = y.copy()
    other[np.flatnonzero(labels == 33)[0]] += 1e-3
    assert not core.verify(X, other, groups=labels).ok


def test_a_value_that_is_not_finite_is_named(table):
    X, y, labels = table
    spoiled = X.copy()
    spoiled[77, 2] = np.nan
    with pytest.raises(karat.InputError, match="Column 2 has 1 NaN value, the first in row 77"):
        karat.coreset(spoiled, y, groups=labels)
