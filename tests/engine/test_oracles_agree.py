"""Wherever we find weights, NNLS and a linear programme find some too; and exact arithmetic
agrees.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from cases import CASES, METHODS, whitened
from factory import data
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import exact_moments, monomials, nnls_exists, programme_exists, square_error, whiten

import karat
from karat.problems import LeastSquares, Moments, TensorContraction


@pytest.mark.parametrize(
    "case", ["least_squares", "least_squares_conic", "moments_3", "l4_no_intercept"]
)
@pytest.mark.parametrize(
    "tag", ["gaussian", "one_hot_binary", "single_one", "zero_weights", "skewed", "duplicated_rows"]
)
def test_existence(tag, case):
    """On our kept rows alone, and on all rows, non-negative weights with the same moments exist."""
    made, spec = data(tag), CASES[case]
    core = karat.coreset(
        made.X, made.y if spec.target else None, spec.problem, sample_weight=made.weights
    )
    features = monomials(whitened(tag, case)(spec.table(made)), spec.degree)
    if spec.total:
        features = np.column_stack([features, np.ones(len(features))])
    target = made.mass @ features
    assert nnls_exists(features[core.indices], target) <= 1e-10
    assert programme_exists(features, target, core.indices)
    assert programme_exists(features, target)


def test_oracles_can_say_no():
    """Rows on one side of the mean cannot have it."""
    X = np.random.default_rng(0).standard_normal((200, 2))
    features = monomials(np.column_stack([np.ones(200), X]), 2)
    target = features.sum(axis=0)
    right = np.flatnonzero(X[:, 0] > 0.2)
    assert not programme_exists(features, target, right)
    assert nnls_exists(features[right], target) > 1e-2


@pytest.mark.parametrize("tag", ["gaussian", "skewed", "integers"])
def test_nnls_from_all_rows_is_no_smaller(tag):
    """A vertex of NNLS on all rows has as many rows as ours: the rank, on generic data."""
    from scipy.optimize import nnls

    made = data(tag)
    spec = CASES["least_squares"]
    features = monomials(whitened(tag, "least_squares")(spec.table(made)), 2)
    size = np.linalg.norm(features, axis=0)
    weights, residual = nnls((features / size).T, features.sum(axis=0) / size)
    assert residual <= 1e-9 * np.linalg.norm(features.sum(axis=0) / size)
    assert len(karat.coreset(made.X, made.y)) <= (weights > 0).sum()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("problem", "degree"), [(Moments(1), 1), (Moments(2), 2), (Moments(3), 3)])
@settings(max_examples=25, deadline=None, derandomize=True)
@given(values=st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=1, max_size=40))
def test_rational_arithmetic(method, problem, degree, values):
    """Moments of tiny integer data in fractions: the weights reproduce them to rounding of sums of
    absolute values.
    """
    X = np.array(values, dtype=float)
    core = karat.coreset(X, problem=problem, method=method)
    full = exact_moments(X, np.ones(len(X)), degree)
    kept = exact_moments(core.X, core.weights, degree)
    size = exact_moments(np.abs(X), np.ones(len(X)), degree)
    for S, Sc, unit in zip(full, kept, size, strict=True):
        assert abs(S - Sc) <= Fraction(1e-13) * max(unit, len(X))
    assert len(core) <= rational_rank(X, degree)


def rational_rank(X, degree: int) -> int:
    """Rank of the monomials of (1, x), by elimination in fractions."""
    rows = [[Fraction(1), *(Fraction(int(v)) for v in row)] for row in np.unique(X, axis=0)]
    table = []
    for row in rows:
        features = []
        for t in combinations_with_replacement(range(len(row)), degree):
            value = Fraction(1)
            for j in t:
                value *= row[j]
            features.append(value)
        table.append(features)
    rank = 0
    for column in range(len(table[0])):
        pivot = next((i for i in range(rank, len(table)) if table[i][column] != 0), None)
        if pivot is None:
            continue
        table[rank], table[pivot] = table[pivot], table[rank]
        for i in range(rank + 1, len(table)):
            factor = table[i][column] / table[rank][column]
            table[i] = [a - factor * b for a, b in zip(table[i], table[rank], strict=True)]
        rank += 1
    return rank


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    values=st.lists(
        st.tuples(st.integers(-9, 9), st.integers(-9, 9), st.integers(0, 5)),
        min_size=2,
        max_size=60,
    ),
    intercept=st.booleans(),
    method=st.sampled_from(METHODS),
)
def test_rational_least_squares_with_integer_weights(values, intercept, method):
    table = np.array(values, dtype=float)
    X, y, u = table[:, :1], table[:, 1], table[:, 2]
    if not u.any():
        u = u + 1
    core = karat.coreset(
        X, y, LeastSquares(fit_intercept=intercept), sample_weight=u, method=method
    )
    D, C = np.column_stack([X, y]), np.column_stack([core.X, core.y])
    for S, Sc, unit in zip(
        exact_moments(D, u, 2),
        exact_moments(C, core.weights, 2),
        exact_moments(np.abs(D), u, 2),
        strict=True,
    ):
        if intercept:
            assert abs(S - Sc) <= Fraction(1e-12) * max(unit, 1)
    white = whiten(D, u, intercept) if (D[u > 0] != 0).any() or intercept else None
    if white is not None:
        assert square_error(white, C, core.weights) <= 1e-12 * max(1.0, white.condition / 1e3)
    assert core.weights.sum() == pytest.approx(u.sum(), rel=1e-12)
    assert (u[core.indices] > 0).all()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    values=st.lists(st.integers(-6, 6), min_size=1, max_size=30),
    p=st.integers(1, 5),
    method=st.sampled_from(METHODS),
)
def test_rational_contractions_of_one_column(values, p, method):
    X = np.array(values, dtype=float)[:, None]
    core = karat.coreset(X, problem=TensorContraction(p), method=method)
    full = sum(Fraction(v) ** p for v in values)
    kept = sum(
        Fraction(float(w)) * Fraction(float(x)) ** p
        for w, x in zip(core.weights, core.X[:, 0], strict=True)
    )
    assert abs(full - kept) <= Fraction(1e-13) * sum(
        abs(Fraction(v)) ** p for v in values
    ) + Fraction(1, 10**30)
    assert len(core) <= 2
    assert core.weights.sum() == pytest.approx(len(values), rel=1e-12)
