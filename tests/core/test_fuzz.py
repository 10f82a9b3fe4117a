"""Random mixtures of unpleasant columns, weights and rows: exact, or an error; never anything
else.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import EPS, PowerJudge, square_error, whiten

import karat
from karat.problems import LeastSquares, LpRegression, Moments, TensorContraction

COLUMNS = {
    "gauss": lambda rng, n: rng.standard_normal(n),
    "tiny": lambda rng, n: 1e-8 * rng.standard_normal(n),
    "big": lambda rng, n: 1e8 * rng.standard_normal(n),
    "offset": lambda rng, n: 1e6 + rng.standard_normal(n),
    "constant": lambda rng, n: np.full(n, 0.1),
    "zero": lambda rng, n: np.zeros(n),
    "binary": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "rare": lambda rng, n: (np.arange(n) == rng.integers(n)).astype(float),
    "integer": lambda rng, n: rng.integers(-2, 3, n).astype(float),
    "skewed": lambda rng, n: np.exp(rng.standard_normal(n)),
    "sorted": lambda rng, n: np.sort(rng.standard_normal(n)),
}
PROBLEMS = {
    "least_squares": (LeastSquares(), 2, True),
    "no_intercept": (LeastSquares(fit_intercept=False), 2, False),
    "moments_3": (Moments(3), 3, True),
    "contraction_3": (TensorContraction(3), 3, False),
    "l4": (LpRegression(4), 4, True),
}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    kinds=st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3),
    target=st.sampled_from(sorted(COLUMNS)),
    n=st.integers(1, 250),
    copies=st.sampled_from([1, 1, 3]),
    repeat_column=st.booleans(),
    weighted=st.booleans(),
    problem=st.sampled_from(sorted(PROBLEMS)),
    method=st.sampled_from(["auto", "onepass", "tree", "caratheodory"]),
    seed=st.integers(0, 99),
)
def test_mixtures(kinds, target, n, copies, repeat_column, weighted, problem, method, seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([COLUMNS[k](rng, n) for k in kinds])
    X = np.column_stack([X, X[:, 0]]) if repeat_column and X.shape[1] < 3 else X
    y = COLUMNS[target](rng, n)
    X, y = np.repeat(X, copies, axis=0), np.repeat(y, copies)
    u = np.where(rng.random(len(y)) < 0.3, 0.0, rng.random(len(y))) if weighted else np.ones(len(y))
    u[0] += weighted
    asked, degree, affine = PROBLEMS[problem]
    core = karat.coreset(
        X,
        y if asked.needs_target else None,
        asked,
        sample_weight=u if weighted else None,
        method=method,
        random_state=seed,
    )
    assert (core.weights > 0).all()
    assert (u[core.indices] > 0).all()
    assert abs(core.weights.sum() / u.sum() - 1) <= 1e-12
    table = np.column_stack([X, y]) if asked.needs_target else X
    assert len(core) <= min(asked.width(X.shape[1]), len(np.unique(table[u > 0], axis=0)))
    if not affine and not table[u > 0].any():
        return
    white = whiten(table, u, affine)
    floor = (1 if affine else 100) * EPS * white.condition
    if degree == 2:
        assert square_error(white, table[core.indices], core.weights) <= max(1e-12, floor)
    else:
        judge = PowerJudge(white, table, u, degree, count=300)
        assert judge.error(table[core.indices], core.weights) <= max(1e-10, floor)
